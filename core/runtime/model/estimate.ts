import type { Message, ModelRequest, ModelUsage } from '../../plugin.ts'

/** A token is about four characters of text. */
const charactersPerToken = 4

/**
 * What a call cost, judged by the length of its texts: `answered` is how many characters the model gave, `perToken` how many
 * make a token where that was measured.
 */
export function estimatedUsage(
  request: Omit<ModelRequest, 'signal'>,
  answered: number,
  perToken = charactersPerToken,
): ModelUsage {
  let asked = request.tools.length > 0 ? JSON.stringify(request.tools).length : 0
  for (const message of request.messages) asked += lengthOf(message)
  return {
    inputTokens: Math.ceil(asked / perToken),
    outputTokens: Math.ceil(answered / perToken),
    estimated: true,
  }
}

function lengthOf(message: Message): number {
  const { content } = message
  if (message.role !== 'assistant' || !message.toolCalls) return content.length
  return content.length + JSON.stringify(message.toolCalls).length
}
