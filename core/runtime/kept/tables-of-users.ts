import type { Migrations } from '../../plugin.ts'
import { openStore } from '../store/store.ts'

const silent = { debug() {}, info() {}, warn() {}, error() {} }

/** The tables with a column `did` that a plugin's migrations make, found out in a database in memory. */
export async function tablesOfUsers(owner: string, migrations: Migrations): Promise<string[]> {
  const store = await openStore({ log: silent })
  try {
    await store.migrate(owner, migrations)
    const tables = await store.db.introspection.getTables()
    return tables
      .filter(({ columns }) => columns.some(({ name }) => name === 'did'))
      .map(({ name }) => name)
  } finally {
    await store.close()
  }
}
