import { PostgresAdapter, sql, type Kysely } from 'kysely'

/** How the values of an indexed property compare. */
export const indexTypes = ['string', 'number', 'boolean', 'date-time', 'geo'] as const
/** How the values of an indexed property compare. */
export type IndexType = (typeof indexTypes)[number]

/** An index that a protocol declares. A dropped one stays until its values are gone, so that no other gets its id meanwhile. */
export type IndexRow = {
  id: number
  protocol: string
  path: string
  type: IndexType
  /** The ordinal of the last entity whose values the back-filling has written; null once it is done. */
  filled: number | null
  dropped: number
}

/** A value of an indexed property of the entity that has this ordinal. */
export type NumberRow = { index_id: number; value: number; ordinal: number }
/** The same for texts, of which the beginning is kept. */
export type TextRow = { index_id: number; value: string; ordinal: number }

/** The tables of the indexes. */
export type IndexTables = {
  registry_indexes: IndexRow
  registry_index_numbers: NumberRow
  registry_index_texts: TextRow
}

/** Makes the tables of indexed properties. Nothing is indexed until a protocol declares it, so there is nothing to fill. */
export async function createIndexes(db: Kysely<any>) {
  // any: a migration sees tables that no type knows yet
  const isPostgres = db.getExecutor().adapter instanceof PostgresAdapter
  await db.schema
    .createTable('registry_indexes')
    .addColumn('id', 'integer', (column) => column.primaryKey())
    .addColumn('protocol', 'text', (column) => column.notNull())
    .addColumn('path', 'text', (column) => column.notNull())
    .addColumn('type', 'text', (column) => column.notNull())
    .addColumn('filled', 'bigint')
    .addColumn('dropped', 'integer', (column) => column.notNull())
    .execute()
  for (const column of ['protocol', 'path'])
    await db.schema
      .createIndex(`registry_indexes_by_${column}`)
      .on('registry_indexes')
      .column(column)
      .execute()
  // Both databases compare texts by their bytes, so that pages have one order. SQLite keeps the table in the key itself.
  const text = isPostgres ? sql`text collate "C"` : sql`text`
  for (const [table, type] of [
    ['registry_index_numbers', sql`double precision`],
    ['registry_index_texts', text],
  ] as const)
    await sql`create table ${sql.table(table)} (index_id integer not null, value ${type} not null,
      ordinal bigint not null, primary key (index_id, value, ordinal))
      ${isPostgres ? sql`` : sql`without rowid`}`.execute(db)
}
