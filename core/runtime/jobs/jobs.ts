import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { AnyDefinition, AnyJobs, Log, Notice } from '../../plugin.ts'
import type { AuditTrail } from '../audit/trail.ts'
import { machineNow, type Now, type Timed } from '../base/clock.ts'
import type { PluginRecord } from '../base/plugin-record.ts'
import type { Notices } from '../notices/notices.ts'
import type { NoticeDatabase } from '../notices/tables.ts'
import type { Store } from '../store/store.ts'
import { Fullness, type JobLimits } from './bounds.ts'
import { askCarriers } from './asking.ts'
import { JobStore, type JobStoreOptions } from './tables.ts'
import { countAtWork, nextDueAt } from './claims.ts'
import { KnownJobs } from './known-jobs.ts'
import {
  deleteJob,
  type JobHealth,
  type JobQuery,
  jobHealth,
  listJobs,
  retryNow,
} from './listing.ts'
import type { JobPlans } from './plan.ts'
import { PluginJobs } from './plugin-jobs.ts'
import { LazyRunner } from './lazy.ts'
import type { JobRunnerOptions } from './runner.ts'

/** How long the numbers of `/health` are kept, so that probes cost the database little. */
const healthMs = 1_000
/** How long a probe waits for the numbers. */
const answerMs = 1_000

/** What the jobs of an app are made of. */
export interface AppJobsOptions {
  readonly store: Store
  readonly records: readonly PluginRecord[]
  readonly plans: JobPlans
  readonly log: Log
  readonly audit: AuditTrail
  readonly leaseMs: number
  readonly concurrency: number
  readonly masked: (text: string) => string
  /** Where users are told of dead jobs, and where plugins that carry notices find them. */
  readonly notices?: Notices
  /** Called before an attempt begins. */
  readonly onAttempt?: JobRunnerOptions['onAttempt']
  /** Called when an attempt has ended. */
  readonly onEnded?: JobRunnerOptions['onEnded']
  /** The time as plugins have it, the machine's by default. */
  readonly clock?: Now
  /** How many open jobs there may be, where a test cannot make thousands. */
  readonly limits?: JobLimits
  /** The time, in place of the database's clock. */
  readonly now?: JobStoreOptions['now']
}

/** The jobs of an app: asking for them, running them, and what operators see of them. */
export class AppJobs implements Timed {
  readonly known: KnownJobs
  readonly runner: LazyRunner
  readonly #store: JobStore
  readonly #fullness: Fullness
  readonly #clock: Now
  #health: { readonly at: number; readonly health: JobHealth } | undefined
  #asking: Promise<JobHealth> | undefined

  constructor(options: AppJobsOptions) {
    const { store, records, plans, leaseMs } = options
    this.#clock = options.clock ?? machineNow
    this.known = new KnownJobs(records, plans, options.notices)
    this.#fullness = new Fullness(options.limits)
    this.#store = new JobStore({ store, owner: randomUUID(), leaseMs, now: options.now })
    this.runner = new LazyRunner({ ...options, jobs: this.#store, known: this.known })
  }

  /** `jobs` of a plugin. */
  of(definition: AnyDefinition): AnyJobs {
    const parts = {
      store: this.#store,
      fullness: this.#fullness,
      now: this.#clock,
      wake: this.runner.wake,
    }
    return new PluginJobs(parts, definition, this.#store.db)
  }

  /** When the next job is due that this process runs. */
  nextAt(): Promise<number | undefined> {
    return nextDueAt(this.#store, this.known.ready)
  }

  /** Begins what is due and waits for one of the jobs that run here; resolves to how many are due or run after that. */
  async catchUp(): Promise<number> {
    if (this.known.isEmpty) return 0
    await this.runner.look()
    await this.runner.oneEnded()
    return countAtWork(this.#store, this.known.ready)
  }

  /** Plans schedules anew after the clock was turned back, and deletes the jobs whose retention is over. */
  async tidy(): Promise<void> {
    if (!this.known.isEmpty) await this.runner.mend()
    await this.runner.sweep()
  }

  /** Asks the plugins that carry notices to carry this one, within the transaction that makes the notice. */
  async carry(trx: NoticeDatabase, notice: Notice): Promise<void> {
    const { carriers } = this.known
    if (carriers.length === 0) return
    await askCarriers(this.#store, trx, carriers, notice)
    // SQLite runs one transaction at a time, so the look waits for this one.
    if (this.#store.kind === 'sqlite') this.runner.wake(0)
  }

  /** How the jobs are; undefined where no plugin has any, and while the database takes too long to say. */
  async health(): Promise<JobHealth | undefined> {
    if (this.known.isEmpty) return undefined
    const known = this.#health
    if (known !== undefined && performance.now() - known.at < healthMs) return known.health
    this.#asking ??= jobHealth(this.#store, this.known).finally(() => (this.#asking = undefined))
    const timer = new AbortController()
    const late = sleep(answerMs, undefined, { signal: timer.signal }).catch(() => undefined)
    try {
      const health = await Promise.race([this.#asking, late])
      if (health !== undefined) this.#health = { at: performance.now(), health }
      return health
    } finally {
      timer.abort()
    }
  }

  /** A page of the operator's list. */
  list(query: JobQuery) {
    return listJobs(this.#store, this.known, query)
  }

  /** Tries a job again now. */
  async retry(id: string) {
    const job = await retryNow(this.#store, this.known, id)
    this.runner.wake(0)
    return job
  }

  /** Deletes a job that does not run. */
  delete(id: string): Promise<void> {
    return deleteJob(this.#store, this.known, id)
  }
}
