import type { Log } from '#core'
import type { FromMedia, ToMedia } from '../media/messages.ts'
import type { Played } from '../media/playing.ts'
import type { Voice } from '../speech/port.ts'
import { Resampler, sentRate } from '../speech/resample.ts'
import { isSpeakable } from './spoken-text.ts'

/** Something to say: a piece of the reply of a run, or, without a run, what the agent says by itself. */
export interface Saying {
  readonly runId: string | undefined
  readonly from: number
  readonly to: number
  /** The text for the voice. */
  readonly text: string
}

interface Queued extends Saying {
  readonly part: number
  isMade: boolean
  /** Nothing of it is said: it is over as soon as those before it are. */
  isSilent: boolean
  /** How much of it was heard, by the page's own voice. */
  heard: number
}

/** Where a reply was heard up to. */
export interface Heard {
  readonly runId: string
  readonly chars: number
}

/**
 * How many sentences are made ahead, how many wait at most, how much is unheard of what was just sent (100 ms), and how long a
 * character takes to be said where nothing else tells: 15 in a second.
 */
const bounds = { ahead: 2, queue: 500, unheardSamples: 4_800, tries: 2, samplesPerCharacter: 3_200 }
/**
 * A page may hear what was sent before the sentence that is being sent: so many are remembered. Where it was as it said something is
 * old after so long.
 */
const behind = { sentences: 8, ms: 200 }
/** More sound than that is not what a text sounds like: ten seconds, and a fifth of a second a character. */
const mostSamples = (text: string) => sentRate * 10 + (text.length * sentRate) / 5

/** What a speaker speaks with. */
export interface SpeakerOptions {
  /** Without a voice the page speaks, or shows the text alone. */
  readonly voice: Voice | undefined
  readonly words: { readonly voice?: string; readonly language?: string }
  /** The page says the text by its own voice. */
  readonly isByPage: boolean
  readonly log: Log
  play(message: Omit<Extract<ToMedia, { type: 'play' }>, 'call'>): void
  tell(type: 'hold' | 'go'): void
  sayByPage(id: string, text: string): void
  /** A sentence is the one to be heard now. */
  onBegun(saying: Saying): void
  /** A sentence was heard to its end, or all were. */
  onHeard(saying: Saying): void
  onSilent(): void
  onFailed(error: unknown): void
}

/** Says sentence after sentence, and knows how far each was heard. */
export class Speaker {
  readonly #options: SpeakerOptions
  #queue: Queued[] = []
  /** What was sent, and is perhaps not heard yet. */
  #sent: Queued[] = []
  /** Where in the sound the page stands: as it fell silent, or just now. */
  #stands: { readonly heard: number; readonly isHeld: boolean; readonly at: number } | undefined
  #part = 0
  #making: AbortController | undefined
  #isHeld = false
  /** From the moment that the sound is asked where it stands until it has answered: nothing more is made. */
  #isQuiet = false

  constructor(options: SpeakerOptions) {
    this.#options = options
  }

  /** Whether something is being said, or waits to be said. */
  get isBusy(): boolean {
    return this.#queue.length > 0
  }

  get isHeld(): boolean {
    return this.#isHeld
  }

