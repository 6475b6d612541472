import type { Socket } from 'node:net'
import {
  defaultFrameBytes,
  errorCode,
  flag,
  frameOf,
  frameType,
  headerFrames,
  headBytes,
  numberFrame,
  setting,
  wholeRequest,
} from './frames.ts'
import { type HeaderBlock, HeaderBlocks } from './header-blocks.ts'
import { CompressionError } from './hpack.ts'
import {
  cautiousStreams,
  connectionWindow,
  greeting,
  initialWindow,
  lastStreamId,
  maxHeaderBytes,
  maxUnread,
  maxWindow,
  streamWindow,
} from './limits.ts'
import { Outbox } from './outbox.ts'
import { numberIn, unpadded } from './payload.ts'
import {
  type Closed,
  type OpenStream,
  ProtocolError,
  type Stream,
  type StreamEvents,
} from './stream.ts'

/**
 * The client's side of one HTTP/2 connection (RFC 9113) for requests that are known whole when they begin.
 * Everything that is asked within one turn of the event loop leaves in one write.
 */
export class Http2Connection {
  readonly #socket: Socket
  readonly #onSpoken: (() => void) | undefined
  readonly #streams = new Map<number, Stream>()
  readonly #waiting = new Set<() => void>()
  readonly #blocks = new HeaderBlocks(maxHeaderBytes)
  /** Runs while an answer to a ping is due. */
  #silence: NodeJS.Timeout | undefined
  readonly #outbox: Outbox
  #rest: Buffer | undefined
  #nextId = 1
  #maxStreams = cautiousStreams
  #peerStreamWindow = initialWindow
  #sendWindow = initialWindow
  #received = 0
  #spoke = false
  #going = false
  #gone: { readonly cause: Error | undefined } | undefined

