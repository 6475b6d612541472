import { joined } from './command.ts'
import type { Hearing, OpenUtterance, Understood } from './port.ts'
import { askService, nameOf, type SpeechService, twice } from './service.ts'
import { wavOf } from './wav.ts'

/** How much a transcription may be, as text and as the bytes around it; and how long an utterance: a minute at 16 kHz, and a little. */
const most = { characters: 20_000, bytes: 1 << 20, samples: 16_000 * 65 }

interface Asked {
  readonly stop: AbortController
  readonly answer: Promise<Understood>
}

/** Text by a speech server: each utterance as a WAV file to `/audio/transcriptions`. */
export function hearingByService(service: SpeechService, model: string): Hearing {
  return {
    name: nameOf(service),
    where: 'service',
    open: (options) => new Sent(service, model, options),
  }
}

type Options = Parameters<Hearing['open']>[0]

/** One utterance. It is sent when the person pauses, and sent anew when the person goes on. */
class Sent implements OpenUtterance {
  readonly #service: SpeechService
  readonly #model: string
  readonly #options: Options
  #pieces: Int16Array[] = []
  #samples = 0
  #asked: Asked | undefined

  constructor(service: SpeechService, model: string, options: Options) {
    this.#service = service
    this.#model = model
    this.#options = options
  }

  push(pcm: Int16Array): void {
    if (this.#samples >= most.samples) return
    this.#samples += pcm.length
    this.#pieces.push(pcm)
  }

  pause(): void {
    this.#asked ??= this.#ask()
  }

  goOn(): void {
    this.#asked?.stop.abort()
    this.#asked = undefined
  }

  end(): Promise<Understood> {
    return (this.#asked ??= this.#ask()).answer
  }

  drop(): void {
    this.goOn()
    this.#pieces = []
  }

  #ask(): Asked {
    const stop = new AbortController()
    const signal = AbortSignal.any([stop.signal, this.#options.signal])
    const wav = wavOf({ rate: 16_000, pcm: joined(this.#pieces) })
    const answer = twice(() => this.#transcribe(wav, signal), signal)
    answer.catch(() => undefined) // `end` hands it on; a request that was dropped is nobody's
    return { stop, answer }
  }

  async #transcribe(wav: Buffer, signal: AbortSignal): Promise<Understood> {
    const { language, partial } = this.#options
    const form = () => {
      const body = new FormData()
      body.set('file', new Blob([new Uint8Array(wav)], { type: 'audio/wav' }), 'speech.wav')
      body.set('model', this.#model)
      body.set('stream', 'true')
      body.set('response_format', 'json')
      if (language) body.set('language', language.slice(0, 2).toLowerCase())
      return { body }
    }
    const reader = new Transcription((text) => {
      if (!signal.aborted) partial(text)
    })
    const isWanted = (type: string) => /^(?:text\/event-stream|application\/json)\b/i.test(type)
    const pieces = askService(this.#service, '/audio/transcriptions', form, signal, isWanted)
    for await (const piece of pieces) reader.push(piece)
    const text = reader.end()
    if (text === undefined)
      throw new Error(`${nameOf(this.#service)} ended a transcription before its last word.`)
    return { text }
  }
}

/** Reads a transcription as it comes: events of a stream, or one JSON object. */
class Transcription {
  readonly #partial: (text: string) => void
  readonly #decoder = new TextDecoder()
  #bytes = 0
  #rest = ''
  /** What is no line of a stream: the whole answer of a server that does not stream. */
  #plain = ''
  #soFar = ''
  #whole: string | undefined

  constructor(partial: (text: string) => void) {
    this.#partial = partial
  }

  push(piece: Uint8Array): void {
    this.#bytes += piece.length
    if (this.#bytes > most.bytes) throw new Error('The transcription is too long.')
    this.#rest += this.#decoder.decode(piece, { stream: true })
    const lines = this.#rest.split('\n')
    this.#rest = lines.pop() ?? ''
    for (const line of lines) this.#line(line)
  }

  /** The text; undefined where the stream ended before it was whole. */
  end(): string | undefined {
    this.#line(this.#rest + this.#decoder.decode())
    if (this.#plain.trim() !== '') this.#take(JSON.parse(this.#plain))
    return this.#whole?.slice(0, most.characters)
  }

  #line(line: string): void {
    const event = /^data:\s*(\{.*)/.exec(line)?.[1]
    if (event !== undefined) this.#take(JSON.parse(event))
    else if (!/^(?:data|event|id|retry)?:/.test(line)) this.#plain += line
  }

  #take(told: unknown): void {
    const { type, delta, text } = Object(told)
    if (type === 'transcript.text.delta' && typeof delta === 'string') {
      this.#soFar = (this.#soFar + delta).slice(0, most.characters)
      this.#partial(this.#soFar)
    } else if (typeof text === 'string') this.#whole = text
  }
}
