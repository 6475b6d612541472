import { type PluginSessions, RuntimeError } from '#core'
import type { MessagingDatabase } from '../tables.ts'

/** How long a session outlives the last person of its room. */
const keptMs = 30 * 86_400_000
/** How many sessions one look deletes: the next one follows. */
const mostAtOnce = 200

/** The sessions that conversations in rooms are, for as long as somebody is there to go on with them. */
export class RoomSessions {
  readonly #db: MessagingDatabase

  constructor(db: MessagingDatabase) {
    this.#db = db
  }

  /** A turn of this session began in this room: somebody is there. */
  async met(sessionId: string, roomId: string, did: string): Promise<void> {
    await this.#db
      .insertInto('messaging_sessions')
      .values({ session_id: sessionId, room_id: roomId, did, alone_since: null })
      .onConflict((on) => on.column('session_id').doUpdateSet({ alone_since: null }))
      .execute()
  }

  /** Whether a session was held in this room. */
  async areIn(roomId: string): Promise<boolean> {
    const row = await this.#db
      .selectFrom('messaging_sessions')
      .select('session_id')
      .where('room_id', '=', roomId)
      .limit(1)
      .executeTakeFirst()
    return row !== undefined
  }

  /** From now on nobody is in the room beside the oracle, or the oracle is there no more. */
  async parted(roomId: string, atMs: number): Promise<void> {
    await this.#db
      .updateTable('messaging_sessions')
      .set({ alone_since: atMs })
      .where('room_id', '=', roomId)
      .where('alone_since', 'is', null)
      .execute()
  }

  /** Somebody came back to the room. */
  async rejoined(roomId: string): Promise<void> {
    await this.#db
      .updateTable('messaging_sessions')
      .set({ alone_since: null })
      .where('room_id', '=', roomId)
      .where('alone_since', 'is not', null)
      .execute()
  }

  /** Deletes the sessions whose rooms have been without a person for thirty days. */
  async sweep(sessions: Pick<PluginSessions, 'delete'>, nowMs: number): Promise<void> {
    for (;;) {
      const over = await this.#db
        .selectFrom('messaging_sessions')
        .select(['session_id', 'did'])
        .where('alone_since', '<', nowMs - keptMs)
        .orderBy('alone_since')
        .limit(mostAtOnce)
        .execute()
      for (const { session_id: session, did } of over) {
        await sessions.delete({ user: { did }, session }).catch((refused: unknown) => {
          // Its person has deleted it before.
          if (!(refused instanceof RuntimeError) || refused.code !== 'NOT_FOUND') throw refused
        })
        await this.forget(session)
      }
      if (over.length < mostAtOnce) return
    }
  }

  /** Keeps nothing more of a session that was deleted. */
  async forget(sessionId: string): Promise<void> {
    await this.#db.deleteFrom('messaging_sessions').where('session_id', '=', sessionId).execute()
  }
}
