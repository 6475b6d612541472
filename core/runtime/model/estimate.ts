import type { Message, ModelRequest, ModelUsage } from '../../plugin.ts'

/** A token is about four characters of text. */
const charactersPerToken = 4

/** What a call cost, judged by the length of its texts: `answered` is how many characters the model gave. */
export function estimatedUsage(
  request: Omit<ModelRequest, 'signal'>,
  answered: number,
): ModelUsage {
  let asked = request.tools.length > 0 ? JSON.stringify(request.tools).length : 0
  for (const message of request.messages) asked += lengthOf(message)
  return usageOfLengths(asked, answered)
}

/** The same where the lengths are known; `perToken` is how much of them makes a token, where that was measured. */
export function usageOfLengths(
  asked: number,
  answered: number,
  perToken = charactersPerToken,
): ModelUsage {
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
