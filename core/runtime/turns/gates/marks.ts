import { sql } from 'kysely'
import type { RunStore } from '../journal/store.ts'
import type { RunDatabase } from '../journal/tables.ts'
import type { WaitingTurnsTable } from '../waiting-tables.ts'
import { longestWaitMs, type Mark } from './queries.ts'

/** How long the row of a consumer that the app does not have any more is kept: it may come back. */
const orphanMs = 30 * 24 * 3_600_000

/** Has a consumer that failed called again later: after a second, then two, at most a minute. Resolves to that time. */
export async function putOff(
  store: RunStore,
  { session_id, root_id, consumer, tries }: Mark,
): Promise<number> {
  const waitMs = Math.min(longestWaitMs, 1_000 * 2 ** Math.min(tries, 10))
  await store.commits.single((db) =>
    db
      .updateTable('kernel_unsettled')
      .set({ tries: tries + 1, due_at: sql<number>`${store.now} + ${sql.lit(waitMs)}` })
      .where((eb) => eb.and({ session_id, root_id, consumer }))
      .execute(),
  )
  return waitMs
}

/** Takes the rows of a session that is being deleted, and holds its runs: no process ends one meanwhile. */
export async function marksOfSession(
  store: RunStore,
  db: RunDatabase,
  sessionId: string,
): Promise<Mark[]> {
  let marks = db
    .selectFrom('kernel_unsettled')
    .select(['session_id', 'root_id', 'consumer', 'tries', 'facts'])
    .where('session_id', '=', sessionId)
    .where('facts', 'is', null)
    .orderBy('created_at')
  let runs = db.selectFrom('kernel_runs').select('id').where('session_id', '=', sessionId)
  if (store.dialect === 'postgres') {
    marks = marks.forUpdate()
    runs = runs.forUpdate()
  }
  const found = await marks.execute()
  // A write for many runs holds runs of several sessions. A deletion that held rows of a plugin already and then waited for a run
  // would stand in a circle with that write and with another deletion.
  if (found.length > 0 || store.dialect === 'postgres') await runs.execute()
  return found
}

/** Takes the turns that wait in a session which is being deleted: at most twenty, and none begins meanwhile. */
export async function turnsWaitingIn(
  db: RunDatabase,
  sessionId: string,
): Promise<readonly WaitingTurnsTable[]> {
  const { rows } = await sql<WaitingTurnsTable>`delete from kernel_waiting_turns
    where session_id = ${sessionId} returning *`.execute(db)
  return rows.toSorted((a, b) => a.place - b.place)
}

/** Keeps what a consumer has yet to hear of a turn that has no row any more, or never had one. */
export async function keepFacts(
  db: RunDatabase,
  { session_id, root_id, consumer }: Pick<Mark, 'session_id' | 'root_id' | 'consumer'>,
  facts: string,
): Promise<void> {
  await db
    .updateTable('kernel_unsettled')
    .set({ facts })
    .where((eb) => eb.and({ session_id, root_id, consumer }))
    .execute()
}

/** Deletes old rows of consumers that the app does not have. */
export async function forgetOrphans(store: RunStore, known: readonly string[]): Promise<void> {
  await store.commits.single((db) => {
    let orphans = db
      .deleteFrom('kernel_unsettled')
      .where('created_at', '<', sql<number>`${store.now} - ${sql.lit(orphanMs)}`)
    if (known.length > 0) orphans = orphans.where('consumer', 'not in', known)
    return orphans.execute()
  })
}
