/** Sound is compared at 4 kHz: enough to know a voice again, and a small part of the work. A frame is 20 ms. */
const frameSamples = 80
/** How much of what was heard is compared (160 ms), and how long ago it may have been sent (2 s: a busy page is late). */
const windowSamples = 640
const memorySamples = 8_000
/**
 * A page stretches and shortens what it plays, to make up for packets that come early or late: where that happens the window holds
 * two places of the sound. So its last 80 ms are compared, too, near the place where the echo was; they must be more alike.
 */
const shortSamples = 320
/** From which likeness on it is the same sound; how loud an echo may be; how far it may stray; how often all is looked through. */
const bounds = { likeness: 0.7, shortLikeness: 0.8, gain: 0.5, nearby: 120, searchEvery: 5 }
/** Beside an echo that was heard in the last two seconds (in samples), so many frames that are none in a row are still taken for it. */
const straying = { samples: 8_000, frames: 10, searchEvery: 4 }
/**
 * Where the sound itself is not alike, its loudness tells: an echo is no louder, in any of four bands of tone, than what was sent near
 * its place, as much softer as the echo was so far. What is louder than an echo of anything that was sent lately is a person, and what
 * follows it within a moment is the person, too, however soft. `above`: how much louder an echo may be (6 dB, in energy); `spread`: how
 * far it may have moved (40 ms); `noise`: energy that says nothing; `samples`: how long its loudness is remembered (30 s); `likeness`:
 * how sure an echo is from which it is learnt, and `follow` how fast; `frames`: so many louder ones in a row are a person, for
 * `person` samples (0.6 s); `hop` and `coarseHop`: how closely is looked near the place, and everywhere.
 */
const loudness = {
  ...{ above: 4, spread: 160, noise: frameSamples * 20 ** 2, samples: 120_000 },
  ...{ likeness: 0.8, follow: 0.1, frames: 3, person: 2_400, hop: 40, coarseHop: 40 },
}

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
  /** How much energy of what is sent comes back. */
  #returned: number | undefined
  /** How many frames in a row were louder than any echo can be just now, and when they were last enough to be a person. */
  #louder = 0
  #personAt: number | undefined

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
    if (this.#returned !== undefined) {
      if (this.#isPerson()) return false
      if (this.#isNoLouderThanEcho(loudness.spread, loudness.hop)) return true
    }
    return this.#isStraying && ++this.#strayed <= straying.frames
  }

  /** Whether the last frame is louder than any echo can be just now, or follows such frames. */
  #isPerson(): boolean {
    const { total } = this.#heard
    const isLouder = !this.#isNoLouderThanEcho(memorySamples, loudness.coarseHop)
    this.#louder = isLouder ? this.#louder + 1 : 0
    if (this.#louder >= loudness.frames) this.#personAt = total
    return isLouder || (this.#personAt !== undefined && total - this.#personAt < loudness.person)
  }

  /** Whether the last frame is no louder, in any band, than the echo of what was sent so near to its place. */
  #isNoLouderThanEcho(spread: number, hop: number): boolean {
    const { total } = this.#heard
    if (this.#ahead === undefined || this.#returned === undefined) return false
    if (total - (this.#foundAt ?? 0) > loudness.samples) return false
    const place = this.#ahead + total - this.#sent.total + memorySamples - frameSamples
    const to = Math.min(memorySamples - frameSamples, place + spread)
    const loudest = [0, 0, 0, 0]
    for (let at = Math.max(0, place - spread); at <= to; at += hop)
      bandsOf(this.#sent.samples, at).forEach((one, band) => {
        loudest[band] = Math.max(loudest[band] ?? 0, one)
      })
    const most = this.#returned * loudness.above
    return bandsOf(this.#heard.samples, windowSamples - frameSamples).every(
      (one, band) => one <= loudness.noise + (loudest[band] ?? 0) * most,
    )
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
    const energyHeard = energy(heard, before, length)
    if (energyHeard === 0 || to < from) return false
    let loud = energy(sent, from + before, length)
    let best = least
    let place: number | undefined
    let returned = 0
    for (let at = from; at <= to; at++) {
      const first = at + before
      if (at > from) loud += square(sent, first + length - 1) - square(sent, first - 1)
      if (loud * bounds.gain ** 2 < energyHeard) continue
      let sum = 0
      for (let i = 0; i < length; i++) sum += (heard[before + i] ?? 0) * (sent[first + i] ?? 0)
      const likeness = Math.abs(sum) / Math.sqrt(loud * energyHeard)
      if (likeness <= best) continue
      best = likeness
      place = at
      returned = energyHeard / loud
    }
    if (place === undefined) return false
    this.#ahead = place - memorySamples + windowSamples + this.#sent.total - this.#heard.total
    if (best >= loudness.likeness) {
      this.#returned ??= returned
      this.#returned += (returned - this.#returned) * loudness.follow
    }
    return true
  }
}

/** The energy of a frame in four bands of 500 Hz each. */
function bandsOf(samples: Float32Array, from: number): number[] {
  const bands: [number, number, number, number] = [0, 0, 0, 0]
  for (let i = from; i < from + frameSamples; i += 4) {
    const [a, b] = [samples[i] ?? 0, samples[i + 1] ?? 0]
    const [c, d] = [samples[i + 2] ?? 0, samples[i + 3] ?? 0]
    bands[0] += (a + b + c + d) ** 2 / 4
    bands[1] += (a + b - c - d) ** 2 / 4
    bands[2] += (a - b - c + d) ** 2 / 4
    bands[3] += (a - b + c - d) ** 2 / 4
  }
  return bands
}

const square = (samples: Float32Array, at: number) => (samples[at] ?? 0) ** 2

function energy(samples: Float32Array, from: number, length: number): number {
  let sum = 0
  for (let i = from; i < from + length; i++) sum += square(samples, i)
  return sum
}
