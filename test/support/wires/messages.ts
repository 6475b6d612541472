import { callSlots } from '#core/models'
import type { Delta, Model, ModelRequest } from '#core'
import {
  fieldsOf,
  givenBack,
  listOf,
  modelOn,
  numberOf,
  picturesOf,
  textOf,
  usageDelta,
  type Fields,
  type FrameReader,
  type Place,
  type Wire,
} from './common.ts'

/** The least that a client of `/v1/messages` does. */
export function messagesModel(place: Place): Model {
  const headers = { 'x-api-key': place.key, 'anthropic-version': '2023-06-01' }
  return modelOn(place, '/v1/messages', wire, { headers })
}

const wire = (id: string): Wire => ({
  async body(request) {
    const { settings = {}, tools } = request
    const { toolChoice, reasoning, object } = settings
    const format = object && { type: 'json_schema', schema: object.schema }
    return JSON.stringify({
      model: 'fake-large',
      max_tokens: settings.maxOutputTokens ?? 4000,
      stream: true,
      system: request.messages
        .flatMap(({ role, content }) => (role === 'system' ? [content] : []))
        .join(),
      messages: await linesOf(request, id),
      ...(tools.length > 0 && {
        tools: tools.map(({ name, description, parameters }) => ({
          name,
          description,
          input_schema: parameters,
        })),
      }),
      ...(typeof toolChoice === 'object' && {
        tool_choice: { type: 'tool', name: toolChoice.tool },
      }),
      ...(reasoning && { thinking: { type: 'adaptive' } }),
      ...(format && { output_config: { format } }),
    })
  },
  reader: () => new Reader(),
})

async function linesOf(request: ModelRequest, id: string) {
  const ids = new Map<string, string>()
  const lines: { role: string; content: unknown[] }[] = []
  const add = (role: string, ...content: unknown[]) => {
    const last = lines.at(-1)
    if (last?.role === role) last.content.push(...content)
    else if (content.length > 0) lines.push({ role, content })
  }
  for (const message of request.messages) {
    if (message.role === 'system') continue
    if (message.role === 'assistant') {
      const given = givenBack(message, id)
      const theirs = listOf(given?.content).filter(({ type }) => type === 'tool_use')
      message.toolCalls?.forEach((call, nth) =>
        ids.set(call.id, textOf(theirs[nth]?.id) || call.id),
      )
      if (given) add('assistant', ...listOf(given.content))
      else
        add(
          'assistant',
          ...(message.content ? [{ type: 'text', text: message.content }] : []),
          ...(message.toolCalls ?? []).map(({ id, name, args }) => {
            return { type: 'tool_use', id, name, input: args }
          }),
        )
      continue
    }
    const pictures = (await picturesOf(message, request)).map(({ mediaType, data }) => {
      return { type: 'image', source: { type: 'base64', media_type: mediaType, data } }
    })
    const said = { type: 'text', text: message.content }
    if (message.role === 'user') add('user', said, ...pictures)
    else {
      const tool_use_id = ids.get(message.toolCallId) ?? message.toolCallId
      add('user', { type: 'tool_result', tool_use_id, content: [said, ...pictures] })
    }
  }
  return lines
}

class Reader implements FrameReader {
  finished = false
  done = false
  readonly #slots = callSlots()
  readonly #blocks: Record<string, unknown>[] = []
  #json = ''
  #usage: Fields = {}

  get kept(): number {
    return JSON.stringify(this.#blocks).length
  }

  take(frame: unknown, onto: Delta[]): void {
    const { type, index, content_block, delta, message, usage } = fieldsOf(frame)
    this.#count(fieldsOf(message).usage)
    this.#count(usage)
    if (type === 'content_block_start') {
      const block = { ...fieldsOf(content_block) }
      this.#blocks.push(block)
      this.#json = ''
      const { id, name } = block
      if (block.type === 'tool_use') add(onto, this.#slots({ index, id, name }))
    }
    if (type === 'content_block_delta') this.#piece(fieldsOf(delta), index, onto)
    const last = this.#blocks.at(-1)
    if (type === 'content_block_stop' && last?.type === 'tool_use' && this.#json)
      last.input = JSON.parse(this.#json)
    if (type === 'message_stop') this.done = this.finished = true
  }

  #piece(piece: Fields, index: unknown, onto: Delta[]): void {
    const block = this.#blocks.at(-1) ?? {}
    const grow = (field: string, more: string) => (block[field] = textOf(block[field]) + more)
    const thinking = textOf(piece.thinking)
    const text = textOf(piece.text)
    if (thinking) {
      grow('thinking', thinking)
      onto.push({ type: 'reasoning', text: thinking })
    }
    if (text) {
      grow('text', text)
      onto.push({ type: 'text', text })
    }
    if (piece.type === 'signature_delta') grow('signature', textOf(piece.signature))
    if (piece.type === 'input_json_delta') {
      this.#json += textOf(piece.partial_json)
      add(onto, this.#slots({ index, args: piece.partial_json }))
    }
  }

  #count(usage: unknown): void {
    this.#usage = { ...this.#usage, ...fieldsOf(usage) }
  }

  last(): readonly Delta[] {
    const { input_tokens, output_tokens } = this.#usage
    const cachedTokens = numberOf(this.#usage.cache_read_input_tokens) ?? 0
    const cacheWriteTokens = numberOf(this.#usage.cache_creation_input_tokens) ?? 0
    const input = numberOf(input_tokens)
    const all = input === undefined ? undefined : input + cachedTokens + cacheWriteTokens
    // Thinking without a signature is refused when it comes back.
    const content = this.#blocks.filter(({ type, signature }) => type !== 'thinking' || signature)
    return [
      ...usageDelta(all, numberOf(output_tokens), { cachedTokens, cacheWriteTokens }),
      { type: 'provider', data: { content } },
    ]
  }
}

const add = (onto: Delta[], delta: Delta | undefined) => delta && onto.push(delta)
