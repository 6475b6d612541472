import type { Message, ModelRequest, ToolSpec } from '../../plugin.ts'

/** The body of a `/chat/completions` request. */
export function requestBody(
  model: string,
  { messages, tools }: Pick<ModelRequest, 'messages' | 'tools'>,
  withUsage: boolean,
): string {
  const body = JSON.stringify({
    model,
    stream: true,
    stream_options: withUsage ? { include_usage: true } : undefined,
    messages: messages.map(wireMessage),
  })
  // An empty list is an error to some providers.
  if (tools.length === 0) return body
  return `${body.slice(0, -1)},"tools":[${tools.map(toolJson).join()}]}`
}

// Tools are the same from turn to turn. For messages a table like this one costs as much as it saves.
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
