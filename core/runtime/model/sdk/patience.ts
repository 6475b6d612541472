import { RuntimeError } from '../../../errors.ts'

/** Waits for promises of a model of a foreign library, which may hear neither the signal nor the clock. */
export class Patience {
  readonly #signal: AbortSignal
  readonly #idleMs: number
  readonly #name: string
  #fail: (error: unknown) => void = () => {}
  readonly #onAbort = () => this.#fail(this.#signal.reason)

  /** Waits at most `idleMs` for each promise; `name` is the model's, for the sentence of the error. */
  constructor(signal: AbortSignal, idleMs: number, name: string) {
    this.#signal = signal
    this.#idleMs = idleMs
    this.#name = name
    signal.addEventListener('abort', this.#onAbort)
  }

  /** What the promise brings, unless the signal fires or the time is up before. */
  for<T>(promise: PromiseLike<T>, ms = this.#idleMs): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#fail = reject
      if (this.#signal.aborted) this.#onAbort()
      const timer = setTimeout(() => {
        reject(
          new RuntimeError('MODEL_TIMEOUT', `"${this.#name}" sent nothing for ${ms / 1000} s.`),
        )
      }, ms)
      const isOver = () => clearTimeout(timer)
      promise.then(resolve, reject).then(isOver, isOver)
    })
  }

  /** Ends the waiting: the signal holds nothing of it any more. */
  end(): void {
    this.#signal.removeEventListener('abort', this.#onAbort)
  }
}
