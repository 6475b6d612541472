import type { Message, Model, ModelRequest } from '../../plugin.ts'

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

/** A request as a model gets it: what other providers want back is left out. */
export function forModel(request: ModelRequest, model: Model): ModelRequest {
  const origin = originOf(model)
  const isForeign = (message: Message): message is Said =>
    message.role === 'assistant' && message.provider !== undefined && message.provider.by !== origin
  if (!request.messages.some(isForeign)) return request
  const messages = request.messages.map((message) =>
    isForeign(message) ? withoutProvider(message) : message,
  )
  return { ...request, messages }
}
