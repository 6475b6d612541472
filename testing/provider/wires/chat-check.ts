import type { ProviderRequest } from '../answers.ts'
import { mediaFault } from '../media.ts'
import { fieldsIn, parsed, recordsOf, textOf } from '../read.ts'
import type { Provider } from '../wire.ts'
import { givenBackFault } from './chat-dialects.ts'
import { tooLong } from './openai-error.ts'

type Line = Readonly<Record<string, unknown>>

/** A refusal in the words of chat completions. */
export interface ChatFault {
  readonly message: string
  readonly code?: string
  /** What a server in front of another one adds: the words of that other one. */
  readonly raw?: string
}

/** Why `/v1/chat/completions` does not take a request, in its words; undefined where it does. */
export function chatFault(request: ProviderRequest, provider: Provider): ChatFault | undefined {
  const { body, tokens } = request
  const { window = Infinity, alternates } = provider.rules
  const lines = recordsOf(body.messages)
  if (lines.length === 0)
    return { message: "Invalid 'messages': empty array. Expected an array with minimum length 1." }
  const message =
    settingsFault(body, provider) ??
    lines.map(lineFault).find(Boolean) ??
    pairFault(lines) ??
    toolFault(body) ??
    (alternates ? orderFault(lines) : undefined) ??
    mediaFault(request.media)
  if (message !== undefined) return { message }
  if (tokens > window) return tooLong(tokens, window)
  return givenBackFault(lines, provider)
}

function settingsFault(body: Line, { rules }: Provider): string | undefined {
  const { maxOutputTokens = Infinity, refuses = [] } = rules
  for (const field of ['max_tokens', 'max_completion_tokens'])
    if (Number(body[field]) > maxOutputTokens)
      return (
        `${field} is too large: ${Number(body[field])}. This model supports at most ${maxOutputTokens} completion tokens, ` +
        `whereas you provided ${Number(body[field])}.`
      )
  if (body.stream_options !== undefined && refuses.includes('stream_options'))
    return "Unknown parameter: 'stream_options'."
  if (body.temperature !== undefined && refuses.includes('temperature'))
    return (
      `Unsupported value: 'temperature' does not support ${Number(body.temperature)} with this model. ` +
      'Only the default (1) value is supported.'
    )
  if (fieldsIn(body.response_format).type === 'json_schema' && refuses.includes('object'))
    return "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."
  if (body.tools !== undefined && refuses.includes('tools'))
    return "Unsupported parameter: 'tools' is not supported with this model."
  const gives = recordsOf(body.messages).some((line) => line.reasoning_content !== undefined)
  if (gives && refuses.includes('reasoning_content'))
    return (
      'The reasoning_content is an intermediate result for display purposes only and will not be included in the context ' +
      'for inference. Please remove the reasoning_content from your message to reduce network traffic.'
    )
  return undefined
}

function lineFault({ role, content, tool_calls }: Line, at: number): string | undefined {
  if (!['system', 'developer', 'user', 'assistant', 'tool'].includes(textOf(role)))
    return `Invalid value: '${textOf(role)}'. Supported values are: 'system', 'assistant', 'user', 'tool'.`
  const calls = recordsOf(tool_calls)
  if (Array.isArray(tool_calls) && calls.length === 0)
    return `Invalid 'messages[${at}].tool_calls': empty array. Expected an array with minimum length 1.`
  if ((content === null || content === undefined) && calls.length === 0)
    return `Invalid value for 'content': expected a string, got null.`
  if (role === 'assistant' && content === '' && calls.length === 0)
    return 'Assistant message must have either content or tool_calls, but not none.'
  for (const [nth, { function: called }] of calls.entries()) {
    const where = `messages[${at}].tool_calls[${nth}].function`
    const { name, arguments: args } = fieldsIn(called)
    if (!/^[\w-]{1,64}$/.test(textOf(name)))
      return (
        `Invalid '${where}.name': string does not match pattern. ` +
        "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
      )
    if (typeof args !== 'string')
      return `Invalid type for '${where}.arguments': expected a string, but got an object instead.`
    if (typeof parsed(args) !== 'object')
      return `Invalid '${where}.arguments': expected a string of a JSON object.`
  }
  return undefined
}

function pairFault(lines: readonly Line[]): string | undefined {
  let open: string[] = []
  let asked: string[] = []
  const missing = () =>
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. " +
    `The following tool_call_ids did not have response messages: ${open.join(', ')}`
  for (const [at, line] of lines.entries()) {
    if (line.role === 'tool') {
      const id = textOf(line.tool_call_id)
      if (asked.length === 0)
        return `Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.`
      if (!asked.includes(id))
        return `Invalid parameter: 'tool_call_id' of '${id}' not found in 'tool_calls' of previous message, messages.[${at}].`
      open = open.filter((each) => each !== id)
      continue
    }
    if (open.length > 0) return missing()
    asked = recordsOf(line.tool_calls).map(({ id }) => textOf(id))
    open = [...asked]
  }
  return open.length > 0 ? missing() : undefined
}

function toolFault(body: Line): string | undefined {
  const tools = recordsOf(body.tools)
  if (Array.isArray(body.tools) && tools.length === 0)
    return "Invalid 'tools': empty array. Expected an array with minimum length 1."
  if (body.tool_choice !== undefined && tools.length === 0)
    return "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified."
  const names = tools.map((tool) => textOf(fieldsIn(tool.function).name))
  const wrong = names.findIndex((name) => !/^[\w-]{1,64}$/.test(name))
  if (wrong >= 0)
    return (
      `Invalid 'tools[${wrong}].function.name': string does not match pattern. ` +
      "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
    )
  const wanted = fieldsIn(fieldsIn(body.tool_choice).function).name
  if (wanted !== undefined && !names.includes(textOf(wanted)))
    return `Invalid value for 'tool_choice': '${textOf(wanted)}' is not one of the tools.`
  return undefined
}

function orderFault(lines: readonly Line[]): string | undefined {
  const said = lines.filter(({ role }) => role !== 'system' && role !== 'developer')
  const isWrong =
    said[0]?.role !== 'user' ||
    said.some(({ role }, at) => role !== 'tool' && said[at - 1]?.role === role)
  return isWrong ? 'Conversation roles must alternate user/assistant/user/assistant/...' : undefined
}
