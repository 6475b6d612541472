import { createParser, type EventSourceParser } from 'eventsource-parser'
import { RuntimeError } from '../../../errors.ts'
import type { Delta } from '../../../plugin.ts'
import { modelFault } from './model-fault.ts'
import type { ProviderExchange } from './post.ts'
import { providerFault, type Asked } from './provider-fault.ts'
import { maxProviderData, type CallLimits, type FrameReader } from './wire.ts'

/** How the frames of an answer are told apart. A server that answers with one JSON text though a stream was asked is read, too. */
export type AnswerFraming = 'events' | 'lines'

/**
 * How many characters an answer may send for each one that it may say, and how many in any case: the JSON of a word is a hundred
 * times as long as the word. This ends an answer that says nothing for ever.
 */
const [sentPerSaid, leastSent] = [16, 1024 * 1024]
/** How long to wait for the counts, which may come after the provider said that it finished. */
const afterwordMs = 2000

/** One answer of a provider, read into batches of deltas: as server-sent events, as lines of JSON, or as one JSON text. */
export class ProviderAnswer {
  readonly #exchange: ProviderExchange
  readonly #asked: Asked
  readonly #limits: CallLimits
  readonly #reader: FrameReader
  readonly #framing: AnswerFraming
  #events: EventSourceParser | undefined
  #batch: Delta[] = []
  #done = false
  #body = ''
  #form: 'unknown' | 'json' | AnswerFraming = 'unknown'
  #size = 0
  #sent = 0
  #progressAt = performance.now()
  #failure: { readonly error: unknown } | undefined

  constructor(
    exchange: ProviderExchange,
    asked: Asked,
    limits: CallLimits,
    reader: FrameReader,
    framing: AnswerFraming,
  ) {
    this.#exchange = exchange
    this.#asked = asked
    this.#limits = limits
    this.#reader = reader
    this.#framing = framing
  }

