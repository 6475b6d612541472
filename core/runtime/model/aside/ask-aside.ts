import { randomUUID } from 'node:crypto'
import { RuntimeError } from '../../../errors.ts'
import type {
  Delta,
  Log,
  Message,
  Model,
  ModelCall,
  ModelRequest,
  ModelSettings,
  ModelUsage,
  RunUsage,
  ToolCall,
  ToolSpec,
} from '../../../plugin.ts'
import { untilAborted } from '../../base/until-aborted.ts'
import { underWay } from '../../watchdog/under-way.ts'
import { Assembly } from '../assemble.ts'
import { Walk } from '../chain.ts'
import { estimatedUsage } from '../estimate.ts'
import { originOf } from '../for-model.ts'
import { openedModel } from '../opened-later.ts'
import { checkedUsage, costOf } from '../usage/counts.ts'

/** For whom and for what a model is asked: what the facts of a call say beside its cost. */
export type AskedFor = Pick<ModelCall, 'did' | 'runId' | 'sessionId' | 'plugin' | 'kind'>

/** What a model is asked outside of the loop. */
export interface AsideQuestion {
  /** The model, or the chain, as it is offered. */
  readonly model: Model
  readonly messages: readonly Message[]
  /** The tools that the model may call. `settings.toolChoice` names the one that it must call. */
  readonly tools?: readonly ToolSpec[]
  readonly settings?: ModelSettings
  /** The value that is asked for, in place of words. Its name is that of the call which some models give it by. */
  readonly object?: WantedObject
  readonly signal: AbortSignal
  readonly for: AskedFor
  /** The bytes of a part of a message. */
  readonly file?: ModelRequest['file']
  /** The model of a chain that answered before. */
  readonly stayWith?: string
  /** Told once of each model that was asked, when its call has ended in whatever way. */
  readonly tell?: (call: ModelCall) => void
  readonly log?: Log
}

/** A value that a model is asked for. */
export interface WantedObject {
  readonly name: string
  readonly description: string
  /** JSON Schema of an object. */
  readonly schema: Record<string, unknown>
}

/** What a model answered outside of the loop. */
export interface AsideAnswer {
  readonly text: string
  readonly calls: readonly ToolCall[]
  /** What this answer cost, and which model gave it. */
  readonly usage: RunUsage
  /** The answer as a line of the conversation, for a further question. */
  readonly message: Extract<Message, { role: 'assistant' }>
}

/** The most characters of one answer. */
const mostCharacters = 16 * 1024 * 1024

/**
 * Asks a model outside of the loop, as a turn does: the models of a chain one after the other, until one has said a word.
 * Throws the model's fault, or the signal's reason at once when it fires, also where the model does not listen to it.
 */
export async function askAside(question: AsideQuestion): Promise<AsideAnswer> {
  const { signal, log } = question
  signal.throwIfAborted()
  const walk = new Walk(question.model, question.stayWith)
  for (;;) {
    const instead = walk.takeInstead()
    if (instead) log?.warn({ ...instead, ...question.for }, `model ${walk.model.id} answers`)
    const call = new AsideCall(question, walk)
    try {
      const answer = await untilAborted(signal, call.run())
      walk.answered()
      return answer
    } catch (error) {
      call.end(error)
      signal.throwIfAborted()
      walk.next(error)
    }
  }
}

/** One model that is asked, with everything that its facts say. */
class AsideCall {
  readonly #question: AsideQuestion
  readonly #walk: Walk
  readonly #model: Model
  #request: ModelRequest
  readonly #gathered = new Assembly()
  readonly #began = performance.now()
  #firstMs: number | undefined
  #attempts = 1
  #characters = 0
  #reported: ModelUsage | undefined
  #ended = false

