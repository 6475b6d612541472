import { setTimeout as sleep } from 'node:timers/promises'
import type { Migration } from '../../core/plugin.ts'

/** Three steps that fail when run twice, with gaps in which another server may come. */
export function slowMigrations(owner: string): Record<string, Migration> {
  return {
    '001-table': async (db) => {
      await db.schema.createTable(`${owner}_things`).addColumn('id', 'integer').execute()
      await sleep(5)
    },
    '002-column': async (db) => {
      await sleep(5)
      await db.schema.alterTable(`${owner}_things`).addColumn('name', 'text').execute()
    },
    '003-row': async (db) => {
      await db.insertInto(`${owner}_things`).values({ id: 1, name: owner }).execute()
    },
  }
}
