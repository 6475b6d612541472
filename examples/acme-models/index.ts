import { z } from 'zod'
import { definePlugin } from '#core'
import {
  ConversationJson,
  addressFault,
  callName,
  callSlots,
  endpoint,
  fieldsJson,
  functionTool,
  listNames,
  modelFault,
  tokenCount,
  toolWriter,
  WireModel,
  withFiles,
  type Asked,
  type Changes,
  type Delta,
  type FrameReader,
  type Message,
  type ModelRequest,
  type PartTexts,
} from '#core/models'

const variables = { key: 'ACME_API_KEY', address: 'ACME_BASE_URL' }
const usualAddress = 'https://api.acme.example/v1'
const headersOf = (key?: string): Record<string, string> =>
  key ? { authorization: `Bearer ${key}` } : {}
const addressOf = (base: string, path: string) =>
  endpoint(base, { setting: variables.address, key: variables.key, version: '/v1', path })

const toolJson = toolWriter(functionTool)
const forms = {
  text: (text: string) => ({ type: 'text', text }),
  file: ({ mediaType }: { mediaType: string }, data: string) => ({
    type: 'image_url',
    image_url: { url: `data:${mediaType};base64,${data}` },
  }),
}

/** One message in the provider's words. What it gave with an answer goes back beside the calls. */
function lineOf(message: Message, files?: PartTexts): string {
  const { role, content } = message
  if (role === 'assistant') {
    const kept = message.provider?.data
    const tool_calls = message.toolCalls?.map(({ id, name, args }, nth) => ({
      ...{
        id,
        type: 'function',
        function: { name: callName(name), arguments: JSON.stringify(args) },
      },
      ...(Array.isArray(kept) && kept[nth] && { extra_content: kept[nth] }),
    }))
    return JSON.stringify({
      role,
      content: content || null,
      ...(tool_calls?.length && { tool_calls }),
    })
  }
  const result = role === 'tool' && { tool_call_id: message.toolCallId }
  const said = JSON.stringify({ role, ...result, content })
  const blocks =
    role === 'system' ? [] : (message.parts ?? []).flatMap((part) => files?.get(part) ?? [])
  if (blocks.length === 0) return said
  // A result takes no pictures, so they follow it as the user's.
  if (role === 'tool') return `${said},{"role":"user","content":[${blocks.join()}]}`
  return `{"role":"user","content":[${[JSON.stringify(forms.text(content)), ...blocks].join()}]}`
}

/** Writes the requests of one model. */
class Requests {
  readonly #conversations = new ConversationJson((message) => lineOf(message))

  body(model: string, request: ModelRequest, changes: Changes): string | Promise<string> {
    const { messages, tools, settings = {} } = request
    const { temperature, topP: top_p, maxOutputTokens, toolChoice, object, body } = settings
    const choice =
      typeof toolChoice === 'object'
        ? { type: 'function', function: { name: toolChoice.tool } }
        : toolChoice
    const fields = fieldsJson(
      {
        ...{ temperature, top_p, max_tokens: maxOutputTokens },
        tool_choice: tools.length > 0 ? choice : undefined,
        response_format: object && { type: 'json_schema', json_schema: object },
        ...body,
      },
      ['model', 'messages', 'tools', 'stream'],
      changes,
    )
    const declared = tools.length > 0 ? `,"tools":[${tools.map(toolJson).join()}]` : ''
    return withFiles(request, forms, (files) => {
      const said = files
        ? messages.map((message) => lineOf(message, files)).join()
        : this.#conversations.write(messages)
      const usage = ',"stream_options":{"include_usage":true}'
      return `{"model":${JSON.stringify(model)},"stream":true${usage}${fields},"messages":[${said}]${declared}}`
    })
  }
}

/** Reads the chunks of one answer. The server is foreign, so each field is checked where it is used. */
class Reader implements FrameReader {
  finished = false
  readonly #asked: Asked
  readonly #calls = callSlots()
  readonly #kept: unknown[] = []
  #usage: Delta | undefined

  constructor(asked: Asked) {
    this.#asked = asked
  }

  take(chunk: any, onto: Delta[]): void {
    const inputTokens = tokenCount(chunk?.usage?.prompt_tokens)
    if (inputTokens !== undefined) {
      const outputTokens = tokenCount(chunk.usage.completion_tokens) ?? 0
      this.#usage = { type: 'usage', inputTokens, outputTokens }
    }
    const { delta, finish_reason } = chunk?.choices?.[0] ?? {}
    if (typeof delta?.content === 'string' && delta.content)
      onto.push({ type: 'text', text: delta.content })
    for (const call of Array.isArray(delta?.tool_calls) ? delta.tool_calls : []) {
      const { name, arguments: args } = call?.function ?? {}
      const made = this.#calls({ index: call?.index, id: call?.id, name, args })
      if (made && call.extra_content) this.#kept[made.index] = call.extra_content
      if (made) onto.push(made)
    }
    if (finish_reason) this.finished = true
    if (finish_reason === 'content_filter')
      throw modelFault('MODEL_REFUSED', this.#asked.host, 'refused to answer this.')
  }

  last(): Delta[] {
    const data: Delta[] = this.#kept.length > 0 ? [{ type: 'provider', data: this.#kept }] : []
    return [...(this.#usage ? [this.#usage] : []), ...data]
  }
}

export default definePlugin({
  name: 'models-acme',
  summary: 'Models of Acme.',
  visibility: 'silent',
  env: {
    ACME_API_KEY: z.string().optional().meta({ secret: true, description: 'Key of Acme' }),
    ACME_BASE_URL: z.string().default(usualAddress).describe('Address of Acme'),
  },
  models: {
    acme: {
      label: 'Acme',
      needs: [variables.key],
      fault: (_, { env, settings }) =>
        addressFault(settings.baseUrl ?? env.ACME_BASE_URL, {
          ...variables,
          setting: variables.address,
        }),
      open(name, { env, settings, key: secret = env.ACME_API_KEY }) {
        const requests = new Requests()
        return new WireModel({
          ...{ id: `acme/${name}`, name, settings, secret, variables },
          url: addressOf(settings.baseUrl ?? env.ACME_BASE_URL, '/chat/completions'),
          headers: headersOf(secret),
          reads: { image: ['image/png', 'image/jpeg'] },
          can: { object: true },
          wire: () => ({
            body: (request, changes) => requests.body(name, request, changes),
            reader: (asked) => new Reader(asked),
            change: ({ text }) =>
              text.includes('temperature') ? ['temperature', false] : undefined,
          }),
        })
      },
      list: (signal, { env }) =>
        listNames({
          ...{ signal, variables, secret: env.ACME_API_KEY },
          url: addressOf(env.ACME_BASE_URL, '/models'),
          headers: headersOf(env.ACME_API_KEY),
          entries: ({ data }) => data,
          nameOf: ({ id }) => id,
        }),
    },
  },
})
