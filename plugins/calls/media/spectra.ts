/** A spectrum is of 32 ms at 8 kHz, one each 10 ms. */
const hopSamples = 80
const windowSamples = 256
/** Where the bands of tone begin and end, in steps of 31 Hz: as broad as the ear has them, from 100 Hz to 3.5 kHz. */
const edges = [3, 6, 9, 12, 16, 20, 25, 31, 38, 47, 58, 72, 90, 112]
export const bandCount = edges.length - 1
/** The energy in a band that is no more than the noise of a quiet room. */
export const noise = 20_000
/** Sound ends softly in a room: so much of the energy may be left after 10 ms. And it may come 20 ms early or late. */
const room = { left: 0.75, spread: 2 }

/** The spectra of the last seconds of one direction. High tones weigh more than in the sound, as the ear has it. */
export class Spectra {
  readonly #samples = new Float32Array(windowSamples)
  readonly #thinning: number
  readonly #length: number
  #before = 0
  /** The energy in each band; its logarithm; the most that an echo could have of it, as a share of one. */
  readonly energy: Float32Array
  readonly loudness: Float32Array
  readonly most: Float32Array
  /** How many spectra there were so far, and how many of the last were silence. */
  count = 0
  silent: number

  /** Remembers so many spectra of sound of 8 kHz times `thinning`. */
  constructor(length: number, thinning: number) {
    this.#length = length
    this.#thinning = thinning
    this.silent = length
    this.energy = new Float32Array(length * bandCount)
    this.loudness = new Float32Array(length * bandCount)
    this.most = new Float32Array(length * bandCount)
  }

  /** 20 ms more; nothing is silence. */
  push(pcm: Int16Array | undefined): void {
    this.#hop(pcm, 0)
    this.#hop(pcm, hopSamples * this.#thinning)
  }

  /** Where the bands of a spectrum stand. */
  placeOf(nth: number): number {
    return ((nth + this.#length) % this.#length) * bandCount
  }

  #hop(pcm: Int16Array | undefined, from: number): void {
    const samples = this.#samples
    samples.copyWithin(0, hopSamples)
    let isSilent = true
    for (let i = 0, at = windowSamples - hopSamples; i < hopSamples; i++, at++) {
      let mean = 0
      for (let k = 0; k < this.#thinning; k++) mean += pcm?.[from + i * this.#thinning + k] ?? 0
      mean /= this.#thinning
      if (mean !== 0) isSilent = false
      samples[at] = mean - 0.9 * this.#before
      this.#before = mean
    }
    this.silent = isSilent ? this.silent + 1 : 0
    const place = this.placeOf(this.count)
    const isOver = this.silent * hopSamples > windowSamples
    if (isOver) this.energy.fill(0, place, place + bandCount)
    else bandsOf(samples, this.energy.subarray(place, place + bandCount))
    this.#spread(place)
    this.count++
  }

  #spread(place: number): void {
    const { energy, loudness, most } = this
    const before = this.placeOf(this.count - 1)
    for (let band = 0; band < bandCount; band++) {
      const one = energy[place + band] ?? 0
      loudness[place + band] = Math.log(one + noise / 4)
      most[place + band] = Math.max(one, (most[before + band] ?? 0) * room.left)
      for (let back = 1; back <= room.spread; back++) {
        const earlier = this.placeOf(this.count - back) + band
        most[earlier] = Math.max(one, most[earlier] ?? 0)
      }
    }
  }
}

const real = new Float32Array(windowSamples)
const imaginary = new Float32Array(windowSamples)
const angle = (i: number) => (2 * Math.PI * i) / windowSamples
const shape = Float32Array.from({ length: windowSamples }, (_, i) => 0.5 - 0.5 * Math.cos(angle(i)))
const cosines = Float32Array.from({ length: windowSamples / 2 }, (_, i) => Math.cos(angle(i)))
const sines = Float32Array.from({ length: windowSamples / 2 }, (_, i) => -Math.sin(angle(i)))
/** Each place with its eight bits in the opposite order. */
const turned = Uint8Array.from({ length: windowSamples }, (_, i) => {
  let other = 0
  for (let bit = 0; bit < 8; bit++) other |= ((i >> bit) & 1) << (7 - bit)
  return other
})

/** The energy of samples in each band: a Fourier transform, in which neighbours are joined pair by pair. */
function bandsOf(samples: Float32Array, bands: Float32Array): void {
  for (let i = 0; i < windowSamples; i++) {
    real[turned[i] ?? 0] = (samples[i] ?? 0) * (shape[i] ?? 0)
    imaginary[i] = 0
  }
  for (let size = 2; size <= windowSamples; size *= 2) {
    const half = size / 2
    for (let from = 0; from < windowSamples; from += size)
      for (let i = 0; i < half; i++) join(from + i, from + i + half, (i * windowSamples) / size)
  }
  for (let band = 0; band < bandCount; band++) {
    let sum = 0
    for (let i = edges[band] ?? 0; i < (edges[band + 1] ?? 0); i++)
      sum += (real[i] ?? 0) ** 2 + (imaginary[i] ?? 0) ** 2
    bands[band] = sum / windowSamples
  }
}

function join(a: number, b: number, turn: number): void {
  const [cosine, sine] = [cosines[turn] ?? 0, sines[turn] ?? 0]
  const [x, y] = [real[b] ?? 0, imaginary[b] ?? 0]
  const [realPart, imaginaryPart] = [x * cosine - y * sine, x * sine + y * cosine]
  real[b] = (real[a] ?? 0) - realPart
  imaginary[b] = (imaginary[a] ?? 0) - imaginaryPart
  real[a] = (real[a] ?? 0) + realPart
  imaginary[a] = (imaginary[a] ?? 0) + imaginaryPart
}
