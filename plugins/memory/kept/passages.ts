import { hash } from 'node:crypto'
import { PostgresAdapter, sql } from 'kysely'
import { prepared } from '#core'
import type { MemoryDatabase } from '../tables.ts'
import { contentWords } from '../words/text.ts'

/** Something that a person said in a conversation, as it is found again. */
export interface Passage {
  readonly runId: string
  readonly sessionId: string
  readonly at: number
  readonly words: string
}

/** What is looked for: words, and the time between which it was said. */
export interface Sought {
  readonly question?: string | undefined
  readonly from: number
  readonly to: number
}

/** How many words of a question are looked for. */
const mostAsked = 16
/** How many passages are read to choose from: the newest that have one of the words. */
const mostRead = 500
/** How many passages one look at the index takes away. */
const mostErased = 500

const hashed = (sort: string, text: string) => sort + hash('sha1', text, 'hex').slice(0, 20)

/**
 * Words as they stand in the index: hashes, which no tokenizer cuts and no syntax of a query reads. Both databases hold the
 * same words, stemmed and without accents by code of our own, so both find the same.
 */
const termsOf = (text: string): string[] => [
  ...new Set(contentWords(text).map((word) => hashed('w', word))),
]

/** What was said in conversations, findable by its words. No text of a person meets a query: terms do. */
export class Passages {
  readonly isPostgres: boolean
  readonly #add
  #isIndexed: boolean | undefined

  constructor(db: MemoryDatabase) {
    this.isPostgres = db.getExecutor().adapter instanceof PostgresAdapter
    this.#add = addStatement(db, this.isPostgres)
  }

  /** Makes a turn findable, by the words of the person and of the reply. */
  async add(trx: MemoryDatabase, did: string, runId: string, text: string): Promise<void> {
    const [owner, run] = [hashed('o', did), hashed('r', runId)]
    const terms = termsOf(text)
    // All hashes: none of them has a sign that an array of PostgreSQL, or a list of words, would read.
    await this.#add(
      this.isPostgres
        ? { run: runId, owner: '', terms: `{${[owner, run, ...terms].join(',')}}` }
        : { run: runId, owner: `${owner} ${run}`, terms: terms.join(' ') },
      trx,
    )
  }

  /** The passages of a person that share a word with a question, the best first; without a question the newest. */
  async find(db: MemoryDatabase, did: string, { question, from, to }: Sought): Promise<Passage[]> {
    const asked = question === undefined ? [] : termsOf(question).slice(0, mostAsked)
    if (question !== undefined && asked.length === 0) return []
    let read = db
      .selectFrom('memory_passages')
      .select(['run_id', 'session_id', 'at', 'words'])
      .where('did', '=', did)
      .where('findable', '=', 1)
      .where('at', '>=', from)
      .where('at', '<', to)
      .orderBy('at', 'desc')
      .limit(mostRead)
    if (asked.length > 0) {
      const runs = await this.#runsWith(db, did, asked, 'or')
      if (runs.length === 0) return []
      read = read.where('run_id', 'in', runs)
    }
    const rows = await read.execute()
    const found = rows.map(({ run_id, session_id, at, words }) => ({
      runId: run_id,
      sessionId: session_id,
      at: Number(at),
      words,
    }))
    return asked.length > 0 ? ranked(found, asked) : found
  }

  /** The turns of a person in which all words of a text were said. */
  async with(db: MemoryDatabase, did: string, text: string): Promise<string[]> {
    const terms = termsOf(text).slice(0, mostAsked)
    return terms.length > 0 ? this.#runsWith(db, did, terms, 'and') : []
  }

  /** Takes turns out of the index. */
  async drop(trx: MemoryDatabase, runIds: readonly string[]): Promise<void> {
    for (let at = 0; at < runIds.length; at += mostErased) {
      const part = runIds.slice(at, at + mostErased)
      if (this.isPostgres)
        await sql`delete from memory_spoken where run_id in (${sql.join(part)})`.execute(trx)
      else {
        const named = part.map((runId) => hashed('r', runId)).join(' OR ')
        await (
          (await this.#hasIndex(trx))
            ? sql`delete from memory_spoken where rowid in
              (select rowid from memory_spoken where memory_spoken match ${`owner:(${named})`})`
            : sql`delete from memory_spoken where run_id in (${sql.join(part)})`
        ).execute(trx)
      }
    }
  }

  /** Takes everything of a person out of the index. */
  async dropAll(trx: MemoryDatabase, did: string): Promise<void> {
    const owner = hashed('o', did)
    if (this.isPostgres)
      await sql`delete from memory_spoken where terms @@ ${`'${owner}'`}::tsquery`.execute(trx)
    else
      await (
        (await this.#hasIndex(trx))
          ? sql`delete from memory_spoken where rowid in
            (select rowid from memory_spoken where memory_spoken match ${`owner:${owner}`})`
          : sql`delete from memory_spoken where owner glob ${`${owner} *`}`
      ).execute(trx)
  }

  /** Whether SQLite indexes the words: not in a database that a Node before 22.16 has made, which has no FTS5. */
  async #hasIndex(db: MemoryDatabase): Promise<boolean> {
    const asked = sql`select 1 from sqlite_schema
      where name = 'memory_spoken' and sql like '%using fts5%'`
    this.#isIndexed ??= (await asked.execute(db)).rows.length > 0
    return this.#isIndexed
  }

  async #runsWith(
    db: MemoryDatabase,
    did: string,
    terms: readonly string[],
    by: 'and' | 'or',
  ): Promise<string[]> {
    const owner = hashed('o', did)
    const query = this.isPostgres
      ? sql`select spoken.run_id from memory_spoken as spoken
          join memory_passages as passage on passage.run_id = spoken.run_id
          where spoken.terms @@ ${`'${owner}' & (${terms.map((term) => `'${term}'`).join(by === 'and' ? ' & ' : ' | ')})`}::tsquery
          order by passage.at desc limit ${mostRead}`
      : !(await this.#hasIndex(db))
        ? withoutIndex(owner, terms, by)
        : sql`select run_id from memory_spoken
          where memory_spoken match ${`owner:${owner} AND terms:(${terms.join(` ${by.toUpperCase()} `)})`}
          order by rowid desc limit ${mostRead}`
    const { rows } = await query.execute(db)
    return (rows as readonly { run_id: string }[]).map(({ run_id }) => run_id)
  }
}

