import type { Delta, Model, ModelRequest } from '#core'
import {
  fieldsOf,
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

/** The least that a client of `/api/chat` does. */
export const ollamaModel = (place: Place): Model =>
  modelOn(place, '/api/chat', () => wire, { lines: true })

const wire: Wire = {
  async body(request) {
    const { settings = {}, tools } = request
    return JSON.stringify({
      model: 'fake-large',
      stream: true,
      messages: await linesOf(request),
      ...(tools.length > 0 && {
        tools: tools.map((tool) => ({ type: 'function', function: tool })),
      }),
      // The wire cannot make a model call a tool, so it offers the one.
      ...(typeof settings.toolChoice === 'object' && { think: false }),
      ...(settings.object && { format: settings.object.schema }),
      options: { num_ctx: 32_768 },
    })
  },
  reader: () => new Reader(),
}

async function linesOf(request: ModelRequest) {
  const lines: unknown[] = []
  for (const message of request.messages) {
    const { role, content } = message
    if (role === 'system') lines.push({ role, content })
    else if (role === 'assistant') {
      const tool_calls = message.toolCalls?.map(({ name, args }) => {
        return { function: { name, arguments: args } }
      })
      lines.push({ role, content, ...(tool_calls?.length && { tool_calls }) })
    } else {
      const images = (await picturesOf(message, request)).map(({ data }) => data)
      const named = role === 'tool' && { tool_name: message.name }
      lines.push({ role, content, ...named, ...(images.length > 0 && { images }) })
    }
  }
  return lines
}

class Reader implements FrameReader {
  finished = false
  #usage: Fields = {}
  #calls = 0

  take(frame: unknown, onto: Delta[]): void {
    const line = fieldsOf(frame)
    const { thinking, content, tool_calls } = fieldsOf(line.message)
    if (thinking) onto.push({ type: 'reasoning', text: textOf(thinking) })
    if (content) onto.push({ type: 'text', text: textOf(content) })
    for (const { function: called } of listOf(tool_calls)) {
      const { name, arguments: args } = fieldsOf(called)
      const json = JSON.stringify(args ?? {})
      onto.push({ type: 'tool-call', index: this.#calls++, name: textOf(name), args: json })
    }
    if (line.done !== true) return
    this.finished = true
    this.#usage = line
  }

  last(): readonly Delta[] {
    const { prompt_eval_count, eval_count } = this.#usage
    return usageDelta(numberOf(prompt_eval_count), numberOf(eval_count))
  }
}
