import type { Message } from '../../../plugin.ts'

/**
 * Whether the second message goes on with the first: both are the assistant's, and the first calls no tool. A plugin's words
 * beside an answer make such neighbours, and some servers refuse them.
 */
export const goesOn = (first: Message | undefined, second: Message | undefined): boolean =>
  first?.role === 'assistant' && !first.toolCalls?.length && second?.role === 'assistant'

/** The messages as a request has them: neighbours that are the assistant's are one message, with an empty line between. */
export function* joinNeighbours(messages: readonly Message[]): Generator<Message> {
  let held: Message | undefined
  for (const message of messages) {
    if (held && goesOn(held, message)) {
      const words = [held.content, message.content].filter((text) => text !== '')
      held = { ...message, content: words.join('\n\n') }
    } else {
      if (held) yield held
      held = message
    }
  }
  if (held) yield held
}
