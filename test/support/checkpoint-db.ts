import { DatabaseSync, type StatementSync } from 'node:sqlite'
import { Kysely, PostgresDialect, SqliteDialect } from 'kysely'
import pg from 'pg'
import { checkpointMigrations } from '../../core/runtime/checkpoint-tables.ts'

/** A SQLite database in memory or in a file, through Kysely's own dialect. */
export function sqliteDb(path = ':memory:'): Kysely<{}> {
  const database = new DatabaseSync(path)
  const statements = new Map<string, StatementSync>()
  const prepare = (text: string) => {
    let statement = statements.get(text)
    if (!statement) statements.set(text, (statement = database.prepare(text)))
    const prepared = statement
    return {
      reader: prepared.columns().length > 0,
      all: (values: readonly unknown[]) => prepared.all(...(values as string[])),
      run: (values: readonly unknown[]) => prepared.run(...(values as string[])),
      iterate: (values: readonly unknown[]) => prepared.iterate(...(values as string[])),
    }
  }
  return new Kysely({
    dialect: new SqliteDialect({ database: { prepare, close: () => database.close() } }),
  })
}

/** A schema of its own in a PostgreSQL database, dropped with it. */
export async function postgresDb(url: string, schema: string) {
  const pool = new pg.Pool({ connectionString: url, options: `-c search_path=${schema}`, max: 5 })
  await pool.query(`drop schema if exists ${schema} cascade`)
  await pool.query(`create schema ${schema}`)
  const db = new Kysely<{}>({ dialect: new PostgresDialect({ pool }) })
  return {
    db,
    async close() {
      await pool.query(`drop schema ${schema} cascade`)
      await db.destroy()
    },
  }
}

export async function withTables(db: Kysely<{}>): Promise<Kysely<{}>> {
  for (const migration of Object.values(checkpointMigrations)) await migration(db)
  return db
}
