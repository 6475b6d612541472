import { type QueryExecutorProvider, sql } from 'kysely'
import { RuntimeError } from '../../errors.ts'
import { keyMs } from './asking.ts'
import type { KnownJobs } from './known-jobs.ts'
import { type JobStore, listOf } from './tables.ts'

/** How many open jobs there may be. */
export interface JobLimits {
  readonly perUser: number
  readonly perPlugin: number
}

/** The limits of a server: a plugin that asks for jobs in an endless loop is refused long before the disk is full. */
export const jobLimits: JobLimits = { perUser: 10_000, perPlugin: 100_000 }

/** How long a count holds, while this process asks for a small share of the room that the count found. */
const trustedMs = 10_000
/** A process takes at most one part in so many of the room before it counts again, because other replicas ask for jobs too. */
const share = 10
const mostCounts = 1_000

interface Count {
  readonly at: number
  /** How many more jobs may be asked for before the next count. */
  left: number
}

/** Refuses a job where the plugin or the user has too many open ones. It counts seldom: a count costs more than a job. */
export class Fullness {
  readonly #limits: JobLimits
  readonly #counts = new Map<string, Count>()

  constructor(limits: JobLimits = jobLimits) {
    this.#limits = limits
  }

  /** Throws `JOBS_FULL` when there is no room for another job. */
  async demand(db: QueryExecutorProvider, plugin: string, user: string | undefined): Promise<void> {
    const { perPlugin, perUser } = this.#limits
    await this.#room(db, 'plugin', plugin, perPlugin)
    if (user !== undefined) await this.#room(db, 'did', user, perUser)
  }

  async #room(
    db: QueryExecutorProvider,
    column: 'plugin' | 'did',
    who: string,
    limit: number,
  ): Promise<void> {
    const name = `${column} ${who}`
    const known = this.#counts.get(name)
    if (known && known.left > 0 && performance.now() - known.at < trustedMs) {
      known.left--
      return
    }
    const { rows } = await sql<{ open: number }>`select count(*) as open from (
      select 1 from kernel_jobs where state in ('due', 'running') and schedule is null
      and ${sql.ref(column)} = ${who} limit ${limit}) as jobs`.execute(db)
    const room = limit - (rows[0]?.open ?? 0)
    this.#counts.delete(name)
    if (room <= 0) throw full(column, who, limit)
    this.#counts.set(name, { at: performance.now(), left: Math.floor(room / share) })
    const [oldest] = this.#counts.keys()
    if (this.#counts.size > mostCounts && oldest !== undefined) this.#counts.delete(oldest)
  }
}

function full(column: 'plugin' | 'did', who: string, limit: number): RuntimeError {
  const whose = column === 'plugin' ? `The plugin ${who}` : 'This user'
  return new RuntimeError(
    'JOBS_FULL',
    `${whose} has ${limit.toLocaleString('en')} open jobs, and no more are taken.`,
    {
      hint: 'Wait until some have run, or let one job do the work of many.',
      details: { limit, of: column === 'plugin' ? 'plugin' : 'user' },
      headers: { 'Retry-After': '30' },
    },
  )
}

/**
 * How long ended jobs are kept, and jobs that no plugin of the app has: a done job for as long as its key is found, unless
 * the operator says otherwise.
 */
export const retentionMs = { done: keyMs, dead: 30 * 86_400_000, orphaned: 30 * 86_400_000 }
const rowsPerStep = 500

/** Deletes the jobs whose retention is over, and notes since when a job belongs to no plugin of the app. */
export async function sweepJobs(
  store: JobStore,
  known: KnownJobs,
  done: number = retentionMs.done,
): Promise<void> {
  const { now } = store
  const kinds = known.all.map(({ kind }) => kind)
  // PostgreSQL takes no empty list after `in`.
  const isKnown = kinds.length > 0 ? sql`kind in (${listOf(kinds)})` : sql`1 = 0`
  await sql`update kernel_jobs set orphaned_at = ${now}
    where state in ('due', 'running') and orphaned_at is null and not (${isKnown})`.execute(
    store.db,
  )
  await sql`update kernel_jobs set orphaned_at = null
    where state in ('due', 'running') and orphaned_at is not null and ${isKnown}`.execute(store.db)
  const dead = Math.max(done, retentionMs.dead)
  const { orphaned } = retentionMs
  const isOver = sql`state = 'done' and ended_at < ${now} - ${sql.lit(done)}
    or state = 'dead' and ended_at < ${now} - ${sql.lit(dead)}
    or state in ('due', 'running') and orphaned_at < ${now} - ${sql.lit(orphaned)}`
  for (let deleted = rowsPerStep; deleted === rowsPerStep;) {
    const { numAffectedRows } = await sql`delete from kernel_jobs where id in
      (select id from kernel_jobs where ${isOver} limit ${rowsPerStep})`.execute(store.db)
    deleted = Number(numAffectedRows ?? 0)
  }
}
