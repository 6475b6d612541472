/** How fast a text is read where no voice says it. */
const readingMsPerCharacter = 45

interface Sentence {
  readonly id: string
  readonly text: string
}

/** What a page says itself, sentence after sentence; without a voice of its own it is text to read. */
export class PageVoice {
  readonly #language: string | undefined
  readonly #spoken: (id: string, chars: number) => void
  readonly #silenced: () => void
  #queue: Sentence[] = []
  #reading: ReturnType<typeof setTimeout> | undefined
  #isSpeaking = false
  #isHeld = false
  #isBroken = false

  /** `spoken` hears how far a sentence is; `silenced`, that the browser's voice does not work. */
  constructor(
    language: string | undefined,
    spoken: (id: string, chars: number) => void,
    silenced: () => void,
  ) {
    this.#language = language
    this.#spoken = spoken
    this.#silenced = silenced
  }

  say(sentence: Sentence): void {
    this.#queue.push(sentence)
    this.#next()
  }

  hold(): void {
    this.#isHeld = true
    this.#silence()
  }

  /** On from the beginning of the sentence. */
  goOn(): void {
    this.#isHeld = false
    this.#next()
  }

  /** Nothing of what waits is said. */
  drop(): void {
    this.#queue = []
    this.#isHeld = false
    this.#silence()
  }

  #silence(): void {
    clearTimeout(this.#reading)
    this.#isSpeaking = false
    globalThis.speechSynthesis?.cancel()
  }

  #next(): void {
    const [sentence] = this.#queue
    if (!sentence || this.#isSpeaking || this.#isHeld) return
    this.#isSpeaking = true
    const voice = this.#isBroken ? undefined : voiceFor(this.#language)
    if (!voice) return this.#read(sentence)
    const utterance = new SpeechSynthesisUtterance(sentence.text)
    utterance.voice = voice
    utterance.lang = voice.lang
    const isCurrent = () => this.#queue[0] === sentence && this.#isSpeaking
    utterance.onboundary = ({ charIndex }) => {
      if (isCurrent()) this.#spoken(sentence.id, charIndex)
    }
    utterance.onend = () => {
      if (isCurrent()) this.#ended(sentence)
    }
    utterance.onerror = () => {
      if (!isCurrent()) return
      this.#isBroken = true
      this.#silenced()
      this.#read(sentence)
    }
    speechSynthesis.speak(utterance)
  }

  #read(sentence: Sentence): void {
    this.#reading = setTimeout(
      () => this.#ended(sentence),
      sentence.text.length * readingMsPerCharacter,
    )
  }

  #ended({ id, text }: Sentence): void {
    this.#isSpeaking = false
    this.#queue.shift()
    this.#spoken(id, text.length)
    this.#next()
  }
}

/** A voice that is on this device: others send the words to the maker of the browser. */
export function voiceFor(language: string | undefined): SpeechSynthesisVoice | undefined {
  const voices = globalThis.speechSynthesis?.getVoices().filter((one) => one.localService) ?? []
  const wanted = (language ?? globalThis.navigator?.language ?? 'en').slice(0, 2).toLowerCase()
  return (
    voices.find(({ lang }) => lang.toLowerCase().startsWith(wanted)) ??
    (language === undefined ? voices[0] : undefined)
  )
}
