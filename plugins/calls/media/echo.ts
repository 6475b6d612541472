/** Sound is compared at 4 kHz: enough to know a voice again, and a small part of the work. A frame is 20 ms. */
const frameSamples = 80
/** How much of what was heard is compared (160 ms), and how long ago it may have been sent (1.2 s). */
const windowSamples = 640
const memorySamples = 4_800
/**
 * A page stretches and shortens what it plays, to make up for packets that come early or late: where that happens the window holds
 * two places of the sound. So its last 80 ms are compared, too, near the place where the echo was; they must be more alike.
 */
const shortSamples = 320
/** From which likeness on it is the same sound; how loud an echo may be; how far it may stray; how often all is looked through. */
const bounds = { likeness: 0.7, shortLikeness: 0.8, gain: 0.5, nearby: 120, searchEvery: 5 }
/** Beside an echo that was heard in the last two seconds (in samples), so many frames that are none in a row are still taken for it. */
const straying = { samples: 8_000, frames: 10, searchEvery: 2 }

/** The last samples of one direction, thinned to 4 kHz. High tones weigh more than in the sound, as the ear has it. */
class Recent {
  readonly samples: Float32Array
  readonly #thinning: number
  #before = 0
  total = 0

  constructor(length: number, thinning: number) {
    this.samples = new Float32Array(length)
    this.#thinning = thinning
  }

  push(pcm: Int16Array | undefined): void {
    const { samples } = this
    samples.copyWithin(0, frameSamples)
    for (let i = 0, at = samples.length - frameSamples; i < frameSamples; i++, at++) {
      let mean = 0
      for (let k = 0; k < this.#thinning; k++) mean += pcm?.[i * this.#thinning + k] ?? 0
      mean /= this.#thinning
      samples[at] = mean - 0.9 * this.#before
      this.#before = mean
    }
    this.total += frameSamples
  }
}

/** Knows the agent's own voice where it comes back into the microphone: from a loudspeaker, past a browser that did not take it out. */
export class Echo {
  readonly #sent = new Recent(memorySamples, 12)
  readonly #heard = new Recent(windowSamples, 4)
  /** For how many frames the agent has been silent. */
  #silentFrames = memorySamples
  /** How far what is sent is ahead of its echo, in samples since the beginning. */
  #ahead: number | undefined
  #searchedAt = 0
  /** When the echo was last found, and how many frames in a row were not it since. */
  #foundAt: number | undefined
  #strayed = 0

  /** What is sent: 20 ms at 48 kHz, or nothing for silence. */
  sent(pcm: Int16Array | undefined): void {
    this.#sent.push(pcm)
    this.#silentFrames = pcm ? 0 : this.#silentFrames + 1
  }

  /** What is heard: 20 ms at 16 kHz. */
  heard(pcm: Int16Array): void {
    this.#heard.push(pcm)
  }

  /** Whether what was just heard is what the agent said shortly before. It is asked for frames that may be a voice. */
  isOwn(): boolean {
    if (this.#silentFrames * frameSamples > memorySamples) return false
    const { total } = this.#heard
    if (this.#isFound()) {
      this.#foundAt = total
      this.#strayed = 0
      return true
    }
    return this.#isStraying && ++this.#strayed <= straying.frames
  }

  /** Whether there was an echo just before: it may only have moved. */
  get #isStraying(): boolean {
    return this.#foundAt !== undefined && this.#heard.total - this.#foundAt < straying.samples
  }

  #isFound(): boolean {
    const last = memorySamples - windowSamples
    const { total } = this.#heard
    if (this.#ahead !== undefined) {
      const at = this.#ahead + total - this.#sent.total + last
      const [from, to] = [Math.max(0, at - bounds.nearby), Math.min(last, at + bounds.nearby)]
      if (this.#isAt(from, to, windowSamples, bounds.likeness)) return true
      if (this.#isAt(from, to, shortSamples, bounds.shortLikeness)) return true
    }
    // All of it is looked through now and then only.
    const every = this.#isStraying ? straying.searchEvery : bounds.searchEvery
    if (total - this.#searchedAt < every * frameSamples) return false
    this.#searchedAt = total
    return this.#isAt(0, last, windowSamples, bounds.likeness)
  }

  /** Whether the last so many samples of what was heard stand in what was sent, where its window begins between these two places. */
  #isAt(from: number, to: number, length: number, least: number): boolean {
    const sent = this.#sent.samples
    const heard = this.#heard.samples
    const before = windowSamples - length
    const loudness = energy(heard, before, length)
    if (loudness === 0 || to < from) return false
    let loud = energy(sent, from + before, length)
    let best = least
    let place: number | undefined
    for (let at = from; at <= to; at++) {
      const first = at + before
      if (at > from) loud += square(sent, first + length - 1) - square(sent, first - 1)
      if (loud * bounds.gain ** 2 < loudness) continue
      let sum = 0
      for (let i = 0; i < length; i++) sum += (heard[before + i] ?? 0) * (sent[first + i] ?? 0)
      const likeness = Math.abs(sum) / Math.sqrt(loud * loudness)
      if (likeness <= best) continue
      best = likeness
      place = at
    }
    if (place === undefined) return false
    this.#ahead = place - memorySamples + windowSamples + this.#sent.total - this.#heard.total
    return true
  }
}

const square = (samples: Float32Array, at: number) => (samples[at] ?? 0) ** 2

function energy(samples: Float32Array, from: number, length: number): number {
  let sum = 0
  for (let i = from; i < from + length; i++) sum += square(samples, i)
  return sum
}
