import type { HeldLease } from '#core'
import type { EventsTable, EventState, MessagingDatabase } from '../tables.ts'

/** What marks are made with. */
export interface MarksOptions {
  readonly db: MessagingDatabase
  readonly lease: Pick<HeldLease, 'isHeld'>
}

/** What is said beside a state. */
type More = Partial<Pick<EventsTable, 'session_id' | 'did' | 'thread' | 'request_id'>>

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

  /**
   * Makes messages one turn, before it begins: a process that takes it up finds the same messages under the same name, and joins no
   * others. False where another process has gone on with them.
   */
  async begin(eventIds: readonly string[], requestId: string, thread?: string): Promise<boolean> {
    if (!this.#options.lease.isHeld()) return false
    await this.put(eventIds, 'running', { request_id: requestId, thread: thread ?? null })
    return true
  }
}
