/** Runs the work under one name one after the other, and the work under different names in parallel. */
export class Turns {
  readonly #last = new Map<string, Promise<unknown>>()

  /** Runs `work` after all earlier work under this name has ended. */
  async take<T>(name: string, work: () => Promise<T>): Promise<T> {
    const turn = (this.#last.get(name) ?? Promise.resolve()).then(work, work)
    this.#last.set(name, turn)
    try {
      return await turn
    } finally {
      if (this.#last.get(name) === turn) this.#last.delete(name)
    }
  }
}
