import { bandCount, noise, Spectra } from './spectra.ts'

/** How long ago what comes back may have been sent: 3 s in steps of 10 ms. A busy page is late. */
const memory = 300
/**
 * What is heard is an echo where one moment of what was sent explains its last 200 ms (`steps`): in no band of tone it is louder than
 * the echo of that moment may be. `above`: how much louder an echo may be than it was so far (4 dB, in energy); `share`: how much of
 * the energy may stay without an explanation. The moment is looked for in all that was sent lately: a page stretches and shortens what
 * it plays, and where it or this process is busy, it is late by seconds that nobody has counted.
 */
const explained = { steps: 20, above: 2.5, share: 0.15 }
/**
 * How much of what is sent comes back is learnt in each band where the last half a second (`steps`) is surely an echo: goes up and down
 * as what was sent did (`alike`, of 1). It is looked for each 100 ms (`every`, in steps). Sound that hardly goes up and down is like
 * anything: `contrast` is the least. What is louder than before is believed sooner.
 */
const learning = { steps: 50, every: 10, alike: 0.72, contrast: 0.3, louder: 0.1, softer: 0.03 }
/**
 * Before an echo was heard it is taken for one of at most -12 dB, and for less as soon as less is heard than that would be, however
 * late it came (1.5 s, in steps). No echo is over -6 dB.
 */
const returning = { first: 0.06, least: 1e-4, most: 0.25, latest: 150, follow: 0.3 }

/** Knows the agent's own voice where it comes back into the microphone: from a loudspeaker, past a browser that did not take it out. */
export class Echo {
  readonly #sent = new Spectra(memory, 6)
  readonly #heard = new Spectra(learning.steps * 2, 2)
  /** How much of the energy that is sent comes back, in each band. */
  readonly #returned = new Float32Array(bandCount).fill(returning.first)
  #isLearnt = false
  #learntAt = 0

  /** What is sent: 20 ms at 48 kHz, or nothing for silence. */
  sent(pcm: Int16Array | undefined): void {
    this.#sent.push(pcm)
  }

