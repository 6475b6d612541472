import { useCallback, useEffect, useMemo, useState } from 'react'
import type { Call } from '../core/request.ts'
import type { IMessage, Overrides } from '../core/records.ts'
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

/** A version of a conversation, as the server lists it. */
export interface Branch {
  readonly sessionId: string
  readonly forkedFrom?: { readonly sessionId: string; readonly at: string | null }
}

/** The versions of one message, and which of them is shown. */
export interface Versions {
  readonly sessions: readonly string[]
  readonly shown: number
}

/** What `useBranches` returns. */
export interface Branches {
  /** The versions of a message; undefined where there is one alone. */
  readonly versionsOf: (message: IMessage) => Versions | undefined
  /**
   * Makes another version of the conversation that ends before the last of these messages: one version, however often it is asked
   * for by one `key`. None where the server has nothing there: the conversation is its own version.
   */
  readonly fork: (
    upTo: readonly IMessage[],
    key?: string,
  ) => Promise<{ readonly sessionId: string; readonly already: readonly AlreadyDone[] }>
  /** Takes a version back that is not wanted. */
  readonly drop: (sessionId: string) => Promise<void>
}

/** The versions of a conversation. They are read again when another `count` of messages is given. */
export function useBranches(
  oracleDid: string,
  sessionId: string,
  overrides?: Overrides,
  count = 0,
): Branches {
  const ask = useAsk(oracleDid, overrides)
  const [versionsOf, setVersionsOf] = useState<Branches['versionsOf']>(() => noVersions)
  const path = `/sessions/${encodeURIComponent(sessionId)}`
  useEffect(() => {
    let isHere = true
    const read = async () => {
      const { branches } = await ask<{ branches: readonly Branch[] }>(`${path}/branches`)
      const found =
        count > 0 && branches.length > 1
          ? await (await places()).versionsIn(ask, sessionId, branches, count)
          : noVersions
      if (isHere) setVersionsOf(() => found)
    }
    if (sessionId) read().catch(() => undefined)
    return () => void (isHere = false)
  }, [ask, path, sessionId, count])
  return useMemo(
    () => ({
      versionsOf,
      async fork(upTo, key) {
        const before = await (await places()).idOf(ask, sessionId, upTo)
        if (!before) return { sessionId, already: [] }
        const headers = key ? { 'idempotency-key': key } : undefined
        return ask(`${path}/fork`, { body: { before, branch: true }, headers })
      },
      drop: (id) => ask(`/sessions/${encodeURIComponent(id)}`, { method: 'DELETE' }),
    }),
    [versionsOf, ask, path, sessionId],
  )
}

const noVersions = () => undefined

/** The code that finds messages in the history of the server: fetched for who edits, rates, or has versions to go between. */
export const places = () => import('../later/places.ts')
