import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { DatabaseSync, type SQLInputValue } from 'node:sqlite'
import { Kysely, PostgresDialect, SqliteDialect } from 'kysely'
import pg from 'pg'
import type { Database } from '../../core/plugin.ts'

/** A database of a test's own, and how to be rid of it. Each `open` is a connection of its own. */
export interface TestDatabase {
  open(): Database
  drop(): Promise<void>
}

/** A new SQLite file. */
export function sqliteDatabase(): TestDatabase {
  const folder = mkdtempSync(join(tmpdir(), 'edge-'))
  const opened: Database[] = []
  return {
    open() {
      const file = new DatabaseSync(join(folder, 'test.db'))
      file.exec('pragma journal_mode = wal; pragma busy_timeout = 5000')
      const values = (all: readonly unknown[]) => all as SQLInputValue[]
      const db: Database = new Kysely<{}>({
        dialect: new SqliteDialect({
          database: {
            close: () => file.close(),
            prepare(sql) {
              const statement = file.prepare(sql)
              return {
                reader: statement.columns().length > 0,
                all: (given) => statement.all(...values(given)),
                run: (given) => statement.run(...values(given)),
                iterate: (given) => statement.iterate(...values(given)),
              }
            },
          },
        }),
      })
      opened.push(db)
      return db
    },
    async drop() {
      for (const db of opened) await db.destroy()
      rmSync(folder, { recursive: true })
    },
  }
}

/** A new database on the PostgreSQL server at `url`. */
export async function postgresDatabase(url: string): Promise<TestDatabase> {
  const name = `edge_${process.pid}_${Math.random().toString(36).slice(2, 8)}`
  const admin = new pg.Client(url)
  await admin.connect()
  await admin.query(`create database ${name}`)
  const own = new URL(url)
  own.pathname = `/${name}`
  const opened: Database[] = []
  return {
    open() {
      const pool = new pg.Pool({ connectionString: own.href, max: 4 })
      const db: Database = new Kysely<{}>({ dialect: new PostgresDialect({ pool }) })
      opened.push(db)
      return db
    },
    async drop() {
      for (const db of opened) await db.destroy()
      // A pool says that it ended before its connections are gone.
      const left = 'select 1 from pg_stat_activity where datname = $1'
      while ((await admin.query(left, [name])).rowCount) await setTimeout(5)
      await admin.query(`drop database ${name}`)
      await admin.end()
    },
  }
}
