import { randomUUID } from 'node:crypto'
import { RuntimeError } from '../../../errors.ts'
import type {
  Delta,
  Message,
  Model,
  ModelContext,
  ModelReply,
  ModelRequest,
  ModelUsage,
  RunUsage,
} from '../../../plugin.ts'
import { Assembly } from '../../model/assemble.ts'
import { onion, type Layer } from '../../base/onion.ts'
import { isOpen, type PluginRecord } from '../../base/plugin-record.ts'
import { underWay } from '../../watchdog/under-way.ts'
import { UsageTally } from './tally.ts'
import { turnContext, type Turn } from '../turn/turn.ts'
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
}

/** Hears a model's answer piece by piece, while the model gives it. */
export interface Hear {
  text(text: string): void
  reasoning(text: string): void
  /** Hears that the arguments of a call grow. `args` is their text so far. */
  arguments?(call: { readonly id: string; readonly name: string; readonly args: string }): void
}

/** A model call with the plugins' `model` layers around it. */
export type CallModel = (calling: ModelCalling) => Promise<ModelReply>

/** The outcome of a model call. After a fault or a stop, the message has the words that the model said before. */
export interface HeardAnswer {
  readonly message: Extract<Message, { role: 'assistant' }>
  readonly fault?: { readonly error: unknown }
}

/** Composes the plugins' `model` layers around the model itself. One composition serves all calls. */
export function composeModel(records: readonly PluginRecord[]): CallModel {
  const layers = records
    .filter((record) => record.base && record.definition.middleware?.model)
    .map((record): Layer<ModelCalling, ModelReply> => {
      const layer = record.definition.middleware!.model!
      return (calling, next) => {
        if (!isOpen(record)) return next()
        // A request that a layer puts in `ctx.request` is the one that the layers inside it and the model get.
        const ctx: ModelContext = Object.defineProperty(
          turnContext(record, calling.turn) as ModelContext,
          'request',
          {
            enumerable: true,
            get: () => calling.request,
            set: (request: ModelRequest) => (calling.request = request),
          },
        )
        return layer(ctx, next)
      }
    })
  return onion(layers, stream)
}

/** The core of the onion: hands the model's deltas to `hear` as they come, and gathers them for the reply. */
async function stream(calling: ModelCalling): Promise<ModelReply> {
  const { turn, model, request, hear, gathered, tally } = calling
  const count = tally.call(request)
  const take = (delta: Delta) => {
    turn.signal.throwIfAborted()
    count(delta)
    gathered.add(delta)
    if (delta.type === 'text') hear.text(delta.text)
    else if (delta.type === 'reasoning') hear.reasoning(delta.text)
    else if (delta.type === 'tool-call' && hear.arguments) {
      const call = gathered.call(delta.index)
      if (call) hear.arguments(call)
    }
  }
  underWay(`model ${model.id}`)
  if (model.streamTo) await model.streamTo(request, take)
  else for await (const delta of model.stream(request)) take(delta)
  return gathered.reply()
}

/** Calls the model and listens, until the model has answered or failed, or the turn is stopped. */
export async function hearAnswer(
  callModel: CallModel,
  asked: Omit<ModelCalling, 'gathered' | 'tally'>,
): Promise<HeardAnswer> {
  const gathered = new Assembly()
  const tally = new UsageTally()
  const { signal } = asked.turn
  const of = (usage: ModelUsage | undefined) => usage && { model: asked.model.id, ...usage }
  try {
    const reply = await untilAborted(signal, callModel({ ...asked, gathered, tally }))
    // When a layer answers in place of the model, no text was streamed, so `hear` gets the text now.
    if (gathered.length === 0) asked.hear.text(reply.content)
    return { message: asMessage({ ...reply, usage: of(tally.ofReply(reply)) }) }
  } catch (error) {
    // The message leaves out the calls: of the last one only a part may have arrived.
    const usage = of(tally.ofFailure(signal.aborted))
    return { message: asMessage({ ...gathered.reply(), toolCalls: [], usage }), fault: { error } }
  }
}

type Told = Omit<ModelReply, 'usage'> & { readonly usage?: RunUsage }

function asMessage({ content, reasoning, toolCalls, usage }: Told): HeardAnswer['message'] {
  return {
    role: 'assistant',
    // The kernel makes the id: a provider's id may repeat, and then one message would replace another.
    id: randomUUID(),
    content,
    ...(toolCalls.length > 0 && { toolCalls }),
    ...(reasoning && { reasoning }),
    ...(usage && { usage }),
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
