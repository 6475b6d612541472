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

/** The least that a client of `:streamGenerateContent` does. */
export function generateContentModel(place: Place): Model {
  const path = '/v1beta/models/fake-large:streamGenerateContent?alt=sse'
  return modelOn(place, path, wire, { headers: { 'x-goog-api-key': place.key } })
}

const wire = (id: string): Wire => ({
  async body(request) {
    const { settings = {}, tools } = request
    const { toolChoice, object } = settings
    const declared = tools.map(({ name, description, parameters }) => {
      return { name, description, parametersJsonSchema: parameters }
    })
    const named = typeof toolChoice === 'object' && {
      functionCallingConfig: { mode: 'ANY', allowedFunctionNames: [toolChoice.tool] },
    }
    return JSON.stringify({
      contents: await contentsOf(request, id),
      ...(declared.length > 0 && { tools: [{ functionDeclarations: declared }] }),
      ...(named && { toolConfig: named }),
      ...(object && {
        generationConfig: {
          responseMimeType: 'application/json',
          responseJsonSchema: object.schema,
        },
      }),
    })
  },
  reader: () => new Reader(),
})

async function contentsOf(request: ModelRequest, id: string) {
  const contents: { role: string; parts: unknown[] }[] = []
  let wasResult = false
  for (const message of request.messages) {
    const { role, content } = message
    if (role === 'system') continue
    if (role === 'assistant') {
      const given = givenBack(message, id)
      const calls = (message.toolCalls ?? []).map(({ name, args }, nth) => ({
        functionCall: { name, args },
        ...(nth === 0 && { thoughtSignature: 'skip_thought_signature_validator' }),
      }))
      const own = [...(content ? [{ text: content }] : []), ...calls]
      contents.push({ role: 'model', parts: given ? listOf(given.parts) : own })
    } else {
      const pictures = (await picturesOf(message, request)).map(({ mediaType, data }) => {
        return { inlineData: { mimeType: mediaType, data } }
      })
      const parts: unknown[] =
        role === 'user'
          ? [{ text: content }, ...pictures]
          : [{ functionResponse: { name: message.name, response: { content } } }, ...pictures]
      if (wasResult && role === 'tool') contents.at(-1)?.parts.push(...parts)
      else contents.push({ role: 'user', parts })
    }
    wasResult = role === 'tool'
  }
  return contents
}

class Reader implements FrameReader {
  finished = false
  readonly #parts: Record<string, unknown>[] = []
  #usage: Fields = {}
  #calls = 0
  kept = 0

  take(frame: unknown, onto: Delta[]): void {
    const { candidates, usageMetadata } = fieldsOf(frame)
    const [candidate = {}] = listOf(candidates)
    for (const part of listOf(fieldsOf(candidate.content).parts)) this.#part(part, onto)
    if (usageMetadata) this.#usage = fieldsOf(usageMetadata)
    if (candidate.finishReason) this.finished = true
  }

  #part(part: Fields, onto: Delta[]): void {
    const text = textOf(part.text)
    if (text) onto.push({ type: part.thought ? 'reasoning' : 'text', text })
    const { name, args } = fieldsOf(part.functionCall)
    if (part.functionCall)
      onto.push({
        type: 'tool-call',
        index: this.#calls++,
        name: textOf(name),
        args: JSON.stringify(args ?? {}),
      })
    const isKept = !part.thought && (text || part.functionCall || part.thoughtSignature)
    if (isKept) this.#parts.push(part)
    this.kept += textOf(part.thoughtSignature).length
  }

  last(): readonly Delta[] {
    const { promptTokenCount, candidatesTokenCount, cachedContentTokenCount } = this.#usage
    const reasoningTokens = numberOf(this.#usage.thoughtsTokenCount) ?? 0
    const said = numberOf(candidatesTokenCount)
    return [
      ...usageDelta(
        numberOf(promptTokenCount),
        said === undefined ? undefined : said + reasoningTokens,
        { cachedTokens: numberOf(cachedContentTokenCount) ?? 0, reasoningTokens },
      ),
      ...(this.#parts.length > 0
        ? [{ type: 'provider' as const, data: { parts: this.#parts } }]
        : []),
    ]
  }
}
