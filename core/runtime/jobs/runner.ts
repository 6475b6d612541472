import { everyMs } from '../../manifest/jobs.ts'
import type { Log } from '../../plugin.ts'
import type { AuditTrail } from '../audit/trail.ts'
import type { Notices } from '../notices/notices.ts'
import type { Store } from '../store/store.ts'
import type { EndedJob } from '../telemetry/telemetry.ts'
import { Attempt, type AttemptEnd } from './attempt.ts'
import {
  type ClaimedJob,
  claimJobs,
  endJob,
  endPlanned,
  extendJobs,
  giveBackJob,
  jobsPerClaim,
  nextDueMs,
  retryJob,
  settlePlanned,
  shortenLeases,
} from './claims.ts'
import { type JobStore, jobsChannel } from './tables.ts'
import { carryingJob, type KnownJob, type KnownJobs } from './known-jobs.ts'
import type { JobPlan } from './plan.ts'
import { sweepJobs } from './bounds.ts'
import { keepSchedule, mendSchedules, nextPlanned, ScheduleWatch } from './schedules.ts'

/** How often a replica looks for jobs of which no notification told it. */
const pollMs = 5_000
const mendMs = 60_000
const sweepMs = 3_600_000
/** How long handlers may take when the server stops. */
const closeMs = 10_000
/** How often the end of a job is written to a database that fails; then the lease runs out, and the job runs again. */
const writes = { tries: 4, pauseMs: 500 }

/** A job that comes as often as this all the time, and does what it should, is not worth a line to whoever reads the log. */
const routineMs = 300_000
const isRoutine = ({ known: { job } }: Attempt) =>
  job.every !== undefined && (everyMs(job.every) ?? routineMs) < routineMs

/** What a runner is made of. */
export interface JobRunnerOptions {
  readonly jobs: JobStore
  readonly known: KnownJobs
  readonly store: Pick<Store, 'db' | 'kind' | 'listen' | 'notify'>
  readonly log: Log
  readonly audit: AuditTrail
  readonly leaseMs: number
  /** How long done jobs are kept; by default a week. */
  readonly doneMs?: number
  /** How many jobs this process runs at once. */
  readonly concurrency: number
  /** Where users are told of their dead jobs. */
  readonly notices?: Pick<Notices, 'add'>
  /** Called before an attempt begins. */
  readonly onAttempt?: (job: Pick<ClaimedJob, 'plugin' | 'name'>) => void
  /** Called when an attempt has ended. */
  readonly onEnded?: (job: EndedJob) => void
  /** Masks secrets of the environment in the errors that are kept. */
  readonly masked: (text: string) => string
}

/** Runs the jobs of this process: claims them when they are due, keeps their leases and writes how they ended. */
export class JobRunner {
  readonly #options: JobRunnerOptions
  readonly #watch: ScheduleWatch
  readonly #running = new Map<Attempt, Promise<void>>()
  readonly #timers: NodeJS.Timeout[] = []
  #next: { readonly at: number; readonly timer: NodeJS.Timeout } | undefined
  #looking: Promise<void> | undefined
  #again = false
  #isOpen = false
  #isPrepared = false
  #isClosed = false
  #isRenewing = false
  #stopListening: (() => Promise<void>) | undefined

  constructor(options: JobRunnerOptions) {
    this.#options = options
    this.#watch = new ScheduleWatch(options.jobs, options.known)
  }

