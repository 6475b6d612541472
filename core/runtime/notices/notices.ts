import { sql } from 'kysely'
import type { Log, Notice } from '../../plugin.ts'
import type { Telling } from '../store/channels/channels.ts'
import type { Store } from '../store/store.ts'
import { UserListeners } from './listeners.ts'
import { makeNotice, type NewNotice, type NoticeClock } from './make.ts'
import { UserReader } from './reader.ts'
import {
  among,
  noticeColumns,
  type NoticeDatabase,
  noticeLimits,
  type NoticeRow,
  toNotice,
} from './tables.ts'
import type { Hint } from './words.ts'

/** What the notices of an app are made of. */
export interface NoticesOptions {
  readonly store: Pick<Store, 'db' | 'kind' | 'listen' | 'notify'>
  readonly log: Log
  /** The database's clock. */
  readonly now: NoticeClock['now']
  /** How long notices are kept; by default 30 days. */
  readonly retentionDays?: number
  /** Hands a new notice to the plugins that carry notices, within the transaction of the notice. */
  readonly deliver?: (trx: NoticeDatabase, notice: Notice) => Promise<void>
  /** The titles of a user's sessions. */
  readonly titlesOf?: (did: string, ids: readonly string[]) => Promise<ReadonlyMap<string, string>>
}

/** A notice as its user reads it in the list. */
export type ListedNotice = Omit<Notice, 'user'> & { readonly seenAt?: string }

/** Which notices a user asks for. */
export interface NoticeQuery {
  readonly unread?: boolean
  readonly limit: number
  readonly before?: number
}

/** Which notices a user has seen: these, those of a session, or all up to a number. */
export interface SeenNotices {
  readonly ids?: readonly number[]
  readonly sessionId?: string
  readonly upTo?: number
}

/** The credential with which somebody reads events. */
export interface ReaderRights {
  /** Whether the credential still counts; asked before anything is handed out. */
  mayRead?(): Promise<boolean>
}

/** How often a process looks for notices of which no notification told it. */
const pollMs = 15_000
/** How far back a poll looks: a transaction that makes a notice is over by then. */
const slackMs = 120_000
const rowsPerStep = 500
const dayMs = 86_400_000

/** The notices of an app: other rooms make them, and users read them as a list or as events. */
export class Notices {
  readonly #options: NoticesOptions
  readonly #clock: NoticeClock
  readonly #listeners: UserListeners
  readonly #timers: NodeJS.Timeout[] = []

  constructor(options: NoticesOptions) {
    const { store, now, log } = options
    this.#options = options
    this.#clock = { kind: store.kind, now }
    this.#listeners = new UserListeners(store, log)
  }

  /** Begins to hear other replicas and to poll. Old notices go when somebody calls `tidy`. */
  async open(): Promise<void> {
    await this.#listeners.open()
    const every = (ms: number, work: () => Promise<void>) =>
      this.#timers.push(setInterval(() => void this.#quietly(work), ms).unref())
    every(pollMs, () => this.poll())
  }

