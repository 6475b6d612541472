import { PostgresAdapter, sql } from 'kysely'
import type { Database } from '#core'

/** How a person lets the oracle remember: not asked yet, yes, read but not written, or neither. */
export type Mode = 'ask' | 'on' | 'paused' | 'off'

/** A person, or a room whose members share memories. The row is the lock of whoever writes memories of the owner. */
export interface PeopleTable {
  /** The DID, or `room:<room>`. */
  did: string
  /** Null while the person has not chosen. */
  mode: Mode | null
  sensitive: 'ask' | 'never'
  /** Rises with every change, so that what processes keep in memory can be known to be old. */
  version: number
  /** The number of the next memory. */
  next: number
}

/** How often a person wrote in the minute that began at `at`. */
export interface WritesTable {
  did: string
  at: number
  count: number
}

/** What the person said of a session. */
export interface SessionsTable {
  session_id: string
  did: string
  incognito: number
}

/** One memory. Times are milliseconds since 1970. With MEMORY_KEY, `text`, `value` and `about` are sealed. */
export interface MemoriesTable {
  id: string
  did: string
  /** The number that prompts show: `m12`. */
  n: number
  kind: 'fact' | 'preference' | 'event' | 'plan' | 'wish'
  about: string
  slot: string | null
  /** What fills the slot, as two mentions of it are compared. */
  value: string
  text: string
  by: 'asked' | 'noticed' | 'person'
  valid_from: number
  valid_to: number | null
  /** When the person said that it holds no more. */
  denied_at: number | null
  until: number | null
  pinned: number
  uses: number
  confirmed_at: number
  created_at: number
}

/** Where a memory was said. */
export interface SourcesTable {
  memory_id: string
  did: string
  session_id: string
  run_id: string
  /** Sealed with MEMORY_KEY. */
  quote: string
  at: number
}

/**
 * A turn that has yet to be read for memories, sealed with MEMORY_KEY; or that was read: then its words are gone, but for those
 * that stay findable.
 */
export interface PassagesTable {
  run_id: string
  session_id: string
  did: string
  at: number
  words: string
  reply: string
  read_at: number | null
  /** 1 where the words stay, and stand in the index. */
  findable: number
}

/** What a memory means, as numbers: a byte for each place. */
export interface VectorsTable {
  memory_id: string
  did: string
  /** What made the vector: vectors of two models cannot be compared. */
  model: string
  /** Base64, sealed with MEMORY_KEY. */
  vector: string
}

/** What a person erased, as a keyed hash: what was said before does not come back. */
export interface ErasedTable {
  did: string
  hash: string
  at: number
}

/** When a person said that something holds no more, as a keyed hash: a sentence from before, which is read later, has ended too. */
export interface DenialsTable {
  did: string
  hash: string
  at: number
}

/** The memories that a turn was shown. */
export interface UsedTable {
  session_id: string
  request_id: string
  did: string
  run_id: string | null
  ids: string
  at: number
}

/** How often something was refused, or done, on a day; no words. */
export interface CountsTable {
  day: number
  what: string
  count: number
}

/** All tables of memory. A type and no interface, because only a type satisfies Kysely's index signature. */
export type MemoryTables = {
  memory_people: PeopleTable
  memory_writes: WritesTable
  memory_sessions: SessionsTable
  memory_memories: MemoriesTable
  memory_sources: SourcesTable
  memory_passages: PassagesTable
  memory_vectors: VectorsTable
  memory_erased: ErasedTable
  memory_denials: DenialsTable
  memory_used: UsedTable
  memory_counts: CountsTable
  memory_keys: { name: string; value: string }
}

/** The database, with the tables of memory. */
export const withMemoryTables = (db: Database) => db.withTables<MemoryTables>()
/** A connection or a transaction that knows the tables. */
export type MemoryDatabase = ReturnType<typeof withMemoryTables>

