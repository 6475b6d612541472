import { randomUUID } from 'node:crypto'
import { fdatasync, openSync } from 'node:fs'
import { promisify } from 'node:util'
import { DatabaseSync, type SQLInputValue } from 'node:sqlite'
import { DummyDriver, Kysely, SqliteAdapter, SqliteIntrospector, SqliteQueryCompiler } from 'kysely'
import { z } from 'zod'
import { createGraph, type Graph } from '../../core/runtime/agent/state/graph.ts'
import { stateKeys } from '../../core/runtime/agent/state/state.ts'

type Row = Record<string, SQLInputValue>

const sync = promisify(fdatasync)
const channel = 'sky.readings'

/**
 * What every turn of the runtime stands on, by hand: it passes through the runtime's graph of LangGraph, and with a file of SQLite
 * in which a server has taken a turn it leaves the same rows as that turn did, in two transactions and with a sync of the disk.
 * Nobody is authenticated, nothing can be resumed, and no plugin is asked.
 */
export class Floor {
  readonly #graph: Graph
  readonly #rows: Rows | undefined
  readonly #newest = new Map<string, { readonly turn: number; readonly checkpoint?: string }>()

  constructor(file?: string) {
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
    this.#rows = file === undefined ? undefined : new Rows(file)
  }

  /** Carries out a turn; it has ended when its rows are on the disk. */
  async turn(session: string, work: () => Promise<void>): Promise<void> {
    const { turn, checkpoint: before } = this.#newest.get(session) ?? { turn: 0 }
    const run = this.#rows?.begin(session, turn + 1)
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

/** The rows of turns, after those of the newest run that is there. */
class Rows {
  readonly #db: DatabaseSync
  readonly #log: number
  readonly #session: Row
  readonly #run: Row
  readonly #events: Row
  readonly #checkpoint: Row
  readonly #value: Row
  readonly #steps: readonly Row[]
  readonly #statements = new Map<string, ReturnType<DatabaseSync['prepare']>>()

  constructor(file: string) {
    this.#db = new DatabaseSync(file)
    for (const pragma of ['synchronous = normal', 'wal_autocheckpoint = 4000'])
      this.#db.exec(`pragma ${pragma}`)
    this.#run = this.#one('select * from kernel_runs order by id desc limit 1')
    this.#session = this.#one('select * from kernel_sessions where id = ?', this.#run.session_id!)
    this.#events = this.#one(
      'select * from kernel_run_events where run_id = ? limit 1',
      this.#run.id!,
    )
    this.#checkpoint = this.#one('select * from checkpoints where id = ?', this.#run.checkpoint!)
    this.#value = this.#one('select * from checkpoint_values limit 1')
    this.#steps = this.#db
      .prepare('select * from kernel_steps where run_id = ? order by position')
      .all(this.#run.id!)
    if (this.#steps.length < 8) throw new Error(`The turn in ${file} has too few steps.`)
    this.#log = openSync(`${file}-wal`, 'r+')
  }

  /** The transaction in which a turn begins. */
  begin(session: string, turn: number): string {
    const id = randomUUID()
    const now = Date.now()
    this.#db.exec('begin immediate')
    if (turn === 1) this.#insert('kernel_sessions', [{ ...this.#session, id: session, turns: 0 }])
    const open = {
      status: 'running',
      ended_at: null,
      checkpoint: null,
      last_seq: 0,
      created_at: now,
    }
    const named = { id, root_id: id, request_id: id, session_id: session, turn, root_turn: turn }
    this.#insert('kernel_runs', [{ ...this.#run, ...named, ...open }])
    this.#insert('kernel_steps', this.#stepsOf(session, id, turn).slice(0, 1))
    this.#do(
      'update kernel_sessions set turns = ?, updated_at = ? where id = ?',
      turn,
      now,
      session,
    )
    this.#do('update kernel_turn_counts set turns = turns + 1')
    this.#db.exec('commit')
    return id
  }

  /** The transaction in which it ends, and the disk has it. */
  async end(session: string, run: string, turn: number, checkpoint: string): Promise<void> {
    this.#db.exec('begin immediate')
    this.#do(
      `update kernel_runs set status = 'finished', ended_at = ?, last_seq = ?, kept_seq = ?, checkpoint = ? where id = ?`,
      ...[Date.now(), this.#run.last_seq!, this.#run.kept_seq!, checkpoint, run],
    )
    this.#insert('kernel_steps', this.#stepsOf(session, run, turn).slice(1))
    const version = { thread_id: session, version: String(turn) }
    this.#insert('kernel_run_events', [{ ...this.#events, run_id: run }])
    this.#insert('checkpoints', [{ ...this.#checkpoint, thread_id: session, id: checkpoint }])
    this.#insert('checkpoint_values', [{ ...this.#value, ...version }])
    this.#do('update kernel_sessions set updated_at = ? where id = ?', Date.now(), session)
    this.#db.exec('commit')
    await sync(this.#log)
  }

  #stepsOf(session: string, run: string, turn: number): Row[] {
    const named = { session_id: session, run_id: run, root_id: run }
    return this.#steps.map((row, i) => ({ ...row, ...named, position: turn * 2 ** 20 + i }))
  }

  #insert(table: string, rows: readonly Row[]): void {
    const names = Object.keys(rows[0]!)
    const marks = `(${names.map(() => '?').join(', ')})`
    this.#do(
      `insert into ${table} (${names.join(', ')}) values ${rows.map(() => marks).join(', ')}`,
      ...rows.flatMap((row) => Object.values(row)),
    )
  }

  #do(sql: string, ...values: SQLInputValue[]): void {
    this.#prepared(sql).run(...values)
  }

  #one(sql: string, ...values: SQLInputValue[]): Row {
    const row = this.#prepared(sql).get(...values)
    if (!row) throw new Error(`No row: ${sql}`)
    return row
  }

  #prepared(sql: string) {
    let statement = this.#statements.get(sql)
    if (!statement) this.#statements.set(sql, (statement = this.#db.prepare(sql)))
    return statement
  }
}
