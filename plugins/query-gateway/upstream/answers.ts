import type { Headers } from '../http2/hpack.ts'
import type { OpenStream } from '../http2/stream.ts'
import { CallError, grpc } from '../statuses.ts'
import type { CallEvents } from './call.ts'
import type { Metadata, StreamAnswer, UnaryAnswer } from './transport.ts'

/** How much may wait for a reader before the stream pauses the upstream. */
const mostQueued = { messages: 16, bytes: 64 * 1024 }

/** Makes a call that sends its events to `events`. */
type Begin = (events: CallEvents) => OpenStream

/** The answer of a call that has exactly one message. */
export function onlyMessage(begin: Begin): Promise<UnaryAnswer> {
  return new Promise((resolve, reject) => {
    let metadata: Metadata = {}
    let message: Uint8Array | undefined
    let count = 0
    begin({
      headers: (headers) => void (metadata = headers),
      message(bytes) {
        message = bytes
        count++
      },
      end(failure) {
        if (failure !== undefined) reject(failure)
        // Servers that send no message at all mean a message whose fields have their defaults.
        else if (count <= 1) resolve({ message: message ?? new Uint8Array(), metadata })
        else
          reject(
            new CallError(grpc.internal, `The upstream sent ${count} messages where one is due.`, {
              status: 502,
            }),
          )
      },
    })
  })
}

/** The messages of a call, which its reader pulls one by one. */
export class MessageStream implements StreamAnswer, CallEvents {
  readonly messages: AsyncIterable<Uint8Array> = this.#read()
  readonly #head = Promise.withResolvers<Metadata>()
  readonly #queue: Uint8Array[] = []
  readonly #source: OpenStream
  #queuedBytes = 0
  #done: { readonly failure: CallError | undefined } | undefined
  #wake = Promise.withResolvers<void>()

  constructor(begin: Begin) {
    this.#head.promise.catch(() => undefined) // the reader of the messages gets the same failure
    this.#source = begin(this)
  }

  get metadata(): Promise<Metadata> {
    return this.#head.promise
  }

  /** Takes the head of the answer; only the call uses this method. */
  headers(headers: Headers): void {
    this.#head.resolve(headers)
  }

  /** Takes a message of the answer; only the call uses this method. */
  message(bytes: Uint8Array): void {
    this.#queue.push(bytes)
    this.#queuedBytes += bytes.length
    // A slow reader pauses the upstream instead of filling the memory of this server.
    if (this.#queue.length > mostQueued.messages || this.#queuedBytes > mostQueued.bytes)
      this.#source.pause()
    this.#wake.resolve()
  }

  /** Takes the end of the answer; only the call uses this method. */
  end(failure: CallError | undefined): void {
    this.#done = { failure }
    if (failure) this.#head.reject(failure)
    else this.#head.resolve({})
    this.#wake.resolve()
  }

  async *#read(): AsyncGenerator<Uint8Array, void> {
    try {
      for (;;) {
        const next = this.#queue.shift()
        if (next !== undefined) {
          this.#queuedBytes -= next.length
          yield next
          continue
        }
        if (this.#done?.failure) throw this.#done.failure
        if (this.#done) return
        this.#source.resume()
        await this.#wake.promise
        this.#wake = Promise.withResolvers()
      }
    } finally {
      this.#source.cancel()
    }
  }
}
