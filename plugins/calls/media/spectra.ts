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

  /** 20 ms more; nothing is silence. Both spectra of them are made at once. */
  push(pcm: Int16Array | undefined): void {
    const isFirst = this.#hop(pcm, 0, real)
    const isSecond = this.#hop(pcm, hopSamples * this.#thinning, imaginary)
    if (isFirst || isSecond) transform()
    this.#keep(isFirst, firstEnergy)
    this.#keep(isSecond, secondEnergy)
  }

  /** Where the bands of a spectrum stand. */
  placeOf(nth: number): number {
    return ((nth + this.#length) % this.#length) * bandCount
  }

  /** Takes 10 ms, and gives what is to be transformed. Answers whether anything is heard in it. */
  #hop(pcm: Int16Array | undefined, from: number, into: Float32Array): boolean {
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
    for (let i = 0; i < windowSamples; i++)
      into[turned[i] ?? 0] = (samples[i] ?? 0) * (shape[i] ?? 0)
    return this.silent * hopSamples <= windowSamples
  }

  #keep(isHeard: boolean, energyOf: (step: number) => number): void {
    const place = this.placeOf(this.count)
    for (let band = 0; band < bandCount; band++) {
      let sum = 0
      const end = isHeard ? (edges[band + 1] ?? 0) : 0
      for (let i = edges[band] ?? 0; i < end; i++) sum += energyOf(i)
      this.energy[place + band] = sum / windowSamples
    }
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

/** A Fourier transform of two sounds at once, one as the real part and one as the imaginary: neighbours are joined pair by pair. */
function transform(): void {
  for (let half = 1; half < windowSamples; half *= 2) {
    const turn = windowSamples / 2 / half
    for (let i = 0; i < half; i++) {
      const [cosine, sine] = [cosines[i * turn] ?? 0, sines[i * turn] ?? 0]
      for (let a = i, b = i + half; b < windowSamples; a += 2 * half, b += 2 * half) {
        const [x, y] = [real[b] ?? 0, imaginary[b] ?? 0]
        const [realPart, imaginaryPart] = [x * cosine - y * sine, x * sine + y * cosine]
        real[b] = (real[a] ?? 0) - realPart
        imaginary[b] = (imaginary[a] ?? 0) - imaginaryPart
        real[a] = (real[a] ?? 0) + realPart
        imaginary[a] = (imaginary[a] ?? 0) + imaginaryPart
      }
    }
  }
}

/** The energy of each of the two sounds in a step of tone. What they have of it stands there and as far from the end. */
function firstEnergy(step: number): number {
  const other = windowSamples - step
  const x = (real[step] ?? 0) + (real[other] ?? 0)
  const y = (imaginary[step] ?? 0) - (imaginary[other] ?? 0)
  return (x * x + y * y) / 4
}

function secondEnergy(step: number): number {
  const other = windowSamples - step
  const x = (imaginary[step] ?? 0) + (imaginary[other] ?? 0)
  const y = (real[other] ?? 0) - (real[step] ?? 0)
  return (x * x + y * y) / 4
}
