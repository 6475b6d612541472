import { useCallback, useEffect, useMemo, useState } from 'react'
import type { Call } from '../core/request.ts'
import type { Overrides } from '../core/records.ts'
import { useClient } from '../react/provider.ts'
import { tellRefused } from './not-kept.tsx'

/** Asks a route of the oracle for JSON, as the user. */
export function useAsk(oracleDid: string, overrides?: Overrides) {
  const client = useClient()
  const { baseUrl } = overrides ?? {}
  return useCallback(
    <T>(path: string, call?: Call): Promise<T> =>
      client.request<T>(oracleDid, path, call, overrides),
    [client, oracleDid, baseUrl],
  )
}

/** The ids of the newest messages of a conversation, as the history has them: as many as asked for, where there are so many. */
export async function idsOf(
  ask: ReturnType<typeof useAsk>,
  sessionId: string,
  count: number,
): Promise<readonly string[]> {
  type Page = { messages: readonly { id: string }[]; prevCursor: string | null }
  const path = `/sessions/${encodeURIComponent(sessionId)}/messages?limit=${mostOfPage}`
  let ids: readonly string[] = []
  for (let before = ''; ids.length < count;) {
    const page = await ask<Page>(path + before)
    ids = [...page.messages.map(({ id }) => id), ...ids]
    if (page.prevCursor === null) break
    before = `&before=${page.prevCursor}`
  }
  return ids
}

const mostOfDraft = 32 * 1024

/** A text that outlives a reload, by its name; empty texts are forgotten. A page that may not store anything forgets all. */
export function useDraft(name: string): [text: string, setText: (text: string) => void] {
  const key = draftKey(name)
  const [text, setText] = useState('')
  useEffect(() => {
    try {
      setText(localStorage.getItem(key) ?? '')
    } catch {
      tellRefused()
      setText('')
    }
  }, [key])
  const keep = (now: string) => {
    setText(now)
    try {
      if (now === '') localStorage.removeItem(key)
      else if (now.length <= mostOfDraft) localStorage.setItem(key, now)
    } catch {
      tellRefused()
    }
  }
  return [text, keep]
}

const draftKey = (name: string) => `oracle-draft ${name}`

/** Gives a draft another name, where it is this text: another tab may have begun another draft of the same name. */
export function moveDraft(from: string, to: string, text: string): void {
  try {
    if (text === '' || localStorage.getItem(draftKey(from)) !== text) return
    localStorage.setItem(draftKey(to), text)
    localStorage.removeItem(draftKey(from))
  } catch {
    tellRefused()
  }
}

/** A write that stays happened behind the place where a conversation branches off. */
export interface AlreadyDone {
  readonly toolName: string
  readonly args: unknown
  readonly at: string
  readonly outcome: 'done' | 'unknown'
}

interface Branch {
  readonly sessionId: string
  readonly forkedFrom?: { readonly sessionId: string; readonly at: string | null }
}

/** The versions of one message, and which of them is shown. */
export interface Versions {
  readonly sessions: readonly string[]
  readonly shown: number
}

/** A message by its place: how many stand behind it. A page that heard a message streamed knows it by another id than the server. */
type FromEnd = number

/** What `useBranches` returns. */
export interface Branches {
  /** The versions of a message; undefined where there is one alone. */
  readonly versionsOf: (fromEnd: FromEnd) => Versions | undefined
  /** Makes another version of the conversation that ends before a message: one version, however often it is asked for by one `key`. */
  readonly fork: (
    fromEnd: FromEnd,
    key?: string,
  ) => Promise<{ readonly sessionId: string; readonly already: readonly AlreadyDone[] }>
  /** Takes a version back that is not wanted. */
  readonly drop: (sessionId: string) => Promise<void>
}

/** How many messages a page of a history has at most. */
const mostOfPage = 200

interface Family {
  readonly branches: readonly Branch[]
  /** The ids of the newest messages, the oldest first. */
  readonly ids: readonly string[]
}

/** The versions of a conversation. They are read again when another `count` of messages is given. */
export function useBranches(
  oracleDid: string,
  sessionId: string,
  overrides?: Overrides,
  count = 0,
): Branches {
  const ask = useAsk(oracleDid, overrides)
  const [{ branches, ids }, setFamily] = useState<Family>({ branches: [], ids: [] })
  const path = `/sessions/${encodeURIComponent(sessionId)}`
  const readIds = useCallback((most: number) => idsOf(ask, sessionId, most), [ask, sessionId])
  useEffect(() => {
    let isHere = true
    const read = async () => {
      const found = await ask<{ branches: readonly Branch[] }>(`${path}/branches`)
      const known = found.branches.length > 1 ? await readIds(count) : []
      if (isHere) setFamily({ branches: found.branches, ids: known })
    }
    if (sessionId) read().catch(() => undefined)
    return () => void (isHere = false)
  }, [ask, readIds, path, sessionId, count])
  return useMemo(
    () => ({
      versionsOf(fromEnd) {
        const at = ids.length - 1 - fromEnd
        return at < 0 ? undefined : versionsAfter(branches, sessionId, ids[at - 1] ?? null)
      },
      async fork(fromEnd, key) {
        const before = (await readIds(fromEnd + 1)).at(-1 - fromEnd)
        const headers = key ? { 'idempotency-key': key } : undefined
        return ask(`${path}/fork`, { body: { before, branch: true }, headers })
      },
      drop: (id) => ask(`/sessions/${encodeURIComponent(id)}`, { method: 'DELETE' }),
    }),
    [branches, ids, ask, readIds, path, sessionId],
  )
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
