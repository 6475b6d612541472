import type { Message, Model, ModelRequest } from '../../plugin.ts'
import { MessageSum } from './usage/message-sum.ts'

type Said = Extract<Message, { role: 'assistant' }>

/** Who may read what the provider of a model wants back. */
export function originOf({ origin, id }: Model): string {
  return origin ?? id
}

/**
 * The same messages without the data of any provider. Each is made once: a model finds out by the object what it has sent
 * before.
 */
const plain = new WeakMap<Message, Said>()

function withoutProvider(message: Said): Said {
  let known = plain.get(message)
  if (!known) {
    const { provider: _, ...said } = message
    plain.set(message, (known = said))
  }
  return known
}

/** How many messages of a conversation have data of another provider, by who may read what a model's own provider wants back. */
const foreignTo = new Map<string, MessageSum>()

function isForeignTo(origin: string, message: Message): message is Said {
  const { by } = (message.role === 'assistant' && message.provider) || {}
  return by !== undefined && by !== origin
}

function foreignOf(origin: string): MessageSum {
  let sum = foreignTo.get(origin)
  if (!sum) {
    sum = new MessageSum((message) => (isForeignTo(origin, message) ? 1 : 0))
    if (foreignTo.size >= mostOrigins) foreignTo.clear()
    foreignTo.set(origin, sum)
  }
  return sum
}
const mostOrigins = 200

/** A request as a model gets it: what other providers want back is left out. */
export function forModel(request: ModelRequest, model: Model): ModelRequest {
  const origin = originOf(model)
  if (!foreignOf(origin).isAny(request.messages)) return request
  const messages = request.messages.map((message) =>
    isForeignTo(origin, message) ? withoutProvider(message) : message,
  )
  return { ...request, messages }
}
