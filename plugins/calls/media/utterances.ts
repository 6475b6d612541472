import { frameSamples, type VoiceDetector } from './voice-detector.ts'

/** What is heard of somebody, as it happens. */
export interface UtteranceEvents {
  /** Somebody begins to speak; the sound from a little before follows. */
  begun(): void
  /** More of what is said, 16 kHz. */
  sound(pcm: Int16Array): void
  /** A pause after which it may be over, and that the person goes on after it. */
  paused(): void
  resumed(): void
  /** The utterance is over. `voicedMs`: how much of it was voice. */
  ended(voicedMs: number): void
  /** While the agent speaks: somebody speaks over it. */
  over(): void
  /** Somebody has spoken for so long that it is no cough. */
  sure(): void
  /** What was spoken over the agent was short, and nothing followed. */
  passed(): void
}

const frameMs = 20
/** Frames in a row that begin an utterance; what is kept from before; how long one lasts; from when one counts; what is a pause. */
const bounds = { beginsAfter: 3, keptBefore: 10, mostMs: 60_000, leastMs: 200, pauseMs: 300 }
/** Speaking over the agent: so many voiced frames of so many, voice of so long for certain, and after so long a quiet it has passed. */
const over = { voiced: 4, of: 6, sureMs: 600, passedMs: 300 }

/** Finds utterances in sound. */
export class Utterances {
  readonly #detector: Pick<VoiceDetector, 'isVoice'>
  readonly #events: UtteranceEvents
  #silenceMs: number
  /** What is left of a frame. */
  #rest = new Int16Array(0)
  #before: Int16Array[] = []
  #recent: boolean[] = []
  #inRow = 0
  #open: { voicedMs: number; silentMs: number; lengthMs: number } | undefined
  #overToldAt: 'no' | 'over' | 'sure' = 'no'
  #voicedOverMs = 0
  #quietOverMs = 0
  /** Whether the agent is heard just now. */
  isSpoken = false

  constructor(
    detector: Pick<VoiceDetector, 'isVoice'>,
    silenceMs: number,
    events: UtteranceEvents,
  ) {
    this.#detector = detector
    this.#silenceMs = silenceMs
    this.#events = events
  }

  /** How much silence ends the utterance that is under way, and those after it. */
  set silenceMs(ms: number) {
    this.#silenceMs = ms
  }

  push(pcm: Int16Array): void {
    const sound = new Int16Array(this.#rest.length + pcm.length)
    sound.set(this.#rest)
    sound.set(pcm, this.#rest.length)
    let at = 0
    for (; at + frameSamples <= sound.length; at += frameSamples)
      this.#frame(sound.slice(at, at + frameSamples))
    this.#rest = sound.slice(at)
  }

  /** For so long nothing came at all: what comes now is another sound, and has not spoken over the agent for as long as both. */
  paused(ms: number): void {
    this.#recent = []
    this.#voicedOverMs = 0
    if (this.#overToldAt === 'over') this.#quiet(ms)
    else this.#overToldAt = 'no'
  }

  #frame(frame: Int16Array): void {
    const isVoice = this.#detector.isVoice(frame)
    this.#watchOver(isVoice)
    if (!this.#open) return this.#wait(frame, isVoice)
    const open = this.#open
    open.lengthMs += frameMs
    if (isVoice) open.voicedMs += frameMs
    if (isVoice && open.silentMs >= bounds.pauseMs) this.#events.resumed()
    open.silentMs = isVoice ? 0 : open.silentMs + frameMs
    this.#events.sound(frame)
    if (open.silentMs === bounds.pauseMs && open.voicedMs >= bounds.leastMs) this.#events.paused()
    if (open.silentMs >= this.#silenceMs || open.lengthMs >= bounds.mostMs)
      this.#close(open.voicedMs)
  }

  #wait(frame: Int16Array, isVoice: boolean): void {
    this.#before.push(frame)
    if (this.#before.length > bounds.keptBefore + bounds.beginsAfter) this.#before.shift()
    this.#inRow = isVoice ? this.#inRow + 1 : 0
    if (this.#inRow < bounds.beginsAfter) return
    this.#open = { voicedMs: this.#inRow * frameMs, silentMs: 0, lengthMs: this.#inRow * frameMs }
    this.#events.begun()
    for (const kept of this.#before) this.#events.sound(kept)
    this.#before = []
  }

  #close(voicedMs: number): void {
    this.#open = undefined
    this.#inRow = 0
    this.#events.ended(voicedMs >= bounds.leastMs ? voicedMs : 0)
  }

  #watchOver(isVoice: boolean): void {
    this.#recent.push(isVoice)
    if (this.#recent.length > over.of) this.#recent.shift()
    const voiced = this.#recent.filter(Boolean).length
    if (!this.isSpoken && this.#overToldAt === 'no') return
    if (this.#overToldAt === 'no' && voiced >= over.voiced) {
      this.#overToldAt = 'over'
      this.#voicedOverMs = voiced * frameMs
      this.#quietOverMs = 0
      this.#events.over()
    } else if (this.#overToldAt === 'over') this.#watchLength(isVoice)
    // Two nods do not add up to a word.
    if (voiced === 0) this.#voicedOverMs = 0
    if (voiced === 0 && this.#overToldAt === 'sure') this.#overToldAt = 'no'
  }

  #watchLength(isVoice: boolean): void {
    if (!isVoice) return this.#quiet(frameMs)
    this.#quietOverMs = 0
    this.#voicedOverMs += frameMs
    if (this.#voicedOverMs < over.sureMs) return
    this.#overToldAt = 'sure'
    this.#events.sure()
  }

  #quiet(ms: number): void {
    this.#quietOverMs += ms
    if (this.#quietOverMs < over.passedMs) return
    this.#overToldAt = 'no'
    this.#events.passed()
  }
}
