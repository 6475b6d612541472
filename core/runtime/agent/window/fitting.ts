import { RuntimeError } from '../../../errors.ts'
import type { Message, Model, RunUsage, TurnEvents } from '../../../plugin.ts'
import { OpenedLater } from '../../model/opened-later.ts'
import type { Gauge, Gauges } from '../../model/window/gauges.ts'
import { messageBytes, bytesOfAll, bytesOfConversation } from '../../model/window/sizes.ts'
import type { Summary } from '../../turns/run.ts'
import { cutWords, isWords } from '../../turns/summary.ts'
import { mended } from '../ask/history.ts'
import { hasParts, withParts } from '../ask/parts.ts'
import { foreignInAll } from '../turn/consent.ts'
import { folded, spanOf } from './fold.ts'
import { pruned } from './prune.ts'
import { summarised, type AskAside } from './summarise.ts'
import { trimmed } from './trim.ts'

/** The part of a window that a request takes at most, and the parts after one and two refusals. */
const shares = [0.75, 0.5, 0.35] as const
/** The part of a window that a summary takes at most. */
const summaryShare = 0.08
/** The part of a conversation that stays beside a summary. */
const newestShare = 1 / 3

/** How a conversation was made shorter, as listeners hear of it. */
export type Shortened = TurnEvents['context']

/** How summaries are made. */
export interface Summaries {
  /** The model that writes them; without one the model that is about to read. */
  readonly small?: Model
  readonly ask: AskAside
  /** Writes a summary down. It is read only when this has resolved. */
  keep(summary: Summary): Promise<void>
  /** Notes what an attempt cost that came to nothing. */
  spent(usages: readonly RunUsage[]): void
  /** Says in the log why there is no summary. */
  failed(error: unknown): void
}

/** What the conversation of one loop is made to fit with. */
export interface FittingOptions {
  /** The conversation up to and with the words that began the turn. */
  readonly before: readonly Message[]
  /** What was said since then: it grows at its end. */
  readonly since: readonly Message[]
  /** The newest summary of this loop, where an earlier process has made one. */
  readonly summary?: Summary
  readonly gauges: Gauges
  readonly summaries?: Summaries
  /** Whether a tool writes, as far as anybody knows. */
  isWrite(tool: string): boolean
  tell(shortened: Shortened): void
}

/** A request that is to be sent. */
export interface ToFit {
  /** The model that reads it. */
  readonly model: Model
  /** How many bytes stand in it beside the conversation. */
  readonly beside: number
  /** How often the model has refused it as too long. */
  readonly refusals: number
  readonly signal: AbortSignal
}

/** What a model reads of a conversation. */
export interface Fitted {
  readonly messages: readonly Message[]
  /** How many bytes the whole request has. */
  readonly bytes: number
  /** Whether any of the messages has files beside its words. */
  readonly hasParts: boolean
}

/**
 * The conversation of one loop, as far as its model can read it. Before it would take more than three quarters of the
 * window, the results of old calls are left out, then its older part is summarised; both stay so. Where that does not
 * help, the oldest messages are left out of this one request.
 */
export class Fitting {
  readonly #options: FittingOptions
  /** The id of the words that began the turn, or of a sub-agent's task. */
  readonly #asking: string
  #messages: Message[]
  /** How many of the messages were there before the turn, and are as they will stay. */
  #early: number
  #isUntouched = true
  /** Whether a message has parts. Once one had them, it may still be there. */
  #hasParts = false
  /** How much of `since` was taken up. */
  #taken = 0
  #bytes = 0
  /** The model for which the bytes were counted. */
  #counted: Model | undefined
  #hasFailed = false
  /** How many messages the last request left out, so that listeners hear of each change once. */
  #trimmed = 0

  constructor(options: FittingOptions) {
    const { before, since, summary } = options
    const words = before.at(-1)
    this.#options = options
    this.#asking = words?.role === 'user' ? words.id : ''
    this.#messages = [...before]
    this.#early = before.length
    this.#hasParts = withParts.isAny(before)
    if (!summary) return
    this.#takeUp()
    this.#replace(folded(this.#messages, summary, this.#asking))
    this.#taken = since.length
  }

