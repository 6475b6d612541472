import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { type JobStore, type JobRow, listOf } from './tables.ts'
import type { KnownJob, KnownJobs } from './known-jobs.ts'
import type { JobPlan } from './plan.ts'

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
      key = '', orphaned_at = null, up = null, attempts = case when kernel_jobs.state = 'running' then kernel_jobs.attempts else 0 end
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
    await sql`update kernel_jobs set due_at = ${sql.lit(next)}, planned_at = ${sql.lit(next)}, up = null
      where id = ${id} and state = 'due' and due_at = ${sql.lit(due_at)}`.execute(store.db)
    mended++
  }
  return mended
}

/** How late a slow attempt may have begun for the next planned time still to run by itself. */
const patientMs = 60_000

/**
 * The planned time after the one that an attempt was about. It is the next one, however late: other times fell due while
 * the job was at work for longer than once or waited between two attempts, and each of them runs by itself. An attempt that
 * took longer than the interval and had begun more than a minute late shows that the job is slower than its plan: then
 * what has come meanwhile comes as one, else the job would fall behind for ever.
 */
export function nextPlanned(
  plan: JobPlan,
  { planned_at }: Pick<JobRow, 'planned_at'>,
  tookMs: number,
  now: number,
): number {
  const next = plan.after(planned_at, planned_at)
  // The row of a plan without a further time stays until the operator deletes it.
  if (next === undefined) return Number.MAX_SAFE_INTEGER
  const isSlow = tookMs >= next - planned_at
  const beganLateMs = now - tookMs - planned_at
  return isSlow && beganLateMs > patientMs ? plan.newest(next, now) : next
}

/** A time in which a server was up that runs a schedule. Milliseconds since 1970, by the database's clock. */
type UpTime = readonly [from: number, until: number]

/** The planned time that an attempt is about, and the up times as the schedule's row keeps them. */
export interface Planned {
  readonly planned: number
  readonly up: string
}

/**
 * A server that looks for its schedules more seldom than this was not up between two looks. It looks every five seconds;
 * an event loop that stood still for as long as a server outlives, and a slow database, leave a gap that is shorter.
 */
const longestGapMs = 30_000
/** How far the database's clock may run from the process's own between two looks before it counts as put elsewhere. */
const driftMs = 500
/** How many planned times may wait that run one after the other where servers were up; what is older comes as one. */
const mostBehind = 600
/** How many up times the row of a schedule keeps. */
const mostUpTimes = 8

/** A look at the clock of the database, and when it began and ended by the process's own clock. */
interface Look {
  readonly now: number
  readonly began: number
  readonly ended: number
}

type HeldRow = Pick<JobRow, 'id' | 'kind' | 'planned_at' | 'attempts' | 'up'>

/**
 * Tells what a schedule missed while no server was up, which comes as one, from what fell due while another process held
 * the schedule's row and died, which comes by itself. So each process remembers since when it has looked after a schedule,
 * and notes that with the row when a planned time comes that another process should see to.
 */
export class ScheduleWatch {
  readonly #jobs: JobStore
  readonly #known: KnownJobs
  /** Since when this process has looked after a schedule, by kind. */
  readonly #since = new Map<string, number>()
  #last: Look | undefined

  constructor(jobs: JobStore, known: KnownJobs) {
    this.#jobs = jobs
    this.#known = known
  }

