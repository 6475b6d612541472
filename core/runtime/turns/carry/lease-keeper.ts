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
import { pruneCheckpoints, purgeRuns } from '../journal/retention.ts'
import type { RunRow, RunStore } from '../journal/store.ts'

const runsPerClaim = 50
/** How many claimed runs are brought up at once: each asks the database several things, and others ask it too. */
const broughtUpAtOnce = 5
/** How often this process looks whether its leases are over, whatever the database does. */
const fenceMs = { longest: 250, shortest: 20 }
/** A look that comes so much later than planned says that the process stood still, not that the database is away. */
const stoodStillMs = 1_000
/**
 * How much longer than its lease a run is carried while the heartbeat hangs. A database that is merely slow answers in this
 * time, and what the process writes meanwhile is refused where another process has claimed the run.
 */
const graceMs = 750
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
  readonly purgesItself: boolean
  /** How many runs this process carries at most when it takes runs over. */
  readonly runsPerProcess: number
  /** Called with every purge. */
  onPurge(): Promise<void>
  /** Deletes a checkpoint that nothing stands on any more; without it all of them stay. */
  forgetCheckpoint?(sessionId: string, checkpoint: string): Promise<void>
  /** The runs of this process. */
  readonly live: ReadonlyMap<string, CarriedRun>
  /** Carries on a run that was claimed, and how long that took; undefined when nothing is left of it to carry. */
  takeOver(row: RunRow, claimMs: number): Promise<CarriedRun | undefined>
  /** Called with every heartbeat, to look for whatever else may have been missed. */
  onBeat(): Promise<void>
}

/** Keeps the leases of this process's runs, and takes over the runs whose lease no process keeps. */
export class LeaseKeeper {
  readonly #options: LeaseKeeperOptions
  readonly #timers: NodeJS.Timeout[] = []
  #lastBeat = performance.now()
  /** When the heartbeat that still waits for the database began; undefined while none does. */
  #beating: number | undefined
  #lastFence = performance.now()
  /** Runs that this process has claimed and does not carry yet. */
  readonly #claimed = new Map<string, RunRow>()
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
    // The first sweep may claim many runs at once, whose leases have to be renewed while they are brought up.
    this.#timers.push(
      setInterval(() => void this.beat(), Math.max(leaseMs / 3, 50)).unref(),
      setInterval(() => void this.sweep(), Math.max(leaseMs / 2, 50)).unref(),
      // Only where there may be other processes: one alone goes on with its runs whatever becomes of its leases.
      ...(store.dialect === 'postgres'
        ? [setInterval(() => this.#fence(), this.#fenceMs).unref()]
        : []),
    )
    await this.sweep()
    if (!this.#options.purgesItself) return
    this.#timers.push(setInterval(() => void this.purge(), purgeMs).unref())
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
        const free = this.#options.runsPerProcess - live.size
        // A later sweep looks again, when some of these runs have ended.
        if (free <= 0) break
        const limit = Math.min(runsPerClaim, free)
        const began = performance.now()
        const rows = await claimRuns(store, { limit, except: [...live.keys()], skip: takeoverSkip })
        await this.#carryAllOn(rows, performance.now() - began)
        if (rows.length === limit) this.#again = true
        if (!this.#trying && !this.#closed) await this.#try()
      }
    } catch (error) {
      log.warn({ err: error }, 'Runs could not be taken over; trying again')
    }
  }

  /** Carries claimed runs on, a few at a time. From the claim on, every heartbeat renews their leases. */
  async #carryAllOn(rows: readonly RunRow[], claimMs: number): Promise<void> {
    for (const row of rows) this.#claimed.set(row.id, row)
    const waiting = [...rows]
    const bringUp = async () => {
      for (let row = waiting.shift(); row && !this.#closed; row = waiting.shift()) {
        // The run may have been lost meanwhile.
        if (this.#claimed.has(row.id)) await this.#carryOn(row, claimMs)
        this.#claimed.delete(row.id)
      }
    }
    await Promise.all(Array.from({ length: broughtUpAtOnce }, bringUp))
    for (const { id } of rows) this.#claimed.delete(id)
  }

