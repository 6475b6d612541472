import { type QueryExecutorProvider, type RawBuilder, sql } from 'kysely'
import type { Migration } from '../../plugin.ts'
import type { Store } from '../store/store.ts'
import { databaseNow } from '../base/clock.ts'

/** Where a job stands. `due` waits for its time or for a free place, also between two attempts. */
export type JobState = 'due' | 'running' | 'dead' | 'done'

/** One job as it is kept. Times are milliseconds since 1970 by the database's clock. */
export interface JobRow {
  id: string
  plugin: string
  name: string
  /** What a handler is told as `job.key`. Of a schedule's row: the planned time that it was settled for, else ''. */
  key: string
  /** What a process must know to run the job: `<plugin>.<name>`, and after it the plan of a schedule. */
  kind: string
  /** The plan of a scheduled job, which has one row; null for what `later` asked for. */
  schedule: string | null
  did: string | null
  /** JSON. */
  data: string
  state: JobState
  due_at: number
  /** When the job was due at first, of a schedule the planned time: the waits between attempts do not move it. */
  planned_at: number
  /** How many attempts have begun. Every change that a process makes for the job is fenced by `owner` and by this. */
  attempts: number
  /** The process that runs the job, for as long as `lease_until` says. */
  owner: string | null
  lease_until: number
  /** The sentence of the last attempt that failed. */
  error: string | null
  created_at: number
  /** When an attempt last began; null before the first. */
  started_at: number | null
  ended_at: number | null
  /** Since when no server has known the job. */
  orphaned_at: number | null
  /** Of a schedule: when a server was up that runs it, as JSON; see `schedules.ts`. Null when nobody knows. */
  up: string | null
  /** The span of the work that asked for the job; null where nobody collected spans. */
  traceparent: string | null
}

const statements = [
  `create table kernel_jobs (
    id text primary key, plugin text not null, name text not null, key text not null, kind text not null,
    schedule text, did text, data text not null, state text not null, due_at bigint not null, planned_at bigint not null,
    attempts integer not null, owner text, lease_until bigint not null, error text, created_at bigint not null,
    started_at bigint, ended_at bigint, orphaned_at bigint)`,
  'create unique index kernel_jobs_by_key on kernel_jobs (plugin, name, key) where schedule is null',
  'create unique index kernel_jobs_by_plan on kernel_jobs (plugin, name) where schedule is not null',
  // Small, whatever has ended: these hold what is open and nothing else.
  `create index kernel_jobs_due on kernel_jobs (due_at) where state = 'due'`,
  `create index kernel_jobs_running on kernel_jobs (lease_until) where state = 'running'`,
  `create index kernel_jobs_open on kernel_jobs (plugin) where state in ('due', 'running')`,
  `create index kernel_jobs_of_user on kernel_jobs (did) where state in ('due', 'running') and did is not null`,
  'create index kernel_jobs_ended on kernel_jobs (ended_at) where ended_at is not null',
]

/** The table of jobs, for the migration owner `kernel`. */
export const jobsMigration: Migration = async (db) => {
  // As text: what is written here is the same on both databases.
  for (const statement of statements) await sql.raw(statement).execute(db)
}

/** Notes with a schedule when a server was up that runs it, for the migration owner `kernel`. */
export const upTimesMigration: Migration = async (db) => {
  await sql`alter table kernel_jobs add column up text`.execute(db)
}

/** Keeps with a job which span asked for it, for the migration owner `kernel`. */
export const jobTracesMigration: Migration = async (db) => {
  await sql`alter table kernel_jobs add column traceparent text`.execute(db)
}

/** What a store of jobs is made of. */
export interface JobStoreOptions {
  readonly store: Pick<Store, 'db' | 'kind' | 'now'>
  /** The name of this process. A process that starts again has another name. */
  readonly owner: string
  readonly leaseMs: number
  /** The time, of leases as well, in place of the database's clock. */
  readonly now?: () => RawBuilder<number>
}

/** The channel on which replicas tell each other of new jobs: the message is how many milliseconds the job still has. */
export const jobsChannel = 'kernel_jobs'

/**
 * The jobs in the database. `asking.ts`, `claims.ts`, `schedules.ts`, `listing.ts` and `bounds.ts` each hold one
 * kind of statement that goes through it.
 */
export class JobStore {
  readonly db: QueryExecutorProvider
  readonly kind: Store['kind']
  readonly owner: string
  readonly #leaseMs: number
  readonly #given: JobStoreOptions['now']
  readonly #now: () => RawBuilder<number>
  readonly #leaseNow: () => RawBuilder<number>

  constructor({ store, owner, leaseMs, now }: JobStoreOptions) {
    this.db = store.db
    this.kind = store.kind
    this.owner = owner
    this.#leaseMs = leaseMs
    this.#given = now
    this.#now = now ?? (() => store.now)
    this.#leaseNow = now ?? (() => databaseNow(store.kind))
  }

  /** The same, in a transaction. */
  within(db: Store['db']): JobStore {
    const { kind, owner, now } = this
    const store = { db, kind, now }
    return new JobStore({ store, owner, leaseMs: this.#leaseMs, now: this.#given })
  }

  /** The time by the database's clock. */
  get now(): RawBuilder<number> {
    return this.#now()
  }

  /** The time by the database's clock, for leases: the clock of a test app does not move it. */
  get leaseNow(): RawBuilder<number> {
    return this.#leaseNow()
  }

  /** The end of a lease that is taken now. */
  get leaseEnd(): RawBuilder<number> {
    return sql<number>`${this.leaseNow} + ${sql.lit(this.#leaseMs)}`
  }

  /** The time by the database's clock, as a number. */
  async time(db = this.db): Promise<number> {
    const { rows } = await sql<{ now: number }>`select ${this.now} as now`.execute(db)
    return rows[0]?.now ?? Date.now()
  }
}

/** A list of texts for `in (…)`. */
export const listOf = (texts: readonly string[]): RawBuilder<unknown> => sql.join([...texts])
