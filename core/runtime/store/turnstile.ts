import { databaseBusy } from './database-errors.ts'

/** How long work that never leaves the process may keep the event loop from timers and sockets. */
const sliceMs = 10

const entered = Promise.resolve()

interface Waiting {
  readonly enter: () => void
  timer: NodeJS.Timeout
}

/**
 * Lets one caller in at a time, first come first served. SQLite answers within the same tick, so a long
 * line of queries would run as one chain of microtasks: between two of them the turnstile lets the
 * event loop turn whenever `sliceMs` have passed.
 */
export class Turnstile {
  readonly #patienceMs: number
  readonly #onLate: () => unknown
  readonly #waiting: Waiting[] = []
  #occupied = false
  #sliceStart: number | undefined

  /** `onLate` is called when somebody has waited in vain, and says who is inside. */
  constructor(patienceMs: number, onLate: () => unknown = () => undefined) {
    this.#patienceMs = patienceMs
    this.#onLate = onLate
  }

  /** Resolves when it is the caller's turn; rejects when the one inside stays too long. */
  enter(): Promise<void> {
    if (this.#occupied) return this.#wait()
    this.#occupied = true
    return this.breathe()
  }

  /** Hands the turn to the next in line. */
  leave(): void {
    const next = this.#waiting.shift()
    if (!next) {
      this.#occupied = false
      return
    }
    clearTimeout(next.timer)
    next.enter()
  }

  /** Resolves at once, or after a turn of the event loop when the present one has lasted too long. */
  breathe(): Promise<void> {
    const now = performance.now()
    if (this.#sliceStart === undefined) {
      this.#sliceStart = now
      setImmediate(() => (this.#sliceStart = undefined))
      return entered
    }
    if (now - this.#sliceStart < sliceMs) return entered
    return new Promise((resolve) => setImmediate(resolve))
  }

  #wait(): Promise<void> {
    return new Promise((resolve, reject) => {
      const waiting: Waiting = {
        enter: () => resolve(this.breathe()),
        timer: setTimeout(() => {
          this.#waiting.splice(this.#waiting.indexOf(waiting), 1)
          reject(databaseBusy('The database', this.#onLate()))
        }, this.#patienceMs),
      }
      this.#waiting.push(waiting)
    })
  }
}

/** How long somebody waits for a connection while none is given back, and how long at all. */
const patience = { stuckMs: 5_000, longestMs: 20_000 }

/**
 * The line before the connections of a pool, first come first served. Whoever waits does so for as long as the line moves:
 * that everybody came at once is no reason to refuse anybody.
 */
export class PoolLine {
  readonly #places: number
  readonly #waiting: Waiting[] = []
  #taken = 0
  #movedAt = 0

  constructor(places: number) {
    this.#places = places
  }

  /** How many wait. */
  get length(): number {
    return this.#waiting.length
  }

  /** Resolves when a connection is the caller's to take; rejects when the line has not moved for too long. */
  enter(): Promise<void> {
    if (this.#taken >= this.#places) return this.#wait()
    this.#taken++
    return entered
  }

  /** Says that a connection was given back, or could not be had. */
  leave(): void {
    this.#movedAt = performance.now()
    const next = this.#waiting.shift()
    if (!next) return void this.#taken--
    clearTimeout(next.timer)
    next.enter()
  }

  #wait(): Promise<void> {
    const since = performance.now()
    return new Promise((resolve, reject) => {
      const look = () => {
        const stuckAt = Math.max(since, this.#movedAt) + patience.stuckMs
        const left = Math.min(stuckAt, since + patience.longestMs) - performance.now()
        if (left > 0) return void (waiting.timer = setTimeout(look, left).unref())
        this.#waiting.splice(this.#waiting.indexOf(waiting), 1)
        reject(databaseBusy('Every one of the DATABASE_POOL connections to PostgreSQL'))
      }
      const timer = setTimeout(look, patience.stuckMs).unref()
      const waiting = { enter: resolve, timer }
      this.#waiting.push(waiting)
    })
  }
}
