import type { Message, MessagePart, Model, ModelRequest, ToolSpec } from '../../../plugin.ts'
import { originOf } from '../for-model.ts'
import { isTextPart, readsPart } from '../reads.ts'

/** What stands around a message on every wire. */
const aroundMessage = 30
/** What a wire adds to a tool, to a call of one, and to its result: what kind of thing it is, and its names. */
const aroundTool = 32
const aroundCall = 56
const aroundResult = 34
/** A picture is counted by its area: as many tokens as a text of about so many bytes. */
const ofPicture = 6_000
/** How much of a text file a model reads, and how much of another file it is taken to read. */
const ofTextFile = 64 * 1024
const ofFile = 200_000
/** The line that stands in a message for a file that the model does not read. */
const ofLine = 100

const bases = new WeakMap<Message, number>()
const specs = new WeakMap<ToolSpec, number>()
const given = new WeakMap<object, number>()

/** About how many bytes a message has on the wire to a model. What is counted once stays known for as long as the message. */
export function messageBytes(message: Message, model: Model): number {
  const base = baseOf(message)
  if (message.role === 'assistant') {
    const { provider } = message
    // What the provider gave goes back in place of the words, and to nobody else.
    return provider?.by === originOf(model)
      ? Math.max(base, aroundMessage + givenOf(provider))
      : base
  }
  if (message.role === 'system' || !message.parts) return base
  return base + sum(message.parts, (part) => partBytes(part, model))
}

/** About how many bytes messages have. */
export function bytesOfAll(messages: readonly Message[], model: Model): number {
  return sum(messages, (message) => messageBytes(message, model))
}

/** About how many bytes a request has. */
export function bytesOfRequest({ messages, tools }: ModelRequest, model: Model): number {
  return bytesOfAll(messages, model) + bytesOfTools(tools)
}

/** How many bytes a message has that is words alone, the system prompt too: a line end is two on the wire. */
export const bytesOfWords = (text: string): number =>
  aroundMessage - 2 + Buffer.byteLength(JSON.stringify(text))

/** About how many bytes the tools of a request have. */
export function bytesOfTools(tools: readonly ToolSpec[]): number {
  return sum(tools, (tool) => {
    let size = specs.get(tool)
    if (size === undefined) {
      size = aroundTool + Buffer.byteLength(JSON.stringify(tool))
      specs.set(tool, size)
    }
    return size
  })
}

/** How large the beginning of a conversation is, up to its message `last`. */
interface Beginning {
  readonly length: number
  readonly last: Message | undefined
  readonly origin: string
  readonly bytes: number
}

const beginnings = new WeakMap<Message, Beginning>()

/**
 * The same as `bytesOfAll` for a whole conversation: it only grows at its end, so no more than what is new is counted. Where
 * other messages have taken the places of some, it is to be counted `anew`.
 */
export function bytesOfConversation(
  messages: readonly Message[],
  model: Model,
  anew = false,
): number {
  const [first] = messages
  if (first === undefined) return 0
  const { length } = messages
  const origin = originOf(model)
  const known = beginnings.get(first)
  const isSame = !anew && known?.origin === origin && messages[known.length - 1] === known.last
  if (isSame && known.length === length) return known.bytes
  const bytes = isSame
    ? known.bytes + bytesOfAll(messages.slice(known.length), model)
    : bytesOfAll(messages, model)
  beginnings.set(first, { length, last: messages.at(-1), origin, bytes })
  return bytes
}

function baseOf(message: Message): number {
  let size = bases.get(message)
  if (size === undefined) {
    size = bytesOfWords(message.content)
    if (message.role === 'tool') size += aroundResult
    if (message.role === 'assistant' && message.toolCalls)
      size +=
        Buffer.byteLength(JSON.stringify(message.toolCalls)) + aroundCall * message.toolCalls.length
    bases.set(message, size)
  }
  return size
}

function givenOf(provider: { readonly data: unknown }): number {
  let size = given.get(provider)
  if (size === undefined) {
    size = Buffer.byteLength(JSON.stringify(provider.data) ?? '')
    given.set(provider, size)
  }
  return size
}

function partBytes(part: MessagePart, model: Model): number {
  if (isTextPart(part)) return Math.min(part.bytes, ofTextFile)
  if (!readsPart(model, part)) return ofLine
  return part.type === 'image' ? ofPicture : Math.min(part.bytes, ofFile)
}

function sum<T>(items: readonly T[], size: (item: T) => number): number {
  let total = 0
  for (const item of items) total += size(item)
  return total
}
