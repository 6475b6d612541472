import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openDataDir } from '../../core/runtime/store/data-dir.ts'
import { openStore, type Store } from '../../core/runtime/store/store.ts'
import { freshDatabase } from './database.ts'
import { silent } from './silent-log.ts'

/** A database of a test's own. Each `open` is a store of its own, as another process would have one. */
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
