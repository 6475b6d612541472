import type { Message } from '../../plugin.ts'

/**
 * Whether the second message goes on with the first: both are the assistant's, and the first calls no tool. A plugin's words
 * beside an answer make such neighbours, and some servers refuse them.
 */
export const goesOn = (first: Message, second: Message | undefined): boolean =>
  first.role === 'assistant' && !first.toolCalls?.length && second?.role === 'assistant'

/** The messages as a request has them: neighbours that are the assistant's are one message, with an empty line between. */
export function* joinNeighbours(messages: readonly Message[]): Generator<Message> {
  let words: string[] = []
  for (const [i, message] of messages.entries()) {
    if (goesOn(message, messages[i + 1])) words.push(message.content)
    else if (words.length === 0) yield message
    else {
      words.push(message.content)
      yield { ...message, content: words.filter((text) => text !== '').join('\n\n') }
      words = []
    }
  }
}
