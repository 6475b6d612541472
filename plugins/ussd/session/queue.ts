/** Runs the work of one session one after the other, and the work of different sessions in parallel. */
export class Queue {
  readonly #last = new Map<string, Promise<unknown>>()

  /** Runs `work` after all earlier work for this session, or at once if there is none. */
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

  /** The last piece of unfinished work of each session. */
  waiting(): Iterable<Promise<unknown>> {
    return this.#last.values()
  }
}
