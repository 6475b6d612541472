import { CallError, grpc } from '../statuses.ts'

const headBytes = 5

/** A message of gRPC on the wire: a zero, the length, the bytes. */
export function frame(message: Uint8Array): Buffer {
  const framed = Buffer.allocUnsafe(headBytes + message.length)
  framed[0] = 0
  framed.writeUInt32BE(message.length, 1)
  framed.set(message, headBytes)
  return framed
}

/** Cuts a stream of chunks into messages. */
export class FrameReader {
  readonly #maxBytes: number
  #chunks: Buffer[] = []
  #length = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** Whether the last message is not whole yet. */
  get isCut(): boolean {
    return this.#length > 0
  }

  push(chunk: Buffer, take: (message: Uint8Array) => void): void {
    this.#chunks.push(chunk)
    this.#length += chunk.length
    while (this.#length >= headBytes) {
      // Most answers come in one chunk; only the head must lie in one piece to see how much is due.
      if ((this.#chunks[0]?.length ?? 0) < headBytes) this.#join()
      const [head] = this.#chunks
      if (head === undefined) return
      if (head[0] !== 0)
        throw new CallError(grpc.internal, 'The upstream compressed what it was asked not to.', {
          status: 502,
        })
      const due = head.readUInt32BE(1)
      if (due > this.#maxBytes)
        throw new CallError(grpc.resourceExhausted, 'The answer of the upstream is too large.', {
          status: 502,
        })
      if (this.#length < headBytes + due) return
      if (head.length < headBytes + due) this.#join()
      const whole = this.#chunks[0]!
      take(whole.subarray(headBytes, headBytes + due))
      const rest = whole.subarray(headBytes + due)
      if (rest.length > 0) this.#chunks[0] = rest
      else this.#chunks.shift()
      this.#length -= headBytes + due
    }
  }

  #join(): void {
    this.#chunks = [Buffer.concat(this.#chunks, this.#length)]
  }
}
