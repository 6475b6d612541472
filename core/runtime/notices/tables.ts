import { type RawBuilder, sql } from 'kysely'
import type { Migration, Notice, NoticeKind } from '../../plugin.ts'

/** The database or the transaction in which notices are made, typed so that callers with tables of their own can pass theirs. */
export type NoticeDatabase = Parameters<Migration>[0]

/** How many days a notice is kept by default, and how many notices of one user: beyond that the oldest are deleted. */
export const noticeLimits = { days: 30, perUser: 1_000 }

/** One notice as it is kept. Times are milliseconds since 1970 by the database's clock. */
export interface NoticeRow {
  did: string
  /** The number of the notice, rising for each user. */
  id: number
  /** A user has one notice of a key. */
  key: string
  kind: NoticeKind
  plugin: string
  title: string
  body: string
  session_id: string | null
  run_id: string | null
  created_at: number
  seen_at: number | null
}

const statements = [
  `create table kernel_notices (
    did text not null, id bigint not null, key text not null, kind text not null, plugin text not null,
    title text not null, body text not null, session_id text, run_id text, created_at bigint not null, seen_at bigint,
    primary key (did, id))`,
  'create unique index kernel_notices_by_key on kernel_notices (did, key)',
  'create index kernel_notices_unseen on kernel_notices (did) where seen_at is null',
  'create index kernel_notices_of_session on kernel_notices (session_id) where session_id is not null',
  'create index kernel_notices_by_age on kernel_notices (created_at)',
  // The number of each user's newest notice. Whoever makes a notice holds this row until the transaction ends, so the
  // notices of one user become visible in the order of their numbers.
  'create table kernel_notice_users (did text primary key, newest bigint not null)',
  'create index kernel_notice_users_by_newest on kernel_notice_users (newest)',
  // A row stands here until its user unmutes the plugin; a user has at most one for each plugin.
  'create table kernel_notice_mutes (did text not null, plugin text not null, primary key (did, plugin))',
]

/** The tables of notices, for the migration owner `kernel`. */
export const noticesMigration: Migration = async (db) => {
  // The statements are SQL text, which is the same on both databases.
  for (const statement of statements) await sql.raw(statement).execute(db)
}

/** The columns of `NoticeRow`. */
export const noticeColumns = sql.raw(
  'did, id, key, kind, plugin, title, body, session_id, run_id, created_at, seen_at',
)

/** The notice of a row. */
export function toNotice(row: NoticeRow): Notice {
  const { did, id, kind, plugin, title, body, session_id, run_id, created_at } = row
  return {
    id: Number(id),
    user: did,
    kind,
    plugin,
    title,
    text: body,
    ...(session_id !== null && { sessionId: session_id }),
    ...(run_id !== null && { runId: run_id }),
    createdAt: new Date(Number(created_at)).toISOString(),
  }
}

/** A list for `in (…)`. */
export const among = (values: readonly (string | number)[]): RawBuilder<unknown> =>
  sql.join([...values])