  /** The next deltas, as many as came together; undefined at the end of the answer. */
  async next(): Promise<readonly Delta[] | undefined> {
    if (this.#failure) throw this.#failure.error
    this.#batch = []
    try {
      while (this.#batch.length === 0 && !this.#done) {
        const ms = this.#patience()
        await this.#exchange.ready(ms)
        this.#step(ms)
      }
    } catch (error) {
      // Words that arrived together with the fault go out first; the next call throws the fault.
      if (this.#batch.length === 0) throw error
      this.#failure = { error }
    }
    return this.#batch.length > 0 ? this.#batch : undefined
  }

  /** Reads what the exchange has after a wait of `ms`. */
  #step(ms: number): void {
    const text = this.#taken()
    if (text) this.#feed(text)
    else if (text === undefined) this.#ending()
    else if (this.#reader.finished) this.#done = true
    else throw this.#silent('nothing', ms)
    const { stallMs } = this.#limits
    if (this.#done) this.#batch.push(...this.#reader.last())
    if (this.#batch.length > 0) this.#progressAt = performance.now()
    else if (performance.now() - this.#progressAt > stallMs) throw this.#silent('no words', stallMs)
  }

  #patience(): number {
    if (this.#reader.finished) return afterwordMs
    return this.#form === 'unknown' ? this.#limits.firstTokenMs : this.#limits.idleMs
  }

  /** The text that has come. A connection that breaks after a whole answer loses nothing, so the break counts as the answer's end. */
  #taken(): string | undefined {
    try {
      return this.#exchange.take()
    } catch (error) {
      if (this.#reader.finished && isBreak(error)) return undefined
      throw error
    }
  }

  /** Tells the form of the body by its first character, and reads on in that form. */
  #feed(piece: string): void {
    this.#sent += piece.length
    if (this.#sent > Math.max(sentPerSaid * this.#limits.maxAnswer, leastSent))
      throw this.#tooLong('sent an answer without end.')
    if (this.#form !== 'unknown') return this.#read(piece)
    const text = piece.replace('\uFEFF', '').trimStart()
    const start = text[0]
    if (!start) return
    if (start === '<')
      throw modelFault('MODEL_ANSWER_INVALID', this.#asked.host, `answered with a web page.`, {
        check: `${this.#asked.settings.address} is most likely not the address of an API.`,
      })
    const isJson = start === '{' || start === '['
    this.#form = isJson && this.#framing === 'events' ? 'json' : this.#framing
    if (this.#form === 'events') this.#events = this.#parser()
    this.#read(text)
  }

  #read(text: string): void {
    if (this.#events) return this.#events.feed(text)
    this.#body += text
    if (this.#form === 'lines') this.#readLines()
    if (this.#body.length > 2 * this.#limits.maxAnswer)
      throw this.#tooLong('sent an answer without end.')
  }

  #readLines(): void {
    const end = this.#body.lastIndexOf('\n')
    if (end < 0) return
    const lines = this.#body.slice(0, end).split('\n')
    this.#body = this.#body.slice(end + 1)
    for (const line of lines) if (line.trim()) this.#take(line)
  }

  #parser(): EventSourceParser {
    return createParser({
      // One event may hold a whole answer, and JSON escapes make it longer.
      maxBufferSize: 2 * this.#limits.maxAnswer,
      onEvent: ({ data, event }) => {
        if (data === '[DONE]') this.#done = true
        else if (data && !this.#done) this.#take(data, event)
      },
      onError: (error) => {
        if (error.type === 'max-buffer-size-exceeded')
          throw this.#tooLong('sent an event without end.')
      },
    })
  }

  /** Gives one frame to the reader, and counts what came of it. */
  #take(json: string, event?: string): void {
    const frame = this.#parse(json)
    if (frame?.error) throw providerFault({ text: json }, this.#asked)
    const before = this.#batch.length
    this.#reader.take(frame, this.#batch, event)
    for (let i = before; i < this.#batch.length; i++) this.#size += lengthOf(this.#batch[i]!)
    if (this.#size > this.#limits.maxAnswer)
      throw new RuntimeError(
        'MODEL_ANSWER_TOO_LONG',
        `The answer of "${this.#asked.model}" went past ${this.#limits.maxAnswer} characters.`,
      )
    if ((this.#reader.kept ?? 0) > maxProviderData)
      throw this.#tooLong(`asks for more than ${maxProviderData} bytes of its own data back.`)
    if (this.#reader.done) this.#done = true
  }

  #parse(json: string): { readonly error?: unknown } | null {
    try {
      return JSON.parse(json)
    } catch (cause) {
      throw modelFault('MODEL_STREAM_BROKEN', this.#asked.host, 'sent a chunk that is no JSON.', {
        cause,
      })
    }
  }

  #ending(): void {
    if (this.#events) this.#events.feed('\n\n')
    else if (this.#body.trim()) this.#take(this.#body)
    const { finished } = this.#reader
    if (this.#form === 'json' && !finished && this.#batch.length === 0)
      throw modelFault('MODEL_ANSWER_INVALID', this.#asked.host, `sent JSON that is no answer.`)
    if (!this.#done && !finished)
      throw modelFault('MODEL_STREAM_BROKEN', this.#asked.host, `ended before its answer did.`)
    this.#done = true
  }

  #tooLong(what: string): RuntimeError {
    return modelFault('MODEL_ANSWER_TOO_LONG', this.#asked.host, what)
  }

  #silent(what: string, ms: number): RuntimeError {
    return modelFault('MODEL_TIMEOUT', this.#asked.host, `sent ${what} for ${ms / 1000} s.`)
  }
}

/** How many characters of an answer a delta is. */
function lengthOf(delta: Delta): number {
  switch (delta.type) {
    case 'text':
    case 'reasoning':
      return delta.text.length
    case 'tool-call':
      return delta.args?.length ?? 0
    default:
      return 0
  }
}

function isBreak(error: unknown): boolean {
  return error instanceof RuntimeError && error.code === 'MODEL_STREAM_BROKEN'
}