  /** Carries a claimed run on. The lease of a run that cannot be carried runs out, and a later sweep tries the run again. */
  async #carryOn(row: RunRow, claimMs: number): Promise<CarriedRun | undefined> {
    const { log, takeOver } = this.#options
    const { id: runId, attempts, deaths } = row
    try {
      log.info({ runId, attempts, ...(deaths > 0 && { deaths }) }, 'Took a run over')
      return await takeOver(row, claimMs)
    } catch (error) {
      log.warn({ err: error, runId }, 'A run could not be taken over; trying again')
      return undefined
    }
  }

  /** Carries one run with which a process died before; the next such run begins when this one got on or lived long enough. */
  async #try(): Promise<void> {
    const { store, live, log } = this.#options
    const began = performance.now()
    const [row] = await claimRuns(store, {
      limit: 1,
      except: [...live.keys()],
      skip: takeoverSkip,
      suspects: true,
    })
    if (!row) return
    const claimMs = performance.now() - began
    const { allMs, longestMs, shortestMs } = trial
    const ms = allMs / (1 + (await suspectsWaiting(store)))
    const run = await this.#carryOn(row, claimMs)
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

  /** Renews the leases of this process's runs, and hears which of the runs were stopped. */
  async beat(): Promise<void> {
    const { store, live, log, leaseMs, onBeat } = this.#options
    const started = performance.now()
    // A heartbeat that hangs does not keep the next one from a database that answers again.
    if (this.#closed || (this.#beating !== undefined && started - this.#beating < leaseMs / 2))
      return
    this.#beating = started
    const mine = [...live.values()]
    const claimed = [...this.#claimed.keys()].filter((id) => !live.has(id))
    try {
      // The heartbeat is written before the leases, so it ends before them. A run whose lease ends while the heartbeat
      // goes on was dropped; where the heartbeat has ended as well, the process died.
      await beat(store)
      if (started - this.#lastBeat > leaseMs) await takeBackDeaths(store)
      const held = await extendLeases(store, [...mine.map(({ runId }) => runId), ...claimed])
      this.#lastBeat = Math.max(this.#lastBeat, started)
      const rows = new Map(held.map((row) => [row.id, row]))
      for (const id of claimed)
        if (rows.get(id)?.epoch !== this.#claimed.get(id)?.epoch) this.#claimed.delete(id)
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
      this.#loseOverdue()
    }
    if (this.#beating === started) this.#beating = undefined
  }

  get #fenceMs(): number {
    const { longest, shortest } = fenceMs
    return Math.max(shortest, Math.min(longest, this.#options.leaseMs / 10))
  }

  /** Looks at the leases by this process's own steady clock: a query to a database that is cut off may hang for long. */
  #fence(): void {
    const now = performance.now()
    const stoodStill = now - this.#lastFence > this.#fenceMs + stoodStillMs
    this.#lastFence = now
    // The database knows whether somebody else has the runs by now.
    if (stoodStill) void this.beat()
    else this.#loseOverdue(graceMs)
  }

  /** Another process may have claimed these runs by now: the process that reaches the database first goes on with them. */
  #loseOverdue(grace = 0): void {
    const { live, leaseMs } = this.#options
    for (const run of [...live.values()])
      if (performance.now() - Math.max(this.#lastBeat, run.heldSince) > leaseMs + grace)
        run.feed.lose('its lease ran out')
  }

  /** Deletes what only the replay of old runs needs. */
  async purge(): Promise<void> {
    const { store, log, retentionHours, forgetCheckpoint } = this.#options
    try {
      if (forgetCheckpoint) await pruneCheckpoints(store, retentionHours, forgetCheckpoint)
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
