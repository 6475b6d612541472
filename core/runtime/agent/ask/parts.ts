import type { Message, MessagePart, Model } from '../../../plugin.ts'
import { MessageSum } from '../../model/usage/message-sum.ts'
import { quote } from '../../base/quote.ts'
import { isTextPart, kindName, knowWhatItReads, readsPart } from '../../model/reads.ts'
import type { FilesOfTurn } from '../turn/files.ts'

/** How much of a text file a model reads. */
const mostTextBytes = 64 * 1024

/** A message that was made for models that read the same things, by what they read. */
const made = new WeakMap<Message, Map<string, Message>>()

/**
 * The conversation as a model can read it: text files stand in it as quoted text, and what the model cannot read is one line. Messages
 * without parts stay the same objects, and a message that was made before is made once, so that a provider's client can keep the JSON
 * of both.
 */
export function asReadBy(
  messages: readonly Message[],
  model: Model,
  files: FilesOfTurn | undefined,
): readonly Message[] | Promise<readonly Message[]> {
  if (!messages.some(hasParts)) return messages
  return knowWhatItReads(model).then(() =>
    Promise.all(
      messages.map((message) => (hasParts(message) ? asRead(message, model, files) : message)),
    ),
  )
}

type WithParts = Extract<Message, { role: 'user' | 'tool' }>

/** Whether a message has files beside its words. */
export const hasParts = (message: Message): message is WithParts =>
  (message.role === 'user' || message.role === 'tool') && (message.parts?.length ?? 0) > 0

/** How many messages have files beside their words. */
export const withParts = new MessageSum((message) => (hasParts(message) ? 1 : 0))

async function asRead(
  message: WithParts,
  model: Model,
  files: FilesOfTurn | undefined,
): Promise<Message> {
  const { parts = [] } = message
  const kept = (await files?.kept(parts.map(({ file }) => file))) ?? new Set<string>()
  const reader = `${JSON.stringify(model.reads ?? {})} ${parts.map(({ file }) => kept.has(file))}`
  const known = made.get(message)?.get(reader)
  if (known) return known
  const lines: string[] = []
  const left: MessagePart[] = []
  for (const part of parts) {
    const { file } = part
    if (!files || !kept.has(file)) lines.push(`[${named(part)}: it is not kept any more]`)
    else if (isTextPart(part)) lines.push(textOf(part, await files.read(file)))
    else if (readsPart(model, part)) left.push(part)
    else lines.push(`[${named(part)}: this model reads no ${kindName(part)}]`)
  }
  const { parts: _, ...rest } = message
  const content = [message.content, ...lines].join('\n\n')
  const one: Message = { ...rest, content, ...(left.length > 0 && { parts: left }) }
  let all = made.get(message)
  if (!all) made.set(message, (all = new Map()))
  all.set(reader, one)
  return one
}

const named = ({ type, name }: MessagePart) =>
  name === undefined ? type : `${type} ${JSON.stringify(name)}`

/** A text file between marks. The marks come from its own id, which whoever wrote the text could not know. */
function textOf(part: MessagePart, bytes: Uint8Array): string {
  const cut = bytes.length > mostTextBytes
  // A character that is cut in the middle becomes a sign of its own, which is dropped.
  const text = new TextDecoder().decode(bytes.subarray(0, mostTextBytes))
  const shown = cut ? text.replace(/\uFFFD$/, '') : text
  const rest = cut ? `\n[cut here: ${mostTextBytes} of ${bytes.length} bytes]` : ''
  return quote(`${shown}${rest}`, named(part), part.file)
}
