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

/** The least that a client of `/v1/chat/completions` does, with whatever of four kinds its server wants back. */
export const chatModel = (place: Place): Model => modelOn(place, '/v1/chat/completions', wire)

const wire = (id: string): Wire => ({
  async body(request) {
    const { settings = {}, tools } = request
    const { toolChoice, object } = settings
    return JSON.stringify({
      model: 'fake-large',
      stream: true,
      stream_options: { include_usage: true },
      messages: await linesOf(request, id),
      ...(tools.length > 0 && {
        tools: tools.map((tool) => ({ type: 'function', function: tool })),
      }),
      ...(typeof toolChoice === 'object' && {
        tool_choice: { type: 'function', function: { name: toolChoice.tool } },
      }),
      ...(object && { response_format: { type: 'json_schema', json_schema: object } }),
    })
  },
  reader: () => new Reader(),
})

async function linesOf(request: ModelRequest, id: string) {
  const ids = new Map<string, string>()
  const lines: unknown[] = []
  let shown: unknown[] = []
  for (const message of request.messages) {
    const { role, content } = message
    if (role !== 'tool' && shown.length > 0) lines.push({ role: 'user', content: shown })
    if (role !== 'tool') shown = []
    if (role === 'system') lines.push({ role, content })
    if (role === 'assistant') {
      const { calls, ...given } = givenBack(message, id) ?? { reasoning_content: '' }
      const theirs = listOf(calls)
      const toolCalls = message.toolCalls ?? []
      toolCalls.forEach((call, nth) => ids.set(call.id, textOf(theirs[nth]?.id) || call.id))
      const signed = { google: { thought_signature: 'skip_thought_signature_validator' } }
      const tool_calls = toolCalls.map(({ id, name, args }, nth) => ({
        id: ids.get(id),
        type: 'function',
        function: { name, arguments: JSON.stringify(args) },
        ...(theirs[nth] ?? { extra_content: signed }),
      }))
      lines.push({ role, content, ...given, ...(tool_calls.length > 0 && { tool_calls }) })
    }
    if (role !== 'user' && role !== 'tool') continue
    const pictures = (await picturesOf(message, request)).map(({ mediaType, data }) => {
      return { type: 'image_url', image_url: { url: `data:${mediaType};base64,${data}` } }
    })
    if (role === 'user')
      lines.push({ role, content: [{ type: 'text', text: content }, ...pictures] })
    else {
      const tool_call_id = ids.get(message.toolCallId) ?? message.toolCallId
      lines.push({ role, tool_call_id, content })
      shown.push(...pictures)
    }
  }
  if (shown.length > 0) lines.push({ role: 'user', content: shown })
  return lines
}

class Reader implements FrameReader {
  finished = false
  readonly #slots = callSlots()
  readonly #calls: Fields[] = []
  readonly #details: Fields[] = []
  #thought = ''
  #usage: Fields = {}
  kept = 0

  take(frame: unknown, onto: Delta[]): void {
    const { choices, usage } = fieldsOf(frame)
    if (usage) this.#usage = fieldsOf(usage)
    const [choice = {}] = listOf(choices)
    if (choice.finish_reason) this.finished = true
    const delta = fieldsOf(choice.delta)
    const thought = textOf(delta.reasoning_content ?? delta.reasoning)
    if (thought) onto.push({ type: 'reasoning', text: thought })
    this.#thought += textOf(delta.reasoning_content)
    for (const detail of listOf(delta.reasoning_details)) {
      this.#details.push(detail)
      this.kept += JSON.stringify(detail).length
    }
    const text = textOf(delta.content)
    if (text) onto.push({ type: 'text', text })
    for (const { index, id, extra_content, function: called } of listOf(delta.tool_calls)) {
      const { name, arguments: args } = fieldsOf(called)
      if (id) this.#calls.push({ id, ...(extra_content !== undefined && { extra_content }) })
      this.kept += JSON.stringify(extra_content ?? '').length
      const made = this.#slots({ index, id, name, args })
      if (made) onto.push(made)
    }
  }

  last(): readonly Delta[] {
    const { prompt_tokens, completion_tokens, prompt_tokens_details } = this.#usage
    const { cached_tokens, cache_write_tokens } = fieldsOf(prompt_tokens_details)
    const details = fieldsOf(this.#usage.completion_tokens_details)
    // Thinking without a signature is refused when it comes back.
    const isSigned = this.#details.some(({ signature, data }) => signature || data)
    const data = {
      calls: this.#calls,
      ...(isSigned && { reasoning_details: this.#details }),
      ...(this.#thought && { reasoning_content: this.#thought }),
    }
    return [
      ...usageDelta(numberOf(prompt_tokens), numberOf(completion_tokens), {
        cachedTokens: numberOf(cached_tokens) ?? 0,
        cacheWriteTokens: numberOf(cache_write_tokens) ?? 0,
        reasoningTokens: numberOf(details.reasoning_tokens) ?? 0,
      }),
      { type: 'provider', data },
    ]
  }
}
