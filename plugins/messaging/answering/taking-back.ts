import type { Log, Turns } from '#core'
import type { Rooms } from '../rooms/rooms.ts'
import type { MessagingDatabase } from '../tables.ts'
import type { Conversations } from './conversations.ts'
import type { Joining } from './joining.ts'
import { type PersonMessage, requestIdOf } from './message.ts'
import type { Sent } from './sent.ts'

/** What messages are taken back with. */
export interface TakingBackOptions {
  readonly rooms: Rooms
  readonly conversations: Conversations
  readonly turns: Turns
  readonly joining: Joining
  readonly sent: Sent
  readonly db: MessagingDatabase
  readonly log: Log
}

/** A message that has other words now. */
export interface Replaced {
  /** The root of the thread in which it is answered. */
  readonly thread: string | undefined
}

/** What becomes of a message that its writer takes back, or puts other words to. */
export class TakingBack {
  readonly #options: TakingBackOptions

  constructor(options: TakingBackOptions) {
    this.#options = options
  }

  /** Takes a message back: its turn is stopped, its words are gone, and the answer, too. False where there is no such message. */
  async of(roomId: string, eventId: string, sender?: string): Promise<boolean> {
    const { db, turns, conversations, rooms, joining, sent, log } = this.#options
    const taking = db
      .updateTable('messaging_events')
      .set({ state: 'redacted' })
      .where('event_id', '=', eventId)
      .where('room_id', '=', roomId)
    const row = await (sender === undefined ? taking : taking.where('sender', '=', sender))
      .returning(['request_id', 'did', 'session_id'])
      .executeTakeFirst()
    if (!row) return false
    joining.drop(eventId)
    const { did, session_id: session, request_id: requestId } = row
    conversations.takeBack(requestId)
    // Several messages may be one turn: none of them is taken up again.
    await db
      .updateTable('messaging_events')
      .set({ state: 'redacted' })
      .where('request_id', '=', requestId)
      .execute()
    await db.deleteFrom('messaging_asks').where('request_id', '=', requestId).execute()
    if (did !== null && session !== null)
      await turns.redact({ user: { did }, session, requestId }).catch((err: unknown) => {
        // A message that had no turn yet has nothing to take back.
        log.debug({ err: String(err) }, 'No turn was taken back')
      })
    for (const id of await sent.of(requestId))
      await rooms.redact(roomId, id, requestIdOf(`redacted ${id}`))
    return true
  }

  /** Other words for a message that is not answered yet. Later ones change nothing. */
  async forOthers(
    roomId: string,
    { replaces = '', sender }: PersonMessage,
  ): Promise<Replaced | undefined> {
    const { db } = this.#options
    const target = await db
      .selectFrom('messaging_events')
      .select(['state', 'thread'])
      .where('event_id', '=', replaces)
      .where('sender', '=', sender)
      .executeTakeFirst()
    const isOpen = target?.state === 'received' || target?.state === 'running'
    const isTaken = isOpen && (await this.of(roomId, replaces, sender))
    return isTaken ? { thread: target.thread ?? undefined } : undefined
  }
}
