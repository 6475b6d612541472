import type { SessionsSnapshot } from '../core/sessions.ts'
import { useClient } from './provider.ts'
import type { IChatSession } from '../core/records.ts'
import { useStore } from './use-store.ts'

/** The options of `useOracleSessions`. */
export interface UseOracleSessionsOptions {
  readonly baseUrl?: string | undefined
  /** How many sessions a page of the list has. */
  readonly limit?: number
}

/** What `useOracleSessions` returns. */
export interface OracleSessions extends SessionsSnapshot {
  readonly createSession: () => Promise<IChatSession>
  readonly deleteSession: (sessionId: string) => Promise<void>
  readonly fetchNextPage: () => Promise<void>
  readonly refetch: () => Promise<void>
}

/** The user's sessions with an oracle: to list, to create, to delete. */
export function useOracleSessions(
  oracleDid: string,
  { baseUrl, limit }: UseOracleSessionsOptions = {},
): OracleSessions {
  const store = useClient().sessions(oracleDid, { baseUrl }, limit)
  const { createSession, deleteSession, fetchNextPage, refetch } = store
  return {
    ...useStore(store),
    createSession,
    deleteSession,
    fetchNextPage,
    refetch,
  }
}
