import { onTestFinished } from 'vitest'

/** A stand-in of the browser's recognizer. What it understands is what the test says. */
export class FakeRecognition {
  static made: FakeRecognition[] = []
  lang = ''
  continuous = false
  interimResults = false
  processLocally?: boolean
  isOn = false
  starts = 0
  onresult: ((event: object) => void) | null = null
  onend: (() => void) | null = null
  onerror: ((event: { error: string }) => void) | null = null

  constructor() {
    FakeRecognition.made.push(this)
  }
  start(): void {
    this.starts++
    this.isOn = true
  }
  abort(): void {
    this.isOn = false
  }
  stop(): void {
    this.isOn = false
  }
  /** Understands something: for good, or so far. */
  understands(transcript: string, isFinal = true): void {
    const result = Object.assign([{ transcript }], { isFinal })
    this.onresult?.({ resultIndex: 0, results: [result] })
  }
}

interface FakeUtterance {
  readonly text: string
  onboundary?: (event: { charIndex: number }) => void
  onend?: () => void
  onerror?: () => void
}

/** A stand-in of the browser's voice: it keeps what it is to say until the test has it said. */
export class FakeSynthesis {
  readonly said: FakeUtterance[] = []
  cancels = 0
  voices = [{ lang: 'en-GB', localService: true }]
  getVoices = () => this.voices
  speak = (utterance: FakeUtterance) => void this.said.push(utterance)
  cancel = () => void this.cancels++
}

/** Puts names into this process until the test ends. */
export function put(names: Readonly<Record<string, unknown>>): void {
  for (const [name, value] of Object.entries(names)) {
    const before = Object.getOwnPropertyDescriptor(globalThis, name)
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true })
    onTestFinished(() => {
      if (before) Object.defineProperty(globalThis, name, before)
      else Reflect.deleteProperty(globalThis, name)
    })
  }
}

/** Puts a recognizer into the page, on the device or at its maker's. */
export function fakeRecognizer(isLocal: boolean): typeof FakeRecognition {
  FakeRecognition.made = []
  const available = async () => (isLocal ? 'available' : 'unavailable')
  put({ SpeechRecognition: Object.assign(class extends FakeRecognition {}, { available }) })
  return FakeRecognition
}

/** Puts a voice into the page. */
export function fakeSynthesis(): FakeSynthesis {
  const speechSynthesis = new FakeSynthesis()
  const SpeechSynthesisUtterance = class {
    readonly text: string
    constructor(text: string) {
      this.text = text
    }
  }
  put({ speechSynthesis, SpeechSynthesisUtterance })
  return speechSynthesis
}
