/** Runs what is asked under one name one after the other, and what is asked under different names side by side. */
export class Turns {
  readonly #last = new Map<string, Promise<unknown>>()

  /** Does the work when all work that was asked before under this name is over. */
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
