import { sql } from 'kysely'
import { isKnownForm } from '../stored-version.ts'
import { isOpenIn } from '../indexes/open-runs.ts'
import type { RunStore } from '../journal/store.ts'
import type { WaitingTurnsTable } from '../waiting-tables.ts'

/** A turn that waits until its session is free. */
export interface WaitingTurn extends WaitingTurnsTable {
  /** How long it has waited, by the database's clock. */
  readonly waited_ms: number
}

/** A turn that waited this long does not begin any more. */
const longestWaitMs = 24 * 3_600_000
/** How many sessions, and how many turns that waited too long, one look finds. */
const sessionsPerLook = 500
const expiredPerLook = 50

/** The sessions in which turns wait, and whether each is busy: the free ones first, then those that have waited longest. */
export async function waitingSessions({ db }: RunStore): Promise<{
  readonly sessions: ReadonlyMap<string, boolean>
  /** Whether there are no further sessions. */
  readonly areAll: boolean
}> {
  const { rows } = await sql<{ session: string; busy: number }>`
    select session_id as session, case when exists (
      select 1 from kernel_runs
      where ${isOpenIn(sql.ref('kernel_waiting_turns.session_id'))}) then 1 else 0 end as busy
    from kernel_waiting_turns where ${isKnownForm} group by session_id
    order by busy, min(created_at) limit ${sql.lit(sessionsPerLook)}`.execute(db)
  const sessions = new Map(rows.map(({ session, busy }) => [session, busy === 1]))
  return { sessions, areAll: rows.length < sessionsPerLook }
}

/** The turn of a session that begins next; undefined where that one is stored in a form that a newer server knows. */
export async function nextOf(
  { db, now }: RunStore,
  sessionId: string,
): Promise<WaitingTurn | undefined> {
  const { rows } = await sql<WaitingTurn>`select *, ${now} - created_at as waited_ms
    from (select * from kernel_waiting_turns
      where session_id = ${sessionId} order by place limit 1) as first
    where ${isKnownForm}`.execute(db)
  return rows[0]
}

/** Turns that have waited too long, the oldest first. */
export async function expiredTurns({ db, now }: RunStore): Promise<readonly WaitingTurn[]> {
  const { rows } = await sql<WaitingTurn>`select *, ${now} - created_at as waited_ms
    from kernel_waiting_turns
    where created_at < ${now} - ${sql.lit(longestWaitMs)} and ${isKnownForm}
    order by created_at limit ${sql.lit(expiredPerLook)}`.execute(db)
  return rows
}

/** How many turns wait in a session. */
export async function countWaiting({ db }: RunStore, sessionId: string): Promise<number> {
  const { rows } = await sql<{ count: number }>`select count(*) as count
    from kernel_waiting_turns where session_id = ${sessionId}`.execute(db)
  return Number(rows[0]?.count ?? 0)
}

/** What has become of turns that waited: those that have begun as runs, and those that wait still. */
export async function whereabouts(
  { db }: RunStore,
  ids: readonly string[],
): Promise<{ readonly begun: ReadonlySet<string>; readonly waiting: ReadonlySet<string> }> {
  const idsIn = async (table: 'kernel_waiting_turns' | 'kernel_runs') => {
    const { rows } = await sql<{ id: string }>`select id from ${sql.table(table)}
      where id in (${sql.join(ids)})`.execute(db)
    return new Set(rows.map(({ id }) => id))
  }
  // The first query finds turns that wait. A turn that begins between the two queries is found by the second as well.
  const waiting = await idsIn('kernel_waiting_turns')
  return { waiting, begun: await idsIn('kernel_runs') }
}

/** The session of the turn that a user gave this name, whether the turn has begun or waits. */
export async function sessionOfRequest(
  { db }: RunStore,
  did: string,
  requestId: string,
): Promise<string | undefined> {
  const { rows } = await sql<{ session: string }>`
    select session_id as session from kernel_runs
      where did = ${did} and request_id = ${requestId} and namesake = 0
    union all
    select session_id as session from kernel_waiting_turns
      where did = ${did} and request_id = ${requestId}`.execute(db)
  return rows[0]?.session
}
