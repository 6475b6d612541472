import { type Kysely, PostgresAdapter, sql } from 'kysely'
import type { Migration } from '../../plugin.ts'

/** The kernel's tables by their older names, which had no `kernel_` in front, with the names of their keys. */
const renamed = {
  delegations: 'delegations_pk',
  revocations: 'revocations_pkey',
  used_tokens: 'used_tokens_pkey',
  room_state: 'room_state_pk',
}

/**
 * Gives the kernel's tables names that no plugin and no neighbour in the database can want. A new database has them
 * by these names from the start; a table of the old name is then somebody else's, and the migration leaves it alone.
 */
export const kernelNamesMigration: Migration = async (db) => {
  const isPostgres = db.getExecutor().adapter instanceof PostgresAdapter
  for (const [table, key] of Object.entries(renamed)) {
    if (await hasTable(db, `kernel_${table}`, isPostgres)) continue
    await sql`alter table ${sql.ref(table)} rename to ${sql.ref(`kernel_${table}`)}`.execute(db)
    // On PostgreSQL a key is an index, and the names of indexes must differ from those of tables.
    if (isPostgres)
      await sql`alter index ${sql.ref(key)} rename to ${sql.ref(`kernel_${key}`)}`.execute(db)
  }
}

async function hasTable(
  db: Kysely<any>, // any: a migration sees tables that no type knows
  name: string,
  isPostgres: boolean,
): Promise<boolean> {
  const found = isPostgres
    ? sql<{ found: unknown }>`select to_regclass(${name}) as found`
    : sql<{ found: unknown }>`select name as found from sqlite_master
        where type = 'table' and name = ${name}`
  const { rows } = await found.execute(db)
  return rows.some((row) => row.found !== null)
}
