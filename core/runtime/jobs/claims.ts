import { type RawBuilder, sql } from 'kysely'
import { isKnownForm } from '../turns/stored-version.ts'
import type { Planned } from './schedules.ts'
import { type JobStore, listOf, type JobRow } from './tables.ts'

/** How many jobs one statement claims. */
export const jobsPerClaim = 20

/** A claimed job, and how late it is. */
export type ClaimedJob = JobRow & { readonly late_ms: number }

/** A job and the number of the attempt that this process makes: a change is written only while both are the row's. */
export type HeldJob = Pick<JobRow, 'id' | 'attempts'>

/** Claims jobs of these kinds that are due, and jobs whose process let its lease run out. An attempt begins with that. */
export async function claimJobs(
  store: JobStore,
  kinds: readonly string[],
  limit: number,
): Promise<ClaimedJob[]> {
  if (kinds.length === 0) return []
  const { now, leaseNow, owner, leaseEnd, kind } = store
  // This process has locked the folder of SQLite, so any other owner is a process that died.
  const isLeft =
    kind === 'postgres'
      ? sql`lease_until < ${leaseNow}`
      : sql`(lease_until < ${leaseNow} or owner <> ${owner})`
  const lock = kind === 'postgres' ? sql`for update skip locked` : sql``
  const { rows } = await sql<ClaimedJob>`
    with candidates as (
      select id from kernel_jobs
      where (state = 'due' and due_at <= ${now} or state = 'running' and ${isLeft})
      and kind in (${listOf(kinds)}) and ${isKnownForm}
      order by due_at limit ${Math.min(limit, jobsPerClaim)} ${lock})
    update kernel_jobs
    set state = 'running', owner = ${owner}, lease_until = ${leaseEnd}, attempts = attempts + 1,
      started_at = ${now}, orphaned_at = null
    where id in (select id from candidates)
    returning *, ${now} - due_at as late_ms`.execute(store.db)
  return rows
}

/** Extends the leases of these jobs; resolves to those that this process still holds. */
export async function extendJobs(
  store: JobStore,
  jobs: readonly HeldJob[],
): Promise<readonly HeldJob[]> {
  if (jobs.length === 0) return []
  const { rows } = await sql<HeldJob>`update kernel_jobs set lease_until = ${store.leaseEnd}
    where id in (${listOf(jobs.map(({ id }) => id))}) and owner = ${store.owner} and state = 'running'
    returning id, attempts`.execute(store.db)
  return rows
}

/** How far ahead a lease may end; one that ends later was written before the clock was turned back. */
const furthestLeaseMs = 3_600_000

/**
 * Shortens leases that reach hours ahead: the clock was turned back. A process that lives extends its lease before the
 * shorter one ends, and the job of a process that died is free at once and not when the clock has caught up.
 */
export async function shortenLeases(store: JobStore): Promise<void> {
  await sql`update kernel_jobs set lease_until = ${store.leaseEnd}
    where state = 'running' and lease_until > ${store.leaseEnd} + ${sql.lit(furthestLeaseMs)}`.execute(
    store.db,
  )
}

/** Ends a job that `later` asked for. */
export const endJob = (
  store: JobStore,
  held: HeldJob,
  state: 'done' | 'dead',
  error?: string,
): Promise<boolean> =>
  change(
    store,
    held,
    sql`state = ${state}, error = ${error ?? null}, ended_at = ${store.now}, owner = null, lease_until = 0`,
  )

/** Sets when the next attempt begins. */
export const retryJob = (
  store: JobStore,
  held: HeldJob,
  waitMs: number,
  error: string,
): Promise<boolean> =>
  change(
    store,
    held,
    sql`state = 'due', error = ${error}, due_at = ${store.now} + ${Math.round(waitMs)},
      owner = null, lease_until = 0`,
  )

/** Gives a job back: any process may claim it at once, and the attempt does not count. */
export const giveBackJob = (store: JobStore, held: HeldJob): Promise<boolean> =>
  change(store, held, sql`state = 'due', attempts = attempts - 1, owner = null, lease_until = 0`)

/** Ends one planned time of a schedule: its row waits for the next. A plan that was changed meanwhile stays as it is. */
export const endPlanned = (
  store: JobStore,
  held: HeldJob & Pick<JobRow, 'kind'>,
  next: number,
  error?: string,
): Promise<boolean> =>
  change(
    store,
    held,
    sql`state = 'due', attempts = 0, key = '', error = ${error ?? null}, ended_at = ${store.now},
      planned_at = case when kind = ${held.kind} then ${sql.lit(next)} else planned_at end,
      due_at = case when kind = ${held.kind} then ${sql.lit(next)} else due_at end,
      owner = null, lease_until = 0`,
  )

/**
 * Notes which planned time an attempt is about, the key that all attempts for this time share, and when servers were up.
 */
export const settlePlanned = (
  store: JobStore,
  held: HeldJob,
  { planned, up }: Planned,
  key: string,
): Promise<boolean> =>
  change(store, held, sql`planned_at = ${sql.lit(planned)}, key = ${key}, up = ${up}`)

/** Whether this process still held the job, so that the change was made. */
async function change(store: JobStore, held: HeldJob, set: RawBuilder<unknown>): Promise<boolean> {
  const { numAffectedRows } = await sql`update kernel_jobs set ${set}
    where id = ${held.id} and owner = ${store.owner} and attempts = ${held.attempts}
    and state = 'running'`.execute(store.db)
  return (numAffectedRows ?? 0n) > 0n
}

/** How many milliseconds the next of these jobs still has; undefined when none waits. */
export async function nextDueMs(
  store: JobStore,
  kinds: readonly string[],
): Promise<number | undefined> {
  if (kinds.length === 0) return undefined
  const { rows } = await sql<{ ms: number | null }>`select min(due_at) - ${store.now} as ms
    from kernel_jobs where state = 'due' and kind in (${listOf(kinds)})
    and ${isKnownForm}`.execute(store.db)
  return rows[0]?.ms ?? undefined
}

/** When the next of these jobs is due; undefined when none waits for a time. */
export async function nextDueAt(
  store: JobStore,
  kinds: readonly string[],
): Promise<number | undefined> {
  if (kinds.length === 0) return undefined
  const { rows } = await sql<{ at: number | null }>`select min(due_at) as at from kernel_jobs
    where state = 'due' and due_at > ${store.now} and kind in (${listOf(kinds)})
    and ${isKnownForm}`.execute(store.db)
  return rows[0]?.at ?? undefined
}

/** How many of these jobs run, or would run now. */
export async function countAtWork(store: JobStore, kinds: readonly string[]): Promise<number> {
  if (kinds.length === 0) return 0
  const { rows } = await sql<{ many: number }>`select count(*) as many from kernel_jobs
    where (state = 'running' or state = 'due' and due_at <= ${store.now})
    and kind in (${listOf(kinds)})
    and ${isKnownForm}`.execute(store.db)
  return rows[0]?.many ?? 0
}
