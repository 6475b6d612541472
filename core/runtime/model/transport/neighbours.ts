import type { Message } from '../../../plugin.ts'

/**
 * Whether the second message goes on with the first: both are the assistant's, and the first calls no tool. A plugin's words
 * beside an answer make such neighbours, and some servers refuse them.
 */
export const goesOn = (first: Message | undefined, second: Message | undefined): boolean =>
  first?.role === 'assistant' && !first.toolCalls?.length && second?.role === 'assistant'

/** The messages as a request has them: neighbours that are the assistant's are one message, with an empty line between. */
export function joinNeighbours(messages: readonly Message[]): readonly Message[] {
  // Nearly every conversation has no such neighbours, and goes out as it is.
  if (!messages.some((message, nth) => goesOn(message, messages[nth + 1]))) return messages
  const joined: Message[] = []
  for (const message of messages) {
    const before = joined.at(-1)
    if (!before || !goesOn(before, message)) {
      joined.push(message)
      continue
    }
    const words = [before.content, message.content].filter((text) => text !== '')
    joined[joined.length - 1] = { ...message, content: words.join('\n\n') }
  }
  return joined
}