  /** `onSpoken` is called once, when the other side has said that it speaks HTTP/2. */
  constructor(socket: Socket, onSpoken?: () => void) {
    this.#socket = socket
    this.#onSpoken = onSpoken
    this.#outbox = new Outbox((out) => this.#send(out))
    socket.setNoDelay(true)
    // An idle connection must not keep the process alive.
    socket.unref()
    this.#write(greeting())
    socket.on('data', (chunk: Buffer) => this.#read(chunk))
    socket.on('error', (error) => this.destroy(error))
    socket.on('close', () => this.destroy())
    socket.on('end', () => this.destroy())
  }

  /** Whether more may be asked on it. */
  get usable(): boolean {
    return this.#gone === undefined && !this.#going && this.#nextId <= lastStreamId
  }

  /** Asks. `closed` comes exactly once, never before this returns, unless the caller cancels. */
  open(block: Buffer, body: Buffer, events: StreamEvents): OpenStream {
    if (this.#streams.size < this.#maxStreams && this.#waiting.size === 0)
      return this.#begin(block, body, events)
    let begun: OpenStream | undefined
    let paused = false
    const begin = () => {
      if (!this.usable) return events.closed({ kind: 'refused' })
      begun = this.#begin(block, body, events)
      if (paused) begun.pause()
    }
    this.#waiting.add(begin)
    return {
      cancel: () => (begun ? begun.cancel() : void this.#waiting.delete(begin)),
      pause: () => ((paused = true), begun?.pause()),
      resume: () => ((paused = false), begun?.resume()),
    }
  }

  #begin(block: Buffer, body: Buffer, events: StreamEvents): OpenStream {
    const id = this.#nextId
    this.#nextId += 2
    const stream: Stream = {
      id,
      events,
      body,
      sendWindow: this.#peerStreamWindow,
      received: 0,
      paused: false,
      cancel: () => {
        if (this.#streams.has(id)) this.#reset(stream, errorCode.cancel)
      },
      pause: () => void (stream.paused = true),
      resume: () => {
        stream.paused = false
        this.#replenish(stream)
      },
    }
    this.#streams.set(id, stream)
    const allowed = Math.min(stream.sendWindow, this.#sendWindow, defaultFrameBytes)
    if (block.length > defaultFrameBytes || body.length > allowed) {
      for (const frame of headerFrames(id, block)) this.#write(frame)
      this.#pump(stream)
      return stream
    }
    // Nearly all requests: both frames in one piece.
    stream.body = undefined
    this.#sendWindow -= body.length
    this.#write(wholeRequest(id, block, body))
    return stream
  }

  /** Sends what the windows allow. */
  #pump(stream: Stream): void {
    while (stream.body !== undefined) {
      const { body, id } = stream
      const most = Math.min(stream.sendWindow, this.#sendWindow, defaultFrameBytes)
      if (most <= 0 && body.length > 0) return
      const piece = body.subarray(0, most)
      const last = piece.length === body.length
      stream.body = last ? undefined : body.subarray(piece.length)
      stream.sendWindow -= piece.length
      this.#sendWindow -= piece.length
      this.#write(frameOf(frameType.data, last ? flag.endStream : 0, id, piece))
    }
  }

  #pumpAll(): void {
    for (const stream of this.#streams.values()) if (stream.body !== undefined) this.#pump(stream)
  }

  /** Gives the connection up unless it answers a ping in time. */
  check(patienceMs: number): void {
    if (this.#gone !== undefined) return
    if (this.#silence !== undefined) return
    const silent = () => this.destroy(new Error('the upstream says nothing any more'))
    this.#silence = setTimeout(silent, patienceMs).unref()
    // One that has not said anything yet owes us its settings.
    if (this.#spoke) this.#write(frameOf(frameType.ping, 0, 0, Buffer.alloc(8)))
  }

  #isThere(): void {
    clearTimeout(this.#silence)
    this.#silence = undefined
  }

  /** Ends every stream that is open. */
  destroy(cause?: Error): void {
    if (this.#gone !== undefined) return
    this.#gone = { cause }
    this.#socket.destroy()
    this.#isThere()
    const streams = [...this.#streams.values()]
    this.#streams.clear()
    const waiting = [...this.#waiting]
    this.#waiting.clear()
    for (const stream of streams) stream.events.closed({ kind: 'lost', cause, spoke: this.#spoke })
    for (const begin of waiting) begin()
  }

  #write(bytes: Buffer): void {
    if (this.#gone !== undefined) return
    this.#outbox.put(bytes)
  }

  #send(out: Buffer): void {
    if (this.#gone !== undefined) return
    this.#socket.write(out)
    if (this.#socket.writableLength > maxUnread)
      this.destroy(new Error('the upstream does not read what it is sent'))
  }

  #read(chunk: Buffer): void {
    if (this.#gone !== undefined) return
    const bytes = this.#rest === undefined ? chunk : Buffer.concat([this.#rest, chunk])
    let at = 0
    try {
      while (bytes.length - at >= headBytes) {
        const length = (bytes[at]! << 16) | (bytes[at + 1]! << 8) | bytes[at + 2]!
        const type = bytes[at + 3]!
        if (length > defaultFrameBytes || (!this.#spoke && type !== frameType.settings))
          throw new ProtocolError('a frame is larger than allowed', errorCode.frameSize)
        if (bytes.length - at - headBytes < length) break
        const from = at + headBytes
        at = from + length
        this.#frame(
          type,
          bytes[from - 5]!,
          bytes.readUInt32BE(from - 4) & maxWindow,
          bytes.subarray(from, at),
        )
        if (this.#gone !== undefined) return
      }
    } catch (thrown) {
      return this.#fault(thrown)
    }
    this.#rest = at === bytes.length ? undefined : bytes.subarray(at)
  }

  #fault(thrown: unknown): void {
    const error =
      thrown instanceof CompressionError
        ? new ProtocolError(thrown.message, errorCode.compression)
        : thrown
    if (error instanceof ProtocolError && this.#gone === undefined) {
      const payload = Buffer.alloc(8)
      payload.writeUInt32BE(error.code, 4)
      this.#socket.write(frameOf(frameType.goAway, 0, 0, payload))
    }
    this.destroy(error instanceof Error ? error : new Error(String(error)))
  }

  #frame(type: number, flags: number, id: number, payload: Buffer): void {
    this.#blocks.mustGoOn(type, id)
    switch (type) {
      case frameType.data:
        return this.#onData(flags, id, payload)
      case frameType.headers:
        return this.#onBlock(this.#blocks.begin(flags, id, payload))
      case frameType.continuation:
        return this.#onBlock(this.#blocks.goOn(flags, payload))
      case frameType.resetStream:
        return this.#onReset(id, numberIn(payload, 4))
      case frameType.settings:
        return this.#onSettings(flags, payload)
      case frameType.ping:
        if (payload.length !== 8)
          throw new ProtocolError('a ping has no 8 bytes', errorCode.frameSize)
        if ((flags & flag.ack) === 0)
          return this.#write(frameOf(frameType.ping, flag.ack, 0, payload))
        return this.#isThere()
      case frameType.goAway:
        return this.#onGoAway(numberIn(payload, 8) & maxWindow)
      case frameType.windowUpdate:
        return this.#onWindowUpdate(id, numberIn(payload, 4) & maxWindow)
      case frameType.pushPromise:
        throw new ProtocolError('something is pushed that nobody asked for')
    }
  }

  /** Undefined where the stream is over on our side: what is still on its way is read and forgotten. */
  #streamOf(id: number): Stream | undefined {
    if (id === 0 || id % 2 === 0 || id >= this.#nextId)
      throw new ProtocolError(`a frame names stream ${id}, which nobody opened`)
    return this.#streams.get(id)
  }

  #onData(flags: number, id: number, payload: Buffer): void {
    const stream = this.#streamOf(id)
    this.#received += payload.length
    if (this.#received > connectionWindow / 2) {
      this.#write(numberFrame(frameType.windowUpdate, 0, this.#received))
      this.#received = 0
    }
    if (stream === undefined) return
    stream.received += payload.length
    if (stream.received > streamWindow) return this.#reset(stream, errorCode.flowControl)
    const data = flags & flag.padded ? unpadded(payload) : payload
    if (data.length > 0) stream.events.data(data)
    if (flags & flag.endStream) this.#end(stream, { kind: 'ended' })
    else this.#replenish(stream)
  }

  #replenish(stream: Stream): void {
    if (stream.paused || stream.received < streamWindow / 2 || !this.#streams.has(stream.id)) return
    this.#write(numberFrame(frameType.windowUpdate, stream.id, stream.received))
    stream.received = 0
  }

  /** Tells a stream of the header block that a frame has completed, if it has. */
  #onBlock(block: HeaderBlock | undefined): void {
    if (block === undefined) return
    const { id, headers, ends } = block
    const stream = this.#streamOf(id)
    if (stream === undefined) return
    if (headers === undefined) return this.#reset(stream, errorCode.enhanceYourCalm, true)
    const status = headers[':status']
    if (!(typeof status === 'string' && status.startsWith('1') && !ends))
      stream.events.headers(headers)
    if (ends) this.#end(stream, { kind: 'ended' })
  }

  #onReset(id: number, code: number): void {
    const stream = this.#streamOf(id)
    if (stream === undefined) return
    stream.body = undefined
    this.#end(
      stream,
      code === errorCode.refusedStream ? { kind: 'refused' } : { kind: 'reset', code },
    )
  }

  #onSettings(flags: number, payload: Buffer): void {
    if (flags & flag.ack) return
    if (payload.length % 6 !== 0) throw new ProtocolError('settings are cut', errorCode.frameSize)
    if (!this.#spoke) {
      this.#spoke = true
      this.#maxStreams = Infinity
      this.#isThere()
      this.#onSpoken?.()
    }
    for (let at = 0; at < payload.length; at += 6)
      this.#onSetting(payload.readUInt16BE(at), payload.readUInt32BE(at + 2))
    this.#write(frameOf(frameType.settings, flag.ack, 0, Buffer.alloc(0)))
    this.#pumpAll()
    this.#beginWaiting()
  }

  #onSetting(id: number, value: number): void {
    if (id === setting.maxConcurrentStreams) this.#maxStreams = value
    else if (id === setting.initialWindowSize) {
      if (value > maxWindow) throw new ProtocolError('a window is too large', errorCode.flowControl)
      for (const stream of this.#streams.values())
        stream.sendWindow += value - this.#peerStreamWindow
      this.#peerStreamWindow = value
    } else if (id === setting.maxFrameSize) {
      if (value < defaultFrameBytes || value >= 2 ** 24)
        throw new ProtocolError('a frame size is out of range')
      // Larger frames than the default would gain nothing.
    }
  }

  #onGoAway(last: number): void {
    this.#going = true
    // Those it will not look at are the first to hear: they may be asked elsewhere.
    for (const stream of [...this.#streams.values()])
      if (stream.id > last) this.#end(stream, { kind: 'refused' })
    this.#beginWaiting()
    this.#closeIfIdle()
  }

  #onWindowUpdate(id: number, increment: number): void {
    if (id === 0) {
      this.#sendWindow += increment
      if (increment === 0 || this.#sendWindow > maxWindow)
        throw new ProtocolError('a window update is out of range', errorCode.flowControl)
      return this.#pumpAll()
    }
    const stream = this.#streamOf(id)
    if (stream === undefined) return
    stream.sendWindow += increment
    if (increment === 0 || stream.sendWindow > maxWindow)
      return this.#reset(stream, errorCode.flowControl, true)
    this.#pump(stream)
  }

  /** Ends a stream from our side. */
  #reset(stream: Stream, code: number, tell = code !== errorCode.cancel): void {
    this.#write(numberFrame(frameType.resetStream, stream.id, code))
    stream.body = undefined
    this.#streams.delete(stream.id)
    if (tell) stream.events.closed({ kind: 'reset', code })
    this.#beginWaiting()
    this.#closeIfIdle()
  }

  #end(stream: Stream, how: Closed): void {
    if (!this.#streams.delete(stream.id)) return
    // It answered without hearing us out.
    if (stream.body !== undefined)
      this.#write(numberFrame(frameType.resetStream, stream.id, errorCode.cancel))
    stream.events.closed(how)
    this.#beginWaiting()
    this.#closeIfIdle()
  }

  #beginWaiting(): void {
    if (this.#waiting.size === 0) return
    for (const begin of this.#waiting) {
      if (this.usable && this.#streams.size >= this.#maxStreams) return
      this.#waiting.delete(begin)
      begin()
    }
  }

  #closeIfIdle(): void {
    if (this.#going && this.#streams.size === 0) this.destroy()
  }
}
