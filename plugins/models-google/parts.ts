import type { MessagePart, ModelRequest } from '#core/models'

/** Pictures, sounds and files as JSON of the wire's parts, by the parts of the messages. */
export type PartTexts = ReadonlyMap<MessagePart, string>

/** The parts of all messages of a request. */
export function partsIn({ messages }: ModelRequest): readonly MessagePart[] {
  const none: readonly MessagePart[] = []
  return messages.flatMap((message) =>
    message.role === 'user' || message.role === 'tool' ? (message.parts ?? none) : none,
  )
}

/** Reads the bytes of parts and writes each in the form of the wire. */
export async function readParts(
  parts: readonly MessagePart[],
  request: ModelRequest,
): Promise<PartTexts> {
  const texts = new Map<MessagePart, string>()
  // One after the other: all files of a conversation at once would stand twice in memory.
  for (const part of parts) texts.set(part, JSON.stringify(await inlineOf(part, request)))
  return texts
}

async function inlineOf(part: MessagePart, { file }: ModelRequest): Promise<object> {
  const { type, mediaType: mimeType, name = mimeType } = part
  if (!file) return { text: `[${type} "${name}" is not there]` }
  const data = Buffer.from(await file(part.file)).toString('base64')
  return { inlineData: { mimeType, data } }
}
