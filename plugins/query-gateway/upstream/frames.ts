import { CallError, grpc } from '../statuses.ts'

const headBytes = 5

/** Frames a message for gRPC: a zero byte, the length, the bytes of the message. */
export function frame(message: Uint8Array): Buffer {
  const framed = Buffer.allocUnsafe(headBytes + message.length)
  framed[0] = 0
  framed.writeUInt32BE(message.length, 1)
  framed.set(message, headBytes)
  return framed
}

/** Splits a stream of chunks into messages. */
export class FrameReader {
  readonly #maxBytes: number
  #chunks: Buffer[] = []
  #length = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** Whether the last message is incomplete. */
  get isCut(): boolean {
    return this.#length > 0
  }

  push(chunk: Buffer, take: (message: Uint8Array) => void): void {
    this.#chunks.push(chunk)
    this.#length += chunk.length
    while (this.#length >= headBytes) {
      // Most answers come in one chunk. The length of the message can be read only if its head is in one chunk.
      if ((this.#chunks[0]?.length ?? 0) < headBytes) this.#join()
      const [head] = this.#chunks
      if (head === undefined) return
      if (head[0] !== 0)
        throw new CallError(
          grpc.internal,
          'The upstream compressed a message without being asked to.',
          {
            status: 502,
          },
        )
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
