import type { Message } from '../../plugin.ts'

/** How much of a conversation a span holds: of its newest messages, so many characters in all. */
const most = { messages: 100, characters: 20_000 }

/** A text, cut to so many characters. */
export const cut = (text: string, characters = most.characters): string =>
  text.length > characters ? `${text.slice(0, characters).toWellFormed()}…` : text

/** A message, by OpenTelemetry's form for those of a model. What a call was given stands in the span of the tool. */
interface SpokenMessage {
  readonly role: string
  readonly parts: readonly Readonly<Record<string, string>>[]
  readonly finish_reason?: string
}

/** The newest messages of a request, as JSON. */
export function spokenTo(messages: readonly Message[]): string {
  const spoken: SpokenMessage[] = []
  let left = most.characters
  for (const message of messages.slice(-most.messages).reverse()) {
    if (left <= 0) break
    const content = cut(message.content, left)
    left -= content.length
    spoken.unshift({ role: message.role, parts: partsOf(message, content) })
  }
  return JSON.stringify(spoken)
}

/** The answer of a model, as JSON. */
export function spokenBy(
  { content, toolCalls }: { readonly content: string; readonly toolCalls: readonly Call[] },
  finish: string,
): string {
  const parts = [...textOf(cut(content)), ...callsOf(toolCalls)]
  const spoken: SpokenMessage = { role: 'assistant', parts, finish_reason: finish }
  return JSON.stringify([spoken])
}

interface Call {
  readonly id: string
  readonly name: string
}

function partsOf(message: Message, content: string): SpokenMessage['parts'] {
  if (message.role === 'tool')
    return [{ type: 'tool_call_response', id: message.toolCallId, response: content }]
  const calls = message.role === 'assistant' ? (message.toolCalls ?? []) : []
  return [...textOf(content), ...callsOf(calls)]
}

const textOf = (content: string) => (content === '' ? [] : [{ type: 'text', content }])

const callsOf = (calls: readonly Call[]) =>
  calls.map(({ id, name }) => ({ type: 'tool_call', id, name }))
