/** A packet of a picture, as RTP brings it. */
export interface PicturePacket {
  readonly number: number
  readonly timestamp: number
  /** The last packet of its frame. */
  readonly isLast: boolean
  readonly payload: Uint8Array
}

/** How many packets one frame may have, and how many bytes. */
const most = { packets: 1_000, bytes: 1 << 20 }
const span = 65_536

/** Puts the packets of VP8 together until one frame is there that stands for itself. */
export class KeyFrames {
  #timestamp: number | undefined
  #first: number | undefined
  #last: number | undefined
  readonly #pieces = new Map<number, Uint8Array>()
  #bytes = 0

  /** The frame, once it is whole. */
  push({ number, timestamp, isLast, payload }: PicturePacket): Uint8Array | undefined {
    const start = dataStart(payload)
    if (start === undefined) return undefined
    const data = payload.subarray(start)
    if (beginsFrame(payload) && isKey(data)) this.#begin(number, timestamp)
    if (timestamp !== this.#timestamp || this.#pieces.size >= most.packets) return undefined
    if (!this.#pieces.has(number)) this.#bytes += data.length
    if (this.#bytes > most.bytes) return undefined
    this.#pieces.set(number, data)
    if (isLast) this.#last = number
    return this.#whole()
  }

  /** What came of a frame before its first packet is not there: such a frame is asked for again. */
  #begin(number: number, timestamp: number): void {
    if (this.#timestamp === timestamp) return
    this.#pieces.clear()
    this.#bytes = 0
    this.#last = undefined
    this.#first = number
    this.#timestamp = timestamp
  }

  #whole(): Uint8Array | undefined {
    if (this.#first === undefined || this.#last === undefined) return undefined
    const count = ((this.#last - this.#first + span) % span) + 1
    if (count > most.packets) return undefined
    const pieces: Uint8Array[] = []
    for (let i = 0; i < count; i++) {
      const piece = this.#pieces.get((this.#first + i) % span)
      if (!piece) return undefined
      pieces.push(piece)
    }
    return Buffer.concat(pieces)
  }
}

/** Where the data begins, behind the payload descriptor of RFC 7741; undefined where the packet ends before it. */
function dataStart(payload: Uint8Array): number | undefined {
  const [first = 0, extended = 0, picture = 0] = payload
  let at = 1
  if (first & 0x80) {
    at++
    if (extended & 0x80) at += picture & 0x80 ? 2 : 1
    if (extended & 0x40) at++
    if (extended & 0x30) at++
  }
  return at < payload.length ? at : undefined
}

/** Whether a packet is the first of its frame: the start of partition 0. */
const beginsFrame = ([first = 0]: Uint8Array) => (first & 0x10) !== 0 && (first & 0x0f) === 0

/** A frame that stands for itself says so in its first bit, and has a mark behind its first three bytes. */
const isKey = (data: Uint8Array) =>
  data.length > 10 &&
  ((data[0] ?? 1) & 1) === 0 &&
  data[3] === 0x9d &&
  data[4] === 0x01 &&
  data[5] === 0x2a

/** A WebP file of a key frame of VP8: the frame itself behind a header of 20 bytes. No decoder is needed. */
export function webpOf(frame: Uint8Array): Uint8Array {
  const padded = frame.length + (frame.length % 2)
  const file = Buffer.alloc(20 + padded)
  file.write('RIFF', 0)
  file.writeUInt32LE(12 + padded, 4)
  file.write('WEBPVP8 ', 8)
  file.writeUInt32LE(frame.length, 16)
  file.set(frame, 20)
  return file
}
