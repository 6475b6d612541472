import type { RunEvent } from '../journal/event-lines.ts'

/** How much of what is safely written a window keeps for readers who are a little behind. */
const tailLength = 32 * 1024
/** What an event weighs beside its data. */
const eventOverhead = 64

/** Whom a window wakes when it has news. */
export interface WindowReader {
  wake(): void
}

/**
 * The newest events of one run, for all its readers in this process. A reader keeps a place in the window and
 * nothing else; it reads events that have left the window from the database.
 */
export class EventWindow {
  readonly #readers = new Set<WindowReader>()
  readonly #onUnread: (() => void) | undefined
  #events: RunEvent[] = []
  #dropped = 0
  #length = 0
  #floor: number
  #state: 'open' | 'ended' | 'moved' = 'open'
  #unreadSince = performance.now()

  /** Everything up to `floor` is in the database. The window calls `onUnread` when the last reader leaves. */
  constructor(floor: number, onUnread?: () => void) {
    this.#floor = floor
    this.#onUnread = onUnread
  }

  /** Every event up to this number can be read from the database, and some of them only there. */
  get floor(): number {
    return this.#floor
  }

  /** `ended`: nothing more comes. `moved`: the run goes on in another process. */
  get state() {
    return this.#state
  }

  get last(): RunEvent | undefined {
    return this.#events.at(-1)
  }

  get readers(): number {
    return this.#readers.size
  }

  /** When the last reader of this process left, by `performance.now()`; undefined while somebody reads. */
  get unreadSince(): number | undefined {
    return this.#readers.size > 0 ? undefined : this.#unreadSince
  }

  attach(reader: WindowReader): void {
    this.#readers.add(reader)
  }

  detach(reader: WindowReader): void {
    if (!this.#readers.delete(reader) || this.#readers.size > 0) return
    this.#unreadSince = performance.now()
    this.#onUnread?.()
  }

  push(events: readonly RunEvent[]): void {
    for (const event of events) {
      this.#events.push(event)
      this.#length += event.data.length + eventOverhead
    }
    this.#wake()
  }

  end(): void {
    this.#close('ended')
  }

  move(): void {
    this.#close('moved')
  }

  /** Lets go of what is written up to `seq`, but for a tail that serves readers who are a little behind. */
  release(seq: number): void {
    let count = 0
    for (const event of this.#events) {
      if (this.#length <= tailLength || event.id > seq || event === this.last) break
      this.#length -= event.data.length + eventOverhead
      this.#floor = event.id
      count++
    }
    if (count === 0) return
    this.#events.splice(0, count)
    this.#dropped += count
  }

  /** The place of the first event after `seq`; undefined when the event is not in the window any more. */
  placeAfter(seq: number): number | undefined {
    if (seq < this.#floor) return undefined
    let low = 0
    let high = this.#events.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((this.#events[middle]?.id ?? Infinity) <= seq) low = middle + 1
      else high = middle
    }
    return this.#dropped + low
  }

  /** Whether the place has left the window. */
  isGone(place: number): boolean {
    return place < this.#dropped
  }

  at(place: number): RunEvent | undefined {
    return this.#events[place - this.#dropped]
  }

  #close(state: 'ended' | 'moved'): void {
    if (this.#state !== 'open') return
    this.#state = state
    this.#wake()
  }

  #wake(): void {
    for (const reader of this.#readers) reader.wake()
  }
}
