/**
 * Takes short synchronous jobs in their order, for about `budgetMs` in each turn of the event loop, and lets the server
 * answer others between those turns. A thousand signatures that arrive together then hold up the others for a few
 * milliseconds at a time, not for a tenth of a second in one piece.
 */
export class Lane {
  readonly #queue: (() => void)[] = []
  readonly #budgetMs: number
  #spent = 0
  #turnAhead = false

  constructor(budgetMs = 4) {
    this.#budgetMs = budgetMs
  }

  /** Runs the job at once while there is time, else as soon as its turn comes. */
  async run<T>(job: () => T): Promise<T> {
    if (this.#queue.length === 0 && this.#spent < this.#budgetMs) return this.#timed(job)
    return new Promise((resolve, reject) => {
      this.#queue.push(() => {
        try {
          resolve(this.#timed(job))
        } catch (error) {
          reject(error)
        }
      })
    })
  }

  /** How many jobs wait for their turn. */
  get waiting(): number {
    return this.#queue.length
  }

  readonly #nextTurn = (): void => {
    this.#spent = 0
    do this.#queue.shift()?.()
    while (this.#queue.length > 0 && this.#spent < this.#budgetMs)
    this.#turnAhead = this.#spent > 0
    if (this.#turnAhead) setImmediate(this.#nextTurn)
  }

  #timed<T>(job: () => T): T {
    const start = performance.now()
    try {
      return job()
    } finally {
      this.#spent += performance.now() - start
      if (!this.#turnAhead) setImmediate(this.#nextTurn)
      this.#turnAhead = true
    }
  }
}
