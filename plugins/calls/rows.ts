import { PostgresAdapter, type RawBuilder, sql } from 'kysely'
import { type Database, type Log, RuntimeError } from '#core'
import { type CallsDatabase, type CallsTable, type EndedBy, withCallsTables } from './tables.ts'
import type { Heard } from './talking/speaker.ts'

/** How long a process says that it lives, and how long an offer waits for its page. */
export const times = { leaseMs: 6_000, pendingMs: 20_000 }
/** How many calls are listed. */
const mostListed = 20
/** How long the row of a call that is over is kept. */
const keptDays = 90
export const dayMs = 86_400_000
/** No call that began earlier than so long before a day reaches into it: CALLS_MINUTES is at most a day. */
const longestMs = dayMs + 60_000

/** A call that begins. */
export interface NewCall {
  readonly id: string
  readonly did: string
  readonly sessionId: string
  readonly type: 'audio' | 'video'
  readonly consent: string | null
}

/** What has happened in a call so far. */
export interface Course {
  readonly heard: Heard | undefined
  readonly utterances: number
  readonly interruptions: number
}

/** What the rows of calls need. */
export interface RowsOptions {
  readonly db: Database
  readonly log: Log
  readonly owner: string
  readonly minutesPerDay: number
  now(): Date
}

/**
 * When the process of a call last said that it lives. One of an older version says so by its lease alone, while versions are exchanged.
 */
const lastSeen = sql<number>`case when seen_at >= created_at then seen_at else lease_until - ${sql.lit(times.leaseMs)} end`

/** The rows of calls: of this process and of all others. */
export class CallRows {
  readonly db: CallsDatabase
  readonly #log: Log
  readonly #owner: string
  readonly #minutesPerDay: number
  readonly #now: () => number
  /** The database's clock: the clocks of processes differ, and a lease is made and judged by this one. */
  readonly #leaseNow: RawBuilder<number>

  constructor({ db, log, owner, minutesPerDay, now }: RowsOptions) {
    this.db = withCallsTables(db)
    this.#log = log
    this.#owner = owner
    this.#minutesPerDay = minutesPerDay
    this.#now = () => now().getTime()
    this.#leaseNow =
      db.getExecutor().adapter instanceof PostgresAdapter
        ? sql<number>`(extract(epoch from clock_timestamp()) * 1000)::bigint`
        : sql<number>`cast(unixepoch('subsec') * 1000 as integer)`
  }

  /** A call of the user, or `NOT_FOUND`. */
  async own(did: string, id: string): Promise<CallsTable> {
    const row = await this.db
      .selectFrom('calls_calls')
      .selectAll()
      .where('id', '=', id)
      .where('did', '=', did)
      .executeTakeFirst()
    if (row) return numbers(row)
    throw new RuntimeError('NOT_FOUND', 'There is no such call of yours.')
  }

  /** The newest call of the session of another one, where it came after that one and its page never was there. */
  async neverBegun({
    id,
    did,
    session_id,
    created_at,
  }: CallsTable): Promise<CallsTable | undefined> {
    const newest = await this.db
      .selectFrom('calls_calls')
      .selectAll()
      .where('did', '=', did)
      .where('session_id', '=', session_id)
      .where('id', '!=', id)
      .where('created_at', '>=', created_at)
      .orderBy('created_at', 'desc')
      .limit(1)
      .executeTakeFirst()
    return newest && newest.started_at === null ? numbers(newest) : undefined
  }