  /** Looks; resolves to how long the next planned time of a schedule still has whose row another process holds. */
  async look(): Promise<number | undefined> {
    const ready = new Set(this.#known.ready)
    const kinds = this.#known.all.flatMap(({ kind, plan }) =>
      plan && ready.has(kind) ? [kind] : [],
    )
    for (const kind of this.#since.keys()) if (!kinds.includes(kind)) this.#since.delete(kind)
    if (kinds.length === 0) return undefined
    const began = performance.now()
    const { now, held } = await heldSchedules(this.#jobs, kinds)
    this.#note({ now, began, ended: performance.now() })
    for (const kind of kinds) if (!this.#since.has(kind)) this.#since.set(kind, now)
    let next = Infinity
    for (const row of held) {
      const plan = this.#known.find(row.kind)?.plan
      if (plan === undefined) continue
      next = Math.min(next, plan.after(now, row.planned_at) ?? Infinity)
      const since = this.#since.get(row.kind) ?? now
      if (!isNews(row, plan, [since, now])) continue
      await noteUp(this.#jobs, row, keptOf(row, [since, now], row.planned_at))
    }
    return next === Infinity ? undefined : next - now
  }

  /** The planned time that an attempt is about: the row's own, or the newest of those that came while no server was up. */
  plannedFor(row: JobRow, plan: JobPlan, now: number): Planned {
    const mine: UpTime = [Math.min(this.#since.get(row.kind) ?? now, now), now]
    const up = withTime(upTimes(row.up), mine)
    const at = oldestKept(plan, row.planned_at, now)
    if (up.some((time) => isIn(at, time))) return { planned: at, up: keptOf(row, mine, at) }
    const upAgain = Math.min(now, ...up.flatMap(([from]) => (from > at ? [from] : [])))
    const planned = plan.newest(at, upAgain)
    return { planned, up: keptOf(row, mine, planned) }
  }

  /** Begins to count anew where this process stood still or the database's clock was put elsewhere. */
  #note(look: Look): void {
    const last = this.#last
    this.#last = look
    if (last === undefined) return
    const ms = look.now - last.now
    const least = look.began - last.ended - driftMs
    const most = look.ended - last.began + driftMs
    if (ms < least || ms > most || ms > longestGapMs) this.#since.clear()
  }
}

/** The time by the database's clock, and the rows of schedules that other processes hold. */
async function heldSchedules(
  { db, now, owner }: JobStore,
  kinds: readonly string[],
): Promise<{ readonly now: number; readonly held: readonly HeldRow[] }> {
  const { rows } = await sql<HeldRow & { now: number }>`
    select ${now} as now, job.id, job.kind, job.planned_at, job.attempts, job.up
    from (select 1) as one left join kernel_jobs as job
      on job.schedule is not null and job.state = 'running' and job.owner <> ${owner} and job.kind in (${listOf(kinds)})`.execute(
    db,
  )
  return { now: rows[0]?.now ?? Date.now(), held: rows.filter(({ id }) => id !== null) }
}

/** The oldest planned time from `at` on that still runs by itself. */
function oldestKept(plan: JobPlan, at: number, now: number): number {
  let next: number | undefined = at
  for (let behind = 0; behind <= mostBehind; behind++) {
    next = plan.after(next, at)
    if (next === undefined || next > now) return at
  }
  return plan.newest(at, now, mostBehind)
}

/** Whether a planned time has come while this process was up of which the row does not know as much as the process. */
function isNews(row: HeldRow, plan: JobPlan, [since, now]: UpTime): boolean {
  const newest = plan.newest(row.planned_at, now)
  if (newest <= row.planned_at || newest < since) return false
  const from = Math.max(since, row.planned_at)
  return !upTimes(row.up).some((time) => time[0] <= from && time[1] >= newest)
}

/** Writes up times, unless another process has changed the row or its up times meanwhile: it is as up as this one. */
async function noteUp(store: JobStore, row: HeldRow, up: string): Promise<void> {
  await sql`update kernel_jobs set up = ${up} where id = ${row.id} and state = 'running'
    and attempts = ${row.attempts} and coalesce(up, '') = ${row.up ?? ''}`.execute(store.db)
}

const isIn = (at: number, [from, until]: UpTime): boolean => from <= at && at <= until

/** The up times that still matter from a planned time on, as the row keeps them. */
const keptOf = (row: Pick<JobRow, 'up'>, mine: UpTime, planned: number): string =>
  JSON.stringify(
    withTime(upTimes(row.up), mine)
      .filter(([, until]) => until >= planned)
      .slice(-mostUpTimes),
  )

/** Adds an up time; those that touch become one. In order. */
function withTime(times: readonly UpTime[], added: UpTime): UpTime[] {
  const apart = times.filter(([from, until]) => until < added[0] || from > added[1])
  const touching = [added, ...times.filter((time) => !apart.includes(time))]
  const joined: UpTime = [
    Math.min(...touching.map(([from]) => from)),
    Math.max(...touching.map(([, until]) => until)),
  ]
  return [...apart, joined].sort(([a], [b]) => a - b)
}

/** The up times of a row. */
function upTimes(text: string | null): UpTime[] {
  if (text === null) return []
  const read: unknown = JSON.parse(text) // written by `keptOf`
  return Array.isArray(read) ? read.map((time): UpTime => [Number(time[0]), Number(time[1])]) : []
}