  constructor(question: AsideQuestion, walk: Walk) {
    const { messages, tools = [], settings, signal, file } = question
    this.#question = question
    this.#walk = walk
    this.#model = walk.model
    this.#request = walk.request({
      messages,
      tools,
      signal,
      ...(settings && { settings }),
      ...(file && { file }),
      onRetry: (attempt) => (this.#attempts = attempt),
    })
  }

  /** Asks the model and gives its whole answer. */
  async run(): Promise<AsideAnswer> {
    const model = this.#model
    const take = (delta: Delta) => this.#take(delta)
    await openedModel(model)
    // What the model can do is known once it is open.
    const { object } = this.#question
    if (object) this.#request = askingFor(object, this.#request, model.can)
    underWay(`model ${model.id}`)
    if (model.streamTo) await model.streamTo(this.#request, take)
    else for await (const delta of model.stream(this.#request)) take(delta)
    this.#request.signal.throwIfAborted()
    return this.#answer()
  }

  /** Tells the facts of the call, once: what comes after the end is of no account. */
  end(error?: unknown): ModelUsage {
    const { signal } = this.#request
    const usage = this.#cost(error === undefined || signal.aborted)
    if (this.#ended) return usage
    this.#ended = true
    const code = error === undefined ? undefined : codeOf(error, signal)
    this.#question.tell?.({
      model: this.#model.id,
      ...this.#question.for,
      usage,
      ms: performance.now() - this.#began,
      ...(this.#firstMs !== undefined && { firstMs: this.#firstMs }),
      attempts: this.#attempts,
      ...(code && { code }),
    })
    return usage
  }

  #take(delta: Delta): void {
    this.#request.signal.throwIfAborted()
    this.#walk.hear(delta)
    this.#gathered.add(delta)
    if (delta.type === 'usage') {
      this.#reported = checkedUsage(delta, this.#reported)
      return
    }
    if (delta.type === 'provider' || delta.type === 'ended') return
    this.#firstMs ??= performance.now() - this.#began
    this.#characters +=
      delta.type === 'tool-call'
        ? (delta.name?.length ?? 0) + (delta.args?.length ?? 0)
        : delta.text.length
    if (this.#characters > mostCharacters)
      throw new RuntimeError(
        'MODEL_ANSWER_TOO_LONG',
        `The model's answer has more than ${mostCharacters} characters.`,
        { hint: 'Ask for less, or set maxOutputTokens.' },
      )
  }

  /** What the call cost. A model that failed before its first word is taken to have cost nothing; one that was stopped had read. */
  #cost(wasRead: boolean): ModelUsage {
    if (!this.#reported && !wasRead && this.#characters === 0)
      return { inputTokens: 0, outputTokens: 0, cost: '0' }
    const usage = this.#reported ?? estimatedUsage(this.#request, this.#characters)
    return { ...usage, cost: costOf(usage, this.#model.price) }
  }

  #answer(): AsideAnswer {
    const { content, reasoning, toolCalls, provider } = this.#gathered.reply()
    const model = this.#model.id
    const usage = { model, ...this.end() }
    const by = originOf(this.#model)
    return {
      text: content,
      calls: toolCalls,
      usage,
      message: {
        role: 'assistant',
        id: randomUUID(),
        content,
        ...(toolCalls.length > 0 && { toolCalls }),
        ...(reasoning && { reasoning }),
        usage,
        model,
        ...(provider !== undefined && { provider: { by, data: provider } }),
      },
    }
  }
}

/** A call that was ended from outside says why, where the reason has a code: its time was over, for example. */
function codeOf(error: unknown, signal: AbortSignal): string {
  const cause: unknown = signal.aborted ? signal.reason : error
  if (cause instanceof RuntimeError) return cause.code
  return signal.aborted ? 'ABORTED' : 'MODEL_FAILED'
}

/** A request for a value: by the provider's mode for objects, else by a call that the model must make, else in words. */
function askingFor(
  { name, description, schema }: WantedObject,
  request: ModelRequest,
  can: Model['can'],
): ModelRequest {
  const { settings, messages } = request
  if (can?.object) return { ...request, settings: { ...settings, object: { name, schema } } }
  if (can?.tools !== false)
    return {
      ...request,
      tools: [{ name, description, parameters: schema }],
      settings: { ...settings, toolChoice: { tool: name } },
    }
  const content = `Answer with one JSON value and nothing else. It fits this JSON Schema: ${JSON.stringify(schema)}`
  return { ...request, messages: [{ role: 'system', content }, ...messages] }
}
