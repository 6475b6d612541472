import type { Message, MessagePart, ToolSpec } from '../../../plugin.ts'

/** How many tokens the window of a model is taken to have when the model does not say. */
const usualWindow = 128_000
const bytesPerToken = 4
/** The part of the window that stays free for the answer. */
const answerShare = 0.2

/** About how many bytes of messages fit a model with this window. */
export const bytesThatFit = (contextWindow = usualWindow): number =>
  Math.floor(contextWindow * bytesPerToken * (1 - answerShare))

/** The window of a model, and what takes room in it beside the conversation. */
export interface Window {
  /** The size of the window in tokens. */
  readonly contextWindow: number | undefined
  /** The system prompt. */
  readonly system: string
  readonly tools: readonly ToolSpec[]
}

/**
 * As much of the conversation as fits the window: the messages `before` the turn and those `since` the turn began. When not
 * all fit, the oldest go first. A call stays with its results. The words that began the turn always stay, because the
 * messages after them make no sense without them.
 */
export function fitted(
  before: readonly Message[],
  since: readonly Message[],
  window: Window,
): readonly Message[] {
  const beside = Buffer.byteLength(window.system) + sum(window.tools, sizeOfTool)
  const room = bytesThatFit(window.contextWindow) - beside
  const messages = [...before, ...since]
  if (sizeOfAll(before) + sum(since, sizeOf) <= room) return messages

  const groups = grouped(messages)
  const asking = groups.findLastIndex(([first]) => first?.role === 'user')
  const kept = new Set<readonly Message[]>()
  let left = room
  const take = (group: readonly Message[]) => {
    left -= sum(group, sizeOf)
    kept.add(group)
  }
  if (groups[asking]) take(groups[asking])
  // The model is to act on the newest group, so the request has this group even when the group is too large.
  const newest = groups.at(-1)
  if (newest && !kept.has(newest)) take(newest)
  for (const group of groups.toReversed()) {
    if (kept.has(group)) continue
    if (sum(group, sizeOf) > left) break
    take(group)
  }
  const rest = groups.filter((group) => kept.has(group)).flat()
  // Providers refuse a conversation that does not begin with a message of the user.
  return rest.slice(rest.findIndex(({ role }) => role === 'user'))
}

/** The messages in groups that only make sense together: an answer with the results of its calls, or one message alone. */
function grouped(messages: readonly Message[]): Message[][] {
  const groups: Message[][] = []
  for (const message of messages) {
    if (message.role === 'tool' && groups.length > 0) groups.at(-1)!.push(message)
    else groups.push([message])
  }
  return groups
}

/**
 * Puts a result right behind every call, and drops results without a call. A run that was cut short leaves calls without a
 * result, and a provider refuses a conversation that has one.
 */
export function mended(messages: readonly Message[]): Message[] {
  const results = new Map<string, Message>()
  for (const message of messages)
    if (message.role === 'tool') results.set(message.toolCallId, message)
  return messages.flatMap((message): Message[] => {
    if (message.role === 'tool') return []
    if (message.role !== 'assistant') return [message]
    const open = message.toolCalls ?? []
    return [message, ...open.map(({ id, name }) => results.get(id) ?? unanswered(id, name))]
  })
}

/**
 * A conversation that begins with the user: a plugin may have spoken before the user did, and providers refuse a
 * conversation that begins with the assistant.
 */
export function opened(messages: readonly Message[]): readonly Message[] {
  const [first] = messages
  if (first?.role !== 'assistant') return messages
  return [
    { role: 'user', id: `before-${first.id}`, content: '(The assistant speaks first.)' },
    ...messages,
  ]
}

const unanswered = (toolCallId: string, name: string): Message => ({
  role: 'tool',
  id: `${toolCallId}-open`,
  toolCallId,
  name,
  content:
    "This call was not carried out to its end, because the turn ended before. The call's outcome is unknown.",
  failed: true,
})

const sizes = new WeakMap<object, number>()

function sizeOf(message: Message): number {
  let size = sizes.get(message)
  if (size === undefined) {
    size = 16 + Buffer.byteLength(message.content)
    if (message.role === 'assistant' && message.toolCalls)
      size += Buffer.byteLength(JSON.stringify(message.toolCalls))
    if (message.role === 'user' || message.role === 'tool')
      size += sum(message.parts ?? [], sizeOfPart)
    sizes.set(message, size)
  }
  return size
}

/** How large the beginning of a conversation is, up to its message `last`. */
interface Beginning {
  /** How many messages the beginning has. */
  readonly length: number
  readonly last: Message | undefined
  readonly size: number
}

const beginnings = new WeakMap<Message, Beginning>()

/** The size of a conversation. A conversation only grows at its end, so this measures only what is new since an earlier turn. */
function sizeOfAll(messages: readonly Message[]): number {
  const [first] = messages
  if (first === undefined) return 0
  const { length } = messages
  const known = beginnings.get(first)
  const isSame = known !== undefined && messages[known.length - 1] === known.last
  if (isSame && known.length === length) return known.size
  const size = isSame
    ? known.size + sum(messages.slice(known.length), sizeOf)
    : sum(messages, sizeOf)
  beginnings.set(first, { length, last: messages.at(-1), size })
  return size
}

/** About what a part takes in a window, as if it were text: providers count pictures by their area, and documents by their pages. */
const sizeOfPart = ({ type, bytes }: MessagePart): number =>
  type === 'image' ? 6_000 : Math.min(bytes, 200_000)

function sizeOfTool(tool: ToolSpec): number {
  let size = sizes.get(tool)
  if (size === undefined) sizes.set(tool, (size = Buffer.byteLength(JSON.stringify(tool))))
  return size
}

function sum<T>(items: readonly T[], size: (item: T) => number): number {
  let total = 0
  for (const item of items) total += size(item)
  return total
}
