import type { MessagePart, ModelRequest } from '../plugin.ts'

/** Pictures, sounds and files as the JSON of a wire, by the parts of the messages. */
export type PartTexts = ReadonlyMap<MessagePart, string>

/** How a wire writes files. */
export interface FileForms {
  /** A line of text in the place of a file. */
  text(line: string): object
  /** A file with its bytes in base64. */
  file(part: MessagePart, base64: string): object
  /** A line for a file that the wire has no form for; its bytes are not read then. */
  unread?(part: MessagePart): string | undefined
}

/**
 * Writes a request whose messages may have files, each in the form of the wire. Without files nothing is read, and `write`
 * is called at once.
 */
export function withFiles(
  request: ModelRequest,
  forms: FileForms,
  write: (files?: PartTexts) => string,
): string | Promise<string> {
  const none: readonly MessagePart[] = []
  const parts = request.messages.flatMap((message) =>
    message.role === 'user' || message.role === 'tool' ? (message.parts ?? none) : none,
  )
  return parts.length === 0 ? write() : textsOf(parts, request, forms).then(write)
}

async function textsOf(
  parts: readonly MessagePart[],
  { file }: ModelRequest,
  forms: FileForms,
): Promise<PartTexts> {
  const texts = new Map<MessagePart, string>()
  // One after the other: all files of a conversation at once would stand twice in memory.
  for (const part of parts) {
    const { type, mediaType, name = mediaType } = part
    const line = forms.unread?.(part) ?? (file ? undefined : `[${type} "${name}" is not there]`)
    const form =
      line === undefined && file
        ? forms.file(part, Buffer.from(await file(part.file)).toString('base64'))
        : forms.text(line ?? '')
    texts.set(part, JSON.stringify(form))
  }
  return texts
}
