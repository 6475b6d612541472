import type { Message, MessagePart, ModelRequest } from '../../plugin.ts'

/** A part of a message's content in the form of `/chat/completions`. */
type ChatPart =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'image_url'; readonly image_url: { readonly url: string } }
  | {
      readonly type: 'input_audio'
      readonly input_audio: { readonly data: string; readonly format: string }
    }
  | {
      readonly type: 'file'
      readonly file: { readonly filename: string; readonly file_data: string }
    }

/** A message of the user with parts. */
export interface ChatUserMessage {
  readonly role: 'user'
  readonly content: readonly ChatPart[]
}

/** The messages of a request that are written otherwise, by the message that each stands for. */
export interface ChatParts {
  readonly instead: ReadonlyMap<Message, ChatUserMessage>
  /** What follows a message. */
  readonly behind: ReadonlyMap<Message, ChatUserMessage>
}

/** The part of a request that parts stand in. */
interface WithParts {
  readonly messages: readonly Message[]
  readonly file?: ModelRequest['file']
}

/**
 * The messages of a request that are written otherwise because of their parts: by each message what stands in its place, or behind it.
 * Results of tools take no pictures here, so those of a step follow behind the last of its results as a message of the user that names
 * the calls. Undefined where no message has parts.
 */
export async function chatParts({ messages, file }: WithParts): Promise<ChatParts | undefined> {
  if (!file || !messages.some((message) => partsOf(message).length > 0)) return undefined
  const instead = new Map<Message, ChatUserMessage>()
  const behind = new Map<Message, ChatUserMessage>()
  let ofStep: ChatPart[] = []
  for (const [i, message] of messages.entries()) {
    const parts = await Promise.all(partsOf(message).map((part) => chatPart(part, file)))
    if (message.role === 'user' && parts.length > 0)
      instead.set(message, { role: 'user', content: [textPart(message.content), ...parts] })
    if (message.role !== 'tool') continue
    if (parts.length > 0)
      ofStep.push(textPart(`From the call ${message.toolCallId} of ${message.name}:`), ...parts)
    if (messages[i + 1]?.role === 'tool' || ofStep.length === 0) continue
    behind.set(message, { role: 'user', content: ofStep })
    ofStep = []
  }
  return { instead, behind }
}

const partsOf = (message: Message): readonly MessagePart[] =>
  message.role === 'user' || message.role === 'tool' ? (message.parts ?? []) : []

const textPart = (text: string): ChatPart => ({ type: 'text', text })

async function chatPart(
  { type, mediaType, name, file: id }: MessagePart,
  file: NonNullable<ModelRequest['file']>,
): Promise<ChatPart> {
  const data = Buffer.from(await file(id)).toString('base64')
  const url = `data:${mediaType};base64,${data}`
  switch (type) {
    case 'image':
      return { type: 'image_url', image_url: { url } }
    case 'audio':
      return { type: 'input_audio', input_audio: { data, format: formatOf(mediaType) } }
    case 'file':
      return { type: 'file', file: { filename: name ?? 'file', file_data: url } }
  }
}

/** What the wire calls the types of sound: `wav`, `mp3`. */
function formatOf(mediaType: string): string {
  const name = mediaType.slice(mediaType.indexOf('/') + 1)
  if (name === 'mpeg') return 'mp3'
  return name.replace(/^(x-|vnd\.)/, '').replace(/^wave$/, 'wav')
}
