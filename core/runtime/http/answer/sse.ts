import type { ServerResponse } from 'node:http'
import { writeChunk } from './chunk.ts'
import { isPolled, poll, type Polled } from './polled.ts'

/** The bounds of a stream. */
export interface SseLimits {
  /** A comment this often keeps proxies from closing a silent stream. */
  readonly heartbeatMs: number
  /** How long the first item may take before the headers go out without it. */
  readonly openAfterMs: number
  /** How long a stream may go on yielding after the server began to close. */
  readonly goodbyeMs: number
  /** How long a reader may read nothing. */
  readonly stallMs: number
  /** How many bytes may wait for a reader; with one more the stream cuts the reader off. */
  readonly maxBufferedBytes: number
}

/** The limits unless a server sets its own. */
export const sseLimits: SseLimits = {
  heartbeatMs: 15_000,
  openAfterMs: 250,
  goodbyeMs: 250,
  stallMs: 30_000,
  maxBufferedBytes: 8 * 1024 * 1024,
}

/** From so many characters on, the stream writes its frames before it asks for the next item. */
const pieceLength = 64 * 1024

interface Reader {
  readonly res: ServerResponse
  readonly limits: SseLimits
  /** Fires the signal that the handler holds. */
  abort(reason: unknown): void
  /** A fault in the middle of the stream as the text of an `error` event. */
  renderError(error: unknown): string
  /** Called when the stream cuts off the reader, who does not read. */
  stalled(): void
  /** Called when a source fails while it cleans up: the reader cannot be told any more. */
  lateFailure(error: unknown): void
}

/**
 * Writes an async iterable as Server-Sent Events. The stream asks the iterable for the next item only when the reader has
 * taken the last ones, so a slow reader costs a bounded buffer and a stalled reader loses its connection.
 */
export class SseStream {
  /** Settles when the stream is over, like `run()`. */
  readonly done: Promise<void>
  #reader: Reader
  #iterator: AsyncIterator<unknown>
  #polled: Polled | undefined
  #settle: PromiseWithResolvers<void>
  #timers: NodeJS.Timeout[] = []
  #stall: NodeJS.Timeout | undefined
  #opened = false
  #closing = false
  #over = false
  #exhausted = false

