import { PostgresAdapter, sql } from 'kysely'
import type { Migration } from '../../plugin.ts'

/** One line as it is kept. */
export interface AuditRow {
  id: number
  /** Milliseconds since 1970, by the clock of the server that wrote the line. */
  at: number
  who: string
  route: string | null
  tool: string | null
  task: string | null
  /** JSON: the ids of what was written. */
  what: string
  outcome: string
  status: number | null
  code: string | null
  request_id: string | null
  session_id: string | null
  run_id: string | null
  call_id: string | null
  /** What only one line may be about: a tool call, which a server that takes the run over tells of again. */
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

/** Rows younger than this stay, whoever asks: the shortest retention is a day, and clocks differ. */
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
 * The table of audit lines, for the migration owner `kernel-audit`, and a clock that counts them. Who writes lines holds
 * the clock's one row until the commit, so that ids rise in the order of the commits: a reader who goes on after the
 * last id that it read misses nothing.
 */
export const auditMigrations: Readonly<Record<string, Migration>> = {
  '001-audit': async (db) => {
    // As text: the builder makes the compiler work for each column, and what is written here is the same on both.
    for (const statement of statements) await sql.raw(statement).execute(db)
    if (db.getExecutor().adapter instanceof PostgresAdapter) await guardPostgres(db)
    else await guardSqlite(db)
  },
}

/** The database itself refuses to change a line, and to delete one before its time. */
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
