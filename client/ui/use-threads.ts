import { useCallback, useEffect, useMemo, useRef, useState } from 'react'
import type { UserEvent } from '../core/notices.ts'
import type { IChatSession, Overrides } from '../core/records.ts'
import { useLatest } from '../react/use-latest.ts'
import { useNotices } from '../react/use-notices.ts'
import { useClient } from '../react/provider.ts'
import { useAsk } from './hooks.ts'

/** A message that has the words of a search. */
export interface ThreadHit {
  readonly messageId: string
  readonly snippet: string
  readonly marks: readonly (readonly [from: number, to: number])[]
}

/** A conversation in the list; with a search, the messages that were found in it. */
export interface ListedThread extends IChatSession {
  readonly hits?: readonly ThreadHit[]
}

interface Page {
  readonly sessions: readonly ListedThread[]
  readonly nextCursor?: string | null
}

/** What `useThreads` returns. */
export interface Threads {
  readonly threads: readonly ListedThread[]
  /** What is looked for; empty where all are listed. */
  readonly query: string
  /** Lists the conversations that have these words; all of them for fewer than two characters. */
  readonly search: (query: string) => void
  readonly isLoading: boolean
  /** Why the list could not be read last. */
  readonly error: unknown
  /** Why the last change that was asked for, a new title or a deletion, was not made. */
  readonly fault?: unknown
  readonly hasMore: boolean
  readonly more: () => Promise<void>
  readonly refresh: () => Promise<void>
  readonly rename: (sessionId: string, title: string | null) => Promise<void>
  /** Hides a conversation at once, and deletes it after eight seconds unless `undo` is called. */
  readonly remove: (sessionId: string) => void
  readonly undo: () => void
  /** The conversation that `undo` would bring back. */
  readonly removed: IChatSession | undefined
}

const pageSize = 40
/** Several things that happen in one moment are one reading of the list. */
const settleMs = 200
/** How long a search waits for the next letter, and what it has at least and at most. */
const typing = { ms: 250, fewest: 2, most: 200 }
/** How long a deletion can be taken back. */
const undoMs = 8_000

/**
 * The user’s conversations, by pages; of the branches of one, the one that was used last. Read again when another is `shown`, and when
 * something happens in one of them: in another tab, on another device, in a call, by a plugin. `onDeleted` hears of those that were
 * deleted so.
 */
export function useThreads(
  oracleDid: string,
  overrides?: Overrides,
  shown = '',
  onDeleted?: (ids: ReadonlySet<string>) => void,
): Threads {
  const ask = useAsk(oracleDid, overrides)
  const [threads, setThreads] = useState<readonly ListedThread[]>([])
  const [query, setQuery] = useState('')
  const wanted = useWanted(query)
  const [next, setNext] = useState<string | null>(null)
  const [isLoading, setLoading] = useState(true)
  const [error, setError] = useState<unknown>()
  const isFetching = useRef(false)
  const asked = useRef(0)
  const question = useMemo(() => ({ ask, wanted }), [ask, wanted]) // another user’s is another one
  const latest = useLatest(question)
  const listed = useRef<typeof question>(undefined) // what the list that is shown answers
  const isOwn = listed.current?.ask === ask
  const read = useCallback(
    async (cursor: string | null) => {
      const more = cursor === null ? '' : `&cursor=${encodeURIComponent(cursor)}`
      const q = wanted === '' ? '' : `&q=${encodeURIComponent(wanted)}`
      const own = cursor === null ? ++asked.current : 0
      // Another question was asked meanwhile, and its answer is the one to show. What is older belongs to the question alone: it
      // would not be asked for again by a reader who is at the end already.
      const isLate = () => (cursor === null ? own !== asked.current : latest.current !== question)
      try {
        const page = await ask<Page>(`/sessions?limit=${pageSize}&branches=newest${q}${more}`)
        if (isLate()) return
        const isLonger = cursor === null && listed.current === question && page.nextCursor
        listed.current = question
        setThreads((known) => {
          if (cursor !== null) return [...known, ...without(page.sessions, known)]
          // Whoever has gone down a long list stays there while it is read again.
          return isLonger ? [...page.sessions, ...without(known, page.sessions)] : page.sessions
        })
        setNext((now) => (isLonger ? now : undefined) ?? page.nextCursor ?? null)
        setError(undefined)
      } catch (thrown) {
        if (isLate()) return
        setError(thrown)
      }
      setLoading(false)
    },
    [question],
  )
  const refresh = useCallback(() => read(null), [read])
  useLive(oracleDid, overrides, (deleted) => {
    setThreads((known) => known.filter(({ sessionId }) => !deleted.has(sessionId)))
    void refresh()
    onDeleted?.(deleted)
  })
  const more = useCallback(async () => {
    if (!isOwn || next === null || isFetching.current) return
    isFetching.current = true
    await read(next).finally(() => (isFetching.current = false))
  }, [read, next, isOwn])
  useEffect(() => void refresh(), [refresh, shown])
  const [fault, setFault] = useFault(ask)
  const { isGone, ...removal } = useRemoval(oracleDid, overrides, threads, refresh, setFault)
  return {
    threads: isOwn ? threads.filter(({ sessionId }) => !isGone(sessionId)) : [],
    ...{ query, search: setQuery, isLoading, error, fault, more, refresh, ...removal },
    hasMore: isOwn && next !== null,
    async rename(sessionId, title) {
      const path = `/sessions/${encodeURIComponent(sessionId)}`
      setFault(undefined)
      const changed = await ask<IChatSession>(path, { method: 'PATCH', body: { title } }).catch(
        (thrown: unknown) => {
          setFault(thrown)
          throw thrown
        },
      )
      setThreads((known) =>
        known.map((one) => (one.sessionId === sessionId ? { ...one, title: changed.title } : one)),
      )
    },
  }
}

