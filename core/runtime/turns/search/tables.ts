import { type Kysely, PostgresAdapter, sql } from 'kysely'
import type { Migration } from '../../../plugin.ts'

type Connection = Pick<Kysely<unknown>, 'getExecutor'>

/** Which database it is, by its connection. */
export const isPostgres = (db: Connection): boolean =>
  db.getExecutor().adapter instanceof PostgresAdapter

const onPostgres = [
  `create table kernel_search (
    id bigint generated always as identity primary key, session_id text not null,
    position bigint not null, did text not null, words tsvector not null)`,
  'create index kernel_search_words on kernel_search using gin (words)',
]

const onSqlite = [
  `create table kernel_search (
    id integer primary key, session_id text not null,
    position bigint not null, did text not null, words text not null)`,
]

// This table keeps the words by themselves, and `secure-delete` leaves none of them in the file behind.
const indexOnSqlite = [
  `create virtual table kernel_search_words using fts5 (
    words, content = 'kernel_search', content_rowid = 'id', columnsize = 0,
    tokenize = 'unicode61 remove_diacritics 0')`,
  `insert into kernel_search_words (kernel_search_words, rank) values ('secure-delete', 1)`,
  `create trigger kernel_search_added after insert on kernel_search begin
    insert into kernel_search_words (rowid, words) values (new.id, new.words); end`,
  `create trigger kernel_search_gone after delete on kernel_search begin
    insert into kernel_search_words (kernel_search_words, rowid, words)
      values ('delete', old.id, old.words); end`,
]

const onBoth = [
  'create unique index kernel_search_by_session on kernel_search (session_id, position)',
  `create table kernel_search_marks (
    session_id text not null primary key, position bigint not null)`,
]

/** Whether SQLite has its index for words, FTS5, which `node:sqlite` brings since Node 22.16. */
const hasIndex = async (db: Connection): Promise<boolean> =>
  (await sql`select 1 from pragma_module_list where name = 'fts5'`.execute(db)).rows.length > 0

/** Whether the words are indexed; false in a SQLite database that a Node before 22.16 has made. */
export async function isIndexed(db: Connection): Promise<boolean> {
  if (isPostgres(db)) return true
  const asked = sql`select 1 from sqlite_schema where name = 'kernel_search_words'`
  return (await asked.execute(db)).rows.length > 0
}

/**
 * Keeps the words of what was said where they are found. The rows of a session are filled by whoever searches, up to the
 * position of its mark, and go with the session.
 */
export const searchMigration: Migration = async (db) => {
  const own = isPostgres(db)
    ? onPostgres
    : [...onSqlite, ...((await hasIndex(db)) ? indexOnSqlite : [])]
  for (const statement of [...own, ...onBoth]) await sql.raw(statement).execute(db)
}

/** Forgets the words of a session: it is gone, or some of its words were taken back and the others are read again. */
export async function forgetWords(
  trx: Parameters<ReturnType<typeof sql>['execute']>[0],
  sessionId: string,
): Promise<void> {
  await sql`delete from kernel_search where session_id = ${sessionId}`.execute(trx)
  await sql`delete from kernel_search_marks where session_id = ${sessionId}`.execute(trx)
}
