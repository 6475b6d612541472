import { type RawBuilder, sql } from 'kysely'
import { messageOf, positionOf } from '../journal/steps.ts'
import type { RunDatabase } from '../journal/tables.ts'
import { takeSession } from '../journal/take-session.ts'
import { isIndexed, isPostgres } from '../search/tables.ts'
import {
  askPostgres,
  askSqlite,
  hasAll,
  indexed,
  likeSqlite,
  type Snippet,
  snippetOf,
  wishedWords,
} from '../search/words.ts'
import type { ListWish } from './page.ts'
import type { Sessions } from './sessions.ts'

/** A message that has the words that somebody looks for. */
export interface Hit extends Snippet {
  readonly messageId: string
}

/** How many rows of the journal are read at once, and for how long a question reads what nobody has read before. */
const rowsPerStep = 100
const mostMs = 5_000
/** Of how many sessions the titles are looked through, the newest first, and how many hits of one session are told. */
const mostTitles = 5_000
const mostHits = 3
const spoken = ['user', 'assistant'] as const

/** Whether something was said in `session` behind its `mark`. */
const isUnread = sql`exists (select 1 from kernel_steps as step
  where step.session_id = session.id and step.position > coalesce(mark.position, -1)
  and step.kind in ('user', 'assistant'))`

/**
 * Finds conversations by their titles and by what people and the oracle said in them. Whoever searches first reads what was
 * said since the last time into the index, so that a turn pays nothing for it.
 */
export class Search {
  readonly #db: RunDatabase
  readonly #isPostgres: boolean
  #isIndexed: boolean | undefined
  readonly #reading = new Map<string, Promise<boolean>>()

  constructor(db: RunDatabase) {
    this.#db = db
    this.#isPostgres = isPostgres(db)
  }

  /** A page of the user's sessions that have all words of `q`, each with up to three messages. */
  async list(sessions: Sessions, did: string, wish: ListWish & { readonly q: string }) {
    const wanted = wishedWords(wish.q)
    if (wanted.length === 0) return { sessions: [], total: 0, nextCursor: null, isComplete: true }
    const isComplete = await this.#readOnce(did)
    const titled = await this.#titled(did, wanted)
    const named = titled.length === 0 ? sql`` : sql`or kernel_sessions.id in (${sql.join(titled)})`
    const only: RawBuilder<boolean> = sql`(kernel_sessions.id in
      (select session_id from kernel_search where ${await this.#has(did, wanted)}) ${named})`
    const page = await sessions.list(did, { ...wish, only })
    const ids = page.sessions.map(({ sessionId }) => sessionId)
    const hits = await this.#hits(did, ids, wanted)
    const found = page.sessions.flatMap((session) => {
      const own = hits.get(session.sessionId) ?? []
      // What was taken back a moment ago may still be in the index; the journal has it no more.
      if (own.length === 0 && !titled.includes(session.sessionId)) return []
      return [{ ...session, hits: own }]
    })
    return { ...page, sessions: found, isComplete }
  }

  /** Reads what the index lacks of so many sessions behind `after`, by their ids. */
  async readSome(after: string, sessions: number): Promise<{ count: number; last: string }> {
    const { rows } = await sql<{ id: string; did: string; unread: number }>`
      select session.id, session.did, case when ${isUnread} then 1 else 0 end as unread
      from kernel_sessions as session
      left join kernel_search_marks as mark on mark.session_id = session.id
      where session.id > ${after} order by session.id limit ${sql.lit(sessions)}`.execute(this.#db)
    for (const { id, did, unread } of rows)
      if (unread === 1) while (await this.#readStep(did, id)) await pause()
    return { count: rows.length, last: rows.at(-1)?.id ?? after }
  }

  /** The condition on rows of the index. */
  async #has(did: string, wanted: readonly string[]): Promise<RawBuilder<boolean>> {
    if (this.#isPostgres) return sql`did = ${did} and words @@ ${askPostgres(did, wanted)}::tsquery`
    this.#isIndexed ??= await isIndexed(this.#db)
    if (!this.#isIndexed) {
      const fits = likeSqlite(did, wanted).map((pattern) => sql`' ' || words like ${pattern}`)
      return sql`did = ${did} and ${sql.join(fits, sql` and `)}`
    }
    return sql`did = ${did} and id in (select rowid from kernel_search_words
          where kernel_search_words match ${askSqlite(did, wanted)})`
  }

  async #titled(did: string, wanted: readonly string[]): Promise<string[]> {
    const rows = await this.#db
      .selectFrom('kernel_sessions')
      .select(['id', 'title'])
      .where('did', '=', did)
      .where('title', 'is not', null)
      .orderBy('updated_at', 'desc')
      .limit(mostTitles)
      .execute()
    const own = rows.filter(({ title }) => title !== null && hasAll(title, wanted))
    return own.map(({ id }) => id).slice(0, 500)
  }

  /** The newest messages of these sessions that have the words, as the journal has them now. */
  async #hits(did: string, ids: readonly string[], wanted: readonly string[]) {
    const found = new Map<string, Hit[]>()
    if (ids.length === 0) return found
    const { rows } = await sql<{ session_id: string; body: string }>`
      select step.session_id, step.body from (
        select session_id, position, row_number() over
          (partition by session_id order by position desc) as place
        from kernel_search where ${await this.#has(did, wanted)} and session_id in (${sql.join(ids)})
      ) as hit join kernel_steps as step
        on step.session_id = hit.session_id and step.position = hit.position
      where hit.place <= ${sql.lit(mostHits * 2)} and step.kind in ('user', 'assistant')
      order by step.session_id, step.position desc`.execute(this.#db)
    for (const { session_id, body } of rows) {
      const { content, ...message } = messageOf({ body })
      const own = found.get(session_id) ?? []
      if (own.length === mostHits || !('id' in message) || !hasAll(content, wanted)) continue
      found.set(session_id, [...own, { messageId: message.id, ...snippetOf(content, wanted) }])
    }
    return found
  }

  /** Reads what the user's index lacks; questions at the same time wait for one reading. False where it took too long. */
  #readOnce(did: string): Promise<boolean> {
    const underway = this.#reading.get(did)
    if (underway) return underway
    const reading = this.#read(did).finally(() => this.#reading.delete(did))
    this.#reading.set(did, reading)
    return reading
  }

