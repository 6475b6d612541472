import { sql } from 'kysely'
import type { Migration } from '../../plugin.ts'

/** What a plugin said by a key. The row goes with its session. */
interface SaidKeysTable {
  did: string
  plugin: string
  key: string
  session_id: string
  run_id: string
}

/** How much a plugin has said to a user in the minute that began at `since`. */
interface SaidCountsTable {
  did: string
  plugin: string
  since: number
  said: number
}

/** The tables of what plugins say without a model. A type and no interface, because only a type satisfies Kysely's index signature. */
export type SaidTables = {
  kernel_said_keys: SaidKeysTable
  kernel_said_counts: SaidCountsTable
}

/** Gives sessions a room and the plugin that began them, and makes the tables of what plugins say without a model. */
const rooms: Migration = async (db) => {
  await db.schema.alterTable('kernel_sessions').addColumn('room', 'text').execute()
  await db.schema.alterTable('kernel_sessions').addColumn('plugin', 'text').execute()
  // Few sessions are begun by plugins, so the indexes leave out all others.
  await sql`create index kernel_sessions_by_plugin on kernel_sessions (did, plugin, updated_at)
    where plugin is not null`.execute(db)
  await sql`create index kernel_sessions_by_room on kernel_sessions (did, room, updated_at)
    where room is not null`.execute(db)

  await db.schema
    .createTable('kernel_said_keys')
    .addColumn('did', 'text', (c) => c.notNull())
    .addColumn('plugin', 'text', (c) => c.notNull())
    .addColumn('key', 'text', (c) => c.notNull())
    .addColumn('session_id', 'text', (c) => c.notNull())
    .addColumn('run_id', 'text', (c) => c.notNull())
    .addPrimaryKeyConstraint('kernel_said_keys_pk', ['did', 'plugin', 'key'])
    .execute()
  await db.schema
    .createIndex('kernel_said_keys_by_session')
    .on('kernel_said_keys')
    .column('session_id')
    .execute()
  await db.schema
    .createTable('kernel_said_counts')
    .addColumn('did', 'text', (c) => c.notNull())
    .addColumn('plugin', 'text', (c) => c.notNull())
    .addColumn('since', 'bigint', (c) => c.notNull())
    .addColumn('said', 'integer', (c) => c.notNull())
    .addPrimaryKeyConstraint('kernel_said_counts_pk', ['did', 'plugin'])
    .execute()
  await db.schema
    .createIndex('kernel_said_counts_by_time')
    .on('kernel_said_counts')
    .column('since')
    .execute()
}

/** Notes of sessions whether others read along in their rooms. */
const shared: Migration = async (db) => {
  await sql`alter table kernel_sessions add column shared integer not null default 0`.execute(db)
}

/** Counts how often words of a session were taken back. */
const redactions: Migration = async (db) => {
  await db.schema
    .alterTable('kernel_sessions')
    .addColumn('redactions', 'integer', (c) => c.notNull().defaultTo(0))
    .execute()
}

/** What sessions gained with the words and rooms of plugins. */
export const saidMigrations = { rooms, shared, redactions }
