/** Collects the bytes of one turn of the event loop, and sends them in one piece. */
export class Outbox {
  readonly #send: (out: Buffer) => void
  #pieces: Buffer[] = []

  constructor(send: (out: Buffer) => void) {
    this.#send = send
  }

  /** Sends some bytes together with all others of this turn. */
  put(bytes: Buffer): void {
    if (this.#pieces.push(bytes) === 1) setImmediate(this.#flush)
  }

  readonly #flush = (): void => {
    const [first, ...more] = this.#pieces
    this.#pieces = []
    if (first) this.#send(more.length === 0 ? first : Buffer.concat([first, ...more]))
  }
}
