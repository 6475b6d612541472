import {
  callName,
  ConversationJson,
  fieldsJson,
  functionTool,
  joinNeighbours,
  withForcedTool,
  type Changes,
  type Message,
  type ModelRequest,
  toolWriter,
  type ModelSettings,
} from '#core/models'
import type { Compatible } from '../compatible.ts'
import { keptOf, type Kept } from './kept.ts'
import { messagesWithParts } from './parts.ts'

/** Writes the `/chat/completions` requests of one model. */
export class ChatRequests {
  readonly #model: string
  readonly #row: Compatible
  /** What a server has said about `reasoning_content`; each rule writes other messages. */
  #rule: unknown
  /** Whether a server wants to be told of calls that it has not signed. */
  #signs = false
  #conversations: ConversationJson

  constructor(model: string, row: Compatible) {
    this.#model = JSON.stringify(model)
    this.#row = row
    this.#conversations = this.#writer()
  }

  /** The body of a request; a promise where messages have parts, whose bytes have to be read. */
  body(asked: ModelRequest, changes: Changes): string | Promise<string> {
    const request = changes.get('response_format') === false ? withForcedTool(asked) : asked
    const rule = changes.get('reasoning_content')
    const signs = changes.has('thought_signature')
    if (rule !== this.#rule || signs !== this.#signs) {
      this.#rule = rule
      this.#signs = signs
      this.#conversations = this.#writer()
    }
    const { messages } = request
    if (!messages.some(hasParts))
      return this.#around(this.#conversations.write(messages), request, changes)
    const joined = { ...request, messages: joinNeighbours(messages) }
    return messagesWithParts(joined, (message) => this.#message(message)).then((said) =>
      this.#around(said, request, changes),
    )
  }

  #around(said: string, { tools, settings }: ModelRequest, changes: Changes): string {
    const usage = changes.has('stream_options') ? '' : ',"stream_options":{"include_usage":true}'
    // Some providers refuse an empty list of tools.
    const ofTools = tools.length > 0 ? `,"tools":[${tools.map(toolJson).join()}]` : ''
    const set = settings ? settingsJson(settings, this.#row, changes, tools.length > 0) : ''
    return `{"model":${this.#model},"stream":true${usage}${set},"messages":[${said}]${ofTools}}`
  }

  #writer(): ConversationJson {
    return new ConversationJson((message) => JSON.stringify(this.#message(message)))
  }

  #message(message: Message): object {
    switch (message.role) {
      case 'system':
      case 'user':
        return { role: message.role, content: message.content }
      case 'tool':
        return { role: 'tool', tool_call_id: message.toolCallId, content: message.content }
      case 'assistant': {
        const { details, extra, reasoning } = keptOf(message.provider?.data)
        const thoughts = details && { reasoning_details: details }
        if (!message.toolCalls?.length)
          return { role: 'assistant', content: message.content, ...thoughts }
        return {
          role: 'assistant',
          content: message.content || null,
          ...thoughts,
          ...this.#reasoning(reasoning),
          tool_calls: message.toolCalls.map(({ id, name, args }, at) => ({
            id,
            type: 'function',
            // Arguments that are no object would break the provider's template, so an empty object goes in their place.
            function: {
              name: callName(name),
              arguments: JSON.stringify(isObject(args) ? args : {}),
            },
            ...this.#extra(extra, at),
          })),
        }
      }
    }
  }

  /** What came with a call; of a step that the server has not signed, its first call says so. */
  #extra(kept: Kept['extra'], at: number): object | undefined {
    if (kept?.[at] !== undefined) return { extra_content: kept[at] }
    return this.#signs && at === 0 ? { extra_content: unsigned } : undefined
  }

  /** What was thought before calls, for a provider that wants it back. */
  #reasoning(kept: string | undefined): object | undefined {
    if (this.#rule === 'never') return undefined
    if (kept !== undefined) return { reasoning_content: kept }
    const isAsked = this.#row.emptyReasoning || this.#rule === 'always'
    return isAsked ? { reasoning_content: '' } : undefined
  }
}

function hasParts(message: Message): boolean {
  return (message.role === 'user' || message.role === 'tool') && Boolean(message.parts?.length)
}

/** What the maker of such signatures documents for a call that another model made. */
const unsigned = { google: { thought_signature: 'skip_thought_signature_validator' } }

const toolJson = toolWriter(functionTool)

const efforts = { none: 'none', low: 'low', medium: 'medium', high: 'high', max: 'xhigh' } as const
/** Fields that are never set by hand. */
const own = ['model', 'messages', 'tools', 'stream']

/** The settings of a request as fields of its body, each with a comma before it. What the server refused is left out. */
function settingsJson(
  settings: ModelSettings,
  row: Compatible,
  changes: Changes,
  hasTools: boolean,
): string {
  const { temperature, topP, maxOutputTokens, reasoning, toolChoice, object } = settings
  const field = changes.get('length_field') ?? row.length ?? 'max_tokens'
  const most = changes.get('length')
  const length =
    typeof most === 'number' && maxOutputTokens !== undefined
      ? Math.min(most, maxOutputTokens)
      : maxOutputTokens
  const lowered = changes.get('reasoning_effort')
  const fields: Readonly<Record<string, unknown>> = {
    temperature,
    top_p: topP,
    [String(field)]: length,
    reasoning_effort: reasoning && (typeof lowered === 'string' ? lowered : efforts[reasoning]),
    tool_choice: hasTools ? choiceOf(toolChoice) : undefined,
    response_format: object && {
      type: 'json_schema',
      json_schema: { name: object.name, schema: object.schema },
    },
    ...settings.body,
  }
  return fieldsJson(fields, own, changes)
}

function choiceOf(choice: ModelSettings['toolChoice']): unknown {
  if (typeof choice !== 'object') return choice
  return { type: 'function', function: { name: choice.tool } }
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
