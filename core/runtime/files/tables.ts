import { PostgresAdapter, sql } from 'kysely'
import type { Migration } from '../../plugin.ts'

/**
 * The tables of files, for the migration owner `kernel-files`. The bytes of a file lie once for each owner. A row of
 * `kernel_file_uses` says that a session refers to a file: a file goes with the last of its uses, and one that never had a use a day
 * after it was last asked for.
 */
export const fileMigrations: Readonly<Record<string, Migration>> = {
  '001-files': async (db) => {
    const bytes = db.getExecutor().adapter instanceof PostgresAdapter ? 'bytea' : 'blob'
    // The bytes stand last: SQLite then finds the other columns without reading through them.
    await sql`create table kernel_files (
      id text primary key, did text not null, sha256 text not null, media_type text not null,
      name text not null, bytes integer not null, touched_at bigint not null,
      body ${sql.raw(bytes)} not null, unique (did, sha256))`.execute(db)
    await sql`create index kernel_files_by_time on kernel_files (touched_at)`.execute(db)
    await sql`create table kernel_file_uses (
      session_id text not null, file_id text not null, primary key (session_id, file_id))`.execute(
      db,
    )
    await sql`create index kernel_file_uses_by_file on kernel_file_uses (file_id)`.execute(db)
  },
}
