import type { EventsTable } from '../tables.ts'
import type { PersonMessage } from './message.ts'
import type { Place } from './words.ts'

/** A message that is to become a turn, or a part of one. */
export interface Heard {
  readonly row: Pick<EventsTable, 'event_id' | 'request_id' | 'state' | 'at'>
  readonly message: PersonMessage
  readonly text: string
  readonly place: Place
  readonly sessionId: string
  readonly did: string
  readonly isShared: boolean
  readonly quoted: readonly string[]
}

/** How long a person may go on writing before the oracle answers, and how much may be joined. */
const quietMs = 1_500
const most = { messages: 200, characters: 60_000 }

interface Waiting {
  readonly heard: Heard[]
  timer: NodeJS.Timeout
}

/** Joins what a person writes in several messages, one right after the other. */
export class Joining {
  readonly #start: (heard: readonly Heard[]) => Promise<void>
  readonly #waiting = new Map<string, Waiting>()
  readonly #signal: AbortSignal

  constructor(start: (heard: readonly Heard[]) => Promise<void>, signal: AbortSignal) {
    this.#start = start
    this.#signal = signal
  }

  add(heard: Heard): void {
    // A turn that has begun has its messages already.
    const key = heard.row.state === 'running' ? heard.row.request_id : heard.sessionId
    const known = this.#waiting.get(key)
    const characters = known?.heard.reduce((sum, { text }) => sum + text.length, 0) ?? 0
    const isFull =
      (known?.heard.length ?? 0) >= most.messages ||
      characters + heard.text.length > most.characters
    if (known && isFull) this.#flush(key)
    const waiting = this.#waiting.get(key)
    if (waiting) clearTimeout(waiting.timer)
    const timer = setTimeout(() => this.#flush(key), quietMs)
    this.#waiting.set(key, { heard: [...(waiting?.heard ?? []), heard], timer })
  }

  /** Whether a turn of this session waits that takes one more message with it. */
  hasRoom(sessionId: string): boolean {
    return (this.#waiting.get(sessionId)?.heard.length ?? most.messages) < most.messages
  }

  /** Whether a message waits to be part of a turn. */
  has(eventId: string): boolean {
    return [...this.#waiting.values()].some(({ heard }) =>
      heard.some(({ row }) => row.event_id === eventId),
    )
  }

  /** Leaves a message out that its writer took back. */
  drop(eventId: string): void {
    for (const [key, { heard, timer }] of this.#waiting) {
      const left = heard.filter(({ row }) => row.event_id !== eventId)
      if (left.length > 0) this.#waiting.set(key, { heard: left, timer })
      else {
        clearTimeout(timer)
        this.#waiting.delete(key)
      }
    }
  }

  /** Begins nothing more: what waits is taken up by the next start. */
  close(): void {
    for (const { timer } of this.#waiting.values()) clearTimeout(timer)
    this.#waiting.clear()
  }

  #flush(key: string): void {
    const waiting = this.#waiting.get(key)
    if (!waiting || this.#signal.aborted) return
    clearTimeout(waiting.timer)
    this.#waiting.delete(key)
    void this.#start(waiting.heard)
  }
}
