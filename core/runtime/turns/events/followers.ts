import type { Log } from '../../../plugin.ts'
import type { RunEvent } from '../journal/event-lines.ts'
import { EventWindow } from './window.ts'
import type { RunStore } from '../journal/store.ts'

/** How often a process asks the database for new events: a notification may be lost with its connection. */
const pollMs = 1_000
/** At every so many looks the process that carries a run hears again that the run is followed. */
const looksPerTelling = 5

/** How followers reach the process that carries a run. */
export interface FollowedRuns {
  /** Listens to the run until the function that this returns is called; `onReady` is called when messages arrive. */
  enter(runId: string, onReady: () => void): () => void
  /** Says that the run is followed here, so that its events are written and told at once. */
  tell(sessionId: string, runId: string): void
}

interface Follower {
  readonly window: EventWindow
  readonly sessionId: string
  leave(): void
  seq: number
  reading: boolean
  again: boolean
}

/** Follows runs that other processes carry, for the readers of this process: each run once, however many read it. */
export class Followers {
  readonly #store: RunStore
  readonly #log: Log
  readonly #elsewhere: FollowedRuns
  readonly #following = new Map<string, Follower>()
  #timer: NodeJS.Timeout | undefined
  #looks = 0

  constructor(store: RunStore, log: Log, elsewhere: FollowedRuns) {
    this.#store = store
    this.#log = log
    this.#elsewhere = elsewhere
  }

  /** The window of a run of a session, from event `seq` on. */
  windowOf(sessionId: string, runId: string, seq: number): EventWindow {
    const known = this.#following.get(runId)
    if (known && known.window.state === 'open') return known.window
    const window = new EventWindow(seq, () => this.#forget(runId, window))
    known?.leave()
    const leave = this.#elsewhere.enter(runId, () => this.wake(runId))
    this.#following.set(runId, { window, sessionId, leave, seq, reading: false, again: false })
    this.#elsewhere.tell(sessionId, runId)
    this.#timer ??= setInterval(() => void this.#poll(), pollMs).unref()
    // Events may have been written since the caller looked at the run.
    this.wake(runId)
    return window
  }

  /** Looks for new events of a run. */
  wake(runId: string): void {
    const follower = this.#following.get(runId)
    if (!follower) return
    if (follower.reading) follower.again = true
    else void this.#read(runId, follower)
  }

  /** Looks at every run: notifications may have been missed. */
  wakeAll(): void {
    for (const runId of this.#following.keys()) this.wake(runId)
  }

  /** Lets go of a run that is gone or that this process carries now; its readers look for it anew. */
  leave(runId: string): void {
    const follower = this.#following.get(runId)
    this.#following.delete(runId)
    follower?.leave()
    follower?.window.move()
  }

  close(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
    for (const { leave } of this.#following.values()) leave()
    this.#following.clear()
  }

  #forget(runId: string, window: EventWindow): void {
    const follower = this.#following.get(runId)
    if (follower?.window === window) {
      this.#following.delete(runId)
      follower.leave()
    }
    if (this.#following.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  async #read(runId: string, follower: Follower): Promise<void> {
    const { window } = follower
    follower.reading = true
    try {
      do {
        follower.again = false
        let events: RunEvent[]
        do {
          events = await this.#store.eventsAfter(runId, follower.seq)
          const last = events.at(-1)
          if (!last) break
          follower.seq = last.id
          window.push(events)
          window.release(last.id)
          if (last.event === 'done') window.end()
        } while (window.state === 'open')
      } while (follower.again && window.state === 'open')
    } catch (error) {
      this.#log.warn({ err: error, runId }, 'The events of a run could not be read; trying again')
    }
    follower.reading = false
  }

  async #poll(): Promise<void> {
    if (++this.#looks % looksPerTelling === 0)
      for (const [runId, { sessionId }] of this.#following) this.#elsewhere.tell(sessionId, runId)
    const known = new Map([...this.#following].map(([runId, { seq }]) => [runId, seq]))
    try {
      const { changed, gone } = await this.#store.behind(known)
      for (const runId of changed) this.wake(runId)
      for (const runId of gone) this.leave(runId)
    } catch (error) {
      this.#log.debug({ err: error }, 'Runs elsewhere could not be looked at; trying again')
    }
  }
}
