import type { Database, Log, ModelCall } from '#core'
import { add, sumsOf } from './book.ts'
import { dayOf } from './day.ts'
import { sums, type DayRow, type UsageTables } from './tables.ts'

/** How many rows wait to be written; what comes beside them while the database is away is not counted. */
const mostRows = 10_000

/**
 * Counts the calls that plugins made for a user outside of turns: in a route, in a job. No end of a run tells of them, so they are
 * counted as they end, each at most once.
 */
export class CallsOutside {
  readonly #db: Database
  readonly #log: Log
  readonly #waiting = new Map<string, DayRow>()
  #writing: Promise<void> | undefined

  constructor(db: Database, log: Log) {
    this.#db = db
    this.#log = log
  }

  /** Counts a call; one that served no user belongs to nobody, and one that failed before its first word cost nothing. */
  add({ did, model, usage, code }: ModelCall, now: Date): void {
    const isNothing = code !== undefined && usage.inputTokens + usage.outputTokens === 0
    if (did === undefined || isNothing) return
    this.#merge({ did, day: dayOf(now), model, ...sumsOf({ model, ...usage }) })
    this.#writing ??= this.#write()
  }

  /** Resolves when the calls that have ended so far are counted, or could not be. */
  async settled(): Promise<void> {
    await this.#writing
    if (this.#waiting.size > 0) await (this.#writing ??= this.#write())
  }

  #merge(row: DayRow): void {
    const key = `${row.did} ${row.day} ${row.model}`
    const before = this.#waiting.get(key)
    if (!before && this.#waiting.size >= mostRows) return
    const summed = { ...row, estimated: Math.max(row.estimated, before?.estimated ?? 0) }
    for (const name of sums) summed[name] += before?.[name] ?? 0
    this.#waiting.set(key, summed)
  }

  async #write(): Promise<void> {
    const rows = [...this.#waiting.values()]
    this.#waiting.clear()
    const days = this.#db.withTables<UsageTables>()
    try {
      while (rows[0]) {
        await add(days, rows[0])
        rows.shift()
      }
    } catch (err) {
      for (const row of rows) this.#merge(row)
      this.#log.warn({ err }, 'Calls of models outside of turns are not counted yet')
    } finally {
      this.#writing = undefined
    }
    // What came meanwhile goes on by itself; after a fault it waits for the next call or question.
    if (rows.length === 0 && this.#waiting.size > 0) this.#writing ??= this.#write()
  }
}