  /** The calls of a user that are under way. */
  async underWay(did: string): Promise<CallsTable[]> {
    const rows = await this.db
      .selectFrom('calls_calls')
      .selectAll()
      .where('did', '=', did)
      .where('state', '!=', 'ended')
      .where('lease_until', '>', this.#leaseNow)
      .orderBy('created_at', 'desc')
      .limit(mostListed)
      .execute()
    return rows.map(numbers)
  }

  /** The minutes that a user may still call today. */
  async minutesLeft(did: string): Promise<number> {
    const at = this.#now()
    const today = at - (at % dayMs)
    const rows = await this.db
      .selectFrom('calls_calls')
      .select(['started_at', 'ended_at', lastSeen.as('seen_at')])
      .select((eb) => eb('lease_until', '>', this.#leaseNow).as('is_live'))
      .where('did', '=', did)
      .where('created_at', '>=', today - longestMs)
      .where('started_at', 'is not', null)
      .execute()
    // Of a call that went over midnight, the minutes after it are those of today.
    const ms = rows.map(({ started_at, ended_at, seen_at, is_live }) =>
      Math.max(
        0,
        Number(ended_at ?? (is_live ? at : seen_at)) - Math.max(today, Number(started_at)),
      ),
    )
    const spent = ms.reduce((sum, one) => sum + one, 0) / 60_000
    return Math.max(0, this.#minutesPerDay - spent)
  }

  /** How long a call may last that begins now, with so many minutes left of today: over midnight it has those of tomorrow. */
  lastingMs(minutesLeft: number): number {
    const untilMidnight = dayMs - (this.#now() % dayMs)
    const leftMs = minutesLeft * 60_000
    return leftMs < untilMidnight ? leftMs : untilMidnight + this.#minutesPerDay * 60_000
  }

  /**
   * Gives a call that waits for its page one of the places of its user, with what it takes over from the one that it replaces.
   * Undefined where none is free, or where the session has a call. The database decides, so that of all replicas one gives it.
   */
  async take(
    { id, did, sessionId, type, consent }: NewCall,
    before: CallsTable | undefined,
    places: number,
  ): Promise<CallsTable | undefined> {
    await this.#closeLapsed(did)
    const at = this.#now()
    const row = {
      ...{ id, did, session_id: sessionId },
      ...{ type, consent },
      state: 'pending' as const,
      owner: this.#owner,
      lease_until: this.#leaseFor(times.pendingMs + times.leaseMs),
      seen_at: at,
      created_at: at,
      started_at: null,
      ended_at: null,
      ended_by: null,
      seconds_before: before ? before.seconds_before + secondsOf(before, at) : 0,
      minutes_charged: before?.minutes_charged ?? 0,
      utterances: 0,
      interruptions: 0,
      spoken_run: before?.spoken_run ?? null,
      spoken_chars: before?.spoken_chars ?? 0,
    }
    for (let slot = 1; slot <= places; slot++) {
      const placed = await this.db
        .insertInto('calls_calls')
        .values({ ...row, slot })
        .onConflict((conflict) => conflict.doNothing())
        .returningAll()
        .executeTakeFirst()
      if (placed) return numbers(placed)
    }
    return undefined
  }

  /** The page is there. */
  async begin(id: string): Promise<void> {
    await this.db
      .updateTable('calls_calls')
      .set({ state: 'active', started_at: this.#now(), seen_at: this.#now() })
      .where('id', '=', id)
      .where('state', '=', 'pending')
      .execute()
  }

  /** The minutes of a call, and of those that it replaces, that nobody has charged yet. They count as charged from now on. */
  async chargeMinutes(did: string, id: string): Promise<number> {
    const row = await this.own(did, id)
    const seconds = row.seconds_before + secondsOf(row, this.#now())
    // A minute that has begun is one, also in its first half second.
    const minutes = Math.max(1, Math.ceil(seconds / 60))
    if (minutes <= row.minutes_charged) return 0
    const charged = await this.db
      .updateTable('calls_calls')
      .set({ minutes_charged: minutes })
      .where('id', '=', id)
      .where('minutes_charged', '=', row.minutes_charged)
      .returning('id')
      .executeTakeFirst()
    return charged ? minutes - row.minutes_charged : 0
  }

  /** The call is over, and has been silent for so long. The first word on why counts. */
  async close(id: string, by: EndedBy, silentMs = 0): Promise<void> {
    await this.db
      .updateTable('calls_calls')
      .set({ state: 'ended', ended_by: by, ended_at: this.#now() - silentMs })
      .where('id', '=', id)
      .where('state', '!=', 'ended')
      .execute()
      .catch((error: unknown) =>
        this.#log.warn({ err: error }, 'The end of a call could not be kept'),
      )
  }

  /** How far a call was heard, and what happened in it. */
  async keep(id: string, { heard, utterances, interruptions }: Course): Promise<void> {
    await this.db
      .updateTable('calls_calls')
      .set({
        ...{ utterances, interruptions },
        ...(heard && { spoken_run: heard.runId, spoken_chars: heard.chars }),
      })
      .where('id', '=', id)
      .execute()
  }

  /** Says that this process carries these calls, and answers which of them were ended elsewhere. */
  async beat(ids: readonly string[]): Promise<Pick<CallsTable, 'id' | 'ended_by'>[]> {
    await this.db
      .updateTable('calls_calls')
      .set({ lease_until: this.#leaseFor(times.leaseMs), seen_at: this.#now() })
      .where('id', 'in', ids)
      .where('state', '=', 'active')
      .execute()
    return this.db
      .selectFrom('calls_calls')
      .select(['id', 'ended_by'])
      .where('id', 'in', ids)
      .where('state', '=', 'ended')
      .execute()
  }

  /** Ends what a process left that is gone. Any replica may. */
  async sweep(): Promise<void> {
    const at = this.#now()
    await this.#closeLapsed()
    await this.db
      .deleteFrom('calls_calls')
      .where('created_at', '<', at - keptDays * dayMs)
      .where('state', '=', 'ended')
      .execute()
  }

  /** A lease of so long from now on. */
  #leaseFor(ms: number): RawBuilder<number> {
    return sql<number>`${this.#leaseNow} + ${sql.lit(ms)}`
  }

  /** Ends the calls, of everybody or of one user, whose process has not said for too long that it lives. */
  async #closeLapsed(did?: string): Promise<void> {
    const lapsed = this.db
      .updateTable('calls_calls')
      // Its process was there last when it took the lease.
      .set({ state: 'ended', ended_by: 'lost', ended_at: lastSeen })
      .where('state', '!=', 'ended')
      .where('lease_until', '<', this.#leaseNow)
    await (did === undefined ? lapsed : lapsed.where('did', '=', did)).execute()
  }
}

/** How long a call lasted, or has lasted. */
export const secondsOf = ({ started_at, ended_at }: CallsTable, now: number): number =>
  started_at === null
    ? 0
    : Math.max(0, Math.round((Math.min(ended_at ?? now, now) - started_at) / 1_000))

/** A row whose numbers are numbers: PostgreSQL hands out large ones as text. */
export const numbers = (row: CallsTable): CallsTable => ({
  ...row,
  lease_until: Number(row.lease_until),
  seen_at: Number(row.seen_at),
  created_at: Number(row.created_at),
  started_at: row.started_at === null ? null : Number(row.started_at),
  ended_at: row.ended_at === null ? null : Number(row.ended_at),
})

/** A call, as its user sees it. */
export const callView = (row: CallsTable, now: Date) => ({
  callId: row.id,
  sessionId: row.session_id,
  callType: row.type,
  callStatus: row.state,
  callStartedAt: new Date(row.started_at ?? row.created_at).toISOString(),
  ...(row.ended_at !== null && { callEndedAt: new Date(row.ended_at).toISOString() }),
  seconds: secondsOf(row, now.getTime()),
  ...(row.ended_by && { endedBy: row.ended_by }),
})
