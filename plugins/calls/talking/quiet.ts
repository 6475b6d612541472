/** What a watch of silence asks and tells. */
export interface QuietEvents {
  /** Whether something else than silence is the case: the agent speaks or thinks, or a person is asked. */
  isBusy(): boolean
  /** Half of the time is over. */
  ask(): void
  /** All of it is over. */
  giveUp(): void
}

/** Watches how long nobody says a word. */
export class Quiet {
  readonly #halfMs: number
  readonly #events: QuietEvents
  readonly #timer: NodeJS.Timeout
  #since = performance.now()
  #hasAsked = false

  constructor(idleMs: number, events: QuietEvents) {
    this.#halfMs = idleMs / 2
    this.#events = events
    this.#timer = setInterval(() => this.#look(), 1_000)
    this.#timer.unref()
  }

  /** Somebody is there. With words of the person the question is open again. */
  broken(byWords = false): void {
    this.#since = performance.now()
    if (byWords) this.#hasAsked = false
  }

  close(): void {
    clearInterval(this.#timer)
  }

  #look(): void {
    if (this.#events.isBusy()) return this.broken()
    if (performance.now() - this.#since <= this.#halfMs) return
    if (this.#hasAsked) return this.#events.giveUp()
    this.#hasAsked = true
    this.#events.ask()
  }
}
