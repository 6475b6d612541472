import { setTimeout as pause } from 'node:timers/promises'
import { RuntimeError } from '../../errors.ts'
import type { Delta, Model, ModelRequest } from '../../plugin.ts'
import { OpenAiAnswer, type AnswerLimits } from './openai-answer.ts'
import { chatParts } from './openai-parts.ts'
import { requestBody } from './openai-request.ts'
import { poster, type Post, type ProviderExchange } from './post.ts'
import { providerFault, type Asked } from './provider-fault.ts'

/** The model, its endpoint, and how long each step of an answer may take. */
export interface OpenAiOptions extends Partial<AnswerLimits> {
  /** The model's name at the provider. */
  readonly name: string
  readonly apiKey?: string
  /** Any compatible endpoint: with or without `/v1`, a trailing slash, or `/chat/completions`. */
  readonly baseUrl?: string
  readonly label?: string
  readonly contextWindow?: number
  /** What the model reads beside text; pictures by default. */
  readonly reads?: Model['reads']
  /** How often a call is tried. After its first delta a call is not tried again. */
  readonly attempts?: number
  /** How long connecting may take. */
  readonly connectMs?: number
}

/** When the provider asks for a longer wait than this, the call fails and its caller decides. */
const longestWaitMs = 20_000
/** How much of an error page is read: enough to tell the faults apart. */
const errorPage = 64 * 1024

/** What a model of this wire is taken to read that does not say. */
const usualReads = { image: ['image/png', 'image/jpeg', 'image/gif', 'image/webp'] }

/** An answer whose first deltas have come. */
interface Begun {
  readonly first: readonly Delta[] | undefined
  readonly answer: OpenAiAnswer
  readonly exchange: ProviderExchange
}

/** A model behind any OpenAI-compatible `/chat/completions` endpoint. */
export class OpenAiModel implements Model {
  readonly id: string
  readonly label: string
  readonly contextWindow: number | undefined
  readonly reads: NonNullable<Model['reads']>
  readonly #asked: Asked
  readonly #post: Post
  readonly #attempts: number
  readonly #connectMs: number
  readonly #limits: AnswerLimits
  #asksForUsage = true

