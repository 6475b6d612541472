import type { Message } from '../../plugin.ts'

/**
 * Whether the second message goes on with the first: both are the assistant's, and the first calls no tool. A plugin's words
 * beside an answer make such neighbours, and some servers refuse them.
 */
export const goesOn = (first: Message, second: Message | undefined): boolean =>
  first.role === 'assistant' && !first.toolCalls?.length && second?.role === 'assistant'

/** The messages as a request has them: neighbours that are the assistant's are one message, with an empty line between. */
export function* joinNeighbours(messages: readonly Message[]): Generator<Message> {
  for (let i = 0; i < messages.length; i++) {
    const first = i
    while (goesOn(messages[i]!, messages[i + 1])) i++
    const last = messages[i]!
    if (i === first) yield last
    else {
      const words = messages.slice(first, i + 1).map(({ content }) => content)
      yield { ...last, content: words.filter((text) => text !== '').join('\n\n') }
    }
  }
}
