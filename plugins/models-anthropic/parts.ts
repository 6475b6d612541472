import type { MessagePart, ModelRequest } from '#core/models'

/** The blocks of pictures and files as JSON, by their parts. */
export type PartBlocks = ReadonlyMap<MessagePart, string>

/** The parts of all messages of a request. */
export function partsIn({ messages }: ModelRequest): readonly MessagePart[] {
  const none: readonly MessagePart[] = []
  return messages.flatMap((message) =>
    message.role === 'user' || message.role === 'tool' ? (message.parts ?? none) : none,
  )
}

/** Reads the bytes of parts and writes the block of each. */
export async function readParts(
  parts: readonly MessagePart[],
  request: ModelRequest,
): Promise<PartBlocks> {
  const blocks = new Map<MessagePart, string>()
  // One after the other: all files of a conversation at once would stand twice in memory.
  for (const part of parts) blocks.set(part, JSON.stringify(await blockOf(part, request)))
  return blocks
}

async function blockOf(part: MessagePart, { file }: ModelRequest): Promise<object> {
  const { type, mediaType, name = mediaType } = part
  if (type === 'audio') return { type: 'text', text: `[audio "${name}": this model hears nothing]` }
  if (!file) return { type: 'text', text: `[${type} "${name}" is not there]` }
  const data = Buffer.from(await file(part.file)).toString('base64')
  const source = { type: 'base64', media_type: mediaType, data }
  return type === 'image' ? { type, source } : { type: 'document', title: name, source }
}
