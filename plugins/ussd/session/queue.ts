/** Takes the inputs of one session one after the other, and those of different sessions side by side. */
export class Queue {
  readonly #last = new Map<string, Promise<unknown>>()

  /** Does the work when all earlier work for this session is over; at once where there is none. */
  async take<T>(id: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(id)
    const mine = before === undefined ? work() : before.then(work, work)
    this.#last.set(id, mine)
    try {
      return await mine
    } finally {
      if (this.#last.get(id) === mine) this.#last.delete(id)
    }
  }

  /** The work that is not over, the last of each session. */
  waiting(): Iterable<Promise<unknown>> {
    return this.#last.values()
  }
}
