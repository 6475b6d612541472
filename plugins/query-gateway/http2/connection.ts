import type { Socket } from 'node:net'
import {
  defaultFrameBytes,
  errorCode,
  flag,
  frameOf,
  frameType,
  headerFrames,
  numberFrame,
  setting,
  wholeRequest,
} from './frames.ts'
import { FrameReader } from './frame-reader.ts'
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
 * The client's side of one HTTP/2 connection (RFC 9113), for requests whose bodies are complete when they begin.
 * The frames of one turn of the event loop leave in few writes.
 */
export class Http2Connection {
  readonly #socket: Socket
  readonly #onSpoken: (() => void) | undefined
  readonly #streams = new Map<number, Stream>()
  readonly #waiting = new Set<() => void>()
  readonly #blocks = new HeaderBlocks(maxHeaderBytes)
  /** The timer that runs while an answer to a ping is due. */
  #silence: NodeJS.Timeout | undefined
  readonly #outbox: Outbox
  readonly #frames: FrameReader
  #nextId = 1
  #maxStreams = cautiousStreams
  #peerStreamWindow = initialWindow
  #sendWindow = initialWindow
  #received = 0
  #spoke = false
  #going = false
  #gone: { readonly cause: Error | undefined } | undefined

  /** The connection calls `onSpoken` once, when the other side has sent its first SETTINGS frame. */
  constructor(socket: Socket, onSpoken?: () => void) {
    this.#socket = socket
    this.#onSpoken = onSpoken
    this.#outbox = new Outbox((out) => this.#send(out))
    this.#frames = new FrameReader((type, flags, id, payload) => {
      this.#frame(type, flags, id, payload)
      return this.#gone === undefined
    })
    socket.setNoDelay(true)
    // An idle connection must not keep the process alive.
    socket.unref()
    this.#write(greeting())
    socket.on('data', (chunk: Buffer) => this.#read(chunk))
    socket.on('error', (error) => this.destroy(error))
    socket.on('close', () => this.destroy())
    socket.on('end', () => this.destroy())
  }

  /** Whether the connection takes more requests. */
  get usable(): boolean {
    return this.#gone === undefined && !this.#going && this.#nextId <= lastStreamId
  }

  /** Sends a request. `events.closed` is called exactly once, never before `open` returns, and not after a cancel. */
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
    // Nearly all requests are small enough to write both frames in one piece.
    stream.body = undefined
    this.#sendWindow -= body.length
    this.#write(wholeRequest(id, block, body))
    return stream
  }

  /** Sends as much of a stream's body as the windows allow. */
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

  /** Destroys the connection unless the other side answers a ping in time. */
  check(patienceMs: number): void {
    if (this.#gone !== undefined) return
    if (this.#silence !== undefined) return
    const silent = () => this.destroy(new Error('the upstream did not answer a ping in time'))
    this.#silence = setTimeout(silent, patienceMs).unref()
    // Before its first SETTINGS frame the other side owes that frame, so a ping is not needed.
    if (this.#spoke) this.#write(frameOf(frameType.ping, 0, 0, Buffer.alloc(8)))
  }

  #isThere(): void {
    clearTimeout(this.#silence)
    this.#silence = undefined
  }

  /** Closes the connection, and ends every open stream. */
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
    // This may run while a stream is being opened, which must not end before `open` returns.
    if (this.#socket.writableLength > maxUnread)
      setImmediate(() => this.destroy(new Error('the upstream does not read what it is sent')))
  }

  #read(chunk: Buffer): void {
    if (this.#gone !== undefined) return
    try {
      this.#frames.read(chunk)
    } catch (thrown) {
      this.#fault(thrown)
    }
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
          throw new ProtocolError('a ping does not have 8 bytes', errorCode.frameSize)
        // Upstreams in Go ping with nearly every answer, to learn how much the connection takes.
        if ((flags & flag.ack) === 0)
          return this.#outbox.putLater(frameOf(frameType.ping, flag.ack, 0, payload))
        return this.#isThere()
      case frameType.goAway:
        return this.#onGoAway(numberIn(payload, 8) & maxWindow)
      case frameType.windowUpdate:
        return this.#onWindowUpdate(id, numberIn(payload, 4) & maxWindow)
      case frameType.pushPromise:
        throw new ProtocolError('the upstream pushed a stream, which this client does not allow')
    }
  }

  /** The open stream of an id; undefined where this side has ended the stream, whose late frames are ignored. */
  #streamOf(id: number): Stream | undefined {
    if (id === 0 || id % 2 === 0 || id >= this.#nextId)
      throw new ProtocolError(`a frame names stream ${id}, which this client has not opened`)
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

  /** Gives a stream its complete header block; does nothing while more of the block is to come. */
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
    if (payload.length % 6 !== 0)
      throw new ProtocolError(
        'the length of a SETTINGS frame is not a multiple of 6',
        errorCode.frameSize,
      )
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
      // This client sends no frames larger than the default, so it ignores the value.
    }
  }

  #onGoAway(last: number): void {
    this.#going = true
    // The other side will not process streams above `last`, so their callers may retry on another connection.
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

  /** Resets a stream from this side; `tell` decides whether its caller is told. */
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
    // The other side answered before it had the whole body, so the rest is not sent.
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
