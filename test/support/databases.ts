import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { idempotencyMigration } from '../../core/runtime/http/limits/idempotency.ts'
import { openDataDir } from '../../core/runtime/store/data-dir.ts'
import { openStore, type Store } from '../../core/runtime/store/store.ts'
import type { Database } from '../../core/plugin.ts'
import { freshDatabase } from './database.ts'
import { silent } from './silent-log.ts'

/** A database of a test's own. Each `open` gives a new store, as another process would have one. */
export interface TestDatabase {
  readonly kind: Store['kind']
  open(): Promise<Store>
  /** Closes every store that is still open, and removes the database. */
  drop(): Promise<void>
}

/** A new SQLite file. */
export async function sqliteDatabase(): Promise<TestDatabase> {
  const folder = mkdtempSync(join(tmpdir(), 'oracle-database-'))
  const dataDir = await openDataDir(folder)
  return tracking(
    'sqlite',
    () => openStore({ dataDir, log: silent }),
    async () => rmSync(folder, { recursive: true, force: true }),
  )
}

/** A new database on the PostgreSQL server at `url`. */
export async function postgresDatabase(url: string): Promise<TestDatabase> {
  const own = await freshDatabase(url)
  return tracking('postgres', () => openStore({ databaseUrl: own.url, log: silent }), own.drop)
}

/** The database of a store, with the table in which the edge keeps Idempotency-Keys. */
export async function withIdempotencyTable(store: Store): Promise<Database> {
  await store.migrate('test', { '001-idempotency': idempotencyMigration })
  return store.db
}

function tracking(
  kind: Store['kind'],
  open: () => Promise<Store>,
  remove: () => Promise<void>,
): TestDatabase {
  const opened: Store[] = []
  return {
    kind,
    async open() {
      const store = await open()
      opened.push(store)
      return store
    },
    async drop() {
      await Promise.all(opened.map((store) => store.close()))
      await remove()
    },
  }
}
