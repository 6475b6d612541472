import type { Message, ModelRequest, ToolSpec } from '../../plugin.ts'
import { ConversationJson } from './transport/conversation-json.ts'

/** Writes the `/chat/completions` requests of one model. */
export class ChatRequests {
  readonly #model: string
  readonly #conversations = new ConversationJson(toJson)

  constructor(model: string) {
    this.#model = JSON.stringify(model)
  }

  /** The body of a request. */
  body({ messages, tools }: Pick<ModelRequest, 'messages' | 'tools'>, withUsage: boolean): string {
    const usage = withUsage ? ',"stream_options":{"include_usage":true}' : ''
    // Some providers refuse an empty list of tools.
    const ofTools = tools.length > 0 ? `,"tools":[${tools.map(toolJson).join()}]` : ''
    const said = this.#conversations.write(messages)
    return `{"model":${this.#model},"stream":true${usage},"messages":[${said}]${ofTools}}`
  }
}

function toJson(message: Message): string {
  return JSON.stringify(wireMessage(message))
}

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
