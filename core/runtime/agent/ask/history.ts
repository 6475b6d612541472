import type { Message } from '../../../plugin.ts'

/**
 * Puts a result right behind every call, and drops results without a call. A run that was cut short leaves calls without a
 * result, and a provider refuses a conversation that has one.
 */
export function mended(messages: readonly Message[]): Message[] {
  const results = new Map<string, Message>()
  for (const message of messages)
    if (message.role === 'tool') results.set(message.toolCallId, message)
  return messages.flatMap((message): Message[] => {
    if (message.role === 'tool') return []
    if (message.role !== 'assistant') return [message]
    const open = message.toolCalls ?? []
    return [message, ...open.map(({ id, name }) => results.get(id) ?? unanswered(id, name))]
  })
}

/**
 * A conversation that begins with the user: a plugin may have spoken before the user did, and providers refuse a
 * conversation that begins with the assistant.
 */
export function opened(messages: readonly Message[]): readonly Message[] {
  const [first] = messages
  if (first?.role !== 'assistant') return messages
  return [
    { role: 'user', id: `before-${first.id}`, content: '(The assistant speaks first.)' },
    ...messages,
  ]
}

const unanswered = (toolCallId: string, name: string): Message => ({
  role: 'tool',
  id: `${toolCallId}-open`,
  toolCallId,
  name,
  content:
    "This call was not carried out to its end, because the turn ended before. The call's outcome is unknown.",
  failed: true,
})