  async #read(did: string): Promise<boolean> {
    const since = performance.now()
    for (const id of await this.#unread(did))
      while (await this.#readStep(did, id)) {
        if (performance.now() - since > mostMs) return false
        await pause()
      }
    return true
  }

  /** The user's sessions of which something was said behind their marks. */
  async #unread(did: string): Promise<string[]> {
    const { rows } = await sql<{ id: string }>`select session.id from kernel_sessions as session
      left join kernel_search_marks as mark on mark.session_id = session.id
      where session.did = ${did} and ${isUnread} order by session.updated_at desc`.execute(this.#db)
    return rows.map(({ id }) => id)
  }

  /** Reads the next rows of a session into the index, and moves its mark. False behind the last. */
  #readStep(did: string, id: string): Promise<boolean> {
    return this.#db.transaction().execute(async (trx) => {
      // Holding the session's row keeps a deletion and words that are taken back apart from this reading.
      if (!(await takeSession(trx, id, did))) return false
      const mark = await sql<{ position: number }>`select position from kernel_search_marks
        where session_id = ${id}`.execute(trx)
      const from = Number(mark.rows[0]?.position ?? -1)
      const rows = await trx
        .selectFrom('kernel_steps')
        .select(['position', 'body'])
        .where('session_id', '=', id)
        .where('kind', 'in', spoken)
        .where('position', '>', from)
        .orderBy('position')
        .limit(rowsPerStep)
        .execute()
      await this.#write(trx, did, id, rows)
      const last = rows.at(-1)
      if (!last) return false
      const end = Math.min(last.position, await this.#settledUpTo(trx, id))
      if (end <= from) return false
      await sql`insert into kernel_search_marks (session_id, position) values (${id}, ${end})
        on conflict (session_id) do update set position = excluded.position`.execute(trx)
      return rows.length === rowsPerStep && end === last.position
    })
  }

  /** The position up to which no run writes any more. */
  async #settledUpTo(trx: RunDatabase, sessionId: string): Promise<number> {
    const open = await trx
      .selectFrom('kernel_runs')
      .select((eb) => eb.fn.min('turn').as('turn'))
      .where('session_id', '=', sessionId)
      .where(sql<boolean>`status in ('queued', 'running')`)
      .executeTakeFirst()
    return open?.turn == null ? Infinity : positionOf(Number(open.turn), 0) - 1
  }

  async #write(
    trx: RunDatabase,
    did: string,
    id: string,
    rows: readonly { readonly position: number; readonly body: string }[],
  ): Promise<void> {
    const values = rows.flatMap(({ position, body }) => {
      const words = indexed(did, messageOf({ body }).content)
      if (words === '') return []
      const kept = this.#isPostgres
        ? sql`array_to_tsvector(string_to_array(${words}, ' '))`
        : sql`${words}`
      return [sql`(${id}, ${position}, ${did}, ${kept})`]
    })
    if (values.length === 0) return
    await sql`insert into kernel_search (session_id, position, did, words)
      values ${sql.join(values)} on conflict (session_id, position) do nothing`.execute(trx)
  }
}

const pause = () => new Promise((resolve) => setImmediate(resolve))
