import {
  ConversationJson,
  fieldsJson,
  functionTool,
  toolWriter,
  type Changes,
  type Message,
  type MessagePart,
  type ModelRequest,
  type ModelSettings,
  type ToolSpec,
  withForcedTool,
} from '#core/models'

/** What is known of a model when its requests are written. */
export interface RequestOptions {
  readonly model: string
  /** How many tokens the server reads. */
  readonly window: number
  /** Whether the model thinks; undefined where nobody said so. */
  readonly thinks?: boolean
}

/** Writes the `/api/chat` requests of one model. */
export class OllamaRequests {
  readonly #options: RequestOptions
  readonly #model: string
  readonly #conversations = new ConversationJson((message) => JSON.stringify(lineOf(message)))

  constructor(options: RequestOptions) {
    this.#options = options
    this.#model = JSON.stringify(options.model)
  }

  /** The body of a request; a promise where messages have pictures, whose bytes have to be read. */
  body(asked: ModelRequest, changes: Changes): string | Promise<string> {
    const request = changes.has('format') ? withForcedTool(asked) : asked
    const { messages } = request
    if (messages.some(hasParts))
      return Promise.all(messages.map((message) => lineWithParts(message, request))).then((lines) =>
        this.#around(lines.map((line) => JSON.stringify(line)).join(), request, changes),
      )
    return this.#around(this.#conversations.write(messages), request, changes)
  }

  #around(said: string, { tools, settings = {} }: ModelRequest, changes: Changes): string {
    const offered = offeredOf(tools, settings.toolChoice)
    const ofTools = offered.length > 0 ? `,"tools":[${offered.map(toolJson).join()}]` : ''
    const set = this.#settings(settings, changes)
    return `{"model":${this.#model},"stream":true${set},"messages":[${said}]${ofTools}}`
  }

  /** The settings of a request as fields of its body, each with a comma before it. */
  #settings(settings: ModelSettings, changes: Changes): string {
    const { temperature, topP, maxOutputTokens, reasoning, object, body } = settings
    const fields: Readonly<Record<string, unknown>> = {
      // Without these two the server cuts off the beginning of what is too long, and says nothing.
      truncate: false,
      shift: false,
      think: reasoning && this.#think(reasoning, changes),
      format: object && plain(object.schema),
      ...body,
      options: {
        temperature,
        top_p: topP,
        num_predict: maxOutputTokens,
        ...(isObject(body?.options) && body.options),
        num_ctx: this.#options.window,
      },
    }
    return fieldsJson(fields, own)
  }

  #think(reasoning: NonNullable<ModelSettings['reasoning']>, changes: Changes): unknown {
    if (this.#options.thinks === false || changes.has('think')) return undefined
    if (reasoning === 'none') return false
    if (changes.has('think_levels')) return true
    return reasoning === 'max' ? 'high' : reasoning
  }
}

/** Fields that are never set by hand. */
const own = ['model', 'messages', 'tools', 'stream']

function hasParts(message: Message): boolean {
  return (message.role === 'user' || message.role === 'tool') && Boolean(message.parts?.length)
}

/** A message as the server reads it, without its parts. */
function lineOf(message: Message): object {
  switch (message.role) {
    case 'system':
    case 'user':
      return { role: message.role, content: message.content }
    case 'tool': {
      const { content, name, toolCallId } = message
      return { role: 'tool', content, tool_name: name, tool_call_id: toolCallId }
    }
    case 'assistant': {
      const { content, toolCalls } = message
      if (!toolCalls?.length) return { role: 'assistant', content }
      return {
        role: 'assistant',
        content,
        ...thoughtIn(message.provider?.data),
        tool_calls: toolCalls.map(({ id, name, args }) => ({
          id,
          // The server takes no other arguments than an object.
          function: { name, arguments: isObject(args) ? args : {} },
        })),
      }
    }
  }
}

/** What the model thought before its calls: models that think go on better from there. */
function thoughtIn(data: unknown): { readonly thinking: string } | undefined {
  if (!isObject(data) || typeof data.thinking !== 'string') return undefined
  return { thinking: data.thinking }
}

/** A message with its pictures. What else it has is named in a line of its text: the wire takes pictures alone. */
async function lineWithParts(message: Message, request: ModelRequest): Promise<object> {
  const line = lineOf(message)
  if ((message.role !== 'user' && message.role !== 'tool') || !message.parts?.length) return line
  const { file } = request
  const images: string[] = []
  const lines = [message.content]
  for (const part of message.parts)
    if (file && part.type === 'image')
      images.push(Buffer.from(await file(part.file)).toString('base64'))
    else lines.push(unread(part))
  return {
    ...line,
    content: lines.filter(Boolean).join('\n'),
    ...(images.length > 0 && { images }),
  }
}

function unread({ type, name, mediaType }: MessagePart): string {
  return `[${type} "${name ?? mediaType}": this model reads no such file]`
}

/** The wire cannot say which tool to call, so the model sees no other. */
function offeredOf(
  tools: readonly ToolSpec[],
  choice: ModelSettings['toolChoice'],
): readonly ToolSpec[] {
  if (choice === 'none') return []
  return typeof choice === 'object' ? tools.filter(({ name }) => name === choice.tool) : tools
}

const toolJson = toolWriter(functionTool)

/** A schema without the address of its language, which servers do not know. */
function plain({ $schema: _, ...schema }: Readonly<Record<string, unknown>>): object {
  return schema
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
