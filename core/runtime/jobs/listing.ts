import { type RawBuilder, sql } from 'kysely'
import { RuntimeError } from '../../errors.ts'
import { type JobStore, jobsChannel, listOf, type JobRow, type JobState } from './tables.ts'
import type { KnownJobs } from './known-jobs.ts'
import { tellsThat } from '../store/channels/channels.ts'

/** A job as the operator sees it, without its data. */
export interface ListedJob {
  readonly id: string
  readonly plugin: string
  readonly name: string
  readonly key: string
  readonly state: JobState
  /** True when no plugin of this server has the job. */
  readonly orphaned: boolean
  readonly schedule?: string
  readonly user?: string
  readonly attempts: number
  readonly dueAt: string
  readonly createdAt: string
  readonly startedAt?: string
  readonly endedAt?: string
  readonly error?: string
}

/** Which jobs the operator asks for. */
export interface JobQuery {
  readonly state?: JobState
  readonly plugin?: string
  readonly limit: number
  readonly offset: number
}

/** A page of the jobs, the newest first, and how many there are. */
export async function listJobs(
  store: JobStore,
  known: KnownJobs,
  { state, plugin, limit, offset }: JobQuery,
): Promise<{ jobs: ListedJob[]; total: number }> {
  const meant = sql`${state === undefined ? sql`1 = 1` : sql`state = ${state}`}
    and ${plugin === undefined ? sql`1 = 1` : sql`plugin = ${plugin}`}`
  const counted = await sql<{ total: number }>`select count(*) as total from kernel_jobs
    where ${meant}`.execute(store.db)
  const { rows } = await sql<JobRow>`select * from kernel_jobs where ${meant}
    order by created_at desc, id limit ${limit} offset ${offset}`.execute(store.db)
  const kinds = new Set(known.all.map(({ kind }) => kind))
  return { jobs: rows.map((row) => listed(row, kinds)), total: counted.rows[0]?.total ?? 0 }
}

/** Begins a dead job anew, with all its attempts, and a job that waits for its next attempt at once. */
export async function retryNow(store: JobStore, known: KnownJobs, id: string): Promise<ListedJob> {
  const changed = await one(
    store,
    sql<JobRow>`update kernel_jobs set state = 'due', due_at = ${store.now}, ended_at = null,
      attempts = case when state = 'dead' then 0 else attempts end
      where id = ${id} and (state = 'dead' or state = 'due' and attempts > 0) returning *`,
  )
  if (changed === undefined)
    throw await refusal(store, id, 'Only a dead job, or one between two attempts, is tried again.')
  if (store.kind === 'postgres')
    await sql`select ${tellsThat(jobsChannel, '0')} as told`.execute(store.db)
  return listed(changed, new Set(known.all.map(({ kind }) => kind)))
}

/** Deletes a job that does not run. A schedule that a plugin of the app declares is not deleted. */
export async function deleteJob(store: JobStore, known: KnownJobs, id: string): Promise<void> {
  const planned = known.all.flatMap(({ plan, kind }) => (plan ? [kind] : []))
  const isFree = planned.length > 0 ? sql`kind not in (${listOf(planned)})` : sql`1 = 1`
  const gone = await one(
    store,
    sql<JobRow>`delete from kernel_jobs where id = ${id} and state <> 'running' and ${isFree} returning *`,
  )
  if (gone === undefined)
    throw await refusal(
      store,
      id,
      'A job that runs, and a schedule of a plugin, cannot be deleted.',
    )
}

/** How the jobs of a server are, in numbers. */
export interface JobHealth {
  readonly due: number
  readonly running: number
  readonly dead: number
  /** How long the job that has waited longest has been due. */
  readonly lateMs: number
}

/** Counts the jobs of the plugins of this server; `due` counts those whose time has come. */
export async function jobHealth(store: JobStore, known: KnownJobs): Promise<JobHealth> {
  const kinds = known.all.map(({ kind }) => kind)
  const { now } = store
  const { rows } = await sql<JobHealth>`select
    coalesce(sum(case when state = 'due' and due_at <= ${now} then 1 else 0 end), 0) as due,
    coalesce(sum(case when state = 'running' then 1 else 0 end), 0) as running,
    coalesce(sum(case when state = 'dead' then 1 else 0 end), 0) as dead,
    coalesce(max(case when state = 'due' and due_at <= ${now} then ${now} - due_at end), 0) as "lateMs"
    from kernel_jobs where state in ('due', 'running', 'dead') and kind in (${listOf(kinds)})`.execute(
    store.db,
  )
  const { due = 0, running = 0, dead = 0, lateMs = 0 } = rows[0] ?? {}
  return { due, running, dead, lateMs: Math.max(0, lateMs) }
}

async function one(store: JobStore, query: RawBuilder<JobRow>): Promise<JobRow | undefined> {
  return (await query.execute(store.db)).rows[0]
}

async function refusal(store: JobStore, id: string, why: string): Promise<RuntimeError> {
  const row = await one(store, sql<JobRow>`select * from kernel_jobs where id = ${id}`)
  if (row === undefined) return new RuntimeError('NOT_FOUND', `There is no job "${id}".`)
  return new RuntimeError('CONFLICT', `Job "${id}" is ${row.state}. ${why}`, {
    hint: 'GET /jobs lists the jobs.',
  })
}

function listed(row: JobRow, kinds: ReadonlySet<string>): ListedJob {
  const { id, plugin, name, key, state, schedule, did, attempts, error } = row
  const { due_at, created_at, started_at, ended_at } = row
  return {
    id,
    plugin,
    name,
    key,
    state,
    orphaned: !kinds.has(row.kind),
    ...(schedule !== null && { schedule }),
    ...(did !== null && { user: did }),
    attempts,
    dueAt: iso(due_at),
    createdAt: iso(created_at),
    ...(started_at !== null && { startedAt: iso(started_at) }),
    ...(ended_at !== null && { endedAt: iso(ended_at) }),
    ...(error !== null && { error }),
  }
}

/** A time as ISO text. The row of a plan that never comes again has a time beyond all dates, and shows the last date. */
const iso = (ms: number): string => new Date(Math.min(Number(ms), 8.64e15)).toISOString()
