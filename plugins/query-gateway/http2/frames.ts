/** The types of HTTP/2 frames (RFC 9113, section 6) that a client needs. */
export const frameType = {
  data: 0,
  headers: 1,
  resetStream: 3,
  settings: 4,
  pushPromise: 5,
  ping: 6,
  goAway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const

/** The flags of frames (RFC 9113). */
export const flag = { ack: 1, endStream: 1, endHeaders: 4, padded: 8, priority: 32 } as const

/** The error codes that end a stream or a connection (RFC 9113). */
export const errorCode = {
  none: 0,
  protocol: 1,
  flowControl: 3,
  frameSize: 6,
  refusedStream: 7,
  cancel: 8,
  compression: 9,
  enhanceYourCalm: 11,
} as const

/** The settings of a connection (RFC 9113). */
export const setting = {
  headerTableSize: 1,
  enablePush: 2,
  maxConcurrentStreams: 3,
  initialWindowSize: 4,
  maxFrameSize: 5,
  maxHeaderListSize: 6,
} as const

/** The length of a frame's head, in bytes. */
export const headBytes = 9
/** The largest payload that a side may send unless the other side allows more. This client never allows more. */
export const defaultFrameBytes = 16_384
/** The bytes with which a client begins a connection. */
export const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')

/** Writes the head of a frame into `out` at `at`; returns where the payload begins. */
export function writeHead(
  out: Buffer,
  at: number,
  length: number,
  type: number,
  flags: number,
  stream: number,
): number {
  out[at] = length >>> 16
  out[at + 1] = length >>> 8
  out[at + 2] = length
  out[at + 3] = type
  out[at + 4] = flags
  out[at + 5] = stream >>> 24
  out[at + 6] = stream >>> 16
  out[at + 7] = stream >>> 8
  out[at + 8] = stream
  return at + headBytes
}

/** Makes a frame. */
export function frameOf(type: number, flags: number, stream: number, payload: Uint8Array): Buffer {
  const out = Buffer.allocUnsafe(headBytes + payload.length)
  out.set(payload, writeHead(out, 0, payload.length, type, flags, stream))
  return out
}

/** Makes a frame whose payload is a number of 32 bits: a window update or a reset. */
export function numberFrame(type: number, stream: number, value: number): Buffer {
  const payload = Buffer.allocUnsafe(4)
  payload.writeUInt32BE(value)
  return frameOf(type, 0, stream, payload)
}

/** Makes a SETTINGS frame. */
export function settingsFrame(settings: readonly (readonly [id: number, value: number])[]): Buffer {
  const payload = Buffer.allocUnsafe(settings.length * 6)
  for (const [index, [id, value]] of settings.entries()) {
    payload.writeUInt16BE(id, index * 6)
    payload.writeUInt32BE(value, index * 6 + 2)
  }
  return frameOf(frameType.settings, 0, 0, payload)
}

/** Splits a header block into frames. */
export function* headerFrames(id: number, block: Buffer): Generator<Buffer> {
  for (let at = 0; at === 0 || at < block.length; at += defaultFrameBytes) {
    const piece = block.subarray(at, at + defaultFrameBytes)
    const last = at + piece.length === block.length
    const type = at === 0 ? frameType.headers : frameType.continuation
    yield frameOf(type, last ? flag.endHeaders : 0, id, piece)
  }
}

/** Makes both frames of a request whose header block and body each fit into one frame. */
export function wholeRequest(id: number, block: Buffer, body: Buffer): Buffer {
  const out = Buffer.allocUnsafe(2 * headBytes + block.length + body.length)
  let at = writeHead(out, 0, block.length, frameType.headers, flag.endHeaders, id)
  at += block.copy(out, at)
  at = writeHead(out, at, body.length, frameType.data, flag.endStream, id)
  body.copy(out, at)
  return out
}
