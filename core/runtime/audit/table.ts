import { sql } from 'kysely'
import type { Log } from '../../plugin.ts'
import type { Store } from '../store/store.ts'
import type { AuditLine } from './line.ts'
import { type TimedLine, toRow } from './row.ts'
import { auditColumns } from './tables.ts'

/** How many lines one transaction writes. */
const linesPerBatch = 200
/** How many lines may wait for a database that is slow or away. The log alone has the lines beyond. */
const mostWaiting = 10_000
/** How many lines a minute about writes that did not happen the table keeps, so that refused calls cannot fill the table. */
const refusalsPerMinute = 6_000
/** The pause before the next try after a write to the database failed. */
const retryMs = 1_000
/** The least time between two log lines about lines that were left out. */
const tellMs = 60_000
/** The time between two sweeps. */
const sweepMs = 3_600_000
/** How many rows one statement of a sweep deletes. */
const rowsPerSweep = 500
const dayMs = 86_400_000

interface AuditTableOptions {
  readonly store: Pick<Store, 'db' | 'unsynced' | 'synced'>
  readonly log: Log
  readonly retentionDays: number
}

interface Waiting {
  readonly line: TimedLine
  readonly kept: PromiseWithResolvers<void>
}

/**
 * Keeps audit lines in `kernel_audit`. Lines that come while the table writes a batch make up the next batch, so many
 * writers share a transaction and a sync of the disk. No code changes a line, and only `sweep` deletes lines.
 */
export class AuditTable {
  readonly #options: AuditTableOptions
  readonly #sweeping: NodeJS.Timeout
  #waiting: Waiting[] = []
  #writing: Promise<void> | undefined
  #retry: NodeJS.Timeout | undefined
  #isFailing = false
  #isClosed = false
  #left: { lines: number; telling: NodeJS.Timeout | undefined } = { lines: 0, telling: undefined }
  #refusals = { minute: 0, count: 0 }

  constructor(options: AuditTableOptions) {
    this.#options = options
    this.#sweeping = setInterval(() => void this.sweep(), sweepMs).unref()
  }

  /**
   * Resolves when the line is in the database. While the database fails, the promise resolves too and the line waits: the
   * write that the line is about has happened, so its answer must not wait, and the log has the line.
   */
  keep(line: TimedLine): Promise<void> | undefined {
    if (this.#waiting.length >= mostWaiting || this.#isOneTooMany(line)) return this.#leaveOut(1)
    const kept = Promise.withResolvers<void>()
    this.#waiting.push({ line, kept })
    this.#begin()
    return this.#isFailing ? undefined : kept.promise
  }

  /** Deletes the lines that are older than the retention. Lines leave the table in no other way. */
  async sweep(): Promise<void> {
    const { store, retentionDays, log } = this.#options
    const over = Date.now() - retentionDays * dayMs
    try {
      for (let deleted = rowsPerSweep; deleted === rowsPerSweep && !this.#isClosed;) {
        const done = await sql`delete from kernel_audit where id in
          (select id from kernel_audit where at < ${over} order by at limit ${rowsPerSweep})`.execute(
          store.db,
        )
        deleted = Number(done.numAffectedRows ?? 0)
      }
    } catch (err) {
      log.warn({ err }, 'the sweep could not delete old audit lines')
    }
  }

  /** Stops the timers and writes the lines that wait. When the database fails, the log says how many lines were left out. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#sweeping)
    clearTimeout(this.#retry)
    await this.#writing
    await this.#write()
    this.#leaveOut(this.#waiting.length)
    this.#tellLeftOut()
  }

  #isOneTooMany({ outcome }: AuditLine): boolean {
    if (outcome === 'accepted' || outcome === 'unknown') return false
    const minute = Math.floor(performance.now() / 60_000)
    if (this.#refusals.minute !== minute) this.#refusals = { minute, count: 0 }
    return ++this.#refusals.count > refusalsPerMinute
  }

  #begin(): void {
    if (this.#writing || this.#retry || this.#isClosed) return
    // The lines of one tick go into one batch.
    this.#writing = new Promise<void>((resolve) => setImmediate(resolve))
      .then(() => this.#write())
      .finally(() => {
        this.#writing = undefined
        if (this.#waiting.length === 0 || this.#isClosed) return
        if (this.#isFailing) this.#retry = setTimeout(this.#tryAgain, retryMs).unref()
        else this.#begin()
      })
  }

  #tryAgain = (): void => {
    this.#retry = undefined
    this.#begin()
  }

  /** Writes batch after batch until no line waits or a batch fails. */
  async #write(): Promise<void> {
    const { store, log } = this.#options
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, linesPerBatch)
      const resolve = (lines: readonly Waiting[]) => lines.forEach(({ kept }) => kept.resolve())
      try {
        await this.#insert(batch.map(({ line }) => line))
      } catch (err) {
        if (!this.#isFailing) log.error({ err }, 'audit lines wait for the database')
        this.#isFailing = true
        this.#waiting.unshift(...batch)
        return resolve(this.#waiting)
      }
      this.#isFailing = false
      // This loop writes the next batch while the disk still works on this one.
      const synced = store.synced().catch((err: unknown) => {
        log.error({ err }, 'the disk did not confirm audit lines')
      })
      void synced.then(() => resolve(batch))
    }
  }

  async #insert(lines: readonly TimedLine[]): Promise<void> {
    const { unsynced } = this.#options.store
    const count = lines.length
    await unsynced.transaction().execute(async (trx) => {
      const clock = await sql<{ seq: number }>`update kernel_audit_clock
        set seq = seq + ${count} where id = 1 returning seq`.execute(trx)
      const last = clock.rows[0]?.seq ?? count
      const rows = lines.map((line, nth) => toRow(line, last - count + 1 + nth))
      await sql`insert into kernel_audit (${sql.join(auditColumns.map((name) => sql.ref(name)))})
        values ${sql.join(rows.map((row) => sql`(${sql.join(auditColumns.map((name) => row[name]))})`))}
        on conflict (once) do nothing`.execute(trx)
    })
  }

  /** Counts lines that the log alone has. The log says how many, at most once in `tellMs`. */
  #leaveOut(lines: number): undefined {
    this.#left.lines += lines
    if (lines > 0) this.#left.telling ??= setTimeout(this.#tellLeftOut, tellMs).unref()
  }

  #tellLeftOut = (): void => {
    const { lines, telling } = this.#left
    clearTimeout(telling)
    this.#left = { lines: 0, telling: undefined }
    if (lines > 0)
      this.#options.log.error({ lines }, 'the database lacks audit lines: the log alone has them')
  }
}
