/** Counts who is there for a session or a run, each known by its id. */
export class Present {
  readonly #counts = new Map<string, number>()

  /** Counts one more of `id`, until the caller calls the returned function. */
  enter(id: string): () => void {
    this.#counts.set(id, (this.#counts.get(id) ?? 0) + 1)
    let left = false
    return () => {
      if (left) return
      left = true
      const others = (this.#counts.get(id) ?? 1) - 1
      if (others > 0) this.#counts.set(id, others)
      else this.#counts.delete(id)
    }
  }

  /** Whether somebody is there for `id`. */
  has(id: string): boolean {
    return this.#counts.has(id)
  }
}
