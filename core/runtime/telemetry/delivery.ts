import type { Log } from '../../plugin.ts'

/**
 * Says in the log when whoever collects spans stops taking them, and when it takes them again: one line each, however many
 * batches are lost between.
 */
export class Delivery {
  readonly #log: Log
  readonly #to: string
  #lost = 0

  constructor(log: Log, to: string) {
    this.#log = log
    this.#to = to
  }

  /** A batch was taken, or lost with the fault. */
  ended(spans: number, isTaken: boolean, err?: Error): void {
    if (isTaken) {
      if (this.#lost > 0)
        this.#log.info(
          { lost: this.#lost },
          `${this.#to} takes spans again; the lost ones stay lost`,
        )
      this.#lost = 0
      return
    }
    if (this.#lost === 0)
      this.#log.warn(
        { spans, err },
        `${this.#to} takes no spans: they are lost and counted in oracle_spans_total until it does`,
      )
    this.#lost += spans
  }
}
