import { type RawBuilder, sql } from 'kysely'

/**
 * Whether a run has yet to end or waits for a person. Each database keeps a small index of these runs, and uses it where a query
 * says this very sentence.
 */
export const isOpenOrWaiting: RawBuilder<boolean> = sql<boolean>`status in ('queued', 'running', 'waiting')`

/** Whether a run has yet to end: the first half is what the index of SQLite holds, the second what that of PostgreSQL holds. */
export const isAtWork: RawBuilder<boolean> = sql<boolean>`(${isOpenOrWaiting} and status in ('queued', 'running'))`

/** Whether a run waits for a person. */
export const isWaiting: RawBuilder<boolean> = sql<boolean>`(${isOpenOrWaiting} and status = 'waiting')`

/**
 * Whether a run of this session has yet to end or waits for a person. The index of SQLite finds such runs by their user and
 * session, that of PostgreSQL by their session. `runs` is what the query calls the table of runs.
 */
export function isOpenIn(
  session: string | RawBuilder<unknown>,
  runs: 'kernel_runs' | 'run' | 'open' = 'kernel_runs',
): RawBuilder<boolean> {
  const run = sql.ref<string>(runs)
  return sql<boolean>`(${run}.session_id = ${session}
    and ${run}.did = (select owned.did from kernel_sessions as owned where owned.id = ${session})
    and ${run}.status in ('queued', 'running', 'waiting'))`
}