  constructor(options: OpenAiOptions) {
    const { name, apiKey, attempts = 4, connectMs = 10_000, firstTokenMs = 300_000 } = options
    const { idleMs = 60_000, stallMs = 300_000, maxAnswer = 16 * 1024 * 1024 } = options
    const url = completionsUrl(options.baseUrl)
    this.id = `openai/${name}`
    this.label = options.label ?? name
    this.contextWindow = options.contextWindow
    this.reads = options.reads ?? usualReads
    this.#asked = {
      model: name,
      host: url.host,
      secret: apiKey,
      settings: { key: 'OPENAI_API_KEY', address: 'MODEL and OPENAI_BASE_URL' },
    }
    this.#post = poster(url, {
      'content-type': 'application/json',
      accept: 'text/event-stream',
      ...(apiKey ? { authorization: `Bearer ${apiKey}` } : {}),
    })
    this.#attempts = attempts
    this.#connectMs = connectMs
    this.#limits = { firstTokenMs, idleMs, stallMs, maxAnswer }
  }

  /** Gives the deltas of one answer, one by one. */
  async *stream(request: ModelRequest): AsyncGenerator<Delta> {
    for await (const batch of this.#batches(request)) yield* batch
  }

  /** Gives the deltas of one answer to `take`, without a promise for each. */
  async streamTo(request: ModelRequest, take: (delta: Delta) => void): Promise<void> {
    for await (const batch of this.#batches(request)) for (const delta of batch) take(delta)
  }

  /** Gives one answer in batches. A reader that leaves before the end drops the connection. */
  async *#batches(request: ModelRequest) {
    const { first, answer, exchange } = await this.#begun(request)
    let whole = false
    try {
      for (let batch = first; batch; batch = await answer.next()) yield batch
      whole = true
    } finally {
      if (whole) exchange.finish()
      else exchange.destroy()
    }
  }

  /** Begins an answer, and tries again after a fault that may pass, as often as `attempts` allows. */
  async #begun(request: ModelRequest): Promise<Begun> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#begin(request)
      } catch (error) {
        request.signal.throwIfAborted()
        if (error instanceof Unsupported) continue
        const wait = waitBefore(attempt, error)
        if (attempt >= this.#attempts || wait === undefined) throw error
        await pause(wait, undefined, { signal: request.signal }).catch(() =>
          request.signal.throwIfAborted(),
        )
      }
    }
  }

  /** Posts the request and resolves with the first deltas. Until then the call can be repeated, because nobody heard a word. */
  async #begin(request: ModelRequest): Promise<Begun> {
    const withUsage = this.#asksForUsage
    const parts = await chatParts(request)
    const body = requestBody(this.#asked.model, request, withUsage, parts)
    const exchange = await this.#post(body, request.signal, {
      connectMs: this.#connectMs,
      headMs: this.#limits.firstTokenMs,
    })
    try {
      if (exchange.status !== 200) throw await this.#refusal(exchange, withUsage)
      const answer = new OpenAiAnswer(exchange, this.#asked, this.#limits)
      return { first: await answer.next(), answer, exchange }
    } catch (error) {
      exchange.destroy()
      throw error
    }
  }

  async #refusal(exchange: ProviderExchange, withUsage: boolean): Promise<RuntimeError> {
    let text = ''
    while (text.length < errorPage) {
      await exchange.ready(5000)
      const piece = exchange.take()
      if (!piece) break
      text += piece
    }
    const { status } = exchange
    if (withUsage && [400, 422].includes(status) && text.includes('stream_options')) {
      this.#asksForUsage = false
      const { host } = this.#asked
      return new Unsupported('MODEL_BAD_REQUEST', `${host} cannot report usage in a stream.`)
    }
    return providerFault({ status, headers: exchange.headers, text }, this.#asked)
  }
}

/** The server refused `stream_options`, so the same request goes out again without it. */
class Unsupported extends RuntimeError {}

/** How long to wait before the next attempt; undefined when another attempt would not help. */
function waitBefore(attempt: number, error: unknown): number | undefined {
  if (!(error instanceof RuntimeError)) return undefined
  const { retryAfterSeconds, reason } = (error.details ?? {}) as {
    retryAfterSeconds?: number
    reason?: string
  }
  const transient =
    ['MODEL_RATE_LIMITED', 'MODEL_OVERLOADED', 'MODEL_FAILED', 'MODEL_STREAM_BROKEN'].includes(
      error.code,
    ) ||
    (error.code === 'MODEL_UNREACHABLE' && !permanent.test(reason ?? ''))
  if (!transient) return undefined
  if (retryAfterSeconds !== undefined) {
    const ms = retryAfterSeconds * 1000
    return ms > longestWaitMs ? undefined : ms
  }
  // Half of the wait is random, so that callers that failed together do not come back together.
  return 500 * 2 ** (attempt - 1) * (0.5 + Math.random() / 2)
}

/** Reasons that do not pass in a moment: a host name without an address, a certificate that is not valid. */
const permanent = /ENOTFOUND|CERT|SELF_SIGNED|UNABLE_TO|ERR_TLS|ERR_INVALID|EPROTO/

function completionsUrl(base = 'https://api.openai.com/v1'): URL {
  const url = URL.canParse(base) ? new URL(base) : undefined
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password)
    throw new RuntimeError('ENV_INVALID', 'OPENAI_BASE_URL is not an http or https address.', {
      hint: 'Write an address like https://api.openai.com/v1, and put the key into OPENAI_API_KEY.',
    })
  const path = url.pathname.replace(/\/+$/, '')
  if (!path.endsWith('/chat/completions')) url.pathname = `${path || '/v1'}/chat/completions`
  return url
}