/** The question to a SQLite without FTS5: whether a list has one of the words, or all. */
const withoutIndex = (owner: string, terms: readonly string[], by: 'and' | 'or') =>
  sql`select run_id from memory_spoken where owner glob ${`${owner} *`}
    and (${sql.join(
      terms.map((term) => sql`instr(terms, ${term}) > 0`),
      by === 'and' ? sql` and ` : sql` or `,
    )}) order by rowid desc limit ${mostRead}`

/** Passages by how many of the asked words they have, a rare one counting more, then the newest first. */
function ranked(found: readonly Passage[], asked: readonly string[]): Passage[] {
  const read = found.map((passage) => ({ passage, terms: new Set(termsOf(passage.words)) }))
  const rarity = new Map(
    asked.map((term) => {
      const having = read.filter(({ terms }) => terms.has(term)).length
      return [term, Math.log(1 + read.length / Math.max(1, having))]
    }),
  )
  return read
    .map(({ passage, terms }) => ({
      passage,
      score: asked.reduce((sum, term) => sum + (terms.has(term) ? (rarity.get(term) ?? 0) : 0), 0),
    }))
    .sort((one, other) => other.score - one.score || other.passage.at - one.passage.at)
    .map(({ passage }) => passage)
}

/** Every turn with memory on sends it, so it is made once. */
const addStatement = (db: MemoryDatabase, isPostgres: boolean) =>
  prepared(db, (p: { run: string; owner: string; terms: string }) => ({
    compile: () =>
      (isPostgres
        ? sql`insert into memory_spoken (run_id, terms)
            values (${p.run}, array_to_tsvector(${p.terms}::text[])) on conflict (run_id) do nothing`
        : sql`insert into memory_spoken (owner, terms, run_id)
            values (${p.owner}, ${p.terms}, ${p.run})`
      ).compile(db),
  }))