  /** The conversation with all that was said so far, and a result for every call. */
  conversation(): readonly Message[] {
    this.#takeUp()
    const late = this.#messages.slice(this.#early)
    return [...this.#messages.slice(0, this.#early), ...mended(late)]
  }

  /** What the model reads now. Throws MODEL_CONTEXT_TOO_LONG where the words that began the turn are too long alone. */
  fit(asking: ToFit): Fitted | Promise<Fitted> {
    const { model, beside } = asking
    const bytes = this.#count(model)
    const room = this.#room(asking)
    if (bytes <= room) return this.#whole(beside)
    return this.#shorten(asking, room)
  }

  async #shorten(asking: ToFit, room: number): Promise<Fitted> {
    const { model, beside, signal } = asking
    this.#demandWords(asking)
    this.#cutLongWords(model)
    if (this.#bytes > room) this.#prune(asking)
    if (this.#bytes > room) await this.#summarise(asking)
    signal.throwIfAborted()
    if (this.#bytes <= room) return this.#whole(beside)
    const messages = trimmed(this.#messages, room, (message) => messageBytes(message, model))
    const bytes = bytesOfAll(messages, model)
    const left = this.#messages.length - messages.length
    if (left !== this.#trimmed) this.#tell('trimmed', left, asking, this.#bytes, bytes)
    this.#trimmed = left
    return { messages, bytes: bytes + beside, hasParts: this.#hasParts }
  }

  #whole(beside: number): Fitted {
    return { messages: this.#messages, bytes: this.#bytes + beside, hasParts: this.#hasParts }
  }

  /** How many bytes of conversation fit beside what else stands in the request. */
  #room({ model, beside, refusals }: ToFit): number {
    const gauge = this.#gauge(model)
    const window = gauge.window(model)
    const share = shares[Math.min(refusals, shares.length - 1)] ?? shares[0]
    const most = Math.min(window * share, Math.max(window / 2, window - answerOf(model)))
    // A prompt that fills the window leaves the conversation half of the rest.
    const tokens = Math.max(most - gauge.tokens(beside), (window - gauge.tokens(beside)) / 2, 0)
    return gauge.bytes(tokens)
  }

  #demandWords({ model, beside }: ToFit): void {
    const gauge = this.#gauge(model)
    const words = this.#messages.find((message) => isWords(message) && message.id === this.#asking)
    if (!words || !gauge.isKnown(model)) return
    const window = gauge.window(model)
    const tokens = gauge.tokens(messageBytes(words, model))
    // A prompt that fills the window is not the user's doing.
    if (tokens <= window - Math.min(gauge.tokens(beside), window / 2)) return
    throw tooLongWords(model, tokens, window)
  }

  /** Cuts what the user said in earlier turns and no model of this window could read. */
  #cutLongWords(model: Model): void {
    const gauge = this.#gauge(model)
    const most = gauge.bytes(gauge.window(model) * shares[0])
    const isTooLong = (message: Message) =>
      isWords(message) && message.id !== this.#asking && messageBytes(message, model) > most
    if (!this.#messages.some(isTooLong)) return
    const early = this.#early
    this.#replace(
      this.#messages.map((message) =>
        isWords(message) && isTooLong(message) ? cutWords(message) : message,
      ),
    )
    this.#early = early
  }

  #prune(asking: ToFit): void {
    const before = this.#bytes
    const shorter = pruned(this.#messages, this.#options.isWrite)
    if (!shorter) return
    const early = this.#early
    this.#replace(shorter.messages)
    this.#early = early
    this.#tell('pruned', shorter.left, asking, before, this.#count(asking.model))
  }

  async #summarise(asking: ToFit): Promise<void> {
    const { model, beside, signal } = asking
    const { summaries, gauges } = this.#options
    if (!summaries || this.#hasFailed) return
    const gauge = this.#gauge(model)
    const characters = gauge.bytes(gauge.window(model) * summaryShare)
    const kept = Math.min(this.#bytes * newestShare, this.#room(asking) - characters)
    const span = spanOf(this.#messages, Math.max(0, kept), (message) =>
      messageBytes(message, model),
    )
    if (!span || bytesOfAll(span.messages, model) < 2 * characters) return
    const by = summaries.small ?? model
    const { ask } = summaries
    const { text, error, usages, ...more } = await summarised(span.messages, {
      model: by,
      gauges,
      ask,
      characters,
    })
    if (error !== undefined || signal.aborted) {
      this.#hasFailed = true
      summaries.spent(usages)
      if (!signal.aborted) summaries.failed(error)
      return
    }
    const foreign = foreignInAll(span.messages)
    const summary: Summary = {
      ...{ upTo: span.upTo, text, model: more.model, usage: usages },
      ...(foreign !== undefined && { foreign }),
    }
    await summaries.keep(summary)
    const before = this.#bytes
    this.#replace(folded(this.#messages, summary, this.#asking))
    this.#tell('summarised', span.messages.length, { model, beside }, before, this.#count(model))
  }

  #tell(
    kind: Shortened['kind'],
    messages: number,
    { model, beside }: Pick<ToFit, 'model' | 'beside'>,
    before: number,
    after: number,
  ): void {
    const gauge = this.#gauge(model)
    const [tokensBefore, tokensAfter] = [
      gauge.tokens(before + beside),
      gauge.tokens(after + beside),
    ]
    this.#options.tell({ kind, messages, tokensBefore, tokensAfter })
  }

  #replace(messages: Message[]): void {
    this.#messages = messages
    this.#early = 0
    this.#isUntouched = false
    this.#counted = undefined
    this.#trimmed = 0
  }

  /** Takes up what was said since the last request; returns it. */
  #takeUp(): readonly Message[] {
    const { since } = this.#options
    if (this.#taken === since.length) return []
    const fresh = since.slice(this.#taken)
    this.#taken = since.length
    this.#messages.push(...fresh)
    this.#hasParts ||= fresh.some(hasParts)
    return fresh
  }

  #count(model: Model): number {
    if (this.#counted === model) {
      this.#bytes += bytesOfAll(this.#takeUp(), model)
      return this.#bytes
    }
    const { before } = this.#options
    this.#takeUp()
    this.#bytes = this.#isUntouched
      ? bytesOfConversation(before, model) + bytesOfAll(this.#messages.slice(before.length), model)
      : bytesOfConversation(this.#messages, model, true)
    this.#counted = model
    return this.#bytes
  }

  #gauge(model: Model): Gauge {
    return this.#options.gauges.of(model)
  }
}

/** Says that what the user wrote is longer than a model can read. */
function tooLongWords({ id }: Model, tokens: number, window: number): RuntimeError {
  return new RuntimeError(
    'MODEL_CONTEXT_TOO_LONG',
    `Your message is longer than "${id}" can read.`,
    {
      hint: 'Send less at once, or choose a model with a larger window.',
      details: { tokens, window },
    },
  )
}

/** How many tokens the operator has set aside for an answer. */
const answerOf = (model: Model): number =>
  model instanceof OpenedLater ? (model.settings.maxOutputTokens ?? 0) : 0
