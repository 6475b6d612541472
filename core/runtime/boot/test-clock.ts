import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { RuntimeError } from '../../errors.ts'
import type { Migration } from '../../plugin.ts'
import type { Timed } from '../base/clock.ts'
import type { Store } from '../store/store.ts'

/** How many runs one move of the clock may bring about: a job that asks for itself again would never come to an end. */
const mostRuns = 1_000
/** How long a move waits while nothing of what is due begins or ends: another process may have it. */
const patienceMs = 60_000
const channel = 'kernel_clock'
const unitMs: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
}

const clockMigration: Migration = async (db) => {
  await sql`create table kernel_clock (id integer primary key, ms bigint not null)`.execute(db)
}

/**
 * A clock that stands until a test moves it: `now()` of plugins, and the database's clock of jobs, runs and retention. The
 * time is a row of the database, so a second app on the database has the same time, and an app that boots again goes on
 * with it. Leases, time limits of attempts and the validity of tokens stay on real time.
 */
export class TestClock {
  readonly #id = randomUUID()
  readonly #given: number | undefined
  readonly #stores = new Set<Store>()
  readonly #timed = new Set<Timed>()
  readonly #runs = new Map<string, number>()
  /** Rejects when a move brings about too many runs. */
  #tooMany = Promise.withResolvers<never>()
  #ms: number
  #moving: Promise<unknown> = Promise.resolve()

  /** Begins at this time, by default at the present; a database that has a clock keeps the time that it has. */
  constructor(start?: Date | string) {
    this.#given = start === undefined ? undefined : readTime(start)
    this.#ms = this.#given ?? Date.now()
  }

  /** The time of the clock. */
  now = (): Date => new Date(this.#ms)

  /**
   * Lets time pass: `'30d'` (ms, s, m, h, d) or milliseconds. The clock goes from one due time to the next, stands there
   * while what is due runs, and ends at the time meant. Rejects when more than 1,000 runs came due, and names them.
   */
  advance(by: string | number): Promise<void> {
    const ms = readSpan(by)
    return this.#oneByOne(async () => {
      const target = this.#ms + ms
      await this.#settle()
      for (let steps = 0; ; steps++) {
        if (steps > mostRuns) throw this.#endless()
        const next = await this.#next()
        if (next === undefined || next > target) break
        await this.#move(next)
        await this.#settle()
      }
      await this.#move(target)
      await this.#settle()
      for (const timed of this.#timed) await timed.tidy?.()
    })
  }

  /**
   * Puts the clock to a time, back or ahead, as somebody who sets the clock of the machine. What a schedule missed between
   * is made up once. Resolves when what is due then has run.
   */
  set(time: Date | string): Promise<void> {
    const ms = readTime(time)
    return this.#oneByOne(async () => {
      await this.#settle()
      await this.#move(ms)
      for (const timed of this.#timed) await timed.tidy?.()
      await this.#settle()
    })
  }

  /**
   * Gives a database this clock, or takes over the time that the database has. Returns the function that lets go of it.
   * @internal For the kernel.
   */
  async attach(store: Store): Promise<() => Promise<void>> {
    await store.migrate('kernel-clock', { '001-clock': clockMigration })
    await sql`insert into kernel_clock (id, ms) values (1, ${sql.lit(this.#ms)})
      on conflict (id) do nothing`.execute(store.db)
    const { rows } = await sql<{ ms: number }>`select ms from kernel_clock`.execute(store.db)
    this.#ms = rows[0]?.ms ?? this.#ms
    const stop = await store.listen(channel, (told) => {
      const [who, ms] = told.split(' ')
      if (who !== this.#id) this.#ms = Number(ms)
    })
    this.#stores.add(store)
    return async () => {
      if (this.#stores.delete(store)) await stop()
    }
  }

  /**
   * Counts this as work that waits for the clock, until the function that this returns is called.
   * @internal For the kernel.
   */
  add(timed: Timed): () => void {
    this.#timed.add(timed)
    return () => void this.#timed.delete(timed)
  }

  /**
   * Notes that something began that was due.
   * @internal For the kernel.
   */
  noteRun(name: string): void {
    this.#runs.set(name, (this.#runs.get(name) ?? 0) + 1)
    if (this.#total > mostRuns) this.#tooMany.reject(this.#endless())
  }

  /**
   * Lets go of everything at once, as the death of the process does.
   * @internal For the kernel.
   */
  drop(): void {
    this.#stores.clear()
    this.#timed.clear()
  }

  #oneByOne(work: () => Promise<void>): Promise<void> {
    const moved = this.#moving.then(() => {
      this.#runs.clear()
      this.#tooMany = Promise.withResolvers()
      this.#tooMany.promise.catch(() => undefined) // whoever waits for the move has the error
      return work()
    })
    this.#moving = moved.catch(() => undefined) // the caller has the error
    return moved
  }

  async #move(ms: number): Promise<void> {
    // What runs by the new time of the database must not find an older one here.
    this.#ms = ms
    for (const store of this.#stores) {
      await sql`update kernel_clock set ms = ${sql.lit(ms)}`.execute(store.db)
      if (store.kind === 'postgres') await store.notify(channel, `${this.#id} ${ms}`)
    }
  }

  async #next(): Promise<number | undefined> {
    let next: number | undefined
    for (const timed of this.#timed) {
      const at = await timed.nextAt?.()
      if (at !== undefined && at > this.#ms && (next === undefined || at < next)) next = at
    }
    return next
  }

  /** Waits until nothing is due any more and nothing runs. */
  async #settle(): Promise<void> {
    let seen = ''
    for (let since = performance.now(); ;) {
      let open = 0
      for (const timed of this.#timed)
        // A job that asks for itself again would keep this from ever ending.
        open += (await Promise.race([timed.catchUp?.(), this.#tooMany.promise])) ?? 0
      if (open === 0) return
      const now = `${open} ${this.#total}`
      if (now !== seen) since = performance.now()
      else if (performance.now() - since > patienceMs)
        throw new Error(`${open} of what is due has neither begun nor ended for a minute.`)
      else await sleep(5)
      seen = now
    }
  }

  get #total(): number {
    let total = 0
    for (const count of this.#runs.values()) total += count
    return total
  }

  #endless(): Error {
    const most = [...this.#runs].sort(([, a], [, b]) => b - a).slice(0, 3)
    const named = most.map(([name, count]) => `${name} ${count} times`).join(', ')
    return new Error(
      `The clock stopped at ${this.now().toISOString()}: more than 1,000 runs came due (${named}). ` +
        'Advance by less, or look for a job that asks for itself again at once.',
    )
  }
}

function readTime(time: Date | string): number {
  const ms = new Date(time).getTime()
  if (Number.isNaN(ms)) throw refused(`"${String(time).slice(0, 40)}" is no time for a clock.`)
  return ms
}

function readSpan(by: string | number): number {
  const [, digits, unit = ''] =
    typeof by === 'string' ? (/^(\d{1,12})(ms|s|m|h|d)$/.exec(by) ?? []) : []
  const ms = typeof by === 'number' ? by : Number(digits) * (unitMs[unit] ?? NaN)
  if (Number.isSafeInteger(ms) && ms >= 0) return ms
  throw refused(`A clock cannot advance by ${JSON.stringify(by)}.`)
}

const refused = (message: string) =>
  new RuntimeError('INPUT_INVALID', message, {
    hint: "Write '30d' (ms, s, m, h, d) or whole milliseconds; clock.set takes a Date or an ISO text, also of the past.",
  })
