import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync, type SQLInputValue } from 'node:sqlite'
import { Kysely, PostgresDialect, SqliteDialect } from 'kysely'
import { Pool } from 'pg'
import type { Database } from '../../core/plugin.ts'
import { delegationMigrations } from '../../core/runtime/delegations.ts'

/** A database that several processes, or one after the other, would open. */
export interface SharedDatabase {
  readonly kind: 'sqlite' | 'postgres'
  /** Opens it once more. Close what was opened with `destroy()`. */
  open(): Database
  drop(): Promise<void>
}

/** A SQLite file of its own, with the tables of delegations in it. */
export async function sqliteFile(): Promise<SharedDatabase> {
  const folder = mkdtempSync(join(tmpdir(), 'auth-'))
  const open = () => {
    const file = new DatabaseSync(join(folder, 'auth.db'))
    return new Kysely<{}>({
      dialect: new SqliteDialect({
        database: {
          close: () => file.close(),
          prepare(sql) {
            const statement = file.prepare(sql)
            // kysely hands on what was checked to be a value of SQLite by its own compiler
            const values = (list: readonly unknown[]) => list as SQLInputValue[]
            return {
              reader: statement.columns().length > 0,
              all: (list) => statement.all(...values(list)),
              run: (list) => statement.run(...values(list)),
              iterate: (list) => statement.iterate(...values(list)),
            }
          },
        },
      }),
    })
  }
  await createTables(open())
  return {
    kind: 'sqlite',
    open,
    drop: async () => rmSync(folder, { recursive: true }),
  }
}

/** A PostgreSQL database of its own, with the tables of delegations in it. */
export async function postgresDatabase(url: string): Promise<SharedDatabase> {
  const name = `auth_${process.pid}_${Date.now()}`
  const administer = async (statement: string) => {
    const pool = new Pool({ connectionString: url, max: 1 })
    await pool.query(statement)
    await pool.end()
  }
  await administer(`create database ${name}`)
  const own = new URL(url)
  own.pathname = `/${name}`
  const open = () =>
    new Kysely<{}>({
      dialect: new PostgresDialect({ pool: new Pool({ connectionString: own.href, max: 4 }) }),
    })
  await createTables(open())
  return { kind: 'postgres', open, drop: () => administer(`drop database ${name} with (force)`) }
}

async function createTables(db: Database) {
  for (const migrate of Object.values(delegationMigrations)) await migrate(db)
  await db.destroy()
}
