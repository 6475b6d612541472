import { PostgresAdapter, sql } from 'kysely'
import type { Migration } from '../../plugin.ts'

/** One audit line as the database keeps it. */
export interface AuditRow {
  id: number
  /** Milliseconds since 1970, by the clock of the server that wrote the line. */
  at: number
  who: string
  route: string | null
  tool: string | null
  task: string | null
  /** The ids of what was written, as JSON. */
  what: string
  outcome: string
  status: number | null
  code: string | null
  request_id: string | null
  session_id: string | null
  run_id: string | null
  call_id: string | null
  /** The key of a tool call and its outcome, unique in the table: a server that takes the run over writes the same line again. */
  once: string | null
}

/** The columns in the order of an insert. */
export const auditColumns = [
  'id',
  'at',
  'who',
  'route',
  'tool',
  'task',
  'what',
  'outcome',
  'status',
  'code',
  'request_id',
  'session_id',
  'run_id',
  'call_id',
  'once',
] as const satisfies readonly (keyof AuditRow)[]

/**
 * The database refuses to delete a row that is younger than half a day. The shortest retention is a day, so the clocks of
 * two servers may differ by half a day.
 */
const youngMs = 43_200_000

const statements = [
  'create table kernel_audit_clock (id integer primary key, seq bigint not null)',
  'insert into kernel_audit_clock (id, seq) values (1, 0)',
  `create table kernel_audit (
    id bigint primary key, at bigint not null, who text not null, route text, tool text, task text,
    what text not null, outcome text not null, status integer, code text, request_id text,
    session_id text, run_id text, call_id text, once text unique)`,
  'create index kernel_audit_by_time on kernel_audit (at, id)',
]

/**
 * The table of audit lines, for the migration owner `kernel-audit`, and a clock that counts the lines. A writer holds the one
 * row of the clock until its commit, so ids rise in the order of the commits, and a reader that goes on after the last id
 * that it read misses no line.
 */
export const auditMigrations: Readonly<Record<string, Migration>> = {
  '001-audit': async (db) => {
    // The statements are plain SQL, because both databases take the same text and Kysely's builder costs time for each column.
    for (const statement of statements) await sql.raw(statement).execute(db)
    if (db.getExecutor().adapter instanceof PostgresAdapter) await guardPostgres(db)
    else await guardSqlite(db)
  },
}

/** Makes the database itself refuse to change a line, and to delete a line that is too young. */
async function guardSqlite(db: Parameters<Migration>[0]): Promise<void> {
  await sql`create trigger kernel_audit_no_change before update on kernel_audit
    begin select raise(abort, 'kernel_audit is append only'); end`.execute(db)
  await sql`create trigger kernel_audit_no_early_end before delete on kernel_audit
    when old.at > unixepoch('subsec') * 1000 - ${sql.lit(youngMs)}
    begin select raise(abort, 'kernel_audit is append only'); end`.execute(db)
}

async function guardPostgres(db: Parameters<Migration>[0]): Promise<void> {
  await sql`create function kernel_audit_refuse() returns trigger language plpgsql as $$
    begin raise exception 'kernel_audit is append only'; end $$`.execute(db)
  await sql`create trigger kernel_audit_no_change before update on kernel_audit
    for each row execute function kernel_audit_refuse()`.execute(db)
  await sql`create trigger kernel_audit_no_early_end before delete on kernel_audit for each row
    when (old.at > extract(epoch from clock_timestamp()) * 1000 - ${sql.lit(youngMs)})
    execute function kernel_audit_refuse()`.execute(db)
  await sql`create trigger kernel_audit_no_truncate before truncate on kernel_audit
    for each statement execute function kernel_audit_refuse()`.execute(db)
}
