import type { History } from '../core/chat/history.ts'
import type { Turn } from '../core/chat/turn.ts'
import type { IMessage } from '../core/records.ts'
import { stopped, withResult } from './tool-call.ts'

/** Messages of a conversation as a server has them: all, or a page of them. */
export interface HistoryPage {
  readonly messages: readonly IMessage[]
  /** How far the conversation goes. */
  readonly cursor?: string
  /** What names the messages before these; null or absent where there are none. */
  readonly prevCursor?: string | null
}

/** Reads the page before a cursor. */
type ReadBefore = (cursor: string) => Promise<HistoryPage>

/** So many messages more than a chat had are looked through for the first one that it had. */
const mostMore = 400

/**
 * The newest page with the pages before it that a chat needs: back to the first message that it `had`, and to the beginning of
 * the turn under way, which leaves out of the history what it tells itself.
 */
export async function whole(
  newest: HistoryPage,
  had: HistoryPage | undefined,
  isUnderway: unknown,
  read: ReadBefore,
): Promise<HistoryPage> {
  const oldest = had?.messages[0]?.id
  const most = (had?.messages.length ?? 0) + mostMore
  let page = newest
  const needsMore = ({ messages }: HistoryPage) =>
    oldest === undefined
      ? isUnderway && !messages.some(({ type }) => type === 'human')
      : !messages.some(({ id }) => id === oldest)
  while (page.prevCursor && page.messages.length < most && needsMore(page))
    page = joined(await read(page.prevCursor), page)
  const at = page.messages.findIndex(({ id }) => id === oldest)
  return at < 0
    ? page
    : { ...page, messages: page.messages.slice(at), prevCursor: had?.prevCursor ?? null }
}

/** Two pages as one. */
export const joined = (before: HistoryPage, page: HistoryPage): HistoryPage => ({
  ...page,
  messages: [...before.messages, ...page.messages],
  prevCursor: before.prevCursor ?? null,
})

/** The messages that a chat shows before its turn under way, when a server has told them. */
export function taken(
  history: History,
  fresh: readonly IMessage[],
  turn: Turn | undefined,
  waitingCallId?: string,
): readonly IMessage[] {
  const before = turn?.before(fresh) ?? fresh
  const isOpen = (callId: string) => !!turn || callId === waitingCallId
  const messages = reconciled(history.messages, shown(before, isOpen))
  const { unsent } = history
  const isKept =
    !unsent || messages.some(({ type, content }) => type === 'human' && content === unsent.content)
  return isKept ? messages : [...messages, unsent]
}

/** The history as the chat shows it: a call that nobody carries out any more does not run on. */
export const shown = (
  history: readonly IMessage[],
  isOpen: (callId: string) => boolean = () => false,
): IMessage[] =>
  history.map((message) => {
    const { toolCalls } = message
    if (!toolCalls) return message
    return {
      ...message,
      toolCalls: toolCalls.map((call) => (isOpen(call.id) ? call : stopped(withResult(call)))),
    }
  })

/**
 * The fresh list, in which a message that says the same as before is the same object. What was heard as it streamed has another
 * id than the server gives, so a place counts as well: beside the last message of the same id.
 */
function reconciled(old: readonly IMessage[], fresh: readonly IMessage[]): readonly IMessage[] {
  const places = new Map(old.map(({ id }, at) => [id, at]))
  let shift = 0
  return fresh.map((message, i) => {
    const place = places.get(message.id)
    if (place !== undefined) shift = place - i
    const before = old[i + shift]
    return before && sayingOf(before) === sayingOf(message) ? before : message
  })
}

const sayingOf = ({
  type,
  content,
  toolCalls,
  reasoning = '',
  isComplete,
  ended,
}: IMessage): string =>
  JSON.stringify([
    type,
    content,
    toolCalls?.map(({ id, status, output }) => [id, status, output]),
    reasoning,
    isComplete,
    ended,
  ])
