import type { Database, ErasedData, UserDataItem } from '#core'
import type { UsageTables } from './tables.ts'

/** What is kept of a user: a line for each day and model, of which there are at most 400 days. */
export async function* exportUsage(did: string, db: Database): AsyncGenerator<UserDataItem> {
  const tables = db.withTables<UsageTables>()
  const days = await tables
    .selectFrom('usage_days')
    .select('day')
    .distinct()
    .where('did', '=', did)
    .orderBy('day')
    .execute() // as many as days are kept
  for (const { day } of days) {
    const rows = await tables
      .selectFrom('usage_days')
      .selectAll()
      .where('did', '=', did)
      .where('day', '=', day)
      .orderBy('model')
      .execute() // as many as there are models
    for (const { did: _, ...counts } of rows) yield { kind: 'usage', ...counts }
  }
}

/** Deletes what is kept of a user. The runs that are counted name nobody. */
export async function eraseUsage(did: string, db: Database): Promise<ErasedData> {
  const { numDeletedRows } = await db
    .withTables<UsageTables>()
    .deleteFrom('usage_days')
    .where('did', '=', did)
    .executeTakeFirstOrThrow()
  return { erased: { usage: Number(numDeletedRows) } }
}
