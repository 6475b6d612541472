import { poll, type Polled } from '../../http/answer/polled.ts'
import type { RunEvent } from '../journal/event-lines.ts'
import type { EventWindow, WindowReader } from './window.ts'

/** An event as a client gets it. The hand-over at the end of a server has no number. */
export type SentEvent = Omit<RunEvent, 'id'> & { readonly id?: number }

/** Where a reader has the events of its run from. */
export interface ReaderSource {
  /** The window in which the run's events appear now. */
  window(): Promise<EventWindow>
  /** Events after a number from the database, a page of them. */
  page(after: number): Promise<RunEvent[]>
  /** The last event of a stream whose server closes: the client goes on elsewhere. */
  farewell(): SentEvent
  /** Called when the reader stops reading. */
  onLeave?(reader: EventReader): void
}

const finished: IteratorResult<SentEvent> = { done: true, value: undefined }

/**
 * Reads one run from a place on: old events from the database, new ones from the window, and each of them once, also
 * where the two meet. A reader holds one page at most, however slowly its client reads.
 */
export class EventReader
  implements AsyncIterableIterator<SentEvent>, Polled<SentEvent>, WindowReader
{
  readonly #source: ReaderSource
  #cursor: number
  #window: EventWindow | undefined
  #place: number | undefined
  #page: RunEvent[] = []
  #pageIndex = 0
  #farewell: SentEvent | undefined
  #ready: (() => void) | undefined
  #fault: { readonly error: unknown } | undefined
  #catchingUp = false
  #over = false

  constructor(source: ReaderSource, after: number) {
    this.#source = source
    this.#cursor = after
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  next(): Promise<IteratorResult<SentEvent>> {
    return new Promise((resolve, reject) => {
      const ask = () => {
        try {
          const result = this[poll](ask)
          if (result) resolve(result)
        } catch (error) {
          reject(error)
        }
      }
      ask()
    })
  }

  [poll](ready: () => void): IteratorResult<SentEvent> | undefined {
    if (this.#fault && !this.#over) {
      const { error } = this.#fault
      this.#fault = undefined
      throw error
    }
    const result = this.#catchingUp && !this.#farewell && !this.#over ? undefined : this.#now()
    if (result) return result
    this.#ready = ready
    if (this.#isBehind()) void this.#catchUp()
    return undefined
  }

  async return(): Promise<IteratorResult<SentEvent>> {
    this.#leave()
    this.wake()
    return finished
  }

  /** Ends the reading with one more event, which tells the client to go on elsewhere. */
  handOver(): void {
    if (this.#over) return
    this.#farewell = this.#source.farewell()
    this.wake()
  }

  wake(): void {
    const ready = this.#ready
    this.#ready = undefined
    ready?.()
  }

  /** The next event, if it is here already. */
  #now(): IteratorResult<SentEvent> | undefined {
    if (this.#over) return finished
    if (this.#farewell) {
      this.#leave()
      return { done: false, value: this.#farewell }
    }
    const event = this.#page[this.#pageIndex++] ?? this.#fromWindow()
    if (event) return this.#deliver(event)
    if (this.#window?.state !== 'ended' || this.#isBehind()) return undefined
    // A reader that asks for what follows the end is told the end once more.
    const { last } = this.#window
    if (last?.event === 'done' && last.id <= this.#cursor) return this.#deliver(last)
    this.#leave()
    return finished
  }

  #deliver(event: RunEvent): IteratorResult<SentEvent> {
    this.#cursor = event.id
    if (event.event === 'done') this.#leave()
    return { done: false, value: event }
  }

  #fromWindow(): RunEvent | undefined {
    const window = this.#window
    if (!window) return undefined
    if (this.#place === undefined || window.isGone(this.#place))
      this.#place = window.placeAfter(this.#cursor)
    if (this.#place === undefined) return undefined
    // The reader may have had events from the database before they came into the window.
    for (let event; (event = window.at(this.#place));) {
      this.#place++
      if (event.id > this.#cursor) return event
    }
    return undefined
  }

  #isBehind(): boolean {
    const window = this.#window
    return !window || window.state === 'moved' || this.#cursor < window.floor
  }

  /** Finds the window and reads what lies before the window, then wakes the caller that waits. */
  async #catchUp(): Promise<void> {
    if (this.#catchingUp) return
    this.#catchingUp = true
    try {
      while (!this.#over && this.#isBehind() && !(await this.#readOn()));
    } catch (error) {
      this.#fault = { error }
    }
    this.#catchingUp = false
    this.wake()
  }

  /** Reads one page, or finds the window; resolves to whether there is an event to deliver now. */
  async #readOn(): Promise<boolean> {
    if (!this.#window || this.#window.state === 'moved') {
      this.#window?.detach(this)
      const window = await this.#source.window()
      if (this.#over) return true
      this.#window = window
      this.#place = undefined
      window.attach(this)
    }
    const { floor } = this.#window
    if (this.#cursor >= floor) return false
    this.#page = await this.#source.page(this.#cursor)
    this.#pageIndex = 0
    this.#place = undefined
    // A takeover skips numbers: an empty page means that no event lies between the cursor and the window.
    if (this.#page.length === 0) this.#cursor = floor
    return this.#page.length > 0
  }

  #leave(): void {
    if (this.#over) return
    this.#over = true
    this.#page = []
    this.#window?.detach(this)
    this.#source.onLeave?.(this)
  }
}
