import { sql } from 'kysely'
import { prepared } from '#core'
import type { Memory } from '../kept/memory.ts'
import type { MemoryDatabase } from '../tables.ts'

/** A turn, by what notes of it are known. */
interface NotedTurn {
  readonly runId: string
  readonly sessionId: string
  readonly did: string
}

/** Which memories turns were shown, and by which runs they were used. Each statement is made once. */
export class UsedNotes {
  readonly #show
  readonly #take
  readonly #count

  constructor(db: MemoryDatabase, isPostgres: boolean) {
    this.#show = showStatement(db)
    this.#take = takeStatement(db)
    this.#count = countStatement(db, isPostgres)
  }

  /** Notes which memories a turn was shown. */
  async shown(
    { did, sessionId }: { readonly did: string; readonly sessionId: string },
    request: string,
    shown: readonly Memory[],
    at: number,
  ): Promise<void> {
    const ids = JSON.stringify(shown.map(({ id }) => id))
    await this.#show({ session: sessionId, request, did, ids, at })
  }

  /** Notes by which run memories were used, and that they were. */
  async used(trx: MemoryDatabase, { runId, sessionId, did }: NotedTurn): Promise<void> {
    const { rows } = await this.#take({ run: runId, session: sessionId, did }, trx)
    const ids = new Set(rows.flatMap((row) => idsIn(row.ids)))
    if (ids.size > 0) await this.#count({ did, ids: JSON.stringify([...ids]) }, trx)
  }
}

function idsIn(text: string): string[] {
  const found: unknown = JSON.parse(text)
  return Array.isArray(found) ? found.filter((id) => typeof id === 'string') : []
}

const showStatement = (db: MemoryDatabase) =>
  prepared(db, (p: { session: string; request: string; did: string; ids: string; at: number }) =>
    db
      .insertInto('memory_used')
      .values({
        session_id: p.session,
        request_id: p.request,
        did: p.did,
        run_id: null,
        ids: p.ids,
        at: p.at,
      })
      .onConflict((conflict) =>
        conflict.columns(['session_id', 'request_id']).doUpdateSet({ ids: p.ids, at: p.at }),
      ),
  )

const takeStatement = (db: MemoryDatabase) =>
  prepared(db, (p: { run: string; session: string; did: string }) =>
    db
      .updateTable('memory_used')
      .set({ run_id: p.run })
      .where('session_id', '=', p.session)
      .where('did', '=', p.did)
      .where('run_id', 'is', null)
      .returning('ids'),
  )

const countStatement = (db: MemoryDatabase, isPostgres: boolean) =>
  prepared(db, (p: { did: string; ids: string }) => ({
    compile: () => {
      // One list as JSON: a list of parameters would be another statement for each length.
      const listed = isPostgres
        ? sql`select jsonb_array_elements_text(${p.ids}::jsonb)`
        : sql`select value from json_each(${p.ids})`
      return sql`update memory_memories set uses = uses + 1
        where did = ${p.did} and id in (${listed})`.compile(db)
    },
  }))
