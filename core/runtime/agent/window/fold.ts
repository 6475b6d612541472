import type { Message } from '../../../plugin.ts'
import type { Summary } from '../../turns/run.ts'
import { cutWords, isSummary, isWords, pinnedWords, summaryMessage } from '../../turns/summary.ts'
import { grouped } from './groups.ts'

/**
 * A conversation in which a summary stands for its older part. The user's newest words stay beside it: those that began the
 * turn, whose id is `asking`, whole, and the others as far as they are short.
 */
export function folded(
  messages: readonly Message[],
  summary: Pick<Summary, 'upTo' | 'text' | 'foreign'>,
  asking: string,
): Message[] {
  const at = messages.findLastIndex((message) => idOf(message) === summary.upTo)
  let from = at + 1
  // A group goes as a whole: the journal may not have every result of its calls.
  while (at >= 0 && messages[from]?.role === 'tool') from++
  const newest = messages.filter(isWords).slice(-pinnedWords)
  const pinned = messages
    .slice(0, from)
    .filter(isWords)
    .filter((words) => newest.includes(words))
    .map((words) => (words.id === asking ? words : cutWords(words)))
  const rest = messages.slice(from).filter((message) => !isSummary(message))
  return [summaryMessage(summary), ...pinned, ...rest]
}

/** The older part of a conversation, and the id of its newest message that stands in the journal. */
export interface Span {
  readonly messages: readonly Message[]
  readonly upTo: string
}

/**
 * The part of a conversation that a summary can stand for: all but the newest groups, as far as these have so many bytes.
 * Undefined where there is too little to win.
 */
export function spanOf(
  messages: readonly Message[],
  kept: number,
  size: (message: Message) => number,
): Span | undefined {
  const groups = grouped(messages)
  let bytes = 0
  let from = groups.length - 1
  for (; from > 0; from--) {
    bytes += (groups[from - 1] ?? []).reduce((sum, message) => sum + size(message), 0)
    if (bytes > kept) break
  }
  const span = groups.slice(0, from).flat()
  // What is mended in has no row of its own, nor has a summary.
  const last = span.findLast((message) => !isSummary(message) && !isMadeUp(message))
  const upTo = last && idOf(last)
  if (span.length < 2 || upTo === undefined) return undefined
  return { messages: span, upTo }
}

const idOf = (message: Message | undefined): string | undefined =>
  message && message.role !== 'system' ? message.id : undefined

/** Whether a message stands in no journal: the runtime has put it there to make the conversation whole. */
const isMadeUp = (message: Message): boolean => {
  const id = idOf(message) ?? ''
  return message.role === 'tool' ? id === `${message.toolCallId}-open` : id.startsWith('before-')
}
