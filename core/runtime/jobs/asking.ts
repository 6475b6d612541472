import { randomUUID } from 'node:crypto'
import { type QueryExecutorProvider, sql } from 'kysely'
import type { LaterJob, Notice } from '../../plugin.ts'
import type { Due } from './input.ts'
import type { KnownJob } from './known-jobs.ts'
import { type JobStore, jobsChannel } from './tables.ts'
import { tellsThat } from '../store/channels/channels.ts'
import { currentSpan } from '../telemetry/current-span.ts'

/** How long after its end a job is still found by its key. */
export const keyMs = 7 * 86_400_000

/** A job that is asked for, checked. */
export interface AskedJob {
  readonly plugin: string
  readonly name: string
  readonly kind: string
  readonly data: string
  readonly due: Due
  readonly key: string | undefined
  readonly user: string | undefined
}

/** How often the insert is tried: a sweep may delete the row of a key between the insert and the look for that row. */
const mostTries = 3

/**
 * Keeps a job, or finds the one that has its key. On PostgreSQL the same statement tells the replicas, which hear of
 * the job when its transaction commits.
 */
export async function keepJob(
  store: JobStore,
  db: QueryExecutorProvider,
  asked: AskedJob,
): Promise<LaterJob> {
  for (let tries = 1; ; tries++) {
    const id = await insert(store, db, asked)
    if (id !== undefined) return { id, isNew: true }
    const found = await findByKey(db, asked)
    if (found !== undefined) return { id: found, isNew: false }
    if (tries === mostTries) throw new Error(`The key of ${asked.kind} changes hands too fast.`)
  }
}

async function insert(
  store: JobStore,
  db: QueryExecutorProvider,
  { plugin, name, kind, data, due, key, user }: AskedJob,
): Promise<string | undefined> {
  const { now } = store
  const id = randomUUID()
  const dueAt = 'at' in due ? sql`${sql.lit(due.at)}` : sql`${now} + ${sql.lit(due.inMs)}`
  const made = sql`insert into kernel_jobs
    (id, plugin, name, key, kind, did, data, state, due_at, planned_at, attempts, lease_until, created_at, traceparent)
    values (${id}, ${plugin}, ${name}, ${key ?? id}, ${kind}, ${user ?? null}, ${data}, 'due', ${dueAt}, ${dueAt}, 0, 0, ${now},
      ${currentSpan() ?? null})
    on conflict (plugin, name, key) where schedule is null do update set
      id = excluded.id, kind = excluded.kind, did = excluded.did, data = excluded.data, state = 'due',
      due_at = excluded.due_at, planned_at = excluded.planned_at, attempts = 0, owner = null, lease_until = 0, error = null,
      created_at = excluded.created_at, started_at = null, ended_at = null, orphaned_at = null, traceparent = excluded.traceparent
    where kernel_jobs.state in ('done', 'dead') and kernel_jobs.ended_at < ${now} - ${sql.lit(keyMs)}
    returning id`
  const telling =
    store.kind === 'postgres'
      ? sql<{ id: string }>`with made as (${made}) select id, ${tellsThat(
          jobsChannel,
          sql`greatest(0, ${dueAt} - ${now})::text`,
        )} as told from made`
      : sql<{ id: string }>`${made}`
  const { rows } = await telling.execute(db)
  return rows[0]?.id
}

/** The id of the job that has the key. */
export async function findByKey(
  db: QueryExecutorProvider,
  { plugin, name, key }: Pick<AskedJob, 'plugin' | 'name' | 'key'>,
): Promise<string | undefined> {
  const { rows } = await sql<{ id: string }>`select id from kernel_jobs
    where plugin = ${plugin} and name = ${name} and key = ${key ?? ''} and schedule is null`.execute(
    db,
  )
  return rows[0]?.id
}

/** Deletes a job that waits; resolves to whether no attempt had begun, and to undefined when there was no such job. */
export async function cancelJob(
  db: QueryExecutorProvider,
  plugin: string,
  name: string,
  key: string,
): Promise<boolean | undefined> {
  const { rows } = await sql<{ started_at: number | null }>`delete from kernel_jobs
    where plugin = ${plugin} and name = ${name} and key = ${key} and schedule is null and state = 'due'
    returning started_at`.execute(db)
  return rows[0] && rows[0].started_at === null
}

/** Asks each of these plugins to carry a notice, within the transaction that makes the notice. */
export async function askCarriers(
  store: JobStore,
  db: QueryExecutorProvider,
  carriers: readonly KnownJob[],
  { id, user }: Notice,
): Promise<void> {
  for (const { plugin, name, kind } of carriers) {
    const key = `${id}@${user}`
    const data = JSON.stringify({ id })
    await keepJob(store, db, { plugin, name, kind, data, due: { inMs: 0 }, key, user })
  }
}
