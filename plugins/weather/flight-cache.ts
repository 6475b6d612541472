/**
 * Caches answers by key for `ttlMs`. Callers that ask for one key at the same time share one request (a flight), and the
 * cache forgets a flight that fails. A caller whose signal fires stops waiting; the flight continues for the others.
 */
export class FlightCache<T> {
  readonly #entries = new Map<string, { readonly value: Promise<T>; readonly until: number }>()
  readonly #ttlMs: number
  readonly #max: number
  readonly #now: () => number

  constructor({ ttlMs, max, now = Date.now }: { ttlMs: number; max: number; now?: () => number }) {
    this.#ttlMs = ttlMs
    this.#max = max
    this.#now = now
  }

  async get(key: string, load: () => Promise<T>, signal: AbortSignal): Promise<T> {
    signal.throwIfAborted()
    let entry = this.#entries.get(key)
    if (!entry || entry.until <= this.#now()) {
      const value = load()
      entry = { value, until: this.#now() + this.#ttlMs }
      this.#entries.delete(key) // so that a renewed entry counts as the youngest
      this.#entries.set(key, entry)
      const started = entry
      value.catch(() => this.#entries.get(key) === started && this.#entries.delete(key))
      if (this.#entries.size > this.#max) this.#entries.delete(this.#entries.keys().next().value!)
    }
    return await unless(signal, entry.value)
  }
}

/** The promise's outcome, or the signal's reason if that comes first. */
function unless<T>(signal: AbortSignal, promise: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const leave = () => reject(signal.reason)
    signal.addEventListener('abort', leave, { once: true })
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', leave))
  })
}
