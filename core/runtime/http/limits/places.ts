import { RuntimeError } from '../../../errors.ts'

/** Counts how many of something each of its holders has open, and refuses one too many. */
export class Places {
  readonly #max: number
  readonly #what: string
  readonly #held = new Map<string, number>()

  /** `what` names the counted things in the refusal: `event streams of this address`. */
  constructor(max: number, what: string) {
    this.#max = max
    this.#what = what
  }

  /** Throws TOO_MANY_CONNECTIONS when the holder has all it may have. */
  demand(holder: string): void {
    if ((this.#held.get(holder) ?? 0) < this.#max) return
    const many = this.#max.toLocaleString('en')
    throw new RuntimeError(
      'TOO_MANY_CONNECTIONS',
      `There are ${many} ${this.#what}, which is all it may have.`,
      {
        hint: 'Close some first. Behind a proxy, TRUST_PROXY_ENABLED=true tells clients apart.',
        headers: { 'Retry-After': '60' },
        details: { max: this.#max },
      },
    )
  }

  /** Takes a place, or throws. Returns how to give it back, which is done once. */
  take(holder: string): () => void {
    this.demand(holder)
    this.#held.set(holder, (this.#held.get(holder) ?? 0) + 1)
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      const others = (this.#held.get(holder) ?? 1) - 1
      if (others > 0) this.#held.set(holder, others)
      else this.#held.delete(holder)
    }
  }
}
