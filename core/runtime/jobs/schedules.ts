import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { type JobStore, type JobRow } from './tables.ts'
import type { KnownJob } from './known-jobs.ts'

/**
 * Writes the row of a scheduled job where there is none, and gives it a new plan where the text has changed. The row of
 * an unchanged plan stays, so that a restart does not begin an interval anew.
 */
export async function keepSchedule(
  store: JobStore,
  { plugin, name, kind, plan }: KnownJob,
): Promise<void> {
  if (plan === undefined) return
  const now = await store.time()
  const first = plan.after(now, now)
  if (first === undefined) return
  await sql`insert into kernel_jobs
    (id, plugin, name, key, kind, schedule, data, state, due_at, planned_at, attempts, lease_until, created_at)
    values (${randomUUID()}, ${plugin}, ${name}, '', ${kind}, ${plan.text}, '{}', 'due', ${sql.lit(first)},
      ${sql.lit(first)}, 0, 0, ${store.now})
    on conflict (plugin, name) where schedule is not null do update set
      kind = excluded.kind, schedule = excluded.schedule, due_at = excluded.due_at, planned_at = excluded.planned_at,
      key = '', orphaned_at = null, attempts = case when kernel_jobs.state = 'running' then kernel_jobs.attempts else 0 end
    where kernel_jobs.kind <> excluded.kind`.execute(store.db)
}

/**
 * Gives schedules whose next time is further off than their plan's next time that time again: the clock was turned back.
 * A planned time that comes a second time runs a second time, with the same key.
 */
export async function mendSchedules(store: JobStore, jobs: readonly KnownJob[]): Promise<number> {
  const planned = jobs.filter(({ plan }) => plan !== undefined)
  if (planned.length === 0) return 0
  const now = await store.time()
  const { rows } = await sql<Pick<JobRow, 'id' | 'kind' | 'due_at' | 'planned_at'>>`
    select id, kind, due_at, planned_at from kernel_jobs
    where schedule is not null and state = 'due' and attempts = 0 and due_at > ${sql.lit(now)}`.execute(
    store.db,
  )
  let mended = 0
  for (const { id, kind, due_at, planned_at } of rows) {
    const next = planned.find((job) => job.kind === kind)?.plan?.after(now, planned_at)
    if (next === undefined || next >= due_at) continue
    await sql`update kernel_jobs set due_at = ${sql.lit(next)}, planned_at = ${sql.lit(next)}
      where id = ${id} and state = 'due' and due_at = ${sql.lit(due_at)}`.execute(store.db)
    mended++
  }
  return mended
}
