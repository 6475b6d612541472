import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { type RawBuilder, sql } from 'kysely'
import { RuntimeError } from '../../errors.ts'
import type { Log } from '../../plugin.ts'
import type { Timed } from '../base/clock.ts'
import { LeaseTable } from '../leases/tables.ts'
import type { Notices } from '../notices/notices.ts'
import type { Store } from '../store/store.ts'
import type { Runs } from '../turns/carry/runs.ts'
import { isOpenIn } from '../turns/indexes/open-runs.ts'
import type { Search } from '../turns/sessions/search.ts'
import { Pace } from '../watchdog/pace.ts'
import { noteSize } from './growth.ts'

/** What retention is made of. */
export interface RetentionOptions {
  readonly store: Pick<Store, 'db' | 'kind' | 'now' | 'giveBack'>
  readonly runs: Pick<Runs, 'endOverdue' | 'deleteSession' | 'tidy'>
  readonly notices: Pick<Notices, 'tidy'>
  readonly search: Pick<Search, 'readSome'>
  readonly log: Log
  /** A process that is silent this long while it cleans up is no longer waited for. */
  readonly leaseMs: number
  /** After how many days a run that waits for a person ends. */
  readonly approvalDays: number
  /** After how many days a session goes that nobody uses; 0: never. */
  readonly sessionDays: number
}

const firstMs = 60_000
const everyMs = 10 * 60_000
const dayMs = 86_400_000

/** Ends what is too old, on one process of the app at a time, in steps so short that the event loop goes on turning. */
export class Retention implements Timed {
  readonly #options: RetentionOptions
  readonly #leases: LeaseTable
  readonly #row = {
    ...{ plugin: 'kernel', name: 'retention', owner: randomUUID() },
    holder: `${hostname()}:${process.pid}`,
  }
  readonly #timers: NodeJS.Timeout[] = []
  #sweeping: Promise<void> | undefined
  #isClosed = false

  constructor(options: RetentionOptions) {
    this.#options = options
    this.#leases = new LeaseTable(options.store, options.leaseMs)
  }

  /** Begins to clean up, for the first time a minute after the start: a server that starts has more urgent work. */
  open(): void {
    const sweep = () => void this.tidy()
    this.#timers.push(setTimeout(sweep, firstMs).unref(), setInterval(sweep, everyMs).unref())
  }

  /** Stops after the step that is under way. */
  async close(): Promise<void> {
    this.#isClosed = true
    for (const timer of this.#timers) clearInterval(timer)
    await this.#sweeping
  }

  /** Ends what is too old now. Where another process is at it, nothing happens. Never rejects. */
  tidy(): Promise<void> {
    this.#sweeping ??= this.#sweep().finally(() => (this.#sweeping = undefined))
    return this.#sweeping
  }

  async #sweep(): Promise<void> {
    if (this.#isClosed) return
    try {
      const epoch = await this.#leases.claim(this.#row)
      if (epoch === undefined) return
      try {
        await this.#endAll(epoch)
      } finally {
        await this.#leases.release(this.#row, epoch)
      }
    } catch (err) {
      this.#options.log.warn({ err }, 'What is too old could not be ended; trying again')
    }
  }

  async #endAll(epoch: number): Promise<void> {
    const { store, runs, notices, approvalDays, log } = this.#options
    // Each look at the lease is a write: often enough that nobody else begins, and no more.
    const lookMs = Math.min(1_000, this.#options.leaseMs / 4)
    let lookedAt = performance.now()
    const mayGoOn = async () => {
      if (this.#isClosed || performance.now() - lookedAt < lookMs) return !this.#isClosed
      lookedAt = performance.now()
      return this.#leases.extend(this.#row, epoch)
    }
    const paced = (work: (rows: number) => Promise<number>) =>
      new Pace(store.kind, mayGoOn).through(work)
    const approvals = await paced((rows) => runs.endOverdue(approvalDays, rows))
    const sessions = await this.#endSessions(mayGoOn)
    await this.#readSessions(mayGoOn)
    if (!(await mayGoOn())) return
    await runs.tidy()
    await notices.tidy()
    const pages = await paced((rows) => store.giveBack(rows))
    await noteSize(store)
    if (approvals + sessions + pages > 0)
      log.info({ approvals, sessions, pages }, 'What was too old is gone')
  }

  /** Reads into the index of the search what nobody has searched since it was said. */
  async #readSessions(mayGoOn: () => Promise<boolean>): Promise<void> {
    let after = ''
    await new Pace(this.#options.store.kind, mayGoOn).through(async (rows) => {
      const { count, last } = await this.#options.search.readSome(after, rows)
      after = last
      return count
    })
  }

  /** Walks through the sessions by their ids, so that no index by age costs every turn a write. */
  async #endSessions(mayGoOn: () => Promise<boolean>): Promise<number> {
    const { sessionDays, store, runs } = this.#options
    if (sessionDays === 0) return 0
    const isOver: RawBuilder<boolean> = sql`(kernel_sessions.updated_at < ${store.now} - ${sql.lit(sessionDays * dayMs)}
      and not exists (select 1 from kernel_runs as run
        where ${isOpenIn(sql.ref('kernel_sessions.id'), 'run')})
      and not exists (select 1 from kernel_waiting_turns as turn where turn.session_id = kernel_sessions.id))`
    let ended = 0
    let last = ''
    await new Pace(store.kind, mayGoOn).through(async (rows) => {
      const { rows: found } = await sql<{ id: string; did: string; over: number }>`
        select id, did, case when ${isOver} then 1 else 0 end as over from kernel_sessions
        where id > ${last} order by id limit ${sql.lit(rows)}`.execute(store.db)
      for (const { id, did, over } of found) {
        last = id
        if (over !== 1) continue
        // A pause of its own: the rows of one session go in one transaction, however many there are.
        await new Promise((resolve) => setImmediate(resolve))
        if (!(await mayGoOn())) return 0
        if (await this.#delete(runs, did, id, isOver)) ended++
      }
      return found.length
    })
    return ended
  }

  /** Deletes a session, unless somebody has used it since it was found. */
  async #delete(
    runs: RetentionOptions['runs'],
    did: string,
    id: string,
    isOver: RawBuilder<boolean>,
  ): Promise<boolean> {
    try {
      await runs.deleteSession(did, id, isOver)
      return true
    } catch (error) {
      if (error instanceof RuntimeError && error.code === 'NOT_FOUND') return false
      throw error
    }
  }
}
