import type { Spoken } from './port.ts'

/** The rate at which sound is sent. */
export const sentRate = 48_000

/** Brings speech to the rate at which it is sent, piece by piece, by a curve through four neighbours. */
export class Resampler {
  /** The last three samples of before and what comes, so that pieces join without a click. */
  #tail: number[] = [0, 0, 0]
  /** Where the next sample stands, counted from the second one of the tail. */
  #at = 0

  push({ rate, pcm }: Spoken): Int16Array {
    if (rate === sentRate) return pcm
    const source = new Float64Array(this.#tail.length + pcm.length)
    source.set(this.#tail)
    source.set(pcm, this.#tail.length)
    const step = rate / sentRate
    const last = source.length - 3
    const made: number[] = []
    let at = this.#at
    for (; at + 1 <= last; at += step) made.push(curve(source, Math.floor(at) + 1, at % 1))
    this.#tail = [...source.subarray(-3)]
    this.#at = at - (source.length - 3)
    return Int16Array.from(made)
  }
}

/** The value between the samples `i` and `i + 1`. */
function curve(source: Float64Array, i: number, t: number): number {
  const [a, b, c, d] = [source[i - 1] ?? 0, source[i] ?? 0, source[i + 1] ?? 0, source[i + 2] ?? 0]
  const value = b + 0.5 * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)))
  return Math.max(-32_768, Math.min(32_767, Math.round(value)))
}
