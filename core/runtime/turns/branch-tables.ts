import { type Generated, sql } from 'kysely'
import type { Migration } from '../../plugin.ts'

/** What a session's row says of its place among others. */
export interface BranchColumns {
  /** 1 where its user keeps it above all others. */
  pinned: Generated<number>
  /** 1 where its user has put it away. */
  archived: Generated<number>
  /** The session from which all branches of one conversation come; null for that session, and where there are none. */
  family: Generated<string | null>
  /** Where it branched off, as JSON; null where it began by itself. */
  forked_from: Generated<string | null>
  /** 1 where it was made for one turn: no list shows it. */
  ephemeral: Generated<number>
}

const statements = [
  'alter table kernel_sessions add column pinned integer not null default 0',
  'alter table kernel_sessions add column archived integer not null default 0',
  'alter table kernel_sessions add column family text',
  'alter table kernel_sessions add column forked_from text',
  `create index kernel_sessions_by_family on kernel_sessions (did, family, updated_at)
    where family is not null`,
]

/** What a user has said of a conversation beside its title, and from which other one it branched off. */
export const branchesMigration: Migration = async (db) => {
  for (const statement of statements) await sql.raw(statement).execute(db)
}

/** Marks the sessions that no list shows. */
export const ephemeralMigration: Migration = async (db) => {
  for (const statement of [
    'alter table kernel_sessions add column ephemeral integer not null default 0',
    'create index kernel_sessions_ephemeral on kernel_sessions (updated_at) where ephemeral = 1',
  ])
    await sql.raw(statement).execute(db)
}
