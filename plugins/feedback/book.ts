import { sql } from 'kysely'
import type { Database } from '#core'
import type { FeedbackRow, FeedbackTables } from './tables.ts'

/** How long feedback is kept, and how much of it one sweep deletes at most. */
const kept = { days: 400, perSweep: 50_000 }
const pageSize = 200

const tablesOf = (db: Database) => db.withTables<FeedbackTables>()

/** Keeps what a user says of a message; what the user said of it before gives way. */
export async function put(db: Database, row: FeedbackRow): Promise<void> {
  const { did: _, session_id: __, message_id: ___, ...said } = row
  await tablesOf(db)
    .insertInto('feedback')
    .values(row)
    .onConflict((conflict) =>
      conflict.columns(['did', 'session_id', 'message_id']).doUpdateSet(said),
    )
    .execute()
}

/** Takes back what a user said of a message. */
export async function remove(
  db: Database,
  { did, sessionId, messageId }: { did: string; sessionId: string; messageId: string },
): Promise<void> {
  await tablesOf(db)
    .deleteFrom('feedback')
    .where('did', '=', did)
    .where('session_id', '=', sessionId)
    .where('message_id', '=', messageId)
    .execute()
}

/** What a user said of the messages of a session: the newest 1,000. */
export async function ofSession(db: Database, did: string, sessionId: string) {
  const rows = await tablesOf(db)
    .selectFrom('feedback')
    .select(['message_id', 'rating'])
    .where('did', '=', did)
    .where('session_id', '=', sessionId)
    .orderBy('at', 'desc')
    .limit(1_000)
    .execute()
  return rows.map(({ message_id, rating }) => ({ messageId: message_id, rating }))
}

/** What is looked for among all feedback, or that of one user. */
export interface Question {
  readonly since?: number
  readonly rating?: 'up' | 'down'
  readonly did?: string
}

/** Feedback, the oldest first, by pages: what is said while somebody reads may come twice, and never is left out. */
export async function* all(
  db: Database,
  { since = 0, rating, did }: Question,
): AsyncGenerator<FeedbackRow> {
  let last: FeedbackRow | undefined
  for (;;) {
    let page = tablesOf(db)
      .selectFrom('feedback')
      .selectAll()
      .where('at', '>=', last ? last.at : since)
      .orderBy('at')
      .orderBy('did')
      .orderBy('session_id')
      .orderBy('message_id')
      .limit(pageSize)
    if (rating) page = page.where('rating', '=', rating)
    if (did !== undefined) page = page.where('did', '=', did)
    if (last) {
      const { at, did: by, session_id, message_id } = last
      page = page.where(
        sql<boolean>`(at, did, session_id, message_id) > (${at}, ${by}, ${session_id}, ${message_id})`,
      )
    }
    const rows = (await page.execute()).map((row) => ({ ...row, at: Number(row.at) }))
    yield* rows
    last = rows.at(-1)
    if (rows.length < pageSize) return
  }
}

/** Deletes all that a user said; resolves to how much that was. */
export async function erase(db: Database, did: string): Promise<number> {
  const { numDeletedRows } = await tablesOf(db)
    .deleteFrom('feedback')
    .where('did', '=', did)
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows)
}

/** Deletes what is older than it is kept. What one sweep leaves, the next one takes. */
export async function sweep(db: Database, now: Date): Promise<void> {
  const before = now.getTime() - kept.days * 86_400_000
  await sql`delete from feedback where (did, session_id, message_id) in (
    select did, session_id, message_id from feedback where at < ${before} limit ${kept.perSweep})`.execute(
    tablesOf(db),
  )
}
