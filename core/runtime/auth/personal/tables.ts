import type { Migration } from '../../../plugin.ts'

/** The table of personal keys. A row has the hash of a key, never the key. */
export type KeyTables = {
  kernel_keys: {
    id: string
    /** The SHA-256 of the key, in base64url. */
    hash: string
    did: string
    name: string
    /** What the key opens, as JSON. */
    can: string
    // PostgreSQL returns a bigint as text
    created_at: number | string
    expires_at: number | string
    last_used_at: number | string | null
  }
}

/** Creates the table of personal keys. */
export const keysMigration: Migration = async (db) => {
  await db.schema
    .createTable('kernel_keys')
    .addColumn('id', 'text', (column) => column.primaryKey())
    .addColumn('hash', 'text', (column) => column.notNull())
    .addColumn('did', 'text', (column) => column.notNull())
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('can', 'text', (column) => column.notNull())
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .addColumn('expires_at', 'bigint', (column) => column.notNull())
    .addColumn('last_used_at', 'bigint')
    .execute()
  await db.schema
    .createIndex('kernel_keys_by_hash')
    .unique()
    .on('kernel_keys')
    .column('hash')
    .execute()
  await db.schema
    .createIndex('kernel_keys_by_did')
    .on('kernel_keys')
    .columns(['did', 'created_at'])
    .execute()
}
