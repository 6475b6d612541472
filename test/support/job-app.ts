import { RoomState } from '../../core/runtime/store/room-state.ts'
import { type RawBuilder, sql } from 'kysely'
import { onTestFinished } from 'vitest'
import type { AnyPlugin, Log } from '../../core/plugin.ts'
import { AuditTrail } from '../../core/runtime/audit/trail.ts'
import type { PluginRecord } from '../../core/runtime/base/plugin-record.ts'
import { planBoot } from '../../core/runtime/boot/plan.ts'
import { AppJobs, type AppJobsOptions } from '../../core/runtime/jobs/jobs.ts'
import { readPlans } from '../../core/runtime/jobs/plan.ts'
import { jobFormsMigration } from '../../core/runtime/turns/stored-version.ts'
import {
  jobsMigration,
  type JobRow,
  jobTracesMigration,
  upTimesMigration,
} from '../../core/runtime/jobs/tables.ts'
import { openStore, type Store } from '../../core/runtime/store/store.ts'
import type { Where } from './each-database.ts'
import type { Logged } from './server.ts'
import { noModels } from './no-models.ts'

/** What a test of jobs may set. */
export interface JobAppOptions {
  readonly plugins: readonly AnyPlugin[]
  readonly where?: Where
  /** The database's clock; without it the real one. */
  readonly now?: () => RawBuilder<number>
  readonly leaseMs?: number
  readonly concurrency?: number
  readonly store?: Store
  readonly limits?: AppJobsOptions['limits']
}

/** The jobs of plugins without a server around them. */
export interface JobApp {
  readonly jobs: AppJobs
  readonly store: Store
  readonly logged: Logged[]
  readonly records: readonly PluginRecord[]
  /** Every row, as the database has it. */
  rows(): Promise<JobRow[]>
  close(graceMs?: number): Promise<void>
}

/** JobPlans the plugins and makes what runs their jobs; `jobs.runner.open()` begins. */
export async function jobApp(options: JobAppOptions): Promise<JobApp> {
  const { plugins, where = {}, now, leaseMs = 10_000, concurrency = 8 } = options
  const logged: Logged[] = []
  const at = (level: string) => (fields: object | string, message?: string) =>
    void logged.push(
      typeof fields === 'string'
        ? { level, fields: {}, message: fields }
        : { level, fields: { ...fields }, message: message ?? '' },
    )
  const log: Log = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
  const store = options.store ?? (await openStore({ databaseUrl: where.databaseUrl, log }))
  await store.migrate('test-jobs', {
    '001-jobs': jobsMigration,
    '002-up': upTimesMigration,
    '003-forms': jobFormsMigration,
    '004-traces': jobTracesMigration,
  })
  const { records, faults } = planBoot({ plugins, features: {}, source: {}, kernelRoutes: [] })
  const { plans, faults: planFaults } = await readPlans(records)
  for (const fault of [...faults, ...planFaults]) throw fault
  const audit = new AuditTrail(log)
  const jobs = new AppJobs({
    store,
    records,
    plans,
    log,
    audit,
    leaseMs,
    concurrency,
    now,
    limits: options.limits,
    masked: (text) => text,
  })
  for (const record of records) {
    const { definition } = record
    record.state = 'available'
    record.base = {
      env: {},
      log,
      self: undefined,
      plugins: {},
      fetch: globalThis.fetch,
      db: store.db,
      now: () => new Date(),
      jobs: jobs.of(definition),
      sessions: noSessions,
      turns: {
        start: noTurns,
        resume: noTurns,
        events: noTurns,
        open: noTurns,
        list: noTurns,
        abort: noTurns,
        redact: noTurns,
        follow: noTurns,
        cut: noTurns,
      },
      rooms: {
        ...new RoomState({ db: store.db, log, oracleDid: 'did:key:zOracle' }).ofPlugin(record),
        changed: async () => undefined,
      },
      ...noModels,
    }
  }
  let closed: Promise<void> | undefined
  const close = (graceMs?: number) =>
    (closed ??= jobs.runner.close(graceMs).then(() => (options.store ? undefined : store.close())))
  onTestFinished(() => close(100))
  return {
    jobs,
    store,
    logged,
    records,
    async rows() {
      const { rows } = await sql<JobRow>`select * from kernel_jobs order by created_at, id`.execute(
        store.db,
      )
      return rows
    },
    close,
  }
}

const noTurns = () => {
  throw new Error('This app has no turns.')
}

const noSessions = {
  say: () => Promise.reject(new Error('A test of jobs has no sessions.')),
  ensure: () => Promise.reject(new Error('A test of jobs has no sessions.')),
  message: () => Promise.reject(new Error('A test of jobs has no sessions.')),
  messages: () => Promise.reject(new Error('A test of jobs has no sessions.')),
  shared: () => Promise.reject(new Error('A test of jobs has no sessions.')),
  delete: () => Promise.reject(new Error('A test of jobs has no sessions.')),
}

/** A clock of the database that stands where a test puts it. */
export class SetClock {
  #ms: number

  constructor(iso: string) {
    this.#ms = Date.parse(iso)
  }

  now = (): RawBuilder<number> => sql<number>`cast(${sql.lit(this.#ms)} as bigint)`

  set(iso: string): void {
    this.#ms = Date.parse(iso)
  }

  isBefore(iso: string): boolean {
    return this.#ms < Date.parse(iso)
  }

  advance(ms: number): void {
    this.#ms += ms
  }
}
