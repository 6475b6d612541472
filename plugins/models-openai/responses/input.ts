import { callName, type Message, type MessagePart, type ModelRequest } from '#core/models'
import { isCall, keptIn, withArguments, withoutId, type Kept, type OutputItem } from './output.ts'

type Assistant = Extract<Message, { role: 'assistant' }>

/** An item of the conversation, as the server reads it. */
export type InputItem = object

/** The ids that the server gave to calls, by the ids that the conversation has for them. */
export function callIds(messages: readonly Message[]): ReadonlyMap<string, string> {
  const ids = new Map<string, string>()
  for (const message of messages) {
    if (message.role !== 'assistant' || !message.provider || !message.toolCalls) continue
    const calls = given(message)?.output.filter(isCall)
    calls?.forEach(({ call_id }, nth) => {
      const own = message.toolCalls?.[nth]
      if (own) ids.set(own.id, call_id)
    })
  }
  return ids
}

/**
 * What the server wants back of a message, as far as it still is the message: an answer whose calls are others than those
 * of the conversation goes back in the conversation's words.
 */
function given(message: Assistant): Kept | undefined {
  const data = keptIn(message.provider?.data)
  if (!data) return undefined
  const made = data.output.filter(({ type }) => type === 'function_call')
  const isSame = made.length === (message.toolCalls?.length ?? 0) && made.every(isCall)
  return isSame ? data : undefined
}

/** The ids of the reasoning that goes back with a message. */
export function thoughtIds(message: Message): readonly unknown[] {
  const output = message.role === 'assistant' ? given(message)?.output : undefined
  return output?.filter(({ type }) => type === 'reasoning').map(idOf) ?? []
}

/** The items of a message without its parts, and without the reasoning that the server cannot read. */
export function itemsOf(
  message: Message,
  ids: ReadonlyMap<string, string>,
  unread: ReadonlySet<unknown>,
): readonly InputItem[] {
  switch (message.role) {
    case 'system':
    case 'user':
      return [{ role: message.role, content: message.content }]
    case 'tool': {
      const call_id = ids.get(message.toolCallId) ?? message.toolCallId
      return [{ type: 'function_call_output', call_id, output: message.content }]
    }
    case 'assistant':
      return readable(given(message), unread) ?? said(message)
  }
}

/** The items that go back; without reasoning that the server cannot read, and then without the ids that lead to it. */
function readable(
  kept: Kept | undefined,
  unread: ReadonlySet<unknown>,
): readonly InputItem[] | undefined {
  const isUnread = (item: OutputItem) => item.type === 'reasoning' && unread.has(idOf(item))
  const output = kept?.output.map(withArguments)
  if (!output?.some(isUnread)) return output
  return output.filter((item) => !isUnread(item)).map(withoutId)
}

const idOf = ({ id, encrypted_content }: OutputItem): unknown => id ?? encrypted_content

/** A message of another model, or one of which the server wants nothing back: its words and its calls. */
function said({ content, toolCalls = [] }: Assistant): readonly InputItem[] {
  const calls = toolCalls.map(({ id, name, args }) => ({
    type: 'function_call',
    call_id: id,
    name: callName(name),
    // Arguments that are no object would break the model's template, so an empty object goes in their place.
    arguments: JSON.stringify(isObject(args) ? args : {}),
  }))
  return content ? [{ role: 'assistant', content }, ...calls] : calls
}

/** The items of a conversation with pictures and files, whose bytes are read for each request. */
export async function itemsWithParts(
  request: ModelRequest,
  ids: ReadonlyMap<string, string>,
  unread: ReadonlySet<unknown>,
): Promise<readonly InputItem[]> {
  const items = request.messages.map(async (message) => {
    const isPlain = message.role === 'system' || message.role === 'assistant'
    if (isPlain || !message.parts?.length) return itemsOf(message, ids, unread)
    const parts = await Promise.all(message.parts.map((part) => partOf(part, request)))
    const content = [...(message.content ? [textItem(message.content)] : []), ...parts]
    if (message.role === 'user') return [{ role: 'user', content }]
    return itemsOf(message, ids, unread).map((item) => ({ ...item, output: content }))
  })
  return (await Promise.all(items)).flat()
}

async function partOf(part: MessagePart, { file }: ModelRequest): Promise<object> {
  const { type, mediaType, name } = part
  const label = `${type} "${name ?? mediaType}"`
  if (!file) return textItem(`[${label} is not there]`)
  if (type === 'audio') return textItem(`[${label}: this model reads no sound]`)
  const bytes = await file(part.file)
  const data = `data:${mediaType};base64,${Buffer.from(bytes).toString('base64')}`
  return type === 'image'
    ? { type: 'input_image', image_url: data }
    : { type: 'input_file', filename: name ?? 'file', file_data: data }
}

const textItem = (text: string) => ({ type: 'input_text', text })

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
