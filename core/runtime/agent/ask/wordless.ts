import { RuntimeError } from '../../../errors.ts'
import type { Message } from '../../../plugin.ts'

/** Whether a message is an answer without words and without calls. */
export const isWordless = (message: Message): boolean =>
  message.role === 'assistant' && !message.toolCalls?.length && message.content.trim() === ''

/** A conversation without answers that say nothing: a model learns nothing from them, and many providers refuse them. */
export function withoutWordless(messages: readonly Message[]): readonly Message[] {
  return messages.some(isWordless) ? messages.filter((message) => !isWordless(message)) : messages
}

/** Why a turn fails whose model has said nothing at all. */
export function wordlessFault({ ended }: Extract<Message, { role: 'assistant' }>): RuntimeError {
  const sentence =
    ended === 'length'
      ? 'The model reached its longest answer before the first word.'
      : 'The model ended its answer without a word.'
  return new RuntimeError('MODEL_ANSWER_INVALID', sentence)
}
