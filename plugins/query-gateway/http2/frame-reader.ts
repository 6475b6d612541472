import { defaultFrameBytes, errorCode, frameType, headBytes } from './frames.ts'
import { maxWindow } from './limits.ts'
import { ProtocolError } from './stream.ts'

/** Takes one frame; false when the connection reads no more of them. */
type TakeFrame = (type: number, flags: number, id: number, payload: Buffer) => boolean

/** Cuts the bytes of the other side into frames, of which the first must be SETTINGS. */
export class FrameReader {
  readonly #take: TakeFrame
  /** The beginning of a frame whose end has not come yet, which is at most one frame long. */
  #rest: Buffer | undefined
  #hasBegun = false

  constructor(take: TakeFrame) {
    this.#take = take
  }

  /** Hands on every frame that is complete with this chunk. Throws for a frame that the protocol does not allow. */
  read(chunk: Buffer): void {
    const bytes = this.#rest === undefined ? chunk : Buffer.concat([this.#rest, chunk])
    let at = 0
    while (bytes.length - at >= headBytes) {
      const length = bytes.readUIntBE(at, 3)
      const type = bytes.readUInt8(at + 3)
      // An upstream that speaks HTTP/1.1 is recognised here: its first bytes read as a frame of no known type.
      if (!this.#hasBegun && type !== frameType.settings)
        throw new ProtocolError(
          'the first frame of the upstream is not SETTINGS: it may not speak HTTP/2',
        )
      if (length > defaultFrameBytes)
        throw new ProtocolError('a frame is larger than allowed', errorCode.frameSize)
      if (bytes.length - at - headBytes < length) break
      this.#hasBegun = true
      const from = at + headBytes
      at = from + length
      const flags = bytes.readUInt8(from - 5)
      const id = bytes.readUInt32BE(from - 4) & maxWindow
      if (!this.#take(type, flags, id, bytes.subarray(from, at))) return
    }
    this.#rest = at === bytes.length ? undefined : bytes.subarray(at)
  }
}