const statements = [
  `create table memory_people (did text primary key, mode text, sensitive text not null default 'ask',
    version bigint not null default 0, next bigint not null default 1)`,
  `create table memory_writes (did text primary key, at bigint not null, count bigint not null)`,
  'create index memory_writes_at on memory_writes (at)',
  `create table memory_sessions (session_id text not null, did text not null, incognito integer not null default 0,
    primary key (did, session_id))`,
  `create table memory_memories (id text primary key, did text not null, n bigint not null, kind text not null,
    about text not null, slot text, value text not null, text text not null, "by" text not null,
    valid_from bigint not null, valid_to bigint, denied_at bigint, until bigint, pinned integer not null default 0,
    uses integer not null default 0, confirmed_at bigint not null, created_at bigint not null)`,
  'create unique index memory_memories_of on memory_memories (did, n)',
  `create table memory_sources (memory_id text not null, did text not null, session_id text not null,
    run_id text not null, quote text not null, at bigint not null, primary key (memory_id, run_id))`,
  'create index memory_sources_of on memory_sources (did)',
  'create index memory_sources_in on memory_sources (session_id)',
  `create table memory_passages (run_id text primary key, session_id text not null, did text not null,
    at bigint not null, words text not null, reply text not null, read_at bigint)`,
  'create index memory_passages_in on memory_passages (session_id)',
  'create index memory_passages_of on memory_passages (did)',
  `create table memory_erased (did text not null, hash text not null, at bigint not null, primary key (did, hash))`,
  `create table memory_denied (did text not null, hash text not null, at bigint not null, primary key (did, hash))`,
  `create table memory_used (session_id text not null, request_id text not null, did text not null,
    run_id text, ids text not null, at bigint not null, primary key (session_id, request_id))`,
  'create index memory_used_by on memory_used (run_id)',
  'create index memory_used_at on memory_used (at)',
  `create table memory_counts (day bigint not null, what text not null, count bigint not null, primary key (day, what))`,
  'create table memory_keys (name text primary key, value text not null)',
]

const found = [
  'alter table memory_passages add column findable integer not null default 0',
  'create index memory_passages_when on memory_passages (did, at)',
  `create table memory_vectors (memory_id text primary key, did text not null, model text not null, vector text not null)`,
  'create index memory_vectors_of on memory_vectors (did)',
]
/** Each denial counts: something may be denied, said again, and denied again. */
const everyDenial = [
  `create table memory_denials (did text not null, hash text not null, at bigint not null, primary key (did, hash, at))`,
  'insert into memory_denials (did, hash, at) select did, hash, at from memory_denied',
  'drop table memory_denied',
]
const spokenOnPostgres = [
  'create table memory_spoken (run_id text primary key, terms tsvector not null)',
  'create index memory_spoken_by on memory_spoken using gin (terms)',
]
// With its content: a table without it, and one that does not delete securely, leave the words in the file after a delete.
const spokenOnSqlite = [
  `create virtual table memory_spoken using fts5 (owner, terms, run_id unindexed, tokenize = 'ascii', detail = column)`,
  `insert into memory_spoken (memory_spoken, rank) values ('secure-delete', 1)`,
]

/** The same as a plain table, where SQLite has no FTS5: before Node 22.16. */
const spokenWithoutIndex = [
  'create table memory_spoken (owner text not null, terms text not null, run_id text not null)',
  'create index memory_spoken_of on memory_spoken (owner)',
]

async function spokenOf(db: Database): Promise<readonly string[]> {
  if (db.getExecutor().adapter instanceof PostgresAdapter) return spokenOnPostgres
  const fts5 = await sql`select 1 from pragma_module_list where name = 'fts5'`.execute(db)
  return fts5.rows.length > 0 ? spokenOnSqlite : spokenWithoutIndex
}

/** The tables of memory. A migration stays as it was first released: databases have run it. */
export const migrations = {
  '001-memories': async (db: Database) => {
    // As text: what is written here is the same on both databases.
    for (const statement of statements) await sql.raw(statement).execute(db)
  },
  '002-passages': async (db: Database) => {
    for (const statement of [...found, ...(await spokenOf(db))])
      await sql.raw(statement).execute(db)
  },
  '003-denials': async (db: Database) => {
    for (const statement of everyDenial) await sql.raw(statement).execute(db)
  },
}
