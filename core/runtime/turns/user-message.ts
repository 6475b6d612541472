import type { Message } from '../../plugin.ts'
import { fieldsIn } from '../base/fields.ts'
import { quote } from '../base/quote.ts'
import { attachmentLabel, withAttachments } from './attachments.ts'
import type { RenderedComponent, TurnRequest } from './run.ts'

/**
 * What a user says has four shapes on its way from the body of a request to the provider of a model:
 *
 * 1. `MessageInput` (`wire/input.ts`): the body of `POST /messages/:sessionId`, parsed.
 * 2. `TurnRequest` (`run.ts`): what the engine gets. A request that is stored consists of the words, which stand in
 *    the journal as the third shape, and of all the rest, which stands in `kernel_run_requests`.
 * 3. `UserMessage` (here): the first row of the run's journal (`kernel_steps`). The history is read from it.
 * 4. `Message` (`plugin.ts`): what a model is told, where attachments are named in the text; a provider gets this shape.
 */
export interface UserMessage extends Readonly<Extract<Message, { role: 'user' }>> {
  /** What the client attached, as the client described it. */
  readonly attachments?: readonly unknown[]
  /** The plugin whose words these are, where they are not the user's. */
  readonly origin?: string
  /** Other people's words that a plugin passed on. */
  readonly quoted?: { readonly plugin: string; readonly texts: readonly string[] }
}

/** What a plugin said without a model, as the journal stores it: a message of the assistant, and whose words they are. */
export interface PluginMessage extends Readonly<Extract<Message, { role: 'assistant' }>> {
  readonly said: { readonly plugin: string; readonly component?: RenderedComponent }
}

/** A reply that ends where its user stopped listening. */
export interface CutMessage extends Readonly<Extract<Message, { role: 'assistant' }>> {
  readonly cut?: true
}

/** What a model reads where the user stopped listening. */
const interruptedHere = '[interrupted here by the user]'

/** How much of a component's arguments a model is told. */
const mostOfArguments = 2_000

/** The id of the message that began a run: in the history, in the run's first event and in what a model is told. */
export const userMessageId = (runId: string): string => `user-${runId}`

/** The words of a request as the journal stores them: the third shape, made of the second. */
export function toUserMessage(runId: string, request: TurnRequest): UserMessage {
  const { message, attachments, parts, from, origin, quoted } = request
  const said = { role: 'user', id: userMessageId(runId), content: message } as const
  if (!attachments?.length && !from && !quoted) return said
  return {
    ...said,
    ...(attachments?.length && { attachments }),
    ...(parts?.length && { parts }),
    ...(from && { origin }),
    ...(quoted && { quoted: { plugin: origin ?? '', texts: quoted } }),
  }
}

/** What of a request stands beside its words, for its row of `kernel_run_requests`; a plain message has none. */
export function besideWords({
  message: _,
  attachments: __,
  parts: ___,
  quoted: ____,
  ...rest
}: TurnRequest): string | undefined {
  const beside = JSON.stringify(rest)
  return beside === '{}' ? undefined : beside
}

/**
 * A request again, from its row and from the first row of its journal. Versions of the runtime before this one stored the
 * message in the row of the request as well; where it stands there, that row is whole. Undefined without the words.
 */
export function toRequest(beside: string | null, words: string | null): TurnRequest | undefined {
  const kept: Partial<TurnRequest> = beside === null ? {} : JSON.parse(beside)
  const { message } = kept
  if (message !== undefined) return { ...kept, message }
  if (words === null) return undefined
  const { content, attachments, parts, quoted }: UserMessage = JSON.parse(words)
  return {
    ...kept,
    message: content,
    ...(attachments && { attachments }),
    ...(parts && { parts }),
    ...(quoted && { quoted: quoted.texts }),
  }
}

/**
 * A message as a model is told it: the fourth shape, made of the third. Words that a plugin said have its name before them,
 * and so has what a plugin asks in a turn of its own. A reply that was cut says so where it ends. All other messages stay as they are.
 */
export function asTold(message: Message | UserMessage | PluginMessage | CutMessage): Message {
  if (message.role === 'assistant' && 'said' in message) {
    const { said, ...rest } = message
    return { ...rest, content: `[${said.plugin}] ${rest.content || shown(said.component)}` }
  }
  if (message.role === 'assistant' && 'cut' in message) {
    const { cut: _, ...rest } = message
    return { ...rest, content: `${rest.content} ${interruptedHere}`.trimStart() }
  }
  if (message.role !== 'user') return message
  const { attachments, origin, quoted, ...said }: UserMessage = message
  if (!attachments && origin === undefined && !quoted) return message
  const whose = origin === undefined ? '' : `[From ${origin}, not from the user]\n`
  const texts = quoted?.texts.map((text) => `\n\n${quote(text, quoted.plugin, said.id)}`) ?? []
  const content = `${whose}${withAttachments(said.content, undescribed(attachments, said.parts))}${texts.join('')}`
  const label = quoted ? `what ${quoted.plugin} passed on` : attachmentLabel(attachments)
  return { ...said, content, ...(label !== undefined && { foreign: { label } }) }
}

/** What of the attachments is only described: the files among them stand in the message by themselves. */
function undescribed(
  attachments: UserMessage['attachments'],
  parts: UserMessage['parts'] = [],
): UserMessage['attachments'] {
  const files = new Set<unknown>(parts.map(({ file }) => file))
  return attachments?.filter((attachment) => !files.has(fieldsIn(attachment).fileId))
}

function shown(component: RenderedComponent | undefined): string {
  const args = JSON.stringify(component?.args ?? {})
  const cut =
    args.length > mostOfArguments ? `${args.slice(0, mostOfArguments).toWellFormed()}…` : args
  return `(I showed the component "${component?.name}" with ${cut})`
}