  /** Begins to run jobs. Where no plugin has jobs, it only sweeps the rows that plugins of before have left. */
  async open(): Promise<void> {
    if (this.#isClosed) return
    this.#every(sweepMs, () => this.sweep())
    if (this.#options.known.isEmpty) return this.#quietly(() => this.sweep())
    this.#isOpen = true
    this.#every(pollMs, () => this.look())
    this.#every(mendMs, () => this.mend())
    this.#every(Math.max(this.#options.leaseMs / 3, 50), () => this.#renew())
    await this.look()
  }

  /** Has the runner look for a job that is due in so many milliseconds. */
  wake = (inMs: number): void => {
    if (!this.#isOpen || this.#isClosed) return
    if (inMs <= 0) return void this.look()
    const at = performance.now() + Math.min(inMs, pollMs)
    if (this.#next && this.#next.at <= at) return
    clearTimeout(this.#next?.timer)
    const look = () => {
      this.#next = undefined
      void this.look()
    }
    this.#next = { at, timer: setTimeout(look, Math.min(inMs, pollMs)).unref() }
  }

  /** Claims what is due, as far as there are free places. A call during a look makes it look once more. */
  look(): Promise<void> {
    this.#again = true
    this.#looking ??= this.#lookAll()
    return this.#looking
  }

  /** Shortens leases and plans schedules anew where they reach too far ahead: the clock was turned back. */
  async mend(): Promise<void> {
    const { jobs, known, log } = this.#options
    await shortenLeases(jobs)
    const mended = await mendSchedules(jobs, known.all)
    if (mended === 0) return
    log.warn(
      { jobs: mended },
      'The clock of the database was turned back: schedules were planned anew',
    )
    this.wake(0)
  }

  /** Deletes the jobs whose retention is over, and marks those that no plugin has. */
  sweep(): Promise<void> {
    return sweepJobs(this.#options.jobs, this.#options.known, this.#options.doneMs)
  }

  /** Resolves when one of the attempts that run here has ended, at once where none runs. */
  async oneEnded(): Promise<void> {
    if (this.#running.size > 0) await Promise.race(this.#running.values())
  }

  /** Stops as the death of the process would, once the database is out of reach: nothing is given back. */
  drop(): void {
    this.#isClosed = true
    for (const timer of this.#timers) clearInterval(timer)
    clearTimeout(this.#next?.timer)
    for (const attempt of this.#running.keys()) attempt.stop('lost')
  }

  /** Stops claiming, fires the signals, and gives back after ten seconds what is not done by then. */
  async close(graceMs = closeMs): Promise<void> {
    this.#isClosed = true
    for (const timer of this.#timers) clearInterval(timer)
    clearTimeout(this.#next?.timer)
    for (const attempt of this.#running.keys()) attempt.stop('closing')
    await this.#looking
    await this.#stopListening?.()
    if (this.#running.size === 0) return
    const renewing = setInterval(() => void this.#renew(), Math.max(this.#options.leaseMs / 3, 50))
    const over = setTimeout(() => {
      for (const attempt of this.#running.keys()) attempt.abandon()
    }, graceMs)
    await Promise.all(this.#running.values())
    clearTimeout(over)
    clearInterval(renewing)
  }

  #every(ms: number, work: () => Promise<void>): void {
    this.#timers.push(setInterval(() => void this.#quietly(work), ms).unref())
  }

  async #quietly(work: () => Promise<void>): Promise<void> {
    try {
      await work()
    } catch (err) {
      this.#options.log.warn({ err }, 'Jobs could not be looked after; trying again')
    }
  }

  async #lookAll(): Promise<void> {
    const { jobs, known, concurrency, log } = this.#options
    await undefined // the caller notes the look first
    try {
      while (this.#again && !this.#isClosed) {
        this.#again = false
        this.#isPrepared ||= await this.#prepare()
        const nextHeldMs = await this.#watch.look()
        if (nextHeldMs !== undefined) this.wake(Math.max(nextHeldMs, 1))
        const free = Math.min(concurrency - this.#running.size, jobsPerClaim)
        // When an attempt ends, its place is free and the runner looks again.
        if (free <= 0) break
        const rows = await claimJobs(jobs, known.ready, free)
        for (const row of rows) await this.#begin(row)
        if (rows.length === free) this.#again = true
        if (this.#again || this.#isClosed) continue
        const ms = await nextDueMs(jobs, known.ready)
        if (ms !== undefined) this.wake(Math.max(ms, 1))
      }
    } catch (err) {
      log.warn({ err }, 'Jobs could not be claimed; trying again')
    }
    // No await stands between the last test of `#again` and this line, so a later call begins a look of its own.
    this.#looking = undefined
  }

  /** Writes the rows of schedules and listens. A database that is away is asked again with the next look. */
  async #prepare(): Promise<boolean> {
    const { known, jobs, store } = this.#options
    await this.sweep()
    for (const job of known.all) await keepSchedule(jobs, job)
    if (store.kind === 'postgres')
      this.#stopListening ??= await store.listen(
        jobsChannel,
        (inMs) => this.wake(Number(inMs) || 0),
        () => this.wake(0),
      )
    return true
  }

  async #begin(row: ClaimedJob): Promise<void> {
    const known = this.#options.known.find(row.kind)
    if (known === undefined) return // only kinds that are known are claimed
    const settled = known.plan === undefined ? row : await this.#settle(row, known)
    if (settled === undefined) return
    if (this.#isClosed) return void (await giveBackJob(this.#options.jobs, settled))
    this.#options.onAttempt?.(row)
    const attempt = new Attempt(settled, known)
    const work = this.#carry(attempt).finally(() => {
      this.#running.delete(attempt)
      if (!this.#isClosed) void this.look()
    })
    this.#running.set(attempt, work)
  }

  /** Which planned time the attempt is about: what was missed by all servers is made up once, as its newest time. */
  async #settle(row: ClaimedJob, { plan, kind }: KnownJob): Promise<ClaimedJob | undefined> {
    const { jobs } = this.#options
    if (plan === undefined || row.key !== '') return row
    const settled = this.#watch.plannedFor(row, plan, await jobs.time())
    const key = `${kind.split(' ')[0]}@${new Date(settled.planned).toISOString()}`
    const held = await settlePlanned(jobs, row, settled, key)
    return held ? { ...row, planned_at: settled.planned, key } : undefined
  }

  async #carry(attempt: Attempt): Promise<void> {
    const { log } = this.#options
    const { plugin, name, attempts, late_ms, traceparent } = attempt.row
    const began = performance.now()
    const end = await attempt.run()
    const ms = (attempt.tookMs = Math.round(performance.now() - began))
    let outcome: AttemptEnd['outcome'] = end.outcome
    // Whoever reads that a job is done finds its audit line.
    await this.#tellAudit(attempt, end)
    try {
      if (outcome !== 'lost' && !(await this.#persist(attempt, end))) outcome = 'lost'
    } catch (err) {
      outcome = 'lost'
      log.warn({ err, plugin, name }, 'The end of a job could not be kept; it runs again')
    }
    const line = { plugin, name, attempt: attempts, outcome, ms, lateMs: Math.max(0, late_ms) }
    this.#options.onEnded?.({ ...line, ...(traceparent && { traceparent }) })
    if ('thrown' in end) log.warn({ ...line, err: end.thrown }, 'job')
    else log[outcome === 'done' && isRoutine(attempt) ? 'debug' : 'info'](line, 'job')
  }

  /** Writes the end; false when another process has the job. */
  async #persist(attempt: Attempt, end: AttemptEnd): Promise<boolean> {
    for (let tries = 1; ; tries++) {
      try {
        return await this.#write(attempt, end)
      } catch (error) {
        if (tries === writes.tries || this.#isClosed) throw error
        await new Promise((resolve) => setTimeout(resolve, writes.pauseMs).unref())
      }
    }
  }

  async #write(attempt: Attempt, end: AttemptEnd): Promise<boolean> {
    const { row, known } = attempt
    const { jobs, masked, store } = this.#options
    const error = 'error' in end ? masked(end.error) : undefined
    if (end.outcome === 'retry') {
      const held = await retryJob(jobs, row, end.waitMs, error ?? '')
      this.wake(end.waitMs)
      return held
    }
    if (end.outcome === 'given-back') {
      const held = await giveBackJob(jobs, row)
      if (store.kind === 'postgres') await store.notify(jobsChannel, '0')
      return held
    }
    if (end.outcome === 'lost') return false
    if (known.plan === undefined && end.outcome === 'dead') return this.#bury(row, error)
    if (known.plan === undefined) return endJob(jobs, row, end.outcome, error)
    return endPlanned(jobs, row, await this.#nextOf(attempt, known.plan), error)
  }

  /** The planned time after the one that an attempt was about. */
  async #nextOf({ row, tookMs }: Attempt, plan: JobPlan): Promise<number> {
    return nextPlanned(plan, row, tookMs, await this.#options.jobs.time())
  }

  /** Ends a job as dead. The user whose data it was about is told in the same transaction. */
  #bury(row: ClaimedJob, error: string | undefined): Promise<boolean> {
    const { jobs, store, notices } = this.#options
    const { id, did, plugin, name, started_at } = row
    // A notice about a failed carrying would itself have to be carried, and fail again.
    if (!notices || did === null || name === carryingJob) return endJob(jobs, row, 'dead', error)
    return store.db.transaction().execute(async (trx) => {
      const held = await endJob(jobs.within(trx), row, 'dead', error)
      if (held)
        await notices.add(trx, {
          did,
          kind: 'job',
          plugin,
          title: plugin,
          text: `A task of ${plugin} could not be done: ${name}.`,
          key: `job:${id}:${started_at}`,
        })
      return held
    })
  }

  #tellAudit({ facts, row }: Attempt, end: AttemptEnd): Promise<void> | undefined {
    if (facts.isEmpty) return undefined
    return this.#options.audit.write({
      who: facts.who ?? `job:${row.plugin}.${row.name}`,
      task: `job ${row.plugin}.${row.name}`,
      what: facts.what,
      outcome: end.outcome === 'done' ? 'accepted' : 'failed',
      requestId: row.id,
    })
  }

  /** Lets go of jobs whose lease has run out. A timer does, because a query to a database that is cut off hangs. */
  #fence(): void {
    for (const attempt of this.#running.keys())
      if (performance.now() - attempt.heldSince > this.#options.leaseMs) attempt.stop('lost')
  }

  /** Extends the leases of the jobs that run here, and stops the attempts of jobs that another process has. */
  async #renew(): Promise<void> {
    this.#fence()
    if (this.#isRenewing || this.#running.size === 0) return
    this.#isRenewing = true
    const { jobs, log } = this.#options
    const began = performance.now()
    const mine = [...this.#running.keys()]
    try {
      const held = await extendJobs(
        jobs,
        mine.map(({ row }) => row),
      )
      const attemptOf = new Map(held.map(({ id, attempts }) => [id, attempts]))
      for (const attempt of mine)
        if (attemptOf.get(attempt.row.id) === attempt.row.attempts) attempt.heldSince = began
        else if (this.#running.has(attempt)) attempt.stop('lost')
    } catch (err) {
      log.warn({ err }, 'The leases of jobs could not be renewed')
    }
    this.#isRenewing = false
  }
}
