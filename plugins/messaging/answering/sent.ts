import type { MessagingDatabase } from '../tables.ts'

/** What the oracle has sent for a turn: its answer with every edit, in one piece or several, its questions, its sentences. */
export class Sent {
  readonly #db: MessagingDatabase

  constructor(db: MessagingDatabase) {
    this.#db = db
  }

  /** Keeps that a message belongs to a turn. The same message may be told of again. */
  async put(requestId: string, roomId: string, eventId: string): Promise<void> {
    await this.#db
      .insertInto('messaging_sent')
      .values({ event_id: eventId, room_id: roomId, request_id: requestId, at: Date.now() })
      .onConflict((on) => on.column('event_id').doNothing())
      .execute()
  }

  /** Everything that was sent for a turn, the oldest first. */
  async of(requestId: string): Promise<string[]> {
    const rows = await this.#db
      .selectFrom('messaging_sent')
      .select('event_id')
      .where('request_id', '=', requestId)
      .orderBy('at')
      .limit(mostOfOne)
      .execute()
    return rows.map(({ event_id: eventId }) => eventId)
  }

  /** Whether the oracle has sent this message for a turn. */
  async has(eventId: string): Promise<boolean> {
    const known = await this.#db
      .selectFrom('messaging_sent')
      .select('event_id')
      .where('event_id', '=', eventId)
      .executeTakeFirst()
    return known !== undefined
  }
}

/** More than one turn sends. */
const mostOfOne = 1_000
