import { setTimeout as pause } from 'node:timers/promises'
import { createParser } from 'eventsource-parser'
import { RuntimeError } from '../../errors.ts'
import type { Delta, Model, ModelRequest } from '../../plugin.ts'
import { ChunkReader } from './openai-deltas.ts'
import { modelFault } from './model-fault.ts'
import { providerFault, type Asked } from './provider-fault.ts'
import { requestBody } from './openai-request.ts'
import { poster, type ProviderExchange } from './post.ts'

/** Which model is asked where, and how long each step of an answer may take. */
export interface OpenAiOptions {
  /** The model's name at the provider. */
  readonly name: string
  readonly apiKey?: string
  /** Any compatible endpoint: with or without `/v1`, a trailing slash, or `/chat/completions`. */
  readonly baseUrl?: string
  readonly label?: string
  readonly contextWindow?: number
  /** How often one call is tried before its first delta. */
  readonly attempts?: number
  readonly connectMs?: number
  /** Until the answer begins, and until its first words: a model may think in silence. */
  readonly firstTokenMs?: number
  /** Without a byte, in the middle of an answer. */
  readonly idleMs?: number
  /** With bytes but without a word: comments, empty deltas. */
  readonly stallMs?: number
  /** Characters of one answer. */
  readonly maxAnswer?: number
}

/** After the provider said that it finished, only the usage may still come. */
const afterwordMs = 2000
/** A wait that the provider asks for beyond this is the caller's to decide on. */
const longestWaitMs = 20_000
/** Bytes of an error page that are read; it only serves to tell the faults apart. */
const errorPage = 64 * 1024

