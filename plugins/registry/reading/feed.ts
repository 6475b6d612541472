import { setTimeout as sleep } from 'node:timers/promises'
import { PostgresAdapter } from 'kysely'
import { prepared } from '#core'
import { everything, type Reader } from '../rights/reader.ts'
import { seenAmong, type Kind } from '../rights/seen-among.ts'
import type { ChangeRow, RegistryDatabase } from '../tables.ts'

/** How soon a change that another replica made is noticed. */
const lookMs = 500
const pageSize = 200

/** One event of the feed, as SSE has it. */
export interface FeedEvent {
  readonly id: string
  readonly event: string
  readonly data: Readonly<Record<string, unknown>>
}

/**
 * The changes in the order of their commits. Every reader asks the table for what comes after the last one it had, so
 * nothing is missed between a read and a wait; `announce` only ends the wait.
 */
export function feed(db: RegistryDatabase) {
  const page = prepared(db, (p: { after: number; limit: number }) =>
    db
      .selectFrom('registry_changes')
      .select(['seq', 'kind', 'did', 'version', 'type', 'action', 'actor', 'at', 'about'])
      .where('seq', '>', p.after)
      .orderBy('seq')
      .limit(p.limit),
  )
  const head = prepared(db, (_: {}) =>
    db.selectFrom('registry_clock').select('seq').where('id', '=', 1),
  )
  // Nobody else writes a SQLite file; other replicas on PostgreSQL are noticed by looking.
  const others = db.getExecutor().adapter instanceof PostgresAdapter
  let next = Promise.withResolvers<void>()
  let following = 0
  let waiting = 0
  let looking = false

  function announce(): void {
    if (following === 0) return
    next.resolve()
    next = Promise.withResolvers()
  }

  /** One look for all who wait, however many they are. */
  async function look(): Promise<void> {
    if (looking) return
    looking = true
    try {
      let seen = await headNow()
      while (waiting > 0) {
        await sleep(lookMs, undefined, { ref: false })
        const now = await headNow().catch(() => seen)
        if (now !== seen) announce()
        seen = now
      }
    } finally {
      looking = false
    }
  }

  const headNow = async () => (await head({})).rows[0]!.seq

  /** Resolves when there may be more, or when the signal fires. */
  async function more(changed: Promise<void>, signal: AbortSignal): Promise<void> {
    const left = Promise.withResolvers<void>()
    const leave = () => left.resolve()
    signal.addEventListener('abort', leave, { once: true })
    waiting++
    // A failed look is no news: the reader's own next read meets the same database.
    if (others) look().catch(announce)
    try {
      await Promise.race([changed, left.promise])
    } finally {
      waiting--
      signal.removeEventListener('abort', leave)
    }
  }

  async function* follow(
    after: number | undefined,
    wanted: (change: FeedRow) => boolean,
    signal: AbortSignal,
    reader: () => Promise<Reader> = async () => everything,
  ): AsyncGenerator<FeedEvent> {
    following++
    try {
      const now = await headNow()
      let seq = after ?? now
      // An id from a database that was put back to an earlier day: say so rather than wait for its future.
      if (seq > now) {
        yield { id: String(now), event: 'reset', data: { lastEventId: String(seq), head: now } }
        seq = now
      }
      while (!signal.aborted) {
        const changed = next.promise
        const { rows } = await page({ after: seq, limit: pageSize })
        const told = await seen(rows.filter(wanted), reader)
        for (const change of told) yield eventOf(change)
        seq = rows.at(-1)?.seq ?? seq
        if (rows.length < pageSize) await more(changed, signal)
      }
    } finally {
      following--
    }
  }

  /** Those of some changes that a reader sees by now: rights come and go while a feed is open. */
  async function seen(changes: readonly FeedRow[], readerNow: () => Promise<Reader>) {
    if (changes.length === 0) return changes
    const reader = await readerNow()
    if (reader.did === undefined) return changes
    const ids = new Map<string, Set<string>>()
    for (const [kind, group] of Map.groupBy(changes, ({ kind }) => kind))
      ids.set(
        kind,
        isKind(kind)
          ? await seenAmong(
              db,
              kind,
              group.map(({ did }) => did),
              reader,
            )
          : new Set(),
      )
    return changes.filter(({ kind, did }) => ids.get(kind)?.has(did))
  }

  return { announce, follow }
}

const isKind = (kind: string): kind is Kind =>
  ['entity', 'protocol', 'claim', 'credential'].includes(kind)

export type FeedRow = Omit<
  ChangeRow,
  'controller' | 'protocol' | 'protocol_version' | 'properties' | 'details'
>

function eventOf({ seq, kind, action, actor, about, ...change }: FeedRow): FeedEvent {
  const data = { ...change, kind, action, by: actor, ...(about !== null && JSON.parse(about)) }
  return { id: String(seq), event: `${kind}.${action}`, data }
}
