import type { SpeechBy } from '../core/calls.ts'

/** The parts of the browser's class that are used; TypeScript has no types of it yet. */
interface Recognition extends EventTarget {
  lang: string
  continuous: boolean
  interimResults: boolean
  processLocally?: boolean
  start(): void
  stop(): void
  abort(): void
  onresult: ((event: RecognitionEvent) => void) | null
  onend: (() => void) | null
  onerror: ((event: { readonly error: string }) => void) | null
}

interface RecognitionEvent {
  readonly resultIndex: number
  readonly results: ArrayLike<
    ArrayLike<{ readonly transcript: string }> & { readonly isFinal: boolean }
  >
}

interface RecognitionClass {
  new (): Recognition
  available?(options: { langs: string[]; processLocally: boolean }): Promise<string>
}

const classOf = (): RecognitionClass | undefined => {
  const page = globalThis as { SpeechRecognition?: unknown; webkitSpeechRecognition?: unknown }
  return (page.SpeechRecognition ?? page.webkitSpeechRecognition) as RecognitionClass | undefined
}

const spokenIn = (language: string | undefined) =>
  language ?? globalThis.navigator?.language ?? 'en'

/** What turns speech into text in this browser, and where: on the device, at its maker's, or nothing. */
export async function pageHearing(language: string | undefined): Promise<SpeechBy> {
  const made = classOf()
  if (!made) return { by: 'typed', where: 'device', name: 'typed words' }
  const local = { langs: [spokenIn(language)], processLocally: true }
  const isLocal = await made.available?.(local).then(
    (answer) => answer === 'available',
    () => false,
  )
  return isLocal
    ? { by: 'browser', where: 'device', name: 'this browser' }
    : { by: 'browser', where: 'service', name: 'browser' }
}

/** Hears with the browser's own recognizer until it is closed. */
export class PageHearing {
  readonly #recognition: Recognition | undefined
  #isOn = false
  #isClosed = false

  constructor(options: {
    readonly language: string | undefined
    readonly isLocal: boolean
    partial(text: string): void
    said(text: string): void
    /** It does not work: words are typed from now on. */
    failed(reason: string): void
  }) {
    const made = classOf()
    if (!made) return
    const recognition = new made()
    this.#recognition = recognition
    recognition.lang = spokenIn(options.language)
    recognition.continuous = true
    recognition.interimResults = true
    if (options.isLocal) recognition.processLocally = true
    recognition.onresult = ({ resultIndex, results }) => {
      for (let i = resultIndex; i < results.length; i++) {
        const text = results[i]?.[0]?.transcript.trim() ?? ''
        if (text === '' || !this.#isOn) continue
        if (results[i]?.isFinal) options.said(text)
        else options.partial(text)
      }
    }
    recognition.onerror = ({ error }) => {
      if (error === 'no-speech' || error === 'aborted') return
      this.close()
      options.failed(error)
    }
    // The browser ends it after a silence: it hears on.
    recognition.onend = () => {
      if (this.#isOn && !this.#isClosed) this.#start()
    }
  }

  /** Hears, or does not while the microphone is muted. */
  listen(on: boolean): void {
    if (this.#isClosed || on === this.#isOn) return
    this.#isOn = on
    if (on) this.#start()
    else this.#recognition?.abort()
  }

  close(): void {
    this.#isOn = false
    this.#isClosed = true
    this.#recognition?.abort()
  }

  #start(): void {
    try {
      this.#recognition?.start()
    } catch {
      // It runs already.
    }
  }
}
