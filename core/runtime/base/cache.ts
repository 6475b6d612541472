/**
 * A map that forgets what was used longest ago once it holds `max` entries. A JavaScript map keeps insertion order, so its
 * first key is the oldest. While the cache is less than half full, it will not forget anything soon and does not note
 * uses: on a busy server most uses are of the same few keys.
 */
export class Cache<T> {
  readonly #entries = new Map<string, T>()
  readonly #max: number

  constructor(max: number) {
    this.#max = max
  }

  /** The value under a key, which counts as a use. */
  get(key: string): T | undefined {
    const entries = this.#entries
    const value = entries.get(key)
    if (value !== undefined && entries.size * 2 >= this.#max) {
      entries.delete(key)
      entries.set(key, value)
    }
    return value
  }

  /** Keeps a value as the newest; a full cache forgets its oldest for it. */
  set(key: string, value: T): void {
    const entries = this.#entries
    entries.delete(key)
    if (entries.size >= this.#max) {
      const oldest = entries.keys().next()
      if (!oldest.done) entries.delete(oldest.value)
    }
    entries.set(key, value)
  }

  delete(key: string): void {
    this.#entries.delete(key)
  }

  get size(): number {
    return this.#entries.size
  }
}
