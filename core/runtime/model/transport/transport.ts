import { setTimeout as pause } from 'node:timers/promises'
import type { Delta, ModelRequest } from '../../../plugin.ts'
import { ProviderAnswer, type AnswerFraming } from './answer.ts'
import { poster, type Post, type ProviderExchange } from './post.ts'
import { providerFault, type Asked } from './provider-fault.ts'
import { readText } from './read-text.ts'
import { waitBefore } from './retry.ts'
import { usualLimits, type CallLimits, type Changes, type Wire, type WireRefusal } from './wire.ts'

/** Where a model is asked, and in which language. */
export interface TransportOptions extends Partial<CallLimits> {
  /** The model's name at the provider. */
  readonly model: string
  readonly url: URL
  /** The headers of every request, with the key where the provider wants it. */
  readonly headers?: Readonly<Record<string, string>>
  /** The key: it is taken out of everything that is kept of a provider's words. */
  readonly secret?: string
  /** The names of the settings that hold the key and the address, for the operator. */
  readonly settings: Asked['settings']
  readonly wire: Wire
  /** How the provider frames its answers: server-sent events by default, or a JSON text on each line. */
  readonly framing?: AnswerFraming
}

/** How much of an error page is read: enough to tell the faults apart. */
const errorPage = 64 * 1024
/** How many changes a server may ask for, one after the other, before the refusal stands. */
const mostChanges = 5

/** Asks one model: connections, limits of time and size, attempts, faults and frames are the same for every provider. */
export class ModelTransport {
  readonly #asked: Asked
  readonly #post: Post
  readonly #wire: Wire
  readonly #framing: AnswerFraming
  readonly #limits: CallLimits
  readonly #attempts: number | undefined
  #changes: Changes = new Map()

  constructor(options: TransportOptions) {
    const { model, url, headers, secret, settings, wire, framing = 'events', ...given } = options
    this.#asked = { model, host: url.host, secret, settings }
    const accept = framing === 'events' ? 'text/event-stream' : 'application/x-ndjson'
    const sent = { 'content-type': 'application/json', accept, ...headers }
    this.#post = poster(url, sent, settings.address)
    this.#wire = wire
    this.#framing = framing
    this.#attempts = given.attempts
    this.#limits = withDefaults(given)
  }

  /** Gives the deltas of one answer, one by one. A reader that leaves before the end drops the connection. */
  async *stream(request: ModelRequest): AsyncGenerator<Delta> {
    const call = new Call(this, request)
    try {
      // `yield*` would wait three times for each delta of a batch, as it takes every iterable for an asynchronous one.
      for (let batch = await call.next(); batch; batch = await call.next())
        for (const delta of batch) yield delta
    } finally {
      call.end()
    }
  }

  /** Gives the deltas of one answer to `take`, without a promise for each. */
  async streamTo(request: ModelRequest, take: (delta: Delta) => void): Promise<void> {
    const call = new Call(this, request)
    try {
      for (let batch = await call.next(); batch; batch = await call.next())
        for (const delta of batch) take(delta)
    } finally {
      call.end()
    }
  }

  /** How often a request is tried: as the model is set, else as the caller says, else four times. */
  attemptsOf(request: ModelRequest): number {
    return this.#attempts ?? request.attempts ?? usualLimits.attempts
  }

  /** Posts the request and resolves once an answer has begun. What the server refuses by name is changed on the way. */
  async begin(request: ModelRequest): Promise<BegunAnswer> {
    request.onHost?.(this.#asked.host)
    for (let changed = 0; ; changed++) {
      const sent = this.#changes
      const made = this.#wire.body(request, sent)
      const { body, headers } = asBody(made instanceof Promise ? await made : made)
      const exchange = await this.#post(
        body,
        request.signal,
        { connectMs: this.#limits.connectMs, headMs: this.#limits.firstTokenMs },
        headers,
      )
      if (exchange.status === 200) return this.#begun(exchange, request)
      try {
        const { status } = exchange
        const text = await readText(exchange, errorPage)
        if (changed < mostChanges && this.#learns({ status, text }, sent, request)) continue
        throw providerFault({ status, headers: exchange.headers, text }, this.#asked)
      } finally {
        exchange.destroy()
      }
    }
  }

  #begun(exchange: ProviderExchange, request: ModelRequest): BegunAnswer {
    const reader = this.#wire.reader(this.#asked, request)
    const answer = new ProviderAnswer(exchange, this.#asked, this.#limits, reader, this.#framing)
    return { exchange, answer }
  }

  /** Whether the wire knows what to change after a refusal of a request that was sent with the changes `sent`. */
  #learns(refusal: WireRefusal, sent: Changes, request: ModelRequest): boolean {
    if (refusal.status !== 400 && refusal.status !== 422) return false
    const change = this.#wire.change?.(refusal, sent, request)
    if (!change || (sent.has(change[0]) && sent.get(change[0]) === change[1])) return false
    // Another call may have learned something meanwhile, so the change goes into what is known now.
    this.#changes = new Map(this.#changes).set(...change)
    return true
  }
}

/** Makes the transport of a model: what every wire has in common. */
export function modelTransport(options: TransportOptions): ModelTransport {
  return new ModelTransport(options)
}

interface BegunAnswer {
  readonly exchange: ProviderExchange
  readonly answer: ProviderAnswer
}

/** One call of a model. Until its first word or tool call it can be repeated, because nobody heard more than thoughts. */
class Call {
  readonly #transport: ModelTransport
  readonly #request: ModelRequest
  #begun: BegunAnswer | undefined
  #attempt = 1
  #spoke = false
  #whole = false

  constructor(transport: ModelTransport, request: ModelRequest) {
    this.#transport = transport
    this.#request = request
  }

  /** The next deltas; undefined at the end of the answer. */
  async next(): Promise<readonly Delta[] | undefined> {
    for (;;) {
      try {
        this.#begun ??= await this.#transport.begin(this.#request)
        const batch = await this.#begun.answer.next()
        if (batch) this.#spoke ||= batch.some(isSpeech)
        else this.#whole = true
        return batch
      } catch (error) {
        await this.#beforeNext(error)
      }
    }
  }

  /** Ends the call: the connection is kept where the answer was read to its end. */
  end(): void {
    if (this.#whole) this.#begun?.exchange.finish()
    else this.#begun?.exchange.destroy()
  }

  /** Waits before the next attempt, or throws when there is none. */
  async #beforeNext(error: unknown): Promise<void> {
    this.#begun?.exchange.destroy()
    this.#begun = undefined
    const { signal } = this.#request
    signal.throwIfAborted()
    const wait = this.#spoke ? undefined : waitBefore(this.#attempt, error)
    if (wait === undefined || this.#attempt >= this.#transport.attemptsOf(this.#request))
      throw error
    this.#attempt++
    this.#request.onRetry?.(this.#attempt, error)
    await pause(wait, undefined, { signal }).catch(() => signal.throwIfAborted())
  }
}

function isSpeech({ type }: Delta): boolean {
  return type === 'text' || type === 'tool-call'
}

function asBody(made: Awaited<ReturnType<Wire['body']>>) {
  return typeof made === 'string' ? { body: made, headers: undefined } : made
}

function withDefaults(given: Partial<CallLimits>): CallLimits {
  const set = Object.entries(given).filter(([, value]) => value !== undefined)
  return { ...usualLimits, ...Object.fromEntries(set) }
}
