import type { z } from 'zod'
import { RuntimeError } from '../../../errors.ts'
import type {
  AskableModel,
  AskedPrompt,
  AskOptions,
  Delta,
  Log,
  Model,
  ModelCall,
  ModelRequest,
  Schema,
} from '../../../plugin.ts'
import { askAside, type AskedFor, type AsideQuestion } from './ask-aside.ts'
import { askObject } from './ask-object.ts'
import { promptMessages } from './prompt.ts'

/** How long an answer may take where nothing is set, and at most. */
const usualMs = 60_000
const mostMs = 600_000
/** How often handlers may ask in one turn. */
const mostInTurn = 100

/** Who asks, and who hears of it. */
export interface Asker {
  readonly for: AskedFor
  readonly signal?: () => AbortSignal
  /** Counts what is asked in a turn. */
  readonly asked?: { count: number }
  readonly tell: (call: ModelCall) => void
  readonly log: Log
}

/** Knows who asks. It is looked up when a model is asked. */
export interface AskedBy {
  readonly asker: Asker
}

/** Which models answer. They are looked up when they are asked: at the boot, some are not there yet. */
export interface ModelsToAsk {
  readonly main: () => Model
  /** The model of values; the main one where nothing is set. */
  readonly small: () => Model
}

/** A model as handlers have it: the model itself, and questions to it. */
export class AskedModel implements AskableModel {
  readonly #models: ModelsToAsk
  readonly #asking: AskedBy

  constructor(models: ModelsToAsk, asking: AskedBy) {
    this.#models = models
    this.#asking = asking
  }

  get id(): string {
    return this.#models.main().id
  }
  get label(): string | undefined {
    return this.#models.main().label
  }
  get origin(): string | undefined {
    return this.#models.main().origin
  }
  get contextWindow(): number | undefined {
    return this.#models.main().contextWindow
  }
  get maxOutputTokens(): number | undefined {
    return this.#models.main().maxOutputTokens
  }
  get price(): Model['price'] {
    return this.#models.main().price
  }
  get reads(): Model['reads'] {
    return this.#models.main().reads
  }
  get can(): Model['can'] {
    return this.#models.main().can
  }

  stream(request: ModelRequest): AsyncIterable<Delta> {
    return this.#models.main().stream(request)
  }

  async streamTo(request: ModelRequest, take: (delta: Delta) => void): Promise<void> {
    const model = this.#models.main()
    if (model.streamTo) return await model.streamTo(request, take)
    for await (const delta of model.stream(request)) take(delta)
  }

  async text(prompt: AskedPrompt, options: AskOptions = {}): Promise<string> {
    const { text, usage } = await this.#ask(options, (question) =>
      askAside({
        ...question,
        model: this.#models.main(),
        messages: promptMessages(prompt, options.system),
      }),
    )
    if (text.trim()) return text
    throw new RuntimeError(
      'MODEL_ANSWER_INVALID',
      `"${usage.model}" ended its answer without a word.`,
    )
  }

  async object<S extends Schema>(
    schema: S,
    prompt: AskedPrompt,
    options: AskOptions = {},
  ): Promise<z.core.output<S>> {
    return await this.#ask(options, (question) =>
      askObject(schema, {
        ...question,
        model: this.#models.small(),
        messages: promptMessages(prompt, options.system),
      }),
    )
  }

  /** Asks within the bounds of time and number. */
  async #ask<T>(
    options: AskOptions,
    ask: (
      question: Pick<AsideQuestion, 'signal' | 'for' | 'tell' | 'log' | 'settings'>,
    ) => Promise<T>,
  ): Promise<T> {
    const { for: askedFor, asked, tell, log, signal: handlerSignal } = this.#asking.asker
    const { timeoutMs = usualMs, signal: own } = options
    if (!(timeoutMs > 0 && timeoutMs <= mostMs))
      throw new RuntimeError(
        'INPUT_INVALID',
        `A model was asked with a timeoutMs of ${String(timeoutMs)}.`,
        {
          hint: `It is a number of milliseconds, at most ${mostMs}.`,
        },
      )
    const handler = handlerSignal?.()
    const late = new AbortController()
    const signal = AbortSignal.any([
      late.signal,
      ...[own, handler].filter((each) => each !== undefined),
    ])
    signal.throwIfAborted()
    if (asked) count(asked)
    const timer = setTimeout(() => late.abort(tooLate(timeoutMs)), timeoutMs)
    try {
      return await ask({ signal, for: askedFor, tell, log, settings: settingsOf(options) })
    } finally {
      clearTimeout(timer)
    }
  }
}

function count(asked: { count: number }): void {
  if (asked.count >= mostInTurn)
    throw new RuntimeError(
      'MODEL_CALLS_SPENT',
      `The plugins have asked models ${mostInTurn} times in this turn, which is the most.`,
      { hint: 'Go on in the next turn, ask for more at once, or hand the work to a job.' },
    )
  asked.count++
}

function settingsOf({ temperature, topP, maxOutputTokens, reasoning }: AskOptions) {
  const set = Object.entries({ temperature, topP, maxOutputTokens, reasoning })
  return Object.fromEntries(set.filter(([, value]) => value !== undefined))
}

const tooLate = (ms: number) =>
  new RuntimeError(
    'MODEL_TIMEOUT',
    `A model that a plugin asked gave no whole answer within ${ms / 1000} s.`,
    {
      hint: 'Ask for less at once, or give timeoutMs.',
    },
  )
