import { randomUUID } from 'node:crypto'
import { RuntimeError } from '../../../errors.ts'
import type {
  Delta,
  Log,
  Message,
  Model,
  ModelContext,
  ModelReply,
  ModelRequest,
  ProviderData,
  RunUsage,
} from '../../../plugin.ts'
import type { ModelWords } from '../../../plugin/context.ts'
import { Assembly } from '../../model/assemble.ts'
import { shown } from '../../../manifest/tools/tools.ts'
import { Walk, type Instead } from '../../model/chain.ts'
import { originOf } from '../../model/for-model.ts'
import type { Gauges } from '../../model/window/gauges.ts'
import { bytesOfRequest } from '../../model/window/sizes.ts'
import { openedModel } from '../../model/opened-later.ts'
import { fieldsIn } from '../../base/fields.ts'
import { onion, watchedLayer, type Layer } from '../../base/onion.ts'
import { isOpen, type PluginRecord } from '../../base/plugin-record.ts'
import { underWay } from '../../watchdog/under-way.ts'
import type { StepTiming } from '../../turns/run.ts'
import { UsageTally, type CallFacts, type CountedCall } from './tally.ts'
import { turnContext, type Turn, waitingTurn } from '../turn/turn.ts'
import { untilAborted } from '../../base/until-aborted.ts'

/** One call of the model on its way through the onion. */
export interface ModelCalling {
  readonly turn: Turn
  readonly model: Model
  request: ModelRequest
  readonly hear: Hear
  /** The reply so far, put together from the deltas of the model. */
  readonly gathered: Assembly
  /** What the calls of the model cost. */
  readonly tally: UsageTally
  /** The model of a chain that answered before in this turn. */
  readonly stayWith?: string
  /** The request as it was made to fit a model, and how many bytes it has there. */
  readonly sized?: {
    readonly request: ModelRequest
    readonly model: Model
    readonly bytes: number
  }
  /** Whether a request that is too long for its model comes back, to be made shorter. */
  readonly fitsAgain?: boolean
  /** Notes which model was asked last, and what it answered. */
  readonly said: { model?: Model; reply?: ModelReply }
}

/** Hears a model's answer piece by piece, while the model gives it. */
export interface Hear {
  text(text: string): void
  reasoning(text: string): void
  /** Hears that the arguments of a call grow. `args` is their text so far. */
  arguments?(call: { readonly id: string; readonly name: string; readonly args: string }): void
  /** Hears that another model answers than the one that was asked for. */
  instead?(instead: Instead): void
}

/** A model call with the plugins' `model` layers around it. */
export type CallModel = (calling: ModelCalling) => Promise<ModelReply>

/** The outcome of a model call. After a fault or a stop, the message has the words that the model said before. */
export interface HeardAnswer {
  readonly message: Extract<Message, { role: 'assistant' }>
  /** What other models cost that were asked before the one that answered. */
  readonly beside: readonly RunUsage[]
  readonly fault?: { readonly error: unknown }
  /** How long it took, where the journal keeps that. */
  readonly timing?: StepTiming
}

/** Composes the plugins' `model` layers around the model itself. One composition serves all calls. */
export function composeModel(
  records: readonly PluginRecord[],
  log?: Log,
  gauges?: Gauges,
): CallModel {
  const layers = records
    .filter((record) => record.base && record.definition.middleware?.model)
    .map((record): Layer<ModelCalling, ModelReply> => {
      const layer = record.definition.middleware!.model!
      const layered: Layer<ModelCalling, ModelReply> = (calling, next) => {
        if (!isOpen(record)) return next()
        // A request that a layer puts in `ctx.request` is the one that the layers inside it and the model get.
        const { turn } = calling
        const ctx: ModelContext = Object.defineProperties(
          turnContext(record, turn) as ModelContext,
          {
            request: {
              enumerable: true,
              get: () => calling.request,
              set: (request: ModelRequest) => (calling.request = request),
            },
            spent: { enumerable: true, get: () => turn.calls?.spent },
            say: { enumerable: true, value: (words: ModelWords) => say(calling, words) },
          },
        )
        return Promise.resolve(layer(ctx, next)).then((reply) => answered(reply, record.name))
      }
      return watchedLayer(layered, ({ turn }) => waitingTurn(record, 'model', turn))
    })
  return onion(layers, (calling) => stream(calling, log, gauges))
}

