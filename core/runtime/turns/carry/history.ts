import type { Message } from '../../../plugin.ts'
import type { Summary } from '../run.ts'
import { cutWords, isWords, pinnedWords, summaryMessage } from '../summary.ts'
import { asTold } from '../user-message.ts'
import { messageOf, noteOf, type StepRow } from '../journal/steps.ts'
import type { RunStore } from '../journal/store.ts'

/** How many rows of the history are read at once. */
const historyPage = 64

/** Where a history ends: before this position of a session. */
interface Place {
  readonly sessionId: string
  readonly position: number
}

/**
 * The messages of a session before a position, oldest first: as many of the newest as fit into about so many characters.
 * What the newest summary stands for is left out, but for the user's newest words; the summary comes first.
 */
export async function readHistory(
  store: RunStore,
  { sessionId, position: end }: Place,
  characters: number,
): Promise<Message[]> {
  const messages: Message[] = []
  const found = new Found()
  let position = end
  for (let length = 0; length < characters && !found.isWhole;) {
    const rows: StepRow[] = await store.stepsBefore(sessionId, position, historyPage)
    for (const row of rows) {
      if (length >= characters || found.isWhole) break
      length += row.body.length
      position = row.position
      const message = found.take(row)
      if (message) messages.push(message)
    }
    if (rows.length < historyPage) break
  }
  // The call of a result may not have fitted. A model cannot read a result without its call, so the result is dropped.
  while (messages.at(-1)?.role === 'tool') messages.pop()
  messages.reverse()
  if (!found.summary) return messages
  return [
    summaryMessage(found.summary),
    ...(await pinned(store, found, messages, { sessionId, position })),
    ...messages,
  ]
}

/** What was found of a summary while rows are read from the newest to the oldest. */
class Found {
  summary: Summary | undefined
  /** The newest message that the summary stands for was met: everything older is in the summary. */
  isWhole = false
  /** That message itself, where it is the user's. */
  words: Message | undefined

  /** The message of a row; undefined where it is none, or the summary stands for it. */
  take(row: StepRow): Message | undefined {
    if (row.kind === 'summary') {
      this.summary ??= noteOf(row).summary
      return undefined
    }
    const message = asTold(messageOf(row))
    if (!this.summary || message.role === 'system' || message.id !== this.summary.upTo)
      return message
    this.isWhole = true
    if (isWords(message)) this.words = message
    return undefined
  }
}

/** The user's newest words that the summary stands for; the words that begin the present turn are one of those that stay. */
async function pinned(
  store: RunStore,
  { isWhole, words }: Found,
  after: readonly Message[],
  { sessionId, position }: Place,
): Promise<Message[]> {
  const missing = pinnedWords - 1 - after.filter(isWords).length
  if (!isWhole || missing <= 0) return []
  const own = words ? [words] : []
  const rows = await store.wordsBefore(sessionId, position, missing - own.length)
  const older = rows.map((row) => asTold(messageOf(row))).reverse()
  return [...older, ...own].filter(isWords).map(cutWords)
}
