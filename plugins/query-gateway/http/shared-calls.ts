/**
 * Calls that ask the same at the same time share one. A caller that leaves goes alone; when the last one
 * has left, the call is cancelled.
 */
export class SharedCalls<T> {
  readonly #open = new Map<string, Flight<T>>()

  /** How many calls are on their way. */
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
        // Whoever asks from now on begins anew instead of joining a call that is being cancelled.
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
