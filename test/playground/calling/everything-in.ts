import { sql } from 'kysely'
import type { Database } from '#core'

/** Everything that stands in any table of a database, as text in which bytes are latin1. */
export async function everythingIn(db: Database): Promise<string> {
  const pieces: string[] = []
  for (const { name } of await db.introspection.getTables()) {
    const { rows } = await sql<Record<string, unknown>>`select * from ${sql.table(name)}`.execute(
      db,
    )
    for (const value of rows.flatMap((row) => Object.values(row))) pieces.push(textOf(value))
  }
  return pieces.join('\n')
}

function textOf(value: unknown): string {
  if (value instanceof Uint8Array) return Buffer.from(value).toString('latin1')
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}
