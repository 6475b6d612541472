import { useEffect } from 'react'
import { type NoticesSnapshot, UserNotices, type Seen, type UserEvent } from '../core/notices.ts'
import type { Overrides } from '../core/records.ts'
import { useClient } from './provider.ts'
import { useLatest } from './use-latest.ts'
import { useStore } from './use-store.ts'

/** The options of `useNotices`. */
export interface UseNoticesOptions {
  readonly overrides?: Overrides
  /** Hears what goes on in all sessions of the user; may be inline. */
  readonly onEvent?: (event: UserEvent) => void
}

/** What `useNotices` returns. */
export interface NoticesResult extends NoticesSnapshot {
  /** Marks notices as seen: these, those of a session, or all up to a number. */
  readonly markSeen: (seen: Seen) => Promise<void>
  /** Wants no more notices of a plugin; what it says still stands in the session. */
  readonly mute: (plugin: string) => Promise<void>
  readonly unmute: (plugin: string) => Promise<void>
  readonly fetchMore: () => Promise<void>
  readonly refetch: () => Promise<void>
}

/** What the user should know wherever he is: the list, and what is new as it comes, by one stream for the whole page. */
export function useNotices(
  oracleDid: string,
  { overrides = {}, onEvent }: UseNoticesOptions = {},
): NoticesResult {
  const client = useClient()
  const { baseUrl, wsUrl } = overrides
  const store = client.once(
    JSON.stringify(['notices', oracleDid, baseUrl, wsUrl]),
    () => new UserNotices(client, oracleDid, overrides),
  )
  const latest = useLatest(onEvent)
  useEffect(() => store.on((event) => latest.current?.(event)), [store])
  const { markSeen, mute, unmute, fetchMore, refetch } = store
  return { ...useStore(store), markSeen, mute, unmute, fetchMore, refetch }
}
