import { withForcedTool, type Changes, type Message, type ModelRequest } from '#core/models'
import { Conversations } from './contents.ts'
import { partsIn, readParts, type PartTexts } from './parts.ts'
import { settingsJson } from './settings.ts'
import { toolJson } from './tools.ts'

/** Writes the `:streamGenerateContent` requests of one model. */
export class GenerateRequests {
  readonly #model: string
  readonly #conversations: Conversations

  constructor(model: string, origin: string) {
    this.#model = model
    this.#conversations = new Conversations(origin)
  }

  /** The body of a request; a promise where messages have parts, whose bytes have to be read. */
  body(asked: ModelRequest, changes: Changes): string | Promise<string> {
    const request = changes.get('responseJsonSchema') === false ? withForcedTool(asked) : asked
    const parts = partsIn(request)
    if (parts.length === 0) return this.#written(request, changes)
    return readParts(parts, request).then((texts) => this.#written(request, changes, texts))
  }

  #written(request: ModelRequest, changes: Changes, parts?: PartTexts): string {
    const { messages, tools, settings = {} } = request
    const hasTools = tools.length > 0
    const system = systemTexts(messages).map((text) => JSON.stringify({ text }))
    const contents = this.#conversations.write(messages, parts, changes.has('alternate'))
    return (
      `{"contents":[${contents}]` +
      (system.length > 0 ? `,"systemInstruction":{"parts":[${system.join()}]}` : '') +
      (hasTools ? `,"tools":[{"functionDeclarations":[${tools.map(toolJson).join()}]}]` : '') +
      `${settingsJson(settings, { model: this.#model, changes, hasTools })}}`
    )
  }
}

function systemTexts(messages: readonly Message[]): readonly string[] {
  return messages.flatMap(({ role, content }) =>
    role === 'system' && content.trim() ? [content] : [],
  )
}
