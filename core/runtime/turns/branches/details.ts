import type { RunDatabase } from '../journal/tables.ts'
import { messageOf } from '../journal/steps.ts'
import { ownTitle, titleOf } from '../titles.ts'

/** What a user says of a conversation. */
export interface SessionChange {
  /** null: the title that the first words give. */
  readonly title?: string | null
  readonly pinned?: boolean
  readonly archived?: boolean
}

/** Changes what a user has said of a conversation; false where the user has no such session. */
export async function changeSession(
  db: RunDatabase,
  did: string,
  sessionId: string,
  { title, pinned, archived }: SessionChange,
): Promise<boolean> {
  const named = typeof title === 'string' ? ownTitle(title) : title
  const changed = await db
    .updateTable('kernel_sessions')
    .set({
      // Without a change of its own the statement still finds out whose the session is.
      did,
      ...(named !== undefined && { title: named ?? (await firstWords(db, sessionId)) }),
      ...(pinned !== undefined && { pinned: pinned ? 1 : 0 }),
      ...(archived !== undefined && { archived: archived ? 1 : 0 }),
    })
    .where('id', '=', sessionId)
    .where('did', '=', did)
    .returning('id')
    .executeTakeFirst()
  return changed !== undefined
}

/** The title that a session gets by itself; null where nothing was said in it yet. */
async function firstWords(db: RunDatabase, sessionId: string): Promise<string | null> {
  const row = await db
    .selectFrom('kernel_steps')
    .select('body')
    .where('session_id', '=', sessionId)
    .where('kind', '=', 'user')
    .orderBy('position')
    .limit(1)
    .executeTakeFirst()
  const message = row && messageOf(row)
  return message?.role === 'user' ? titleOf(message.content) : null
}