  say(saying: Saying): void {
    if (this.#queue.length >= bounds.queue) return
    this.#queue.push({ ...saying, part: ++this.#part, isMade: false, isSilent: false, heard: 0 })
    if (this.#queue.length === 1) this.#options.onBegun(saying)
    this.#make()
  }

  /** Stops at once, and can go on. */
  hold(): void {
    if (this.#isHeld || !this.isBusy) return
    this.#isHeld = true
    this.#stands = undefined
    this.#options.tell('hold')
  }

  /** Goes on from the beginning of the sentence. */
  goOn(): void {
    if (!this.#isHeld) return
    this.#isHeld = false
    this.#stands = undefined
    this.#options.tell('go')
  }

  /** The page tells where in the sound it stands. The moment at which it fell silent counts, and none after it. */
  standsAt(heard: number | undefined): void {
    if (heard === undefined || (this.#isHeld && this.#stands?.isHeld)) return
    this.#stands = { heard, isHeld: this.#isHeld, at: performance.now() }
  }

  /** Where in the sound the page stands, as far as it has told. */
  get stands(): { readonly heard?: number } {
    const { heard, isHeld, at } = this.#stands ?? {}
    const isKnown = heard !== undefined && (isHeld || performance.now() - (at ?? 0) < behind.ms)
    return isKnown ? { heard } : {}
  }

  /** Makes nothing more, before the sound is asked where it stands. */
  quiet(): void {
    this.#isHeld = false
    this.#isQuiet = true
    this.#making?.abort()
  }

  /** The runs of which something is said, or waits to be said. */
  get runs(): ReadonlySet<string> {
    return new Set(this.#queue.flatMap(({ runId }) => runId ?? []))
  }

  /** Says nothing more of what waits. Answers how far the reply that was being said was heard, by what the sound says of it. */
  drop(place?: Partial<Played>): Heard | undefined {
    const behindIt = this.#sent.find(({ part }) => part === place?.part)
    const last = behindIt ?? this.#queue[0]
    const heard = last?.runId === undefined ? undefined : this.#heardOf(last, last.runId, place)
    this.#queue = []
    this.#sent = []
    this.#stands = undefined
    this.#isQuiet = false
    return heard
  }

  /** What the thread of sound has sent. */
  played(message: Extract<FromMedia, { type: 'played' }>): void {
    if (message.isEnd) this.#ended(message.part)
  }

  /** How far the page's own voice is with a sentence. */
  spoken(id: string, chars: number): void {
    const queued = this.#queue.find(({ part }) => String(part) === id)
    if (!queued) return
    queued.heard = Math.max(queued.heard, Math.min(chars, queued.text.length))
    if (queued.heard >= queued.text.length) this.#ended(queued.part)
  }

  #heardOf(
    queued: Queued,
    runId: string,
    { part, sent = 0, samples = 0, isWhole = true, isHeard = false }: Partial<Played> = {},
  ): Heard {
    // A voice that is still making a sentence has not told how long it becomes.
    const guessed = isWhole ? 0 : queued.text.length * bounds.samplesPerCharacter
    const share = this.#options.isByPage
      ? queued.heard / Math.max(queued.text.length, 1)
      : part === queued.part
        ? Math.max(0, sent - (isHeard ? 0 : bounds.unheardSamples)) / Math.max(samples, guessed, 1)
        : 0
    return {
      runId,
      chars: queued.from + Math.floor((queued.to - queued.from) * Math.min(share, 1)),
    }
  }

  #ended(part: number): void {
    const at = this.#queue.findIndex((one) => one.part === part)
    if (at < 0) return
    const over = this.#queue.splice(0, at + 1)
    for (const heard of over) this.#options.onHeard(heard)
    this.#sent = [...this.#sent, ...over].slice(-behind.sentences)
    const [next] = this.#queue
    if (next) this.#options.onBegun(next)
    if (next?.isSilent) this.#endSilent(next)
    this.#make()
    if (!this.isBusy) this.#options.onSilent()
  }

  #make(): void {
    if (
      this.#isQuiet ||
      this.#making ||
      this.#queue.filter(({ isMade }) => isMade).length >= bounds.ahead
    )
      return
    const next = this.#queue.find(({ isMade }) => !isMade)
    if (!next) return
    next.isMade = true
    const { voice, isByPage } = this.#options
    if (!isSpeakable(next.text) || (!voice && !isByPage)) return this.#pass(next)
    if (!voice) {
      this.#options.sayByPage(String(next.part), next.text)
      return this.#make()
    }
    const making = new AbortController()
    this.#making = making
    void this.#speak(voice, next, making.signal).finally(() => {
      this.#making = undefined
      this.#make()
    })
  }

  /** A sentence without a word to say is over when those before it are. */
  #pass(queued: Queued): void {
    queued.isSilent = true
    if (this.#queue[0] === queued) this.#endSilent(queued)
    this.#make()
  }

  #endSilent({ part }: Queued): void {
    queueMicrotask(() => this.#ended(part))
  }

  async #speak(voice: Voice, queued: Queued, signal: AbortSignal): Promise<void> {
    const { words, play, onFailed } = this.#options
    for (let attempt = 1; !signal.aborted; attempt++) {
      let hasBegun = false
      try {
        const resampler = new Resampler()
        let samples = 0
        for await (const spoken of voice.speak(queued.text, { ...words, signal })) {
          hasBegun = true
          const pcm = resampler.push(spoken)
          if ((samples += pcm.length) > mostSamples(queued.text))
            throw new Error('The voice made more sound than the sentence has.')
          if (!signal.aborted) play({ type: 'play', part: queued.part, pcm, isLast: false })
        }
        break
      } catch (error) {
        if (signal.aborted) return
        if (attempt < bounds.tries && !hasBegun) continue
        onFailed(error)
        break
      }
    }
    if (!signal.aborted)
      play({ type: 'play', part: queued.part, pcm: new Int16Array(0), isLast: true })
  }
}
