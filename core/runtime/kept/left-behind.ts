import { sql } from 'kysely'
import type { Database } from '../../plugin.ts'
import type { PluginRecord } from '../base/plugin-record.ts'
import { tablesOf, type TextTable } from './tables-of-users.ts'

/** What plugins that are switched off still have of users in their tables. */
export class LeftBehind {
  readonly #db: Database
  /** The tables of a plugin, which its migrations tell. */
  readonly #tables = new Map<string, Promise<readonly TextTable[]>>()

  constructor(db: Database) {
    this.#db = db
  }

  /** How many rows in the tables of a plugin name this user. */
  async count({ name: plugin, definition }: PluginRecord, did: string): Promise<number> {
    const { migrations } = definition
    if (!migrations) return 0
    const made = this.#tables.get(plugin) ?? tablesOf(plugin, migrations)
    this.#tables.set(plugin, made)
    // Whoever asks next tries again.
    made.catch(() => this.#tables.delete(plugin))
    const there = new Set((await this.#db.introspection.getTables()).map(({ name }) => name))
    let count = 0
    for (const { name, columns } of (await made).filter((table) => there.has(table.name))) {
      const isNamed = sql.join(
        columns.map((column) => sql`${sql.ref(column)} = ${did}`),
        sql` or `,
      )
      const { rows } = await sql<{ count: number }>`select count(*) as count
        from ${sql.table(name)} where ${isNamed}`.execute(this.#db)
      count += Number(rows[0]?.count ?? 0)
    }
    return count
  }
}
