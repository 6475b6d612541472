import type { Migrations } from '../../plugin.ts'
import { openStore } from '../store/store.ts'

const silent = { debug() {}, info() {}, warn() {}, error() {} }

/** Whether a column of this type holds texts, on either database. */
export const isText = (dataType: string): boolean => /^(text|varchar|character)/i.test(dataType)

/** A table with the columns that hold texts. */
export interface TextTable {
  readonly name: string
  readonly columns: readonly string[]
}

/** The tables with a column `did` that a plugin's migrations make. */
export async function tablesOfUsers(owner: string, migrations: Migrations): Promise<string[]> {
  const tables = await tablesOf(owner, migrations)
  return tables.filter(({ columns }) => columns.includes('did')).map(({ name }) => name)
}

/** The tables with texts that a plugin's migrations make, found out in a database in memory. */
export async function tablesOf(owner: string, migrations: Migrations): Promise<TextTable[]> {
  const store = await openStore({ log: silent })
  try {
    await store.migrate(owner, migrations)
    const tables = await store.db.introspection.getTables()
    return tables
      .map(({ name, columns }) => ({
        name,
        columns: columns.filter(({ dataType }) => isText(dataType)).map((column) => column.name),
      }))
      .filter(({ columns }) => columns.length > 0)
  } finally {
    await store.close()
  }
}
