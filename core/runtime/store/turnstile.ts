import { databaseBusy } from './database-errors.ts'

/** How long work that never leaves the process may keep the event loop from timers and sockets. */
const sliceMs = 10

const entered = Promise.resolve()

interface Waiting {
  readonly enter: () => void
  readonly timer: NodeJS.Timeout
}

/**
 * Lets one caller in at a time, first come first served. SQLite answers within the same tick, so a long
 * line of queries would run as one chain of microtasks: between two of them the turnstile lets the
 * event loop turn whenever `sliceMs` have passed.
 */
export class Turnstile {
  readonly #patienceMs: number
  readonly #waiting: Waiting[] = []
  #occupied = false
  #sliceStart: number | undefined

  constructor(patienceMs: number) {
    this.#patienceMs = patienceMs
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
          reject(databaseBusy('The database'))
        }, this.#patienceMs),
      }
      this.#waiting.push(waiting)
    })
  }
}
