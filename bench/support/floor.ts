import { randomUUID } from 'node:crypto'
import { DummyDriver, Kysely, SqliteAdapter, SqliteIntrospector, SqliteQueryCompiler } from 'kysely'
import { z } from 'zod'
import { createGraph, type Graph } from '../../core/runtime/agent/state/graph.ts'
import { stateKeys } from '../../core/runtime/agent/state/state.ts'
import { Rows } from './floor-rows.ts'

const channel = 'sky.readings'

/**
 * What every turn of the runtime stands on, by hand: it passes through the runtime's graph of LangGraph, and with a database
 * in which a server has taken a turn it leaves the same rows as that turn did, in two transactions and with a sync of the disk.
 * A new session is a row, with a sync too. Nobody is authenticated, nothing can be resumed, and no plugin is asked.
 */
export class Floor {
  readonly #graph: Graph
  readonly #rows: Rows | undefined
  readonly #newest = new Map<string, { readonly turn: number; readonly checkpoint?: string }>()

  private constructor(rows: Rows | undefined) {
    // The graph remembers what its sessions kept, so it asks no database.
    const nobody = new Kysely<object>({
      dialect: {
        createDriver: () => new DummyDriver(),
        createAdapter: () => new SqliteAdapter(),
        createQueryCompiler: () => new SqliteQueryCompiler(),
        createIntrospector: (db) => new SqliteIntrospector(db),
      },
    })
    const [key] = stateKeys([
      { name: 'sky', definition: { state: { readings: z.number() } } } as never,
    ])
    this.#graph = createGraph(nobody, [key!])
    this.#rows = rows
  }

  /** With `place`, a file of SQLite or the address of a PostgreSQL, sessions and turns leave their rows there. */
  static async over(place?: string): Promise<Floor> {
    return new Floor(place === undefined ? undefined : await Rows.in(place))
  }

  /** Makes a session. */
  async session(): Promise<string> {
    const id = randomUUID()
    await this.#rows?.session(id)
    return id
  }

  /** Carries out a turn; it has ended when its rows are on the disk. */
  async turn(session: string, work: () => Promise<void>): Promise<void> {
    const { turn, checkpoint: before } = this.#newest.get(session) ?? { turn: 0 }
    const run = await this.#rows?.begin(session, turn + 1)
    const { checkpoint } = await this.#graph.pass({
      thread: session,
      ...(before === undefined ? { begins: true } : { checkpoint: before }),
      work: async () => {
        await work()
        return { states: { [channel]: 3 * (turn + 1) } }
      },
    })
    if (checkpoint === undefined) throw new Error('The graph kept nothing of the turn.')
    this.#newest.set(session, { turn: turn + 1, checkpoint })
    if (run !== undefined) await this.#rows?.end(session, run, turn + 1, checkpoint)
  }
}