/** The reply that a layer returned, or an error that names the plugin whose layer returned none. */
function answered(reply: ModelReply, plugin: string): ModelReply {
  const { content, toolCalls } = fieldsIn(reply)
  if (typeof content === 'string' && Array.isArray(toolCalls)) return reply
  throw new TypeError(
    `middleware.model of ${plugin} returned ${shown(reply)}: return what next() resolves to, or { content, toolCalls }`,
  )
}

/** Says what a layer says itself, as if the model had said it: the client reads it now, and the journal keeps it. */
function say(
  { turn, hear, gathered }: ModelCalling,
  { text = '', reasoning = '' }: ModelWords,
): void {
  turn.signal.throwIfAborted()
  if (reasoning) {
    gathered.add({ type: 'reasoning', text: reasoning })
    hear.reasoning(reasoning)
  }
  if (!text) return
  gathered.add({ type: 'text', text })
  hear.text(text)
}

/**
 * The core of the onion: asks the model, or the models of a chain one after the other, hands the deltas to `hear` as they
 * come, and gathers them for the reply.
 */
async function stream(
  calling: ModelCalling,
  log: Log | undefined,
  gauges: Gauges | undefined,
): Promise<ModelReply> {
  const { turn, request, hear, gathered, said } = calling
  const walk = new Walk(calling.model, calling.stayWith, gauges?.windowOf)
  for (;;) {
    const { model } = walk
    const instead = walk.takeInstead()
    if (instead) {
      hear.instead?.(instead)
      log?.warn({ ...instead, requestId: turn.requestId }, `model ${model.id} answers`)
    }
    said.model = model
    const { measured } = gauges?.of(model) ?? {}
    const size = { bytes: () => bytesIn(calling, model), perToken: measured }
    const call = calling.tally.begin(model, walk.request(request), size)
    try {
      await openedModel(model)
      const read = await listen(calling, model, call, (delta) => walk.hear(delta))
      if (read !== undefined) gauges?.of(model).note(model, bytesIn(calling, model), read)
      walk.answered()
      call.end()
      return (said.reply = gathered.reply())
    } catch (error) {
      call.end(turn.signal.aborted, { error })
      turn.signal.throwIfAborted()
      if (calling.fitsAgain && !walk.hasSpoken && isTooLong(error)) throw error
      walk.next(error)
    }
  }
}

/** Whether a model has refused a request because it is longer than the model can read. */
export const isTooLong = (error: unknown): error is RuntimeError =>
  error instanceof RuntimeError && error.code === 'MODEL_CONTEXT_TOO_LONG'

/** How many bytes a request has for a model: counted anew only where a layer or a chain has made another request of it. */
function bytesIn({ request, sized }: ModelCalling, model: Model): number {
  const isSame = sized && sized.request === request && sized.model === model
  return isSame ? sized.bytes : bytesOfRequest(request, model)
}

/** Asks one model, and hands on its deltas. Resolves to how many tokens the model has read, where its provider says so. */
async function listen(
  { turn, hear, gathered }: ModelCalling,
  model: Model,
  call: CountedCall,
  heard: (delta: Delta) => void,
): Promise<number | undefined> {
  const { request } = call
  let read: number | undefined
  const take = (delta: Delta) => {
    turn.signal.throwIfAborted()
    heard(delta)
    call.take(delta)
    gathered.add(delta)
    if (delta.type === 'text') hear.text(delta.text)
    else if (delta.type === 'usage') read = delta.estimated ? undefined : delta.inputTokens
    else if (delta.type === 'reasoning') hear.reasoning(delta.text)
    else if (delta.type === 'tool-call' && hear.arguments) {
      const growing = gathered.call(delta.index)
      if (growing) hear.arguments(growing)
    }
  }
  underWay(`model ${model.id}`)
  if (model.streamTo) await model.streamTo(request, take)
  else for await (const delta of model.stream(request)) take(delta)
  return read
}

