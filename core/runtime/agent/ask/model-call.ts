import { randomUUID } from 'node:crypto'
import { RuntimeError } from '../../../errors.ts'
import type {
  Delta,
  Message,
  Model,
  ModelContext,
  ModelReply,
  ModelRequest,
} from '../../../plugin.ts'
import { Assembly } from '../../model/assemble.ts'
import { onion, type Layer } from '../turn/onion.ts'
import type { PluginRecord } from '../../base/plugin-record.ts'
import { underWay } from '../../watchdog/under-way.ts'
import { turnContext, type Turn } from '../turn/turn.ts'
import { untilAborted } from '../turn/until-aborted.ts'

/** One call of the model on its way through the onion. */
export interface ModelCalling {
  readonly turn: Turn
  readonly model: Model
  request: ModelRequest
  /** Hears the answer as it comes. */
  readonly hear: Hear
  /** The reply so far, gathered from what was heard. */
  readonly gathered: Assembly
}

/** Who hears a model's answer as it comes. */
export interface Hear {
  text(text: string): void
  reasoning(text: string): void
  /** A call's arguments grow. `args` is their text so far. */
  arguments?(call: { readonly id: string; readonly name: string; readonly args: string }): void
}

/** A model call with the plugins' `model` layers around it. */
export type CallModel = (calling: ModelCalling) => Promise<ModelReply>

/** What a model call came to. Words that were said before a fault or a stop are kept. */
export interface HeardAnswer {
  readonly message: Extract<Message, { role: 'assistant' }>
  readonly fault?: { readonly error: unknown }
}

/** Composes the plugins' `model` layers around the model itself, once for all calls. */
export function composeModel(records: readonly PluginRecord[]): CallModel {
  const layers = records
    .filter((record) => record.base && record.definition.middleware?.model)
    .map((record): Layer<ModelCalling, ModelReply> => {
      const layer = record.definition.middleware!.model!
      return (calling, next) => {
        // What a layer puts in `ctx.request` is what the layers inside it, and the model, are asked.
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

/** The core of the onion: the model's deltas go straight to whoever listens, and the assembly gathers them on the way. */
async function stream({ turn, model, request, hear, gathered }: ModelCalling): Promise<ModelReply> {
  const take = (delta: Delta) => {
    turn.signal.throwIfAborted()
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

/** Calls the model and listens, until it has answered, failed, or was told to stop. */
export async function hearAnswer(
  callModel: CallModel,
  asked: Omit<ModelCalling, 'gathered'>,
): Promise<HeardAnswer> {
  const gathered = new Assembly()
  try {
    const reply = await untilAborted(asked.turn.signal, callModel({ ...asked, gathered }))
    // A layer that answers in place of the model has streamed nothing.
    if (gathered.length === 0) asked.hear.text(reply.content)
    return { message: asMessage(reply) }
  } catch (error) {
    // A call of which only a part arrived is not carried out.
    return { message: asMessage({ ...gathered.reply(), toolCalls: [] }), fault: { error } }
  }
}

function asMessage({ content, reasoning, toolCalls }: ModelReply): HeardAnswer['message'] {
  return {
    role: 'assistant',
    // An id of our own: a provider's may repeat, and then one message would replace another.
    id: randomUUID(),
    content,
    ...(toolCalls.length > 0 && { toolCalls }),
    ...(reasoning && { reasoning }),
  }
}

/** What a model's fault, or that of a layer around it, is called on the wire. */
export function asTurnError(thrown: unknown): RuntimeError {
  if (thrown instanceof RuntimeError) return thrown
  return new RuntimeError('INTERNAL', 'The turn failed on our side.', {
    hint: 'Try again; the log has the cause.',
    cause: thrown,
  })
}
