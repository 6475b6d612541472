import type { Log } from '../../../plugin.ts'
import type { CarriedRun } from './carried-run.ts'
import {
  beat,
  countDeaths,
  endTrial,
  forgetProcesses,
  leave,
  suspectsWaiting,
  takeBackDeaths,
} from '../journal/deaths.ts'
import { takeoverSkip } from '../events/feed.ts'
import { claimRuns, extendLeases } from '../journal/leases.ts'
import { purgeRuns } from '../journal/retention.ts'
import type { RunRow, RunStore } from '../journal/store.ts'

const runsPerClaim = 50
const purgeMs = 10 * 60_000
/**
 * How long a run with which a process died once is carried alone among such runs, unless a step of it is kept before:
 * a process that dies within this time died of this run. Where many such runs wait, each has less time alone, so that all
 * of them begin soon.
 */
const trial = { longestMs: 5_000, shortestMs: 20, allMs: 30_000 }

/** What a lease keeper is made of. */
export interface LeaseKeeperOptions {
  readonly store: RunStore
  readonly log: Log
  readonly leaseMs: number
  readonly retentionHours: number
  /** Called with every purge. */
  onPurge(): Promise<void>
  /** The runs of this process. */
  readonly live: ReadonlyMap<string, CarriedRun>
  /** Carries on a run that was claimed; undefined when nothing is left of it to carry. */
  takeOver(row: RunRow): Promise<CarriedRun | undefined>
  /** Called with every heartbeat, to look for whatever else may have been missed. */
  onBeat(): Promise<void>
}

/** Keeps the leases of this process's runs, and takes over the runs whose lease no process keeps. */
export class LeaseKeeper {
  readonly #options: LeaseKeeperOptions
  readonly #timers: NodeJS.Timeout[] = []
  #lastBeat = performance.now()
  #beating = false
  #sweeping: Promise<void> | undefined
  #again = false
  #trying: Promise<void> | undefined
  #closed = false

  constructor(options: LeaseKeeperOptions) {
    this.#options = options
  }

  /** Takes over the runs that no process carries, then looks for such runs again and again. */
  async open(): Promise<void> {
    const { leaseMs, store } = this.#options
    await beat(store)
    await this.sweep()
    this.#timers.push(
      setInterval(() => void this.#beat(), Math.max(leaseMs / 3, 50)).unref(),
      setInterval(() => void this.sweep(), Math.max(leaseMs / 2, 50)).unref(),
      setInterval(() => void this.purge(), purgeMs).unref(),
    )
    void this.purge()
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#clearTimers()
    await this.#sweeping
  }

  /** Stops as the death of the process would, once the database is out of reach. */
  drop(): void {
    this.#closed = true
    this.#clearTimers()
  }

  /** Says that this process ends in an orderly way: runs that still bear its name were not left by a death. */
  async leave(): Promise<void> {
    await leave(this.#options.store)
  }

  /** Claims runs that no process carries. A call during a sweep makes the sweep look once more. */
  sweep(): Promise<void> {
    this.#again = true
    this.#sweeping ??= this.#sweepAll().finally(() => (this.#sweeping = undefined))
    return this.#sweeping
  }

  async #sweepAll(): Promise<void> {
    const { store, live, log } = this.#options
    try {
      while (this.#again && !this.#closed) {
        this.#again = false
        await countDeaths(store)
        const what = { limit: runsPerClaim, except: [...live.keys()], skip: takeoverSkip }
        const rows = await claimRuns(store, what)
        for (const row of rows) await this.#carryOn(row)
        if (rows.length === runsPerClaim) this.#again = true
        if (!this.#trying && !this.#closed) await this.#try()
      }
    } catch (error) {
      log.warn({ err: error }, 'Runs could not be taken over; trying again')
    }
  }

  /** Carries a claimed run on. The lease of a run that cannot be carried runs out, and a later sweep tries the run again. */
  async #carryOn(row: RunRow): Promise<CarriedRun | undefined> {
    const { log, takeOver } = this.#options
    const { id: runId, attempts, deaths } = row
    try {
      log.info({ runId, attempts, ...(deaths > 0 && { deaths }) }, 'Took a run over')
      return await takeOver(row)
    } catch (error) {
      log.warn({ err: error, runId }, 'A run could not be taken over; trying again')
      return undefined
    }
  }

  /** Carries one run with which a process died before; the next such run begins when this one got on or lived long enough. */
  async #try(): Promise<void> {
    const { store, live, log } = this.#options
    const [row] = await claimRuns(store, {
      limit: 1,
      except: [...live.keys()],
      skip: takeoverSkip,
      suspects: true,
    })
    if (!row) return
    const { allMs, longestMs, shortestMs } = trial
    const ms = allMs / (1 + (await suspectsWaiting(store)))
    const run = await this.#carryOn(row)
    const end = async () => {
      let timer: NodeJS.Timeout | undefined
      const lived = new Promise<'lived'>((resolve) => {
        timer = setTimeout(resolve, Math.max(shortestMs, Math.min(longestMs, ms)), 'lived').unref()
      })
      const outcome = run && (await Promise.race([run.gotOn.promise, lived]))
      clearTimeout(timer)
      if (outcome === 'lived') await endTrial(store, row)
    }
    this.#trying = end()
      .catch((error: unknown) => log.warn({ err: error }, 'A trial of a run could not be ended'))
      .finally(() => {
        this.#trying = undefined
        if (!this.#closed) void this.sweep()
      })
  }

  async #beat(): Promise<void> {
    if (this.#beating || this.#closed) return
    this.#beating = true
    const { store, live, log, leaseMs, onBeat } = this.#options
    const started = performance.now()
    const mine = [...live.values()]
    try {
      // The heartbeat is written before the leases, so it ends before them. A run whose lease ends while the heartbeat
      // goes on was dropped; where the heartbeat has ended as well, the process died.
      await beat(store)
      if (started - this.#lastBeat > leaseMs) await takeBackDeaths(store)
      const held = await extendLeases(
        store,
        mine.map(({ runId }) => runId),
      )
      this.#lastBeat = started
      const rows = new Map(held.map((row) => [row.id, row]))
      for (const run of mine) {
        const row = rows.get(run.runId)
        if (row?.epoch === run.row.epoch) {
          if (row.stop) run.stop(row.stop)
        } else if (live.get(run.runId) === run && !run.feed.isClosed)
          run.feed.lose('another process carries it')
      }
      await onBeat()
    } catch (error) {
      log.warn({ err: error }, 'The leases of runs could not be renewed')
      // Another process may have claimed the runs by now: the process that reaches the database first goes on with them.
      for (const run of mine)
        if (performance.now() - Math.max(this.#lastBeat, run.heldSince) > leaseMs)
          run.feed.lose('its lease ran out')
    }
    this.#beating = false
  }

  /** Deletes what only the replay of old runs needs. */
  async purge(): Promise<void> {
    const { store, log, retentionHours } = this.#options
    try {
      const purged = await purgeRuns(store, retentionHours)
      await forgetProcesses(store)
      await this.#options.onPurge()
      if (purged > 0) log.info({ runs: purged }, 'Events of old runs were deleted')
    } catch (error) {
      log.warn({ err: error }, 'Old runs could not be purged; trying again')
    }
  }

  #clearTimers(): void {
    for (const timer of this.#timers) clearInterval(timer)
  }
}
