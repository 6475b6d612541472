import type { Message } from '../../plugin.ts'
import { withAttachments } from './attachments.ts'
import type { TurnRequest } from './run.ts'

/**
 * What a user says has four shapes on its way from the body of a request to the provider of a model:
 *
 * 1. `MessageInput` (`wire/input.ts`): the body of `POST /messages/:sessionId`, parsed.
 * 2. `TurnRequest` (`run.ts`): what the engine is handed. A request that is stored consists of the words, which stand in
 *    the journal as the third shape, and of all the rest, which stands in `kernel_run_requests`.
 * 3. `UserMessage` (here): the first row of the run's journal (`kernel_steps`). The history is read from it.
 * 4. `Message` (`plugin.ts`): what a model is told, where attachments are named in the text; a provider is sent this.
 */
export interface UserMessage extends Readonly<Extract<Message, { role: 'user' }>> {
  /** What the client attached, as the client described it. */
  readonly attachments?: readonly unknown[]
}

/** The id of the message that began a run: in the history, in the run's first event and in what a model is told. */
export const userMessageId = (runId: string): string => `user-${runId}`

/** The words of a request as the journal stores them: the third shape, made of the second. */
export function toUserMessage(runId: string, { message, attachments }: TurnRequest): UserMessage {
  const said = { role: 'user', id: userMessageId(runId), content: message } as const
  return attachments?.length ? { ...said, attachments } : said
}

/** What of a request stands beside its words: the row of `kernel_run_requests`. */
export function besideWords({ message: _, attachments: __, ...rest }: TurnRequest): string {
  return JSON.stringify(rest)
}

/**
 * A request again, from its row and from the first row of its journal. Versions of the runtime before this one stored the
 * message in the row of the request as well; where it stands there, that row is whole. Undefined without the words.
 */
export function toRequest(beside: string, words: string | null): TurnRequest | undefined {
  const kept: Partial<TurnRequest> = JSON.parse(beside)
  const { message } = kept
  if (message !== undefined) return { ...kept, message }
  if (words === null) return undefined
  const { content, attachments }: UserMessage = JSON.parse(words)
  return { ...kept, message: content, ...(attachments && { attachments }) }
}

/** A message as a model is told it: the fourth shape, made of the third. Other messages than a user's stay as they are. */
export function asTold(message: Message | UserMessage): Message {
  if (message.role !== 'user' || !('attachments' in message)) return message
  const { attachments, ...said } = message
  return { ...said, content: withAttachments(said.content, attachments) }
}
