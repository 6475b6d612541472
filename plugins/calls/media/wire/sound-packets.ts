import type { OpusEncoderHandle } from 'libopus-wasm'
import { RtpHeader, RtpPacket } from 'werift'
import { sentSamples } from '../playing.ts'

export const payloadType = 111
/** After so many frames of silence an encoder has forgotten what was before: every other frame of silence is the same to it. */
const settled = 15

/** Makes packets of what the agent says. Silence is most of a call, and is encoded once each time that the agent falls silent. */
export class SoundPackets {
  readonly #encoder: Pick<OpusEncoderHandle, 'encode'>
  #number = randomNumber()
  #time = randomNumber()
  #silentFrames = 0
  #silent = Buffer.alloc(0)

  constructor(encoder: Pick<OpusEncoderHandle, 'encode'>) {
    this.#encoder = encoder
  }

  /** The time in the next packet. */
  get time(): number {
    return (this.#time + sentSamples) % 2 ** 32
  }

  /** The packet of 20 ms, or of silence. */
  next(pcm: Int16Array | undefined): RtpPacket {
    const header = new RtpHeader({
      payloadType,
      sequenceNumber: (this.#number = (this.#number + 1) % 65_536),
      timestamp: (this.#time = this.time),
    })
    return new RtpPacket(header, this.#bytes(pcm))
  }

  #bytes(pcm: Int16Array | undefined): Buffer {
    if (pcm) this.#silentFrames = 0
    else if (++this.#silentFrames > settled) return this.#silent
    const bytes = Buffer.from(this.#encoder.encode(pcm ?? silence))
    if (!pcm) this.#silent = bytes
    return bytes
  }
}

const silence = new Int16Array(sentSamples)
const randomNumber = () => Math.floor(Math.random() * 65_536)
