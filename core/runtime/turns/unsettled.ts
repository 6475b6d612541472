import type { Generated } from 'kysely'
import type { Migration } from '../../plugin.ts'
import { rebuildWithoutRowids } from '../store/without-rowids.ts'

/**
 * The runs of whose end somebody has yet to hear: a row for each consumer, written with the run and deleted in the
 * transaction in which the consumer hears of the end. Where nobody wants to hear of ends, the table stays empty.
 */
export interface UnsettledTable {
  session_id: string
  /** The first run of the chain of approvals. */
  root_id: string
  /** The plugin; a part of the kernel has a colon in its name, which no plugin has. */
  consumer: string
  /** How often the consumer failed, and when it is called again. */
  tries: Generated<number>
  due_at: Generated<number>
  /** What is to be told, as JSON, once the session is gone and nobody can read it there any more. */
  facts: Generated<string | null>
  created_at: number
}

/** Adds what the end of a run is settled by. */
export const settlingMigration: Migration = async (db) => {
  await db.schema
    .createTable('kernel_unsettled')
    .addColumn('session_id', 'text', (c) => c.notNull())
    .addColumn('root_id', 'text', (c) => c.notNull())
    .addColumn('consumer', 'text', (c) => c.notNull())
    .addColumn('tries', 'integer', (c) => c.notNull().defaultTo(0))
    .addColumn('due_at', 'bigint', (c) => c.notNull().defaultTo(0))
    .addColumn('facts', 'text')
    .addColumn('created_at', 'bigint', (c) => c.notNull())
    .addPrimaryKeyConstraint('kernel_unsettled_pk', ['session_id', 'root_id', 'consumer'])
    .execute()
}

/** Has SQLite write two pages less for each run of whose end somebody hears: one with the run, one with its end. */
export const fewerPagesOfEndsMigration: Migration = (db) =>
  rebuildWithoutRowids(db, {
    table: 'kernel_unsettled',
    key: ['session_id', 'root_id', 'consumer'],
  })
