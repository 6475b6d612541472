import { createParser, type EventSourceParser } from 'eventsource-parser'
import { RuntimeError } from '../../errors.ts'
import type { Delta } from '../../plugin.ts'
import { modelFault } from './model-fault.ts'
import { ChunkReader } from './openai-deltas.ts'
import type { ProviderExchange } from './post.ts'
import type { Asked } from './provider-fault.ts'

/** How long a provider may be silent in one answer, and how large an answer may be. */
export interface AnswerLimits {
  /** The time until the answer begins, and from there until its first words: a model may think in silence. */
  readonly firstTokenMs: number
  /** The longest time without a byte in the middle of an answer. */
  readonly idleMs: number
  /** The longest time with bytes but without a word, such as comments and empty deltas. */
  readonly stallMs: number
  /** The most characters of one answer. */
  readonly maxAnswer: number
}

/** How long to wait for the usage, which may come after the provider said that it finished. */
const afterwordMs = 2000

/** One answer of a provider, read into batches of deltas: as a stream of events, or as one JSON text. */
export class OpenAiAnswer {
  readonly #exchange: ProviderExchange
  readonly #host: string
  readonly #limits: AnswerLimits
  readonly #chunks: ChunkReader
  readonly #events: EventSourceParser
  #batch: Delta[] = []
  #done = false
  #body = ''
  #form: 'unknown' | 'events' | 'json' = 'unknown'
  #progressAt = performance.now()
  #failure: { readonly error: unknown } | undefined

  constructor(exchange: ProviderExchange, asked: Asked, limits: AnswerLimits) {
    const { host } = asked
    this.#exchange = exchange
    this.#host = host
    this.#limits = limits
    this.#chunks = new ChunkReader(asked, limits.maxAnswer)
    this.#events = createParser({
      // One event may hold a whole answer, and JSON escapes make it longer.
      maxBufferSize: 2 * limits.maxAnswer,
      onEvent: ({ data }) => {
        if (data === '[DONE]') this.#done = true
        else if (data && !this.#done) this.#chunks.take(data, this.#batch)
      },
      onError: (error) => {
        if (error.type === 'max-buffer-size-exceeded')
          throw modelFault('MODEL_ANSWER_TOO_LONG', host, `sent an event without end.`)
      },
    })
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
    else if (this.#chunks.finished) this.#done = true
    else throw this.#silent('nothing', ms)
    const { stallMs } = this.#limits
    if (this.#done && this.#chunks.usage) this.#batch.push(this.#chunks.usage)
    if (this.#batch.length > 0) this.#progressAt = performance.now()
    else if (performance.now() - this.#progressAt > stallMs) throw this.#silent('no words', stallMs)
  }

  #patience(): number {
    if (this.#chunks.finished) return afterwordMs
    return this.#form === 'unknown' ? this.#limits.firstTokenMs : this.#limits.idleMs
  }

  /** The text that has come. A connection that breaks after a whole answer loses nothing, so the break counts as the answer's end. */
  #taken(): string | undefined {
    try {
      return this.#exchange.take()
    } catch (error) {
      if (this.#chunks.finished && isBreak(error)) return undefined
      throw error
    }
  }

  /** Tells the form of the body by its first character, and reads on in that form. */
  #feed(piece: string): void {
    if (this.#form !== 'unknown') return this.#read(piece)
    this.#body += piece.replace('\uFEFF', '')
    const start = this.#body.trimStart()[0]
    if (!start) return
    const text = this.#body
    this.#body = ''
    this.#form = start === '{' || start === '[' ? 'json' : 'events'
    if (start === '<')
      throw modelFault('MODEL_ANSWER_INVALID', this.#host, `answered with a web page.`, {
        check: 'OPENAI_BASE_URL is most likely not the address of an API.',
      })
    this.#read(text)
  }

  #read(text: string): void {
    if (this.#form === 'events') return this.#events.feed(text)
    this.#body += text
    if (this.#body.length > 2 * this.#limits.maxAnswer)
      throw modelFault('MODEL_ANSWER_TOO_LONG', this.#host, `sent an answer without end.`)
  }

  #ending(): void {
    if (this.#form === 'events') this.#events.feed('\n\n')
    else if (this.#body) this.#chunks.take(this.#body, this.#batch)
    const { finished } = this.#chunks
    if (this.#form === 'json' && !finished && this.#batch.length === 0)
      throw modelFault('MODEL_ANSWER_INVALID', this.#host, `sent JSON that is no answer.`)
    if (!this.#done && !finished)
      throw modelFault('MODEL_STREAM_BROKEN', this.#host, `ended before its answer did.`)
    this.#done = true
  }

  #silent(what: string, ms: number): RuntimeError {
    return modelFault('MODEL_TIMEOUT', this.#host, `sent ${what} for ${ms / 1000} s.`)
  }
}

function isBreak(error: unknown): boolean {
  return error instanceof RuntimeError && error.code === 'MODEL_STREAM_BROKEN'
}
