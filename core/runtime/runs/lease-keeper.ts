import type { Log } from '../../plugin.ts'
import type { LiveRun } from './live-run.ts'
import { takeoverSkip } from './run-feed.ts'
import { purgeRuns } from './run-retention.ts'
import type { RunRow, RunStore } from './run-store.ts'

const runsPerClaim = 50
const purgeMs = 10 * 60_000

export interface LeaseKeeperOptions {
  readonly store: RunStore
  readonly log: Log
  readonly leaseMs: number
  readonly retentionHours: number
  /** The runs of this process. */
  readonly live: ReadonlyMap<string, LiveRun>
  /** Carries on a run that was claimed. */
  takeOver(row: RunRow): Promise<void>
  /** What else may have been missed is looked at with every heartbeat. */
  onBeat(): Promise<void>
}

/** Keeps the leases of this process's runs, and takes over those that nobody keeps. */
export class LeaseKeeper {
  readonly #options: LeaseKeeperOptions
  readonly #timers: NodeJS.Timeout[] = []
  #lastBeat = performance.now()
  #beating = false
  #sweeping: Promise<void> | undefined
  #again = false
  #closed = false

  constructor(options: LeaseKeeperOptions) {
    this.#options = options
  }

  /** Takes over what there is, then looks again and again. */
  async open(): Promise<void> {
    const { leaseMs } = this.#options
    await this.sweep()
    this.#timers.push(
      setInterval(() => void this.#beat(), Math.max(leaseMs / 3, 50)).unref(),
      setInterval(() => void this.sweep(), Math.max(leaseMs / 2, 50)).unref(),
      setInterval(() => void this.#purge(), purgeMs).unref(),
    )
    void this.#purge()
  }

  async close(): Promise<void> {
    this.#closed = true
    for (const timer of this.#timers) clearInterval(timer)
    await this.#sweeping
  }

  /** Claims runs that nobody carries. Asked while it is at it, it looks once more. */
  sweep(): Promise<void> {
    this.#again = true
    this.#sweeping ??= this.#sweepAll().finally(() => (this.#sweeping = undefined))
    return this.#sweeping
  }

  async #sweepAll(): Promise<void> {
    const { store, live, log, takeOver } = this.#options
    try {
      while (this.#again && !this.#closed) {
        this.#again = false
        const rows = await store.claim(runsPerClaim, [...live.keys()], takeoverSkip)
        for (const row of rows) {
          log.info({ runId: row.id, attempts: row.attempts }, 'Took a run over')
          await takeOver(row)
        }
        if (rows.length === runsPerClaim) this.#again = true
      }
    } catch (error) {
      log.warn({ err: error }, 'Runs could not be taken over; trying again')
    }
  }

  async #beat(): Promise<void> {
    if (this.#beating || this.#closed) return
    this.#beating = true
    const { store, live, log, leaseMs, onBeat } = this.#options
    const started = performance.now()
    const mine = [...live.values()]
    try {
      const held = await store.extendLeases(mine.map(({ runId }) => runId))
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
      // By now somebody else may have them. Whoever reaches the database first goes on.
      for (const run of mine)
        if (performance.now() - Math.max(this.#lastBeat, run.heldSince) > leaseMs)
          run.feed.lose('its lease ran out')
    }
    this.#beating = false
  }

  async #purge(): Promise<void> {
    const { store, log, retentionHours } = this.#options
    try {
      const purged = await purgeRuns(store, retentionHours)
      if (purged > 0) log.info({ runs: purged }, 'Events of old runs were deleted')
    } catch (error) {
      log.warn({ err: error }, 'Old runs could not be purged; trying again')
    }
  }
}
