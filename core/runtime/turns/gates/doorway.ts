/**
 * Lets few through in each turn of the event loop, in the order in which they came. What a turn of a conversation does first
 * takes a millisecond or more: of a thousand that arrive together, those that already speak would wait for all the others.
 */
export class Doorway {
  readonly #most: number
  readonly #queue: (() => void)[] = []
  #passed = 0
  #isTurning = false

  constructor(most: number) {
    this.#most = most
  }

  /** Resolves when it is the caller’s turn. Who comes alone does not wait. */
  async pass(): Promise<void> {
    if (!this.#isTurning) this.#turnLater()
    if (this.#queue.length === 0 && this.#passed < this.#most) this.#passed++
    else await new Promise<void>((go) => this.#queue.push(go))
  }

  #turnLater(): void {
    this.#isTurning = true
    setImmediate(this.#turn)
  }

  readonly #turn = (): void => {
    const now = this.#queue.splice(0, this.#most)
    for (const go of now) go()
    this.#passed = now.length
    this.#isTurning = false
    if (this.#passed > 0) this.#turnLater()
  }
}
