import type { HeldLease } from '#core'
import type { EventsTable, EventState, MessagingDatabase } from '../tables.ts'

/** What marks are made with. */
export interface MarksOptions {
  readonly db: MessagingDatabase
  readonly lease: Pick<HeldLease, 'isHeld'>
}

/** What is said beside a state. */
type More = Partial<Pick<EventsTable, 'session_id' | 'did' | 'thread'>>

/** Says what became of messages. */
export class Marks {
  readonly #options: MarksOptions

  constructor(options: MarksOptions) {
    this.#options = options
  }

  /**
   * Says it of these messages. A process that was frozen and wakes says nothing any more: another one has gone on with them. What
   * was taken back stays so.
   */
  async put(eventIds: readonly string[], state: EventState, more: More = {}): Promise<void> {
    const { db, lease } = this.#options
    if (eventIds.length === 0 || !lease.isHeld()) return
    await db
      .updateTable('messaging_events')
      .set({ state, ...more })
      .where('event_id', 'in', [...eventIds])
      .where('state', '!=', 'redacted')
      .execute()
  }
}