  /** What is heard: 20 ms at 16 kHz. */
  heard(pcm: Int16Array): void {
    this.#heard.push(pcm)
    const { count } = this.#heard
    if (this.#isSilent || count - this.#learntAt < learning.every || count < learning.steps) return
    this.#learntAt = count
    this.#learn()
  }

  /** Whether what was just heard is what the agent said shortly before. It is asked for frames that may be a voice. */
  isOwn(): boolean {
    const { steps, above, share } = explained
    if (this.#isSilent || this.#heard.count < steps) return false
    const heard = new Float32Array(steps * bandCount)
    const weights = this.#returned.map((one) => one * above)
    let total = 0
    for (let i = 0, step = this.#heard.count - steps; step < this.#heard.count; step++) {
      const place = this.#heard.placeOf(step)
      for (let band = 0; band < bandCount; band++, i++) {
        const energy = this.#heard.energy[place + band] ?? 0
        total += energy
        heard[i] = Math.max(0, energy - noise) / (weights[band] ?? 1)
      }
    }
    const first = Math.max(0, this.#sent.count - memory)
    for (let from = this.#sent.count - steps; from >= first; from--)
      if (this.#isExplained(heard, weights, from, total * share)) return true
    return false
  }

  /** Whether what was sent from that moment on leaves no more energy of what was heard than so much. */
  #isExplained(heard: Float32Array, weights: Float32Array, from: number, most: number): boolean {
    let left = 0
    for (let i = 0, step = from; i < heard.length; step++) {
      const place = this.#sent.placeOf(step)
      for (let band = 0; band < bandCount; band++, i++) {
        const more = (heard[i] ?? 0) - (this.#sent.most[place + band] ?? 0)
        if (more > 0) left += more * (weights[band] ?? 0)
      }
      if (left > most) return false
    }
    return true
  }

  /** Whether the agent has been silent for so long that nothing comes back any more. */
  get #isSilent(): boolean {
    return this.#sent.silent >= memory
  }

  #learn(): void {
    const from = this.#echoFrom()
    if (from !== undefined) return this.#learnFrom(from)
    // A microphone that is off says nothing of an echo.
    if (!this.#isLearnt && this.#heard.silent === 0)
      for (let band = 0; band < bandCount; band++) this.#bound(band)
  }

  /** Where that was sent which the last half a second is surely the echo of. */
  #echoFrom(): number | undefined {
    const { steps, alike, contrast } = learning
    const heard = shapeOf(this.#heard, this.#heard.count - steps)
    if (heard.energy < contrast * steps * bandCount) return undefined
    let best = alike
    let found: number | undefined
    const first = Math.max(0, this.#sent.count - memory)
    const sent = new Contrast(this.#sent, first)
    for (let from = first; from <= this.#sent.count - steps; from++) {
      if (from > first) sent.next()
      if (sent.energy < contrast * steps * bandCount) continue
      const likeness = this.#alike(heard.shape, from) / Math.sqrt(sent.energy * heard.energy)
      if (likeness <= best) continue
      best = likeness
      found = from
    }
    return found
  }

  /** How far what was sent goes up and down with a shape. The means of a shape are nothing, so those of what was sent do not count. */
  #alike(shape: Float32Array, from: number): number {
    const { loudness } = this.#sent
    let sum = 0
    for (let i = 0, step = from; i < shape.length; step++) {
      const place = this.#sent.placeOf(step)
      for (let band = 0; band < bandCount; band++, i++)
        sum += (loudness[place + band] ?? 0) * (shape[i] ?? 0)
    }
    return sum
  }

  #learnFrom(from: number): void {
    const { steps, louder, softer } = learning
    for (let band = 0; band < bandCount; band++) {
      const sent = sumOf(this.#sent, from, band)
      if (sent < steps * noise * 4) continue
      const ratio = sumOf(this.#heard, this.#heard.count - steps, band) / sent
      const now = Math.min(returning.most, Math.max(returning.least, ratio))
      const before = this.#returned[band] ?? 0
      const follow = !this.#isLearnt ? 1 : now > before ? louder : softer
      this.#returned[band] = before + (now - before) * follow
    }
    this.#isLearnt = true
  }

  /** All that is heard has any echo in it. */
  #bound(band: number): void {
    const { steps } = learning
    const last = this.#sent.count - steps
    if (last < returning.latest) return
    let sent = sumOf(this.#sent, last, band)
    let least = sent
    for (let from = last - 1; from >= last - returning.latest; from--) {
      const [first, after] = [this.#sent.placeOf(from), this.#sent.placeOf(from + steps)]
      sent += (this.#sent.energy[first + band] ?? 0) - (this.#sent.energy[after + band] ?? 0)
      least = Math.min(least, sent)
    }
    if (least < steps * noise * 4) return
    const ratio = sumOf(this.#heard, this.#heard.count - steps, band) / least
    const before = this.#returned[band] ?? 0
    const now = Math.max(returning.least, ratio)
    if (now < before) this.#returned[band] = before + (now - before) * returning.follow
  }
}

function sumOf(spectra: Spectra, from: number, band: number): number {
  let sum = 0
  for (let step = from; step < from + learning.steps; step++)
    sum += spectra.energy[spectra.placeOf(step) + band] ?? 0
  return sum
}

/** How loud each band was, above and below its mean. */
function shapeOf(spectra: Spectra, from: number): { shape: Float32Array; energy: number } {
  const { steps } = learning
  const shape = new Float32Array(steps * bandCount)
  const means = new Float32Array(bandCount)
  for (let i = 0, step = from; step < from + steps; step++) {
    const place = spectra.placeOf(step)
    for (let band = 0; band < bandCount; band++, i++) {
      const one = spectra.loudness[place + band] ?? 0
      shape[i] = one
      means[band] = (means[band] ?? 0) + one / steps
    }
  }
  let sum = 0
  for (let i = 0; i < shape.length; i++) {
    const one = (shape[i] ?? 0) - (means[i % bandCount] ?? 0)
    shape[i] = one
    sum += one * one
  }
  return { shape, energy: sum }
}

/** How far half a second of spectra goes up and down, as it moves on: of each band the sum and the sum of squares. */
class Contrast {
  readonly #spectra: Spectra
  readonly #sums = new Float64Array(bandCount)
  #squares = 0
  #from: number

  constructor(spectra: Spectra, from: number) {
    this.#spectra = spectra
    this.#from = from
    for (let step = from; step < from + learning.steps; step++) this.#count(step, 1)
  }

  next(): void {
    this.#count(this.#from, -1)
    this.#count(this.#from++ + learning.steps, 1)
  }

  get energy(): number {
    return this.#squares - this.#sums.reduce((all, sum) => all + sum * sum, 0) / learning.steps
  }

  #count(step: number, times: 1 | -1): void {
    const place = this.#spectra.placeOf(step)
    for (let band = 0; band < bandCount; band++) {
      const one = this.#spectra.loudness[place + band] ?? 0
      this.#sums[band] = (this.#sums[band] ?? 0) + times * one
      this.#squares += times * one * one
    }
  }
}
