/** How long what can wait, such as the answer to a ping, waits for something else to leave with. */
const longestWaitMs = 2

/**
 * Sends bytes in few writes. The first piece of a turn of the event loop leaves at once, then two together, then four, and
 * what is left when the turn ends: the other side begins with the first while this side still makes the last, and a turn with
 * many pieces costs few writes.
 */
export class Outbox {
  readonly #send: (out: Buffer) => void
  #pieces: Buffer[] = []
  /** How many pieces leave together next in this turn. */
  #together = 1
  /** Whether a turn has begun whose end sends what is left. */
  #hasBegun = false
  #late: NodeJS.Timeout | undefined

  /** `send` may run before `put` returns. */
  constructor(send: (out: Buffer) => void) {
    this.#send = send
  }

  /** Sends some bytes before this turn ends. */
  put(bytes: Buffer): void {
    this.#pieces.push(bytes)
    if (!this.#hasBegun) {
      this.#hasBegun = true
      this.#together = 1
      setImmediate(this.#onEnd)
    }
    if (this.#pieces.length < this.#together) return
    this.#together *= 2
    this.#flush()
  }

  /** Sends some bytes together with the next others, or alone after a moment. */
  putLater(bytes: Buffer): void {
    this.#pieces.push(bytes)
    this.#late ??= setTimeout(this.#onLate, longestWaitMs).unref()
  }

  readonly #onEnd = (): void => {
    this.#hasBegun = false
    this.#flush()
  }

  readonly #onLate = (): void => {
    this.#late = undefined
    this.#flush()
  }

  #flush(): void {
    const [first, ...more] = this.#pieces
    this.#pieces = []
    if (first) this.#send(more.length === 0 ? first : Buffer.concat([first, ...more]))
  }
}
