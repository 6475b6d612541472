import { setTimeout as sleep } from 'node:timers/promises'
import { RuntimeError } from '../../errors.ts'
import type { HeldLease, Lease, LeasedWork, Log } from '../../plugin.ts'
import type { LeaseRow, LeaseTable } from './tables.ts'

/** What one lease of this process is made of. */
export interface HoldingOptions {
  readonly table: LeaseTable
  readonly row: LeaseRow
  readonly leaseMs: number
  readonly work: LeasedWork
  readonly log: Log
  /** Tells the other processes that the lease is free. */
  tellFree(): Promise<void>
}

/**
 * How long work that threw waits before it is begun again: doubled each time, up to the longest. Work that went on for longer than
 * that waits the first time again.
 */
const pauses = { firstMs: 1_000, longestMs: 60_000 }
/** How long a close waits for the work to come to its end. */
const graceMs = 5_000

/** One lease as this process wants it: waits until it is free, holds it while the work goes on, and waits again once it is lost. */
export class Holding implements Lease {
  readonly #options: HoldingOptions
  readonly #going: Promise<void>
  #lost = new AbortController()
  #heldUntil = -Infinity
  #isClosed = false
  #isDropped = false
  #wake = Promise.withResolvers<void>()

  constructor(options: HoldingOptions) {
    this.#options = options
    this.#going = this.#go()
  }

  isHeld(): boolean {
    return performance.now() < this.#heldUntil && !this.#lost.signal.aborted
  }

  heldBy(): Promise<string | undefined> {
    const { table, row } = this.#options
    return table.holderOf(row)
  }

  /** Looks at once whether the lease is free. */
  nudge(): void {
    this.#wake.resolve()
  }

  /** Ends the work and lets go of the lease. */
  async close(): Promise<void> {
    this.#end()
    const timer = new AbortController()
    await Promise.race([
      this.#going,
      sleep(graceMs, undefined, { signal: timer.signal, ref: false }).catch(() => undefined),
    ])
    timer.abort()
  }

  /** Ends the work as the death of the process would: the lease runs out by itself. */
  drop(): void {
    this.#isDropped = true
    this.#end()
  }

  #end(): void {
    this.#isClosed = true
    this.#lost.abort(lost(this.#options.row))
    this.nudge()
  }

  async #go(): Promise<void> {
    const { table, row, leaseMs, log } = this.#options
    let pauseMs = 0
    while (!this.#isClosed) {
      const askedAt = performance.now()
      let epoch: number | undefined
      try {
        epoch = await table.claim(row)
      } catch (err) {
        log.warn({ err, plugin: row.plugin, lease: row.name }, 'A lease could not be asked for')
      }
      if (epoch === undefined) {
        await this.#pause(leaseMs / 3)
        continue
      }
      const ended = await this.#hold(epoch, askedAt)
      if (ended === 'done') return
      if (ended !== 'failed' || performance.now() - askedAt > pauses.longestMs) pauseMs = 0
      if (ended === 'failed') pauseMs = Math.min(pauseMs * 2 || pauses.firstMs, pauses.longestMs)
      if (pauseMs > 0) await this.#pause(pauseMs)
    }
  }

  /** Holds the lease while the work goes on. */
  async #hold(epoch: number, askedAt: number): Promise<'done' | 'failed' | 'lost'> {
    const { table, row, leaseMs, work, log, tellFree } = this.#options
    this.#lost = new AbortController()
    if (this.#isClosed) this.#lost.abort(lost(row))
    this.#heldUntil = askedAt + leaseMs
    const { signal } = this.#lost
    const beating = this.#beat(epoch)
    let outcome: 'done' | 'failed' | 'lost' = 'done'
    try {
      if (!signal.aborted) await work(this.#heldLease(epoch, signal))
    } catch (err) {
      // Work that ends because its signal fired is no fault, and neither is work that a transaction told of the loss first.
      outcome = err instanceof RuntimeError && err.code === 'LEASE_LOST' ? 'lost' : 'failed'
      if (!signal.aborted && outcome === 'failed')
        log.error({ err, plugin: row.plugin, lease: row.name }, 'The work of a lease failed')
    }
    const wasLost = signal.aborted
    this.#lost.abort(lost(row))
    this.#heldUntil = -Infinity
    await beating
    if (this.#isDropped) return 'lost'
    await table
      .release(row, epoch)
      .then(tellFree)
      .catch((err: unknown) => log.debug({ err }, 'A lease was not released; it runs out'))
    return wasLost ? 'lost' : outcome
  }

  #heldLease(epoch: number, signal: AbortSignal): HeldLease {
    const { table, row } = this.#options
    const isHeld = () => !signal.aborted && this.isHeld()
    return {
      epoch,
      signal,
      isHeld,
      async hold(trx) {
        if (!(await table.isHeldIn(trx, row, epoch))) throw lost(row)
      },
    }
  }

  /** Extends the lease until it is lost or let go. */
  async #beat(epoch: number): Promise<void> {
    const { table, row, leaseMs, log } = this.#options
    const { signal } = this.#lost
    while (!signal.aborted) {
      const left = this.#heldUntil - performance.now()
      await sleep(Math.max(0, Math.min(leaseMs / 3, left)), undefined, {
        signal,
        ref: false,
      }).catch(() => undefined)
      if (signal.aborted) return
      const askedAt = performance.now()
      try {
        if (!(await table.extend(row, epoch))) this.#lost.abort(lost(row))
        else this.#heldUntil = askedAt + leaseMs
      } catch (err) {
        log.warn({ err, plugin: row.plugin, lease: row.name }, 'A lease could not be extended')
        if (performance.now() >= this.#heldUntil) this.#lost.abort(lost(row))
        else await sleep(Math.min(leaseMs / 10, 1_000), undefined, { ref: false })
      }
    }
  }

  async #pause(ms: number): Promise<void> {
    if (this.#isClosed) return
    const timer = setTimeout(() => this.#wake.resolve(), ms).unref()
    await this.#wake.promise
    clearTimeout(timer)
    this.#wake = Promise.withResolvers()
  }
}

const lost = ({ plugin, name }: LeaseRow) =>
  new RuntimeError('LEASE_LOST', `This process does not hold the lease "${name}" of ${plugin}.`, {
    hint: 'Another process does the work now, or the server closes: stop at once.',
  })