  constructor(source: AsyncIterable<unknown>, reader: Reader) {
    this.#reader = reader
    this.#iterator = source[Symbol.asyncIterator]()
    if (isPolled(this.#iterator)) this.#polled = this.#iterator
    this.#settle = Promise.withResolvers()
    this.done = this.#settle.promise
  }

  /** Begins, and settles when the stream is over; rejects when the source failed before anything was sent. */
  run(): Promise<void> {
    const { res, limits } = this.#reader
    if (res.destroyed) this.#leave()
    else {
      res.on('drain', this.#onDrain).once('close', this.#leave)
      this.#timers.push(setTimeout(this.#open, limits.openAfterMs))
      this.#timers.push(setInterval(this.#beat, limits.heartbeatMs).unref())
      this.#pull()
    }
    return this.done
  }

  /** The server closes: the handler's signal fires, and a moment later the stream ends. */
  goodbye(reason: unknown): void {
    if (this.#over || this.#closing) return
    this.#closing = true
    this.#timers.push(setTimeout(this.#end, this.#reader.limits.goodbyeMs))
    this.#reader.abort(reason)
  }

  // Bound once, for they are the listeners and callbacks of every item.
  #pull = (): void => {
    // A source may call this while its last item still waits for the reader.
    if (this.#over || this.#stall !== undefined) return
    if (this.#polled) this.#poll(this.#polled)
    else this.#next().then(this.#onResult, this.#onFailure)
  }

  /** Writes all items there are. Those of one tick leave in one piece, for a write costs more than its bytes. */
  #poll(source: Polled): void {
    const { socket } = this.#reader.res
    socket?.cork()
    let frames = ''
    try {
      for (let result; !this.#over && (result = source[poll](this.#pull));) {
        if (result.done) this.#exhausted = true
        else frames += toFrame(result.value)
        if (!result.done && frames.length < pieceLength) continue
        const hasRoom = this.#send(frames)
        frames = ''
        if (result.done) this.#end()
        if (!hasRoom || result.done) return
      }
      this.#send(frames)
    } catch (error) {
      this.#send(frames)
      this.#onFailure(error)
    } finally {
      socket?.uncork()
    }
  }

  // A source that throws at once is no different from one that rejects.
  #next(): Promise<IteratorResult<unknown>> {
    try {
      return Promise.resolve(this.#iterator.next())
    } catch (error) {
      return Promise.reject(error)
    }
  }

  #return = async () => this.#iterator.return?.()

  #onDrain = (): void => {
    if (this.#stall === undefined) return
    clearTimeout(this.#stall)
    this.#stall = undefined
    this.#pull()
  }

  #onResult = (result: IteratorResult<unknown>): void => {
    if (this.#take(result)) this.#pull()
  }

  /** Writes one item; true when the reader wants the next. */
  #take({ done, value }: IteratorResult<unknown>): boolean {
    if (done) this.#exhausted = true
    if (this.#over) return false
    if (done) {
      this.#end()
      return false
    }
    let frame: string
    try {
      frame = toFrame(value)
    } catch (error) {
      this.#fail(error)
      return false
    }
    return this.#send(frame)
  }

  /** Writes frames; true when the reader wants more. */
  #send(frames: string): boolean {
    if (this.#over) return false
    if (frames === '') return true
    const { res, limits } = this.#reader
    this.#head()
    if (writeChunk(res, frames)) return true
    if (res.writableLength > limits.maxBufferedBytes) this.#onStalled()
    else {
      res.socket?.once('drain', this.#onDrain)
      this.#stall = setTimeout(this.#onStalled, limits.stallMs)
    }
    return false
  }

  /** Ends the stream. A source that threw is at its end, so its `return` is not called. */
  #onFailure = (error: unknown): void => {
    this.#exhausted = true
    if (!this.#over) this.#fail(error)
  }

  #fail(error: unknown): void {
    if (!this.#opened && !this.#closing) {
      this.#stop()
      return this.#settle.reject(error)
    }
    // A source that breaks off because the server closes is not at fault.
    if (!this.#closing)
      writeChunk(
        this.#reader.res,
        toFrame({ event: 'error', data: this.#reader.renderError(error) }),
      )
    this.#end()
  }

  #open = (): void => {
    if (this.#opened || this.#over) return
    this.#head()
    this.#reader.res.flushHeaders()
  }

  /** The headers leave with the first frame, in one packet. */
  #head(): void {
    if (this.#opened) return
    this.#opened = true
    const { res } = this.#reader
    // The headers that a handler sent itself stay.
    if (!res.headersSent) setSseHeaders(res)
  }

  #beat = (): void => {
    this.#open()
    // A reader who does not take the events needs no heartbeat.
    if (!this.#over && this.#stall === undefined) writeChunk(this.#reader.res, ': heartbeat\n\n')
  }

  #end = (): void => {
    if (this.#over) return
    if (this.#reader.res.socket?.writableEnded) return this.#cut()
    this.#open()
    this.#stop()
    this.#reader.res.end()
    this.#settle.resolve()
  }

  #onStalled = (): void => {
    this.#reader.stalled()
    this.#cut()
  }

  #cut = (): void => {
    this.#leave()
    this.#reader.res.destroy()
  }

  /** The reader is gone. */
  #leave = (): void => {
    if (this.#over) return
    this.#over = true // what the source yields after its signal has no reader any more
    this.#reader.abort(undefined)
    this.#stop()
    this.#settle.resolve()
  }

  /** Releases timers and listeners, and calls `return` of a source that is not at its end, once. */
  #stop(): void {
    this.#over = true
    for (const timer of this.#timers) clearTimeout(timer)
    clearTimeout(this.#stall)
    const { res } = this.#reader
    res.off('drain', this.#onDrain).off('close', this.#leave)
    res.socket?.off('drain', this.#onDrain)
    if (this.#exhausted) return
    this.#exhausted = true
    this.#return().catch(this.#reader.lateFailure)
  }
}

/** The headers of an event stream; proxies must neither store nor collect it. */
export function setSseHeaders(res: ServerResponse): void {
  res.setHeader('Content-Type', 'text/event-stream')
  res.setHeader('Cache-Control', 'no-cache, no-transform')
  res.setHeader('X-Accel-Buffering', 'no')
}

const lineBreak = /\r\n|\r|\n/

/** One item as a frame: `{ id?, event?, data }`, or anything else as bare data. */
export function toFrame(item: unknown): string {
  const full = typeof item === 'object' && item !== null && 'data' in item
  const { id, event, data }: { id?: unknown; event?: unknown; data: unknown } = full
    ? item
    : { data: item }
  const head =
    (id === undefined ? '' : `id: ${oneLine(id)}\n`) +
    (event === undefined ? '' : `event: ${oneLine(event)}\n`)
  if (typeof data !== 'string') return `${head}data: ${JSON.stringify(data) ?? 'null'}\n\n`
  return lineBreak.test(data)
    ? `${head}${data
        .split(lineBreak)
        .map((line) => `data: ${line}\n`)
        .join('')}\n`
    : `${head}data: ${data}\n\n`
}

/** A line break in a name would begin a field of its own. */
function oneLine(value: unknown): string {
  return String(value).replace(/[\r\n\0]+/g, ' ')
}