/** Calls the model and listens, until the model has answered or failed, or the turn is stopped. */
export async function hearAnswer(
  callModel: CallModel,
  asked: Omit<ModelCalling, 'gathered' | 'tally' | 'said'>,
): Promise<HeardAnswer> {
  const gathered = new Assembly()
  const { signal, calls } = asked.turn
  const watched = asked.turn.watch?.traces ? new Timed() : undefined
  const tally = new UsageTally((facts) => {
    watched?.heard(facts)
    calls?.ended(facts, () => gathered.reply())
  })
  const said: ModelCalling['said'] = {}
  try {
    const reply = await untilAborted(signal, callModel({ ...asked, gathered, tally, said }))
    // When a layer answers in place of the model, no text was streamed, so `hear` gets the text now.
    if (gathered.length === 0) asked.hear.text(reply.content)
    const { provider, ...told } = withWords(reply, gathered)
    const back = {
      model: said.model?.id,
      ...(isAsSaid(reply, said) && backTo(said.model, provider)),
    }
    const cost = costs(said.model, tally.ofReply(reply, asked.model))
    const message = asMessage({ ...told, ...back, usage: cost.usage })
    return { message, beside: cost.beside, timing: watched?.timing() }
  } catch (error) {
    // The message leaves out the calls: of the last one only a part may have arrived.
    const { usage, beside } = costs(said.model, tally.ofFailure(signal.aborted))
    const { content, reasoning } = gathered.reply()
    const model = said.model?.id
    const message = asMessage({ content, reasoning, toolCalls: [], usage, model })
    return { message, beside, fault: { error }, timing: watched?.timing(model) }
  }
}

/** A reply with the words that a layer has said on the way, where the reply itself has none. */
function withWords(reply: ModelReply, gathered: Assembly): ModelReply {
  if (reply.content !== '' || gathered.length === 0) return reply
  const { content, reasoning } = gathered.reply()
  return { ...reply, content, ...(reasoning && !reply.reasoning && { reasoning }) }
}

/** Measures one asking of a model, with all attempts and with the models of a chain that were asked before. */
class Timed {
  readonly #at = Date.now()
  readonly #began = performance.now()
  #facts: CallFacts | undefined

  heard(facts: CallFacts): void {
    this.#facts = facts
  }

  /** What the journal keeps; `model` names the model of a call that left no message. */
  timing(model?: string): StepTiming {
    const { firstMs, attempts, code } = this.#facts ?? {}
    const ms = performance.now() - this.#began
    return {
      at: this.#at,
      ms: tenths(ms),
      ...(firstMs !== undefined && { firstMs: tenths(firstMs) }),
      ...((attempts ?? 1) > 1 && { attempts }),
      ...(model !== undefined && { model }),
      ...(code !== undefined && { code }),
    }
  }
}

const tenths = (ms: number): number => Math.round(ms * 10) / 10

/** What the answer cost, and apart from it what other models cost that were asked for it. */
function costs(model: Model | undefined, all: readonly RunUsage[]) {
  const own = model ? all.find((each) => each.model === model.id) : all[0]
  const { calls, cost, ...usage } = own ?? { model: '', inputTokens: 0, outputTokens: 0 }
  return {
    // The journal leaves out what goes without saying: one call, an unknown cost.
    usage: own && { ...usage, ...((calls ?? 1) > 1 && { calls }), ...(cost && { cost }) },
    beside: all.filter((each) => each !== own),
  }
}

/** Whether a reply is what the model said: a layer that rewrote the words or the calls has left the provider's data behind. */
function isAsSaid(reply: ModelReply, { reply: own }: ModelCalling['said']): boolean {
  if (reply === own) return true
  return (
    reply.content === own?.content &&
    JSON.stringify(reply.toolCalls) === JSON.stringify(own.toolCalls)
  )
}

/** What the provider of a model wants back, for this model alone. */
function backTo(model: Model | undefined, data: unknown): Pick<Told, 'provider'> {
  return model && data !== undefined ? { provider: { by: originOf(model), data } } : {}
}

type Told = Omit<ModelReply, 'usage' | 'provider'> & {
  readonly usage?: RunUsage
  readonly model?: string
  readonly provider?: ProviderData
}

function asMessage({ content, reasoning, toolCalls, ...more }: Told): HeardAnswer['message'] {
  const { usage, model, provider, ended } = more
  return {
    role: 'assistant',
    // The kernel makes the id: a provider's id may repeat, and then one message would replace another.
    id: randomUUID(),
    content,
    ...(toolCalls.length > 0 && { toolCalls }),
    ...(reasoning && { reasoning }),
    ...(usage && { usage }),
    ...(model !== undefined && { model }),
    ...(provider && { provider }),
    ...(ended && { ended }),
  }
}

/** The error that the wire tells when the model or a layer around it threw. */
export function asTurnError(thrown: unknown): RuntimeError {
  if (thrown instanceof RuntimeError) return thrown
  return new RuntimeError('INTERNAL', 'The turn failed on our side.', {
    hint: 'Try again; the log has the cause.',
    cause: thrown,
  })
}
