import type { Message, ModelRequest, ToolSpec } from '../../plugin.ts'
import type { ChatParts } from './openai-parts.ts'

/** The body of a `/chat/completions` request. */
export function requestBody(
  model: string,
  { messages, tools }: Pick<ModelRequest, 'messages' | 'tools'>,
  withUsage: boolean,
  parts?: ChatParts,
): string {
  const usage = withUsage ? ',"stream_options":{"include_usage":true}' : ''
  // Some providers refuse an empty list of tools.
  const ofTools = tools.length > 0 ? `,"tools":[${tools.map(toolJson).join()}]` : ''
  const said = parts ? jsonWithParts(messages, parts) : messagesJson(messages)
  return `{"model":${JSON.stringify(model)},"stream":true${usage},"messages":[${said}]${ofTools}}`
}

/** The JSON of a conversation that was sent, with the messages behind it. */
interface Sent {
  readonly messages: readonly Message[]
  /** The contents of the messages when they were sent, because a layer may change them later. */
  readonly contents: readonly string[]
  readonly text: string
}

/**
 * The conversations that were sent, by their last message. The next request repeats the conversation and adds to it, so its
 * JSON begins with the known text. There is one text for each conversation, and it lives as long as the messages do.
 */
const sent = new WeakMap<Message, Sent>()
/** How many messages a look-up goes back. Between two requests a turn adds fewer messages, unless it makes very many calls. */
const lookBack = 64

/** The JSON of all messages. The system prompt is new in each request; of the other messages only the new ones are. */
function messagesJson(all: readonly Message[]): string {
  const system = all[0]?.role === 'system' ? all[0] : undefined
  const messages = system ? all.slice(1) : all
  const last = messages.at(-1)
  if (!last) return system ? toJson(system) : ''
  const known = knownPart(messages)
  let text = known?.text ?? ''
  for (let i = known?.messages.length ?? 0; i < messages.length; i++)
    text += `${text && ','}${toJson(messages[i]!)}`
  if (known) sent.delete(known.messages.at(-1)!)
  sent.set(last, { messages, contents: messages.map(({ content }) => content), text })
  return system ? `${toJson(system)},${text}` : text
}

/** The JSON of a conversation with parts. The bytes of the parts stand in it, so the text is not kept. */
const jsonWithParts = (messages: readonly Message[], { instead, behind }: ChatParts): string =>
  messages
    .flatMap((message) => [instead.get(message) ?? wireMessage(message), behind.get(message)])
    .filter((message) => message !== undefined)
    .map((message) => JSON.stringify(message))
    .join()

function knownPart(messages: readonly Message[]): Sent | undefined {
  const from = Math.max(0, messages.length - lookBack)
  for (let i = messages.length - 1; i >= from; i--) {
    const known = sent.get(messages[i]!)
    if (known?.messages.length === i + 1 && isStillSo(known, messages)) return known
  }
  return undefined
}

/** Whether the messages begin with those that were sent, and their contents have not changed since. */
function isStillSo({ messages, contents }: Sent, now: readonly Message[]): boolean {
  for (let i = 0; i < messages.length; i++)
    if (messages[i] !== now[i] || contents[i] !== now[i]!.content) return false
  return true
}

const toJson = (message: Message): string => JSON.stringify(wireMessage(message))

// Tools are the same from turn to turn, so their JSON is kept.
const known = new WeakMap<ToolSpec, string>()

function toolJson(tool: ToolSpec): string {
  let json = known.get(tool)
  if (json === undefined) known.set(tool, (json = JSON.stringify(wireTool(tool))))
  return json
}

function wireMessage(message: Message) {
  switch (message.role) {
    case 'system':
    case 'user':
      return { role: message.role, content: message.content }
    case 'tool':
      return { role: 'tool', tool_call_id: message.toolCallId, content: message.content }
    case 'assistant': {
      // The request leaves out reasoning: the providers that send reasoning refuse to get it back.
      if (!message.toolCalls?.length) return { role: 'assistant', content: message.content }
      return {
        role: 'assistant',
        content: message.content || null,
        tool_calls: message.toolCalls.map(({ id, name, args }) => ({
          id,
          type: 'function',
          // Arguments that are no object would break the provider's template, so an empty object goes in their place.
          function: { name, arguments: JSON.stringify(isObject(args) ? args : {}) },
        })),
      }
    }
  }
}

/** A tool in the form of `/chat/completions`, without `$schema`, which some providers refuse. */
export function wireTool({ name, description, parameters }: ToolSpec) {
  const { $schema: _, ...schema } = parameters
  return { type: 'function' as const, function: { name, description, parameters: schema } }
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