/** A model behind any OpenAI-compatible `/chat/completions` endpoint. */
export function openAiModel(options: OpenAiOptions): Model {
  const { name, apiKey, attempts = 4, connectMs = 10_000, firstTokenMs = 300_000 } = options
  const { idleMs = 60_000, stallMs = 300_000, maxAnswer = 16 * 1024 * 1024 } = options
  const url = completionsUrl(options.baseUrl)
  const asked: Asked = {
    model: name,
    host: url.host,
    secret: apiKey,
    settings: { key: 'OPENAI_API_KEY', address: 'MODEL and OPENAI_BASE_URL' },
  }
  const post = poster(url, {
    'content-type': 'application/json',
    accept: 'text/event-stream',
    ...(apiKey ? { authorization: `Bearer ${apiKey}` } : {}),
  })
  let asksForUsage = true

  /** Posts, and resolves once the first words are there: until then the call can be repeated. */
  async function begin(request: ModelRequest) {
    const withUsage = asksForUsage
    const exchange = await post(requestBody(name, request, withUsage), request.signal, {
      connectMs,
      headMs: firstTokenMs,
    })
    try {
      if (exchange.status !== 200) throw await refusal(exchange, withUsage)
      const answer = read(exchange)
      return { first: await answer.next(), answer, exchange }
    } catch (error) {
      exchange.destroy()
      throw error
    }
  }

  async function refusal(exchange: ProviderExchange, withUsage: boolean): Promise<RuntimeError> {
    let text = ''
    while (text.length < errorPage) {
      await exchange.ready(5000)
      const piece = exchange.take()
      if (!piece) break
      text += piece
    }
    const { status } = exchange
    if (withUsage && [400, 422].includes(status) && text.includes('stream_options')) {
      asksForUsage = false
      return new Unsupported('MODEL_BAD_REQUEST', `${url.host} cannot report usage in a stream.`)
    }
    return providerFault({ status, headers: exchange.headers, text }, asked)
  }

  /** The batches of deltas of one answer: one batch for what came together, undefined at the end. */
  function read(exchange: ProviderExchange) {
    const chunks = new ChunkReader(asked, maxAnswer)
    let batch: Delta[] = []
    let done = false
    let body = ''
    let form: 'unknown' | 'events' | 'json' = 'unknown'
    let progressAt = performance.now()
    const events = createParser({
      // Room for one event that holds a whole answer, escaped.
      maxBufferSize: 2 * maxAnswer,
      onEvent({ data }) {
        if (data === '[DONE]') done = true
        else if (data && !done) chunks.take(data, batch)
      },
      onError(error) {
        if (error.type === 'max-buffer-size-exceeded')
          throw modelFault('MODEL_ANSWER_TOO_LONG', url.host, `sent an event without end.`)
      },
    })

    function feed(text: string) {
      if (form === 'unknown') {
        body += text.replace('\uFEFF', '')
        const start = body.trimStart()[0]
        if (!start) return
        text = body
        body = ''
        form = start === '{' || start === '[' ? 'json' : 'events'
        if (start === '<')
          throw modelFault('MODEL_ANSWER_INVALID', url.host, `answered with a web page.`, {
            check: 'OPENAI_BASE_URL is most likely not the address of an API.',
          })
      }
      if (form === 'events') return events.feed(text)
      body += text
      if (body.length > 2 * maxAnswer)
        throw modelFault('MODEL_ANSWER_TOO_LONG', url.host, `sent an answer without end.`)
    }

    function ending() {
      if (form === 'events') events.feed('\n\n')
      else if (body) chunks.take(body, batch)
      if (form === 'json' && !chunks.finished && batch.length === 0)
        throw modelFault('MODEL_ANSWER_INVALID', url.host, `sent JSON that is no answer.`)
      if (!done && !chunks.finished)
        throw modelFault('MODEL_STREAM_BROKEN', url.host, `ended before its answer did.`)
      done = true
    }

    /** What there is now; when the answer was whole, only the farewell can be missing. */
    function taken() {
      try {
        return exchange.take()
      } catch (error) {
        if (chunks.finished && isCode(error, 'MODEL_STREAM_BROKEN')) return undefined
        throw error
      }
    }

    let failure: { readonly error: unknown } | undefined
    async function next(): Promise<readonly Delta[] | undefined> {
      if (failure) throw failure.error
      batch = []
      try {
        while (batch.length === 0 && !done) {
          const ms = chunks.finished ? afterwordMs : form === 'unknown' ? firstTokenMs : idleMs
          await exchange.ready(ms)
          const text = taken()
          if (text) feed(text)
          else if (text === undefined) ending()
          else if (chunks.finished) done = true
          else throw silent('nothing', ms)
          if (done && chunks.usage) batch.push(chunks.usage)
          if (batch.length > 0) progressAt = performance.now()
          else if (performance.now() - progressAt > stallMs) throw silent('no words', stallMs)
        }
      } catch (error) {
        // The words that came in one piece with the fault are said first.
        if (batch.length === 0) throw error
        failure = { error }
      }
      return batch.length > 0 ? batch : undefined
    }
    return { next }
  }

  function silent(what: string, ms: number) {
    return modelFault('MODEL_TIMEOUT', url.host, `sent ${what} for ${ms / 1000} s.`)
  }

  async function begun(request: ModelRequest) {
    for (let attempt = 1; ; attempt++) {
      try {
        return await begin(request)
      } catch (error) {
        request.signal.throwIfAborted()
        if (error instanceof Unsupported) continue
        const wait = waitBefore(attempt, error)
        if (attempt >= attempts || wait === undefined) throw error
        await pause(wait, undefined, { signal: request.signal }).catch(() =>
          request.signal.throwIfAborted(),
        )
      }
    }
  }

  /** One answer; whoever leaves before its end drops the connection. */
  async function* batches(request: ModelRequest) {
    const { first, answer, exchange } = await begun(request)
    let whole = false
    try {
      for (let batch = first; batch; batch = await answer.next()) yield batch
      whole = true
    } finally {
      if (whole) exchange.finish()
      else exchange.destroy()
    }
  }

  return {
    id: `openai/${name}`,
    label: options.label ?? name,
    contextWindow: options.contextWindow,
    async *stream(request) {
      for await (const batch of batches(request)) yield* batch
    },
    async streamTo(request, take) {
      for await (const batch of batches(request)) for (const delta of batch) take(delta)
    },
  }
}

/** The server refused an extra of ours; the same request goes again without it. */
class Unsupported extends RuntimeError {}

function isCode(error: unknown, code: string): boolean {
  return error instanceof RuntimeError && error.code === code
}

/** How long to wait before the next attempt, or undefined when another would not help. */
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
  // Half of it by chance, so that callers who failed together do not come back together.
  return 500 * 2 ** (attempt - 1) * (0.5 + Math.random() / 2)
}

/** A name that does not resolve or a certificate that does not hold will not do so in a second. */
const permanent = /ENOTFOUND|CERT|SELF_SIGNED|UNABLE_TO|ERR_TLS|ERR_INVALID|EPROTO/

function completionsUrl(base = 'https://api.openai.com/v1'): URL {
  const url = URL.canParse(base) ? new URL(base) : undefined
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password)
    throw new RuntimeError('ENV_INVALID', 'OPENAI_BASE_URL is not an http or https address.', {
      hint: 'It reads like https://api.openai.com/v1, and the key goes into OPENAI_API_KEY.',
    })
  const path = url.pathname.replace(/\/+$/, '')
  if (!path.endsWith('/chat/completions')) url.pathname = `${path || '/v1'}/chat/completions`
  return url
}
