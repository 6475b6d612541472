import type { Spoken } from './port.ts'

const headerBytes = 44

/** A WAV file of 16-bit samples of one channel. */
export function wavOf({ rate, pcm }: Spoken): Buffer {
  const bytes = Buffer.alloc(headerBytes + pcm.length * 2)
  bytes.write('RIFF', 0)
  bytes.writeUInt32LE(bytes.length - 8, 4)
  bytes.write('WAVEfmt ', 8)
  bytes.writeUInt32LE(16, 16)
  bytes.writeUInt16LE(1, 20) // plain samples
  bytes.writeUInt16LE(1, 22) // one channel
  bytes.writeUInt32LE(rate, 24)
  bytes.writeUInt32LE(rate * 2, 28)
  bytes.writeUInt16LE(2, 32)
  bytes.writeUInt16LE(16, 34)
  bytes.write('data', 36)
  bytes.writeUInt32LE(pcm.length * 2, 40)
  Buffer.from(pcm.buffer, pcm.byteOffset, pcm.byteLength).copy(bytes, headerBytes)
  return bytes
}

/** How much a header may hold before its samples begin. */
const mostHeaderBytes = 65_536

/**
 * Reads a WAV file as it comes: the header first, then samples. A program that writes into a pipe does not know how long its
 * file becomes, so the length in the header says nothing.
 */
export class WavReader {
  #pending = Buffer.alloc(0)
  #rate: number | undefined
  #channels = 1

  /** The samples of a further piece. Throws where it is no WAV of 16-bit samples. */
  read(piece: Uint8Array): Spoken | undefined {
    this.#pending = Buffer.concat([this.#pending, piece])
    this.#rate ??= this.#header()
    if (this.#rate === undefined) return undefined
    const frameBytes = 2 * this.#channels
    const frames = Math.floor(this.#pending.length / frameBytes)
    if (frames === 0) return undefined
    const pcm = new Int16Array(frames)
    for (let i = 0; i < frames; i++) pcm[i] = this.#pending.readInt16LE(i * frameBytes)
    this.#pending = this.#pending.subarray(frames * frameBytes)
    return { rate: this.#rate, pcm }
  }

  /** The rate of the samples, once the header is there; what is pending then begins with the samples. */
  #header(): number | undefined {
    const bytes = this.#pending
    if (bytes.length < 12) return undefined
    if (bytes.toString('latin1', 0, 4) !== 'RIFF' || bytes.toString('latin1', 8, 12) !== 'WAVE')
      throw new Error('What came is no WAV file.')
    let rate: number | undefined
    for (let at = 12; at + 8 <= bytes.length;) {
      const id = bytes.toString('latin1', at, at + 4)
      if (id === 'data' && rate !== undefined) {
        this.#pending = bytes.subarray(at + 8)
        return rate
      }
      const length = bytes.readUInt32LE(at + 4)
      if (id === 'fmt ' && at + 24 <= bytes.length) rate = this.#format(bytes.subarray(at + 8))
      at += 8 + length + (length % 2)
    }
    if (bytes.length > mostHeaderBytes) throw new Error('The WAV file has no samples.')
    return undefined
  }

  #format(bytes: Buffer): number {
    const [form, channels, rate] = [
      bytes.readUInt16LE(0),
      bytes.readUInt16LE(2),
      bytes.readUInt32LE(4),
    ]
    if (form !== 1 || bytes.readUInt16LE(14) !== 16 || channels < 1 || channels > 2)
      throw new Error('A WAV file of 16-bit samples of one or two channels is read, no other.')
    if (rate < 8_000 || rate > 48_000) throw new Error(`A rate of ${rate} Hz is not read.`)
    this.#channels = channels
    return rate
  }
}
