import type { Http2Connection } from '../http2/connection.ts'
import type { Headers } from '../http2/hpack.ts'
import type { Closed, OpenStream, StreamEvents } from '../http2/stream.ts'
import { CallError, grpc } from '../statuses.ts'
import { FrameReader, frame } from './frames.ts'
import { failureOf, lost, noGrpc, statusOf } from './outcome.ts'
import type { Call } from './transport.ts'

/** How often a call is repeated after the upstream says that it has not processed the call. */
const mostRefusals = 2

/** The events of a call. */
export interface CallEvents {
  headers(headers: Headers): void
  message(bytes: Uint8Array): void
  /** Called once, after all other events. */
  end(failure: CallError | undefined): void
}

/** The parts that all calls of one upstream share. */
export interface Upstream {
  /** The connection for new calls; throws when the gateway is closing. */
  connection(): Http2Connection
  readonly maxMessageBytes: number
  /** How long an upstream that has missed a deadline may take to answer a ping before the gateway closes the connection. */
  readonly pingPatienceMs: number
}

/** An open call, which sends its messages and its end to the events. */
export class UpstreamCall implements OpenStream, StreamEvents {
  readonly #upstream: Upstream
  readonly #call: Call
  readonly #block: Buffer
  readonly #body: Buffer
  readonly #events: CallEvents
  readonly #reader: FrameReader
  #stream: OpenStream | undefined
  #connection: Http2Connection | undefined
  #deadline: NodeJS.Timeout | undefined
  #head: Headers | undefined
  #trailers: Headers | undefined
  #refusals = 0
  #ended = false

  private constructor(upstream: Upstream, call: Call, block: Buffer, events: CallEvents) {
    this.#upstream = upstream
    this.#call = call
    this.#block = block
    this.#body = bodyOf(call)
    this.#events = events
    this.#reader = new FrameReader(upstream.maxMessageBytes)
  }

  /** Makes a call with the headers in `block`, whose answer goes to `events`. */
  static open(upstream: Upstream, call: Call, block: Buffer, events: CallEvents): UpstreamCall {
    const opened = new UpstreamCall(upstream, call, block, events)
    opened.#begin()
    return opened
  }

  cancel(): void {
    this.#leave()
  }

  pause(): void {
    this.#stream?.pause()
  }

  resume(): void {
    this.#stream?.resume()
  }

  /** Takes the head, or trailers; only the stream uses this method. */
  headers(headers: Headers): void {
    if (this.#head !== undefined) {
      this.#trailers = headers
      return
    }
    this.#head = headers
    if (!String(headers['content-type'] ?? '').startsWith('application/grpc'))
      return this.#quit(noGrpc())
    if (headers['grpc-status'] !== undefined) this.#trailers = headers
    this.#events.headers(headers)
  }

  /** Takes a piece of the answer; only the stream uses this method. */
  data(chunk: Buffer): void {
    try {
      if (this.#head === undefined) return this.#quit(noGrpc())
      this.#reader.push(chunk, this.#take)
    } catch (thrown) {
      this.#quit(thrown instanceof CallError ? thrown : noGrpc(thrown))
    }
  }

  /** Takes the end of the stream; only the stream uses this method. */
  closed(how: Closed): void {
    if (this.#ended) return
    if (this.#trailers?.['grpc-status'] !== undefined)
      return this.#finish(statusOf(this.#trailers) ?? (this.#reader.isCut ? noGrpc() : undefined))
    if (how.kind === 'refused' && this.#head === undefined && this.#refusals++ < mostRefusals)
      return this.#ask()
    this.#finish(failureOf(how))
  }

  #begin(): void {
    const { signal, deadlineMs } = this.#call
    if (signal?.aborted) return this.#leave()
    this.#ask()
    if (this.#ended) return
    signal?.addEventListener('abort', this.#leave, { once: true })
    if (deadlineMs !== undefined) this.#deadline = setTimeout(() => this.#expire(), deadlineMs)
  }

  #ask(): void {
    try {
      this.#connection = this.#upstream.connection()
      this.#stream = this.#connection.open(this.#block, this.#body, this)
    } catch (thrown) {
      this.#finish(thrown instanceof CallError ? thrown : lost(thrown))
    }
  }

  #expire(): void {
    this.#quit(new CallError(grpc.deadlineExceeded, 'The upstream did not answer in time.'))
    this.#connection?.check(this.#upstream.pingPatienceMs)
  }

  readonly #take = (bytes: Uint8Array): void => this.#events.message(bytes)

  readonly #leave = (): void => this.#quit(new CallError(grpc.cancelled, 'The call was cancelled.'))

  /** Ends a call that the upstream has not ended. */
  #quit(failure: CallError): void {
    this.#stream?.cancel()
    this.#finish(failure)
  }

  #finish(failure: CallError | undefined): void {
    if (this.#ended) return
    this.#ended = true
    clearTimeout(this.#deadline)
    this.#call.signal?.removeEventListener('abort', this.#leave)
    this.#events.end(failure)
  }
}

function bodyOf({ messages }: Call): Buffer {
  const [only] = messages
  return messages.length === 1 && only !== undefined
    ? frame(only)
    : Buffer.concat(messages.map(frame))
}
