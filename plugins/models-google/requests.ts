import {
  systemTexts,
  withFiles,
  withForcedTool,
  type Changes,
  type FileForms,
  type ModelRequest,
  type PartTexts,
} from '#core/models'
import { Conversations } from './contents.ts'
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
    return withFiles(request, forms, (files) => this.#written(request, changes, files))
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

/** Pictures, sounds and files as parts. */
const forms: FileForms = {
  text: (text) => ({ text }),
  file: ({ mediaType: mimeType }, data) => ({ inlineData: { mimeType, data } }),
}
