/** After so many failures in a row a model of a chain rests. */
const failuresBefore = 3
/** How long it rests. */
const restMs = 30_000
/** How many models are remembered; each id is one that the operator wrote down. */
const mostModels = 1000

/** Which models of chains rest, because they failed several times in a row: turns then do not wait for their next failure. */
export class Rests {
  readonly #now: () => number
  readonly #failures = new Map<string, { count: number; until: number; code: string }>()

  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /** Notes that a call of the model failed. */
  failed(id: string, code: string): void {
    const count = (this.#failures.get(id)?.count ?? 0) + 1
    if (this.#failures.size >= mostModels) this.#failures.clear()
    const until = count >= failuresBefore ? this.#now() + restMs : 0
    this.#failures.set(id, { count, until, code })
  }

  /** Notes that the model has answered. */
  answered(id: string): void {
    this.#failures.delete(id)
  }

  /** Whether the model rests now. After its rest it is asked again, and one more failure sends it back. */
  isResting(id: string): boolean {
    return (this.#failures.get(id)?.until ?? 0) > this.#now()
  }

  /** The code of the model's last failure. */
  codeOf(id: string): string | undefined {
    return this.#failures.get(id)?.code
  }
}
