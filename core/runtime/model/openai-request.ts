import type { Message, ModelRequest, ToolSpec } from '../../plugin.ts'

/**
 * The body of a `/chat/completions` request. Messages and tools are plain data that does not change,
 * so each is turned into JSON once: the second call of a turn repeats all that the first one sent.
 */
export function requestBody(
  model: string,
  { messages, tools }: Pick<ModelRequest, 'messages' | 'tools'>,
  withUsage: boolean,
): Buffer {
  let body = `{"model":${JSON.stringify(model)},"stream":true`
  if (withUsage) body += ',"stream_options":{"include_usage":true}'
  body += `,"messages":[${messages.map(messageJson).join(',')}]`
  // An empty list is an error to some providers.
  if (tools.length > 0) body += `,"tools":[${tools.map(toolJson).join(',')}]`
  return Buffer.from(body + '}')
}

const messageJson = once((message: Message) => JSON.stringify(wireMessage(message)))
const toolJson = once((tool: ToolSpec) => JSON.stringify(wireTool(tool)))

function once<T extends object>(json: (value: T) => string): (value: T) => string {
  const known = new WeakMap<T, string>()
  return (value) => {
    let text = known.get(value)
    if (text === undefined) known.set(value, (text = json(value)))
    return text
  }
}

function wireMessage(message: Message) {
  switch (message.role) {
    case 'system':
    case 'user':
      return { role: message.role, content: message.content }
    case 'tool':
      return { role: 'tool', tool_call_id: message.toolCallId, content: message.content }
    case 'assistant': {
      // Reasoning stays here: the providers that send it refuse to get it back.
      if (!message.toolCalls?.length) return { role: 'assistant', content: message.content }
      return {
        role: 'assistant',
        content: message.content || null,
        tool_calls: message.toolCalls.map(({ id, name, args }) => ({
          id,
          type: 'function',
          // Arguments that were no object when the model sent them break the provider's template.
          function: { name, arguments: JSON.stringify(isObject(args) ? args : {}) },
        })),
      }
    }
  }
}

/** A tool in the form that chat models of this family take, without the `$schema` some of them refuse. */
export function wireTool({ name, description, parameters }: ToolSpec) {
  const { $schema: _, ...schema } = parameters
  return { type: 'function' as const, function: { name, description, parameters: schema } }
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
