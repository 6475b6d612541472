/**
 * Lets equal calls at the same time share one call. When a caller leaves, the call continues for the others; when the
 * last caller has left, the call is cancelled.
 */
export class SharedCalls<T> {
  readonly #open = new Map<string, Flight<T>>()

  /** How many calls have no answer yet. */
  get size(): number {
    return this.#open.size
  }

  join(key: string, start: (signal: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<T> {
    let flight = this.#open.get(key)
    if (flight === undefined) {
      const controller = new AbortController()
      const landed = () => {
        if (this.#open.get(key) === begun) this.#open.delete(key)
      }
      const begun: Flight<T> = { value: start(controller.signal), controller, waiting: 0 }
      begun.value.then(landed, landed)
      this.#open.set(key, begun)
      flight = begun
    }
    const shared = flight
    shared.waiting++
    return new Promise((resolve, reject) => {
      const leave = () => {
        reject(signal.reason)
        if (--shared.waiting > 0) return
        // A later caller must start a new call instead of joining this one, which is being cancelled.
        if (this.#open.get(key) === shared) this.#open.delete(key)
        shared.controller.abort()
      }
      if (signal.aborted) return leave()
      signal.addEventListener('abort', leave, { once: true })
      const stay = () => signal.removeEventListener('abort', leave)
      shared.value.then(
        (value) => (stay(), resolve(value)),
        (thrown: unknown) => (stay(), reject(thrown)),
      )
    })
  }
}

interface Flight<T> {
  readonly value: Promise<T>
  readonly controller: AbortController
  waiting: number
}
