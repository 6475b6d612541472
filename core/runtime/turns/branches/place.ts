import { RuntimeError } from '../../../errors.ts'
import { rowOfMessage } from '../sessions/find-message.ts'
import type { RunDatabase } from '../journal/tables.ts'
import { messageOf, positionOf } from '../journal/steps.ts'

/** Where a conversation is to branch off: before a message, after a message, or behind a step of a run. */
export interface ForkPlace {
  readonly before?: string
  readonly after?: string
  readonly run?: string
  readonly step?: number
}

/** The turn in which a row of this position stands. */
export const turnOf = (position: number): number => Math.floor(position / positionOf(1, 0))

/** The position before which a branch ends that leaves before a message, or after it with all that its calls returned. */
export async function placeOfMessage(
  db: RunDatabase,
  sessionId: string,
  { before, after }: ForkPlace,
): Promise<number> {
  const id = before ?? after ?? ''
  const row = (await rowOfMessage(db, sessionId, id))?.position
  if (row === undefined)
    throw new RuntimeError('NOT_FOUND', `The conversation has no message "${id.slice(0, 100)}".`, {
      hint: 'Take the id of a message from GET /sessions/:id/messages.',
    })
  if (before !== undefined) return row
  const next = await db
    .selectFrom('kernel_steps')
    .select('position')
    .where('session_id', '=', sessionId)
    .where('position', '>', row)
    .where('kind', 'in', ['user', 'plugin', 'assistant'])
    .orderBy('position')
    .limit(1)
    .executeTakeFirst()
  return next ? Number(next.position) : Number.MAX_SAFE_INTEGER
}

/** The position behind a step of the journal and the notes that belong to it. */
export async function withNotes(
  db: RunDatabase,
  sessionId: string,
  behind: number,
): Promise<number> {
  const rows = await db
    .selectFrom('kernel_steps')
    .select(['position', 'kind', 'step', 'run_id'])
    .where('session_id', '=', sessionId)
    .where('position', '>=', behind - 1)
    .orderBy('position')
    .limit(3)
    .execute()
  const [own, ...later] = rows
  let end = behind
  for (const { position, kind, step, run_id } of later) {
    const belongs = kind === 'note' && step === own?.step && run_id === own.run_id
    if (!belongs) break
    end = Number(position) + 1
  }
  return end
}

/** The id of the last message of a person or the oracle before a position. */
export async function lastMessageBefore(
  db: RunDatabase,
  sessionId: string,
  end: number,
): Promise<string | null> {
  const row = await db
    .selectFrom('kernel_steps')
    .select('body')
    .where('session_id', '=', sessionId)
    .where('position', '<', end)
    .where('kind', 'in', ['user', 'assistant'])
    .orderBy('position', 'desc')
    .limit(1)
    .executeTakeFirst()
  const message = row && messageOf(row)
  return message && 'id' in message ? message.id : null
}
