import { type Selectable, sql } from 'kysely'
import type { RunStore } from '../journal/store.ts'
import type { RunDatabase } from '../journal/tables.ts'
import type { UnsettledTable } from '../unsettled.ts'
import type { WaitingTurnsTable } from '../waiting-tables.ts'

/** A mark says that a consumer has yet to hear of the end of a run: its row, without the times. */
export type Mark = Pick<
  Selectable<UnsettledTable>,
  'session_id' | 'root_id' | 'consumer' | 'tries' | 'facts'
>

/** The first run of a chain. */
export type Root = Pick<UnsettledTable, 'session_id' | 'root_id'>

/** The longest wait before a consumer that failed is called again. */
const longestWaitMs = 60_000
/** How long the row of a consumer that the app does not have any more is kept: it may come back. */
const orphanMs = 30 * 24 * 3_600_000

/** Notes in the transaction that records a run who has to hear of its end. */
export async function markUnsettled(
  store: RunStore,
  db: RunDatabase,
  { session_id, root_id }: Root,
  consumers: readonly string[],
): Promise<void> {
  if (consumers.length === 0) return
  await db
    .insertInto('kernel_unsettled')
    .values(
      consumers.map((consumer) => ({
        session_id,
        root_id,
        consumer,
        created_at: store.now,
      })),
    )
    .execute()
}

/** The marks of runs that have ended, for those of the consumers that are to hear now. */
export function dueMarks(
  store: RunStore,
  consumers: readonly string[],
  limit: number,
): Promise<Mark[]> {
  const { now } = store
  return (
    store.db
      .selectFrom('kernel_unsettled')
      .select(['session_id', 'root_id', 'consumer', 'tries', 'facts'])
      .where('consumer', 'in', consumers)
      // A time further ahead than any wait was written before the clock was turned back.
      .where(sql<boolean>`(due_at <= ${now} or due_at > ${now} + ${sql.lit(longestWaitMs)})`)
      .where(
        sql<boolean>`(facts is not null or not exists (select 1 from kernel_runs as run
        where run.session_id = kernel_unsettled.session_id
        and run.root_id = kernel_unsettled.root_id
        and run.status in ('queued', 'running', 'waiting')))`,
      )
      .orderBy('due_at')
      .orderBy('created_at')
      .limit(limit)
      .execute()
  )
}

/** Deletes a row; false when another process has done so, or is about to. */
export async function takeMark(
  store: RunStore,
  db: RunDatabase,
  { session_id, root_id, consumer }: Mark,
): Promise<boolean> {
  const named = { session_id, root_id, consumer }
  if (store.dialect === 'postgres') {
    const free = await db
      .selectFrom('kernel_unsettled')
      .select('root_id')
      .where((eb) => eb.and(named))
      .forUpdate()
      .skipLocked()
      .executeTakeFirst()
    if (!free) return false
  }
  const { numDeletedRows } = await db
    .deleteFrom('kernel_unsettled')
    .where((eb) => eb.and(named))
    .executeTakeFirst()
  return numDeletedRows > 0n
}

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
  if (found.length > 0) await runs.execute()
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
