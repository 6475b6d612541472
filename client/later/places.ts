import type { Call } from '../core/request.ts'
import type { IMessage } from '../core/records.ts'
import type { Branch, Versions } from '../ui/hooks.ts'

/** Asks a route of the oracle for JSON. */
type Ask = <T>(path: string, call?: Call) => Promise<T>

/** How many messages a page of a history has at most. */
const mostOfPage = 200

/** The newest messages of a conversation as the server has them, each time with one page more, until all of it is read. */
async function* readingOf(ask: Ask, sessionId: string) {
  type Page = { messages: readonly IMessage[]; prevCursor: string | null }
  const path = `/sessions/${encodeURIComponent(sessionId)}/messages?limit=${mostOfPage}`
  let history: readonly IMessage[] = []
  for (let before = ''; ;) {
    const { messages, prevCursor } = await ask<Page>(path + before)
    history = [...messages, ...history]
    yield { history, isWhole: prevCursor === null }
    if (prevCursor === null) return
    before = `&before=${prevCursor}`
  }
}

/** Finds a message that came as it was said: it has another id than in the history, and words have their run. */
const isSame =
  ({ id, run }: IMessage) =>
  (one: IMessage) =>
    one.id === id || (run !== undefined && run.runId === one.run?.runId)

/**
 * The id that the last of some messages has at the server: as far behind one that both have as it stands here. A page may show
 * words that the server has not, and leaves out those that had to be paid for before they were said again.
 */
export async function idOf(
  ask: Ask,
  sessionId: string,
  upTo: readonly IMessage[],
): Promise<string | undefined> {
  for await (const { history, isWhole } of readingOf(ask, sessionId))
    for (let steps = 0; steps <= upTo.length; steps++) {
      const one = upTo.at(-1 - steps)
      const at = one ? history.findIndex(isSame(one)) : -1
      if (at >= 0 || (!one && isWhole)) return history[at + steps]?.id
    }
  return undefined
}

/** Finds the versions of each of the newest messages of a conversation: of as many as asked for, where there are so many. */
export async function versionsIn(
  ask: Ask,
  sessionId: string,
  branches: readonly Branch[],
  count: number,
): Promise<(message: IMessage) => Versions | undefined> {
  let history: readonly IMessage[] = []
  for await (const read of readingOf(ask, sessionId)) {
    history = read.history
    if (history.length >= count) break
  }
  return (message) => {
    const at = history.findIndex(isSame(message))
    return at < 0 ? undefined : versionsAfter(branches, sessionId, history[at - 1]?.id ?? null)
  }
}

function versionsAfter(
  branches: readonly Branch[],
  sessionId: string,
  at: string | null,
): Versions | undefined {
  const forks = branches.filter(({ forkedFrom }) => forkedFrom && forkedFrom.at === at)
  if (forks.length === 0) return undefined
  const ids = new Set(forks.map(({ sessionId: id }) => id))
  const first = forks
    .map(({ forkedFrom }) => forkedFrom?.sessionId ?? '')
    .find((id) => !ids.has(id))
  const sessions = [
    ...(first !== undefined && branches.some(({ sessionId: id }) => id === first) ? [first] : []),
    ...ids,
  ]
  // A version of a later message belongs to the version of this one that it came from.
  let own: string | undefined = sessionId
  for (let step = 0; own !== undefined && !sessions.includes(own) && step < branches.length; step++)
    own = branches.find(({ sessionId: id }) => id === own)?.forkedFrom?.sessionId
  const shown = own === undefined ? -1 : sessions.indexOf(own)
  return shown < 0 || sessions.length < 2 ? undefined : { sessions, shown }
}
