import { type Kysely, PostgresAdapter, sql } from 'kysely'
import type { Migration } from '../../../plugin.ts'

/** Which database it is, by its connection. */
export const isPostgres = (db: Pick<Kysely<unknown>, 'getExecutor'>): boolean =>
  db.getExecutor().adapter instanceof PostgresAdapter

const onPostgres = [
  `create table kernel_search (
    id bigint generated always as identity primary key, session_id text not null,
    position bigint not null, did text not null, words tsvector not null)`,
  'create index kernel_search_words on kernel_search using gin (words)',
]

// The second table keeps the words by themselves, and `secure-delete` leaves none of them in the file behind.
const onSqlite = [
  `create table kernel_search (
    id integer primary key, session_id text not null,
    position bigint not null, did text not null, words text not null)`,
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

/**
 * Keeps the words of what was said where they are found. The rows of a session are filled by whoever searches, up to the
 * position of its mark, and go with the session.
 */
export const searchMigration: Migration = async (db) => {
  for (const statement of [...(isPostgres(db) ? onPostgres : onSqlite), ...onBoth])
    await sql.raw(statement).execute(db)
}

/** Forgets the words of a session: it is gone, or some of its words were taken back and the others are read again. */
export async function forgetWords(
  trx: Parameters<ReturnType<typeof sql>['execute']>[0],
  sessionId: string,
): Promise<void> {
  await sql`delete from kernel_search where session_id = ${sessionId}`.execute(trx)
  await sql`delete from kernel_search_marks where session_id = ${sessionId}`.execute(trx)
}
