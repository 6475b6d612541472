import { sql } from 'kysely'
import type { Database } from '#core'

/** Who or what ended a call. */
export type EndedBy =
  'user' | 'agent' | 'idle' | 'limit' | 'lost' | 'replaced' | 'server' | 'session'

/** A call: when, how long and why it ended. No words of it, and no address of a caller. */
export interface CallsTable {
  id: string
  did: string
  session_id: string
  type: 'audio' | 'video'
  state: 'pending' | 'active' | 'ended'
  /** The process that carries the call, until when it says that it lives, by the database's clock, and when it last did, by its own. */
  owner: string
  lease_until: number
  seen_at: number
  created_at: number
  started_at: number | null
  ended_at: number | null
  ended_by: EndedBy | null
  /** The seconds of the calls that this one replaces. */
  seconds_before: number
  /** Which of the places of its user the call has, from 1 on: the database gives each place once, and each session one call. */
  slot: number | null
  /** The services that the person consented to, by name; null where nothing left the server. */
  consent: string | null
  /** The minutes that were charged, of this call and of those that it replaces. */
  minutes_charged: number
  utterances: number
  interruptions: number
  /** How far the reply was heard that was under way: the run, and its characters. */
  spoken_run: string | null
  spoken_chars: number
}

/** The tables of calls, for the compiler. */
export const withCallsTables = (db: Database) => db.withTables<{ calls_calls: CallsTable }>()

/** The database with the tables of calls. */
export type CallsDatabase = ReturnType<typeof withCallsTables>

/** The tables, step by step. */
export const migrations = {
  '001-calls': async (db: Database) => {
    await db.schema
      .createTable('calls_calls')
      .addColumn('id', 'text', (column) => column.primaryKey())
      .addColumn('did', 'text', (column) => column.notNull())
      .addColumn('session_id', 'text', (column) => column.notNull())
      .addColumn('type', 'text', (column) => column.notNull())
      .addColumn('state', 'text', (column) => column.notNull())
      .addColumn('owner', 'text', (column) => column.notNull())
      .addColumn('lease_until', 'bigint', (column) => column.notNull())
      .addColumn('created_at', 'bigint', (column) => column.notNull())
      .addColumn('started_at', 'bigint')
      .addColumn('ended_at', 'bigint')
      .addColumn('ended_by', 'text')
      .addColumn('seconds_before', 'integer', (column) => column.notNull())
      .addColumn('utterances', 'integer', (column) => column.notNull())
      .addColumn('interruptions', 'integer', (column) => column.notNull())
      .addColumn('spoken_run', 'text')
      .addColumn('spoken_chars', 'integer', (column) => column.notNull())
      .execute()
    await db.schema
      .createIndex('calls_calls_did')
      .on('calls_calls')
      .columns(['did', 'created_at'])
      .execute()
    await db.schema
      .createIndex('calls_calls_state')
      .on('calls_calls')
      .columns(['state', 'owner'])
      .execute()
  },
  '002-places': async (db: Database) => {
    await db.schema.alterTable('calls_calls').addColumn('slot', 'integer').execute()
    await db.schema.alterTable('calls_calls').addColumn('consent', 'text').execute()
    await onlyOneLive(db, 'calls_calls_slot', ['did', 'slot'])
    await onlyOneLive(db, 'calls_calls_session', ['session_id'])
  },
  '003-minutes': async (db: Database) => {
    await db.schema
      .alterTable('calls_calls')
      .addColumn('minutes_charged', 'integer', (column) => column.notNull().defaultTo(0))
      .execute()
  },
  '004-seen': async (db: Database) => {
    await db.schema
      .alterTable('calls_calls')
      .addColumn('seen_at', 'bigint', (column) => column.notNull().defaultTo(0))
      .execute()
    await withCallsTables(db)
      .updateTable('calls_calls')
      .set((eb) => ({ seen_at: eb.ref('created_at') }))
      .execute()
  },
}

/** Of the calls that have a place and are not over, the database lets no two have the same in these columns. */
async function onlyOneLive(db: Database, name: string, columns: string[]): Promise<void> {
  await withCallsTables(db)
    .schema.createIndex(name)
    .on('calls_calls')
    .unique()
    .columns(columns)
    .where('slot', 'is not', null)
    .where('state', '!=', sql.lit('ended'))
    .execute()
}
