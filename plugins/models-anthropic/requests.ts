import {
  systemTexts,
  withFiles,
  withForcedTool,
  type Changes,
  type FileForms,
  type Message,
  type ModelRequest,
  type PartTexts,
} from '#core/models'
import { Conversations, withMark } from './conversation.ts'
import { isThought, keptOf } from './kept.ts'
import { settingsJson } from './settings.ts'
import { toolJson } from './tools.ts'

/** Writes the `/v1/messages` requests of one model. */
export class MessagesRequests {
  readonly #model: string
  readonly #origin: string
  readonly #conversations: Conversations

  constructor(model: string, origin: string) {
    this.#model = JSON.stringify(model)
    this.#origin = origin
    this.#conversations = new Conversations(origin)
  }

  /** The body of a request; a promise where messages have parts, whose bytes have to be read. */
  body(asked: ModelRequest, changes: Changes): string | Promise<string> {
    const request = changes.get('format') === false ? withForcedTool(asked) : asked
    return withFiles(request, forms, (files) => this.#written(request, changes, files))
  }

  #written(request: ModelRequest, changes: Changes, parts?: PartTexts): string {
    const { messages, tools, settings = {} } = request
    const marked = changes.get('cache_control') !== false
    const marking = (json: string, isLast: boolean) => (marked && isLast ? withMark(json) : json)
    const hasTools = tools.length > 0
    const declared = tools.map((tool, at) => marking(toolJson(tool), at === tools.length - 1))
    const blocks = systemTexts(messages)
    const system = blocks.map((text, at) =>
      marking(`{"type":"text","text":${JSON.stringify(text)}}`, at === blocks.length - 1),
    )
    const thinksByHand = settings.reasoning !== undefined && mayThinkByHand(messages, this.#origin)
    return (
      `{"model":${this.#model},"stream":true` +
      settingsJson(settings, { changes, hasTools, thinksByHand }) +
      (hasTools ? `,"tools":[${declared.join()}]` : '') +
      (system.length > 0 ? `,"system":[${system.join()}]` : '') +
      `,"messages":[${this.#conversations.write(messages, parts, marked)}]}`
    )
  }
}

/**
 * Whether the turn under way allows thinking with a budget: each of its answers with calls has to begin with what was thought,
 * and the answers of other models do not.
 */
function mayThinkByHand(messages: readonly Message[], origin: string): boolean {
  for (const message of messages.toReversed()) {
    if (message.role === 'user') return true
    if (message.role !== 'assistant' || !message.toolCalls?.length) continue
    const [first] = keptOf(message, origin) ?? []
    if (!first || !isThought(first)) return false
  }
  return true
}

/** Pictures and files as blocks. The wire has none for sounds. */
const forms: FileForms = {
  text: (text) => ({ type: 'text', text }),
  file({ type, mediaType, name = mediaType }, data) {
    const source = { type: 'base64', media_type: mediaType, data }
    return type === 'image' ? { type, source } : { type: 'document', title: name, source }
  },
  unread: ({ type, mediaType, name = mediaType }) =>
    type === 'audio' ? `[audio "${name}": this model hears nothing]` : undefined,
}
