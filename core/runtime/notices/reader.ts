import type { Notice } from '../../plugin.ts'
import type { Hint } from './words.ts'
import type { UserListener } from './listeners.ts'

/** An event of a user. Notices and the first event have a number, by which a client goes on where it was. */
export interface UserEvent {
  readonly id?: number
  readonly event: 'connected' | 'notice' | Hint['event']
  readonly data: Readonly<Record<string, unknown>>
}

/** What a reader needs: queries to the database, and a listener. */
export interface UserSource {
  listen(listener: UserListener): () => void
  /** The number of the user's newest notice, also when that notice is gone; 0 when the user never had one. */
  newest(): Promise<number>
  /** The first notices after a number. */
  after(id: number, limit: number): Promise<readonly Notice[]>
  /** The same hints, with the titles of their sessions. */
  titled(hints: readonly Hint[]): Promise<readonly Hint[]>
  /** Whether the credential that opened the reader still counts. */
  mayRead(): Promise<boolean>
}

/** How many notices one question to the database brings. */
const pageSize = 100
/** How many hints may wait for a slow reader. One more ends the stream, and the client connects again. */
const mostHints = 200

/**
 * The events of one user, one after the other: each notice once, in the order of the numbers, and hints.
 * Notices that a slow reader has not read yet stay in the database and take no memory here.
 */
export class UserReader implements AsyncIterableIterator<UserEvent> {
  readonly #source: UserSource
  readonly #stopListening: () => void
  #after: number | undefined
  #isBegun = false
  #mayBeNew = true
  #hints: Hint[] = []
  #ready: UserEvent[] = []
  #wake: (() => void) | undefined
  #isOver = false

  /** Reads the notices after the number; without a number, those that come from now on. */
  constructor(source: UserSource, after?: number) {
    this.#source = source
    this.#after = after
    this.#stopListening = source.listen({
      wake: () => {
        this.#mayBeNew = true
        this.#wake?.()
      },
      hint: (hint) => {
        if (this.#hints.length >= mostHints) return this.end()
        this.#hints.push(hint)
        this.#wake?.()
      },
    })
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  async next(): Promise<IteratorResult<UserEvent, undefined>> {
    try {
      return await this.#next()
    } catch (error) {
      this.end()
      throw error
    }
  }

  async #next(): Promise<IteratorResult<UserEvent, undefined>> {
    for (;;) {
      const event = this.#ready.shift()
      if (event) return { done: false, value: event }
      if (this.#isOver) return { done: true, value: undefined }
      if (!this.#isBegun) await this.#begin()
      else if (this.#mayBeNew || this.#hints.length > 0) await this.#read()
      else {
        await new Promise<void>((resolve) => (this.#wake = resolve))
        this.#wake = undefined
      }
    }
  }

  async return(): Promise<IteratorResult<UserEvent, undefined>> {
    this.#ready = []
    this.end()
    return { done: true, value: undefined }
  }

  /** Ends the events. The client may connect again and goes on where it was. */
  end(): void {
    this.#isOver = true
    this.#hints = []
    this.#stopListening()
    this.#wake?.()
  }

  /** A client's number above that of the newest notice would hide the notices to come, so it counts as the newest. */
  async #begin(): Promise<void> {
    const newest = await this.#source.newest()
    const id = Math.min(this.#after ?? newest, newest)
    this.#after = id
    this.#isBegun = true
    const timestamp = new Date().toISOString()
    this.#ready.push({ id, event: 'connected', data: { id, timestamp } })
  }

  async #read(): Promise<void> {
    if (!(await this.#source.mayRead())) return this.end()
    if (this.#mayBeNew) {
      this.#mayBeNew = false
      const notices = await this.#source.after(this.#after ?? 0, pageSize)
      this.#mayBeNew ||= notices.length === pageSize
      for (const { user: _, ...notice } of notices) {
        this.#after = notice.id
        this.#ready.push({ id: notice.id, event: 'notice', data: notice })
      }
    }
    const hints = this.#hints
    this.#hints = []
    if (hints.length > 0) this.#ready.push(...(await this.#source.titled(hints)))
  }
}
