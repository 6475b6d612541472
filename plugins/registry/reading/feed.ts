import { setTimeout as sleep } from 'node:timers/promises'
import { PostgresAdapter } from 'kysely'
import { prepared } from '#core'
import { everything, type Reader } from '../rights/reader.ts'
import { seenAmong, type Kind } from '../rights/seen-among.ts'
import type { ChangeRow, RegistryDatabase } from '../tables.ts'

/** How often the feed looks for changes that other replicas made. */
const lookMs = 500
const pageSize = 200

/** One event of the feed, as SSE has it. */
export interface FeedEvent {
  readonly id: string
  readonly event: string
  readonly data: Readonly<Record<string, unknown>>
}

/**
 * The changes in the order of their commits. Every reader asks the table for the changes after the last one that the
 * reader has had, so no change is lost between a read and a wait; `announce` only ends the wait.
 */
export class Feed {
  readonly #db: RegistryDatabase
  /** Whether other replicas may write to the database: only to PostgreSQL, where the feed has to look for their changes. */
  readonly #hasReplicas: boolean
  readonly #page
  readonly #head
  #next = Promise.withResolvers<void>()
  #following = 0
  #waiting = 0
  #isLooking = false

  constructor(db: RegistryDatabase) {
    this.#db = db
    this.#hasReplicas = db.getExecutor().adapter instanceof PostgresAdapter
    this.#page = prepared(db, (p: { after: number; limit: number }) =>
      db
        .selectFrom('registry_changes')
        .select(['seq', 'kind', 'did', 'version', 'type', 'action', 'actor', 'at', 'about'])
        .where('seq', '>', p.after)
        .orderBy('seq')
        .limit(p.limit),
    )
    this.#head = prepared(db, (_: {}) =>
      db.selectFrom('registry_clock').select('seq').where('id', '=', 1),
    )
  }

  /** Ends the wait of every reader, after this server has committed a transaction. */
  announce(): void {
    if (this.#following === 0) return
    this.#next.resolve()
    this.#next = Promise.withResolvers()
  }

  /** Looks for new changes every `lookMs` while any reader waits; one loop serves all readers. */
  async #look(): Promise<void> {
    if (this.#isLooking) return
    this.#isLooking = true
    try {
      let seen = await this.#headNow()
      while (this.#waiting > 0) {
        await sleep(lookMs, undefined, { ref: false })
        const now = await this.#headNow().catch(() => seen)
        if (now !== seen) this.announce()
        seen = now
      }
    } finally {
      this.#isLooking = false
    }
  }

  async #headNow(): Promise<number> {
    return (await this.#head({})).rows[0]!.seq
  }

  /** Resolves when there may be more changes, or when the signal fires. */
  async #more(changed: Promise<void>, signal: AbortSignal): Promise<void> {
    const left = Promise.withResolvers<void>()
    const leave = () => left.resolve()
    signal.addEventListener('abort', leave, { once: true })
    this.#waiting++
    // A failed look ends the wait, so that the reader's own next read meets the database's error.
    if (this.#hasReplicas) this.#look().catch(() => this.announce())
    try {
      await Promise.race([changed, left.promise])
    } finally {
      this.#waiting--
      signal.removeEventListener('abort', leave)
    }
  }

  /** Yields the wanted changes after a sequence number, or from now on, until the signal fires. */
  async *follow(
    after: number | undefined,
    wanted: (change: FeedRow) => boolean,
    signal: AbortSignal,
    reader: () => Promise<Reader> = async () => everything,
  ): AsyncGenerator<FeedEvent> {
    this.#following++
    try {
      const now = await this.#headNow()
      let seq = after ?? now
      // The id is from before the database was restored from an older backup: `reset` says so, and the feed goes on from the head.
      if (seq > now) {
        yield { id: String(now), event: 'reset', data: { lastEventId: String(seq), head: now } }
        seq = now
      }
      while (!signal.aborted) {
        const changed = this.#next.promise
        const { rows } = await this.#page({ after: seq, limit: pageSize })
        const told = await this.#seen(rows.filter(wanted), reader)
        for (const change of told) yield eventOf(change)
        seq = rows.at(-1)?.seq ?? seq
        if (rows.length < pageSize) await this.#more(changed, signal)
      }
    } finally {
      this.#following--
    }
  }

  /** The changes that the reader sees at this moment, because rights may change while a feed is open. */
  async #seen(changes: readonly FeedRow[], readerNow: () => Promise<Reader>) {
    if (changes.length === 0) return changes
    const reader = await readerNow()
    if (reader.did === undefined) return changes
    const ids = new Map<string, Set<string>>()
    for (const [kind, group] of Map.groupBy(changes, ({ kind }) => kind))
      ids.set(
        kind,
        isKind(kind)
          ? await seenAmong(
              this.#db,
              kind,
              group.map(({ did }) => did),
              reader,
            )
          : new Set(),
      )
    return changes.filter(({ kind, did }) => ids.get(kind)?.has(did))
  }
}

const isKind = (kind: string): kind is Kind =>
  ['entity', 'protocol', 'claim', 'credential'].includes(kind)

/** The columns of a change that the feed reads. */
export type FeedRow = Omit<
  ChangeRow,
  'controller' | 'protocol' | 'protocol_version' | 'properties' | 'details'
>

function eventOf({ seq, kind, action, actor, about, ...change }: FeedRow): FeedEvent {
  const data = { ...change, kind, action, by: actor, ...(about !== null && JSON.parse(about)) }
  return { id: String(seq), event: `${kind}.${action}`, data }
}
