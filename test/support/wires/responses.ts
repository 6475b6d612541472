import { callSlots, providerFault, type Asked } from '#core/models'
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

/** The least that a client of `/v1/responses` does. */
export const responsesModel = (place: Place): Model => modelOn(place, '/v1/responses', wire)

const wire = (id: string): Wire => ({
  async body(request) {
    const { settings = {}, tools } = request
    const { toolChoice, reasoning, object } = settings
    return JSON.stringify({
      model: 'fake-large',
      stream: true,
      store: false,
      include: ['reasoning.encrypted_content'],
      input: await itemsOf(request, id),
      ...(tools.length > 0 && { tools: tools.map((tool) => ({ type: 'function', ...tool })) }),
      ...(typeof toolChoice === 'object' && {
        tool_choice: { type: 'function', name: toolChoice.tool },
      }),
      ...(reasoning && { reasoning: { effort: reasoning } }),
      ...(object && { text: { format: { type: 'json_schema', ...object } } }),
    })
  },
  reader: (asked) => new Reader(asked),
})

async function itemsOf(request: ModelRequest, id: string) {
  const ids = new Map<string, string>()
  const items: unknown[] = []
  for (const message of request.messages) {
    const { role, content } = message
    if (role === 'system') items.push({ role: 'developer', content })
    if (role === 'assistant') {
      const output = listOf(givenBack(message, id)?.output)
      const theirs = output.filter(({ type }) => type === 'function_call')
      message.toolCalls?.forEach((call, nth) =>
        ids.set(call.id, textOf(theirs[nth]?.call_id) || call.id),
      )
      if (output.length > 0) items.push(...output)
      else {
        if (content) items.push({ role, content })
        for (const { id, name, args } of message.toolCalls ?? [])
          items.push({ type: 'function_call', call_id: id, name, arguments: JSON.stringify(args) })
      }
    }
    if (role !== 'user' && role !== 'tool') continue
    const pictures = (await picturesOf(message, request)).map(({ mediaType, data }) => {
      return { type: 'input_image', image_url: `data:${mediaType};base64,${data}` }
    })
    const said = [{ type: 'input_text', text: content }, ...pictures]
    if (role === 'user') items.push({ role, content: said })
    else {
      const call_id = ids.get(message.toolCallId) ?? message.toolCallId
      items.push({ type: 'function_call_output', call_id, output: said })
    }
  }
  return items
}

class Reader implements FrameReader {
  finished = false
  done = false
  readonly #asked: Asked
  readonly #slots = callSlots()
  readonly #output: Fields[] = []
  #usage: Fields = {}
  kept = 0

  constructor(asked: Asked) {
    this.#asked = asked
  }

  take(frame: unknown, onto: Delta[]): void {
    const { type, item, delta, item_id, response } = fieldsOf(frame)
    const whole = fieldsOf(item)
    const text = textOf(delta)
    const call = (rest: object) => {
      const made = this.#slots({ index: item_id ?? whole.id, ...rest })
      if (made) onto.push(made)
    }
    switch (type) {
      case 'response.output_text.delta':
        return void onto.push({ type: 'text', text })
      case 'response.reasoning_summary_text.delta':
        return void onto.push({ type: 'reasoning', text })
      case 'response.output_item.added':
        if (whole.type === 'function_call') call({ id: whole.call_id, name: whole.name })
        return
      case 'response.function_call_arguments.delta':
        return call({ args: text })
      case 'response.output_item.done':
        this.kept += JSON.stringify(whole).length
        return void this.#output.push(whole)
      case 'error':
        throw providerFault({ text: JSON.stringify({ error: frame }) }, this.#asked)
      case 'response.completed':
      case 'response.incomplete':
        this.finished = true
        this.#usage = { ...this.#usage, ...fieldsOf(fieldsOf(response).usage) }
    }
  }

  last(): readonly Delta[] {
    const { input_tokens, output_tokens, input_tokens_details } = this.#usage
    const cachedTokens = numberOf(fieldsOf(input_tokens_details).cached_tokens) ?? 0
    const details = fieldsOf(this.#usage.output_tokens_details)
    const reasoningTokens = numberOf(details.reasoning_tokens) ?? 0
    const output = this.#output.filter(
      ({ type, encrypted_content }) => type !== 'reasoning' || encrypted_content,
    )
    return [
      ...usageDelta(numberOf(input_tokens), numberOf(output_tokens), {
        cachedTokens,
        reasoningTokens,
      }),
      { type: 'provider', data: { output } },
    ]
  }
}