  async close(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer)
    await this.#listeners.close()
  }

  /**
   * Makes a notice, once for each key. Within a caller's transaction the notice is there when the transaction commits,
   * and its readers hear of it then. Undefined when the user has muted the plugin, or has a notice of this key.
   */
  async add(db: NoticeDatabase, asked: NewNotice): Promise<Notice | undefined> {
    if (!db.isTransaction) return db.transaction().execute((trx) => this.add(trx, asked))
    const notice = await makeNotice(this.#clock, db, asked)
    if (notice === undefined) return undefined
    await this.#options.deliver?.(db, notice)
    // SQLite runs one transaction at a time, so a reader's query waits for this transaction.
    if (this.#clock.kind === 'sqlite') this.#listeners.wake(asked.did)
    return notice
  }

  /** Sends an event to the user's readers at once. The event is kept nowhere. */
  tell(did: string, event: Hint['event'], data: Readonly<Record<string, unknown>>): void {
    this.#listeners.tell(did, { event, data })
  }

  /** The same of a few events, as a part of a statement of PostgreSQL; undefined where they have to be sent by `tell`. */
  telling(did: string, hints: readonly Hint[]): Telling | undefined {
    return this.#listeners.telling(did, hints)
  }

  /** Reads a user's events: the notices after a number (without a number those from now on), and hints. */
  read(did: string, after?: number, { mayRead = async () => true }: ReaderRights = {}): UserReader {
    const { db } = this.#options.store
    return new UserReader(
      {
        listen: (listener) => this.#listeners.add(did, listener),
        async newest() {
          const { rows } = await sql<{ newest: number }>`
            select newest from kernel_notice_users where did = ${did}`.execute(db)
          return rows[0]?.newest ?? 0
        },
        async after(id, limit) {
          const { rows } = await sql<NoticeRow>`select ${noticeColumns} from kernel_notices
            where did = ${did} and id > ${id} order by id limit ${limit}`.execute(db)
          return rows.map(toNotice)
        },
        titled: (hints) => this.#titled(did, hints),
        mayRead,
      },
      after,
    )
  }

  /** A page of the user's list, the newest first, and how many notices the user has not seen. */
  async list(did: string, { unread, limit, before }: NoticeQuery) {
    const { rows } =
      await sql<NoticeRow>`select ${noticeColumns} from kernel_notices where did = ${did}
      ${before === undefined ? sql`` : sql`and id < ${before}`}
      ${unread ? sql`and seen_at is null` : sql``} order by id desc limit ${limit}`.execute(
        this.#options.store.db,
      )
    return { notices: rows.map(listed), unread: await this.unread(did) }
  }

  /** How many notices the user has not seen. */
  async unread(did: string): Promise<number> {
    const { rows } = await sql<{ count: number }>`select count(*) as count from kernel_notices
      where did = ${did} and seen_at is null`.execute(this.#options.store.db)
    return Number(rows[0]?.count ?? 0)
  }

  /** How many notices of each session the user has not seen; sessions without any are left out. */
  async unreadIn(did: string, sessionIds: readonly string[]): Promise<ReadonlyMap<string, number>> {
    if (sessionIds.length === 0) return new Map()
    const { rows } = await sql<{ session_id: string; count: number }>`
      select session_id, count(*) as count from kernel_notices
      where did = ${did} and seen_at is null and session_id in (${among(sessionIds)})
      group by session_id`.execute(this.#options.store.db)
    return new Map(rows.map(({ session_id, count }) => [session_id, Number(count)]))
  }

  /** Marks notices as seen; resolves to how many are left. */
  async see(did: string, { ids, sessionId, upTo }: SeenNotices): Promise<{ unread: number }> {
    const meant =
      ids !== undefined
        ? sql`id in (${among(ids)})`
        : upTo !== undefined
          ? sql`id <= ${upTo}`
          : sql`session_id = ${sessionId ?? ''}`
    const { numAffectedRows } = await sql`update kernel_notices set seen_at = ${this.#clock.now()}
      where did = ${did} and seen_at is null and ${meant}`.execute(this.#options.store.db)
    const unread = await this.unread(did)
    if (numAffectedRows) this.#listeners.tell(did, { event: 'seen', data: { unread } })
    return { unread }
  }

  /** The plugins that the user has muted. */
  async muted(did: string): Promise<string[]> {
    const { rows } = await sql<{ plugin: string }>`select plugin from kernel_notice_mutes
      where did = ${did} order by plugin`.execute(this.#options.store.db)
    return rows.map(({ plugin }) => plugin)
  }

  /** Replaces the list of muted plugins. */
  async mute(did: string, plugins: readonly string[]): Promise<void> {
    await this.#options.store.db.transaction().execute(async (trx) => {
      const others = plugins.length > 0 ? sql`and plugin not in (${among(plugins)})` : sql``
      await sql`delete from kernel_notice_mutes where did = ${did} ${others}`.execute(trx)
      for (const plugin of plugins)
        await sql`insert into kernel_notice_mutes (did, plugin) values (${did}, ${plugin})
          on conflict (did, plugin) do nothing`.execute(trx)
    })
  }

  /** A notice, for a plugin that carries it; undefined once it is gone. */
  async find(did: string, id: number): Promise<Notice | undefined> {
    const { rows } = await sql<NoticeRow>`select ${noticeColumns} from kernel_notices
      where did = ${did} and id = ${id}`.execute(this.#options.store.db)
    return rows[0] && toNotice(rows[0])
  }

  /** Deletes the notices of a session, within the transaction that deletes the session. */
  async forgetSession(trx: NoticeDatabase, did: string, sessionId: string): Promise<void> {
    await sql`delete from kernel_notices where session_id = ${sessionId} and did = ${did}`.execute(
      trx,
    )
  }

  /** Wakes the readers of users who had notices of late. */
  async poll(): Promise<void> {
    if (this.#listeners.isEmpty) return
    const { rows } = await sql<{ did: string }>`select did from kernel_notice_users
      where newest > ${this.#clock.now()} - ${sql.lit(slackMs)}
      order by newest desc limit ${rowsPerStep}`.execute(this.#options.store.db)
    if (rows.length === rowsPerStep) this.#listeners.wakeAll()
    else for (const { did } of rows) this.#listeners.wake(did)
  }

  /** Deletes the notices that are too old, and the numbers of users who have no notices. */
  async tidy(): Promise<void> {
    const { store, retentionDays = noticeLimits.days } = this.#options
    const oldest = sql`${this.#clock.now()} - ${sql.lit(retentionDays * dayMs)}`
    for (let deleted = rowsPerStep; deleted === rowsPerStep;) {
      const { numAffectedRows } = await sql`delete from kernel_notices where (did, id) in
        (select did, id from kernel_notices where created_at < ${oldest} limit ${rowsPerStep})`.execute(
        store.db,
      )
      deleted = Number(numAffectedRows ?? 0)
    }
    for (let deleted = rowsPerStep; deleted === rowsPerStep;) {
      const { numAffectedRows } = await sql`delete from kernel_notice_users where did in
        (select did from kernel_notice_users where newest < ${oldest}
        and not exists (select 1 from kernel_notices where did = kernel_notice_users.did)
        limit ${rowsPerStep})`.execute(store.db)
      deleted = Number(numAffectedRows ?? 0)
    }
  }

  async #titled(did: string, hints: readonly Hint[]): Promise<readonly Hint[]> {
    const ids = hints.flatMap(({ data }) =>
      typeof data.sessionId === 'string' ? [data.sessionId] : [],
    )
    const titles =
      ids.length > 0 ? await this.#options.titlesOf?.(did, [...new Set(ids)]) : undefined
    return hints.map(({ event, data }) => {
      const title = titles?.get(String(data.sessionId))
      return { event, data: title === undefined ? data : { ...data, title } }
    })
  }

  async #quietly(work: () => Promise<void>): Promise<void> {
    try {
      await work()
    } catch (err) {
      this.#options.log.warn({ err }, 'Notices could not be looked after; trying again')
    }
  }
}

function listed(row: NoticeRow): ListedNotice {
  const { user: _, ...notice } = toNotice(row)
  const seenAt = row.seen_at === null ? undefined : new Date(Number(row.seen_at)).toISOString()
  return { ...notice, ...(seenAt !== undefined && { seenAt }) }
}