/** The conversations of a list that are not in another one. */
function without(
  list: readonly ListedThread[],
  others: readonly ListedThread[],
): readonly ListedThread[] {
  const ids = new Set(others.map(({ sessionId }) => sessionId))
  return list.filter(({ sessionId }) => !ids.has(sessionId))
}

/** Calls back soon after something has happened in any conversation of the user, with those that were deleted. */
function useLive(
  oracleDid: string,
  overrides: Overrides | undefined,
  happened: (deleted: ReadonlySet<string>) => void,
): void {
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  const deleted = useRef(new Set<string>())
  const latest = useLatest(happened)
  const onEvent = ({ eventName, payload }: UserEvent) => {
    // What happened while nobody listened is told by nothing: a connection counts as something, too.
    if (eventName === 'session' && payload.change === 'deleted')
      deleted.current.add(payload.sessionId)
    timer.current ??= setTimeout(() => {
      timer.current = undefined
      latest.current(deleted.current)
      deleted.current = new Set()
    }, settleMs)
  }
  useNotices(oracleDid, { overrides, onEvent })
  useEffect(
    () => () => {
      clearTimeout(timer.current)
      timer.current = undefined
    },
    [],
  )
}

/** What is looked for once nobody types any more. */
function useWanted(query: string): string {
  const [wanted, setWanted] = useState('')
  useEffect(() => {
    const text = query.trim().slice(0, typing.most).toWellFormed()
    const now = text.length < typing.fewest ? '' : text
    const timer = setTimeout(() => setWanted(now), now === '' ? 0 : typing.ms)
    return () => clearTimeout(timer)
  }, [query])
  return wanted
}

/** What went wrong for one user; the next one has none of it. */
function useFault(ask: unknown): [fault: unknown, setFault: (fault: unknown) => void] {
  const [last, setLast] = useState<{ readonly ask: unknown; readonly fault: unknown }>()
  return [last?.ask === ask ? last?.fault : undefined, (fault) => setLast({ ask, fault })]
}

/** Deletions that can be taken back for a while. They are carried out all the same where the list is not shown any more. */
function useRemoval(
  oracleDid: string,
  overrides: Overrides | undefined,
  threads: readonly IChatSession[],
  refresh: () => Promise<void>,
  onFault: (fault: unknown) => void,
) {
  const ask = useAsk(oracleDid, overrides)
  const client = useClient()
  const [last, setLast] = useState<{ ask: typeof ask; removed?: IChatSession }>()
  const removed = last?.ask === ask ? last.removed : undefined
  /** How to forget each deletion. */
  const gone = useRef(new Map<string, () => void>())
  const remove = (sessionId: string) => {
    onFault(undefined)
    const path = `/sessions/${encodeURIComponent(sessionId)}`
    const forget = () => {
      clearTimeout(timer)
      window.removeEventListener('pagehide', onLeave)
      gone.current.delete(sessionId)
      setLast((now) => (now?.removed?.sessionId === sessionId ? undefined : now))
    }
    const timer = setTimeout(() => {
      ask(path, { method: 'DELETE' }).then(
        () => refresh().finally(forget),
        (thrown: unknown) => {
          forget()
          onFault(thrown)
          void refresh()
        },
      )
    }, undoMs)
    let leave = () => {}
    // A page that goes counts as a yes: what was hidden is deleted then.
    const onLeave = () => leave()
    window.addEventListener('pagehide', onLeave)
    gone.current.set(sessionId, forget)
    // A page that closes waits for nothing, so the tokens are at hand before.
    void Promise.all([
      client.tokens.headers(oracleDid),
      client.config(oracleDid, overrides).read(),
    ]).then(
      ([headers, { apiUrl }]) => {
        leave = () => void fetch(apiUrl + path, { method: 'DELETE', headers, keepalive: true })
      },
      () => undefined,
    )
    setLast({ ask, removed: threads.find((one) => one.sessionId === sessionId) })
  }
  const undo = () => removed && gone.current.get(removed.sessionId)?.()
  return { isGone: (sessionId: string) => gone.current.has(sessionId), remove, undo, removed }
}
