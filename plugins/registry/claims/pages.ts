import type { SelectQueryBuilder } from 'kysely'
import { invalid } from '../refusal.ts'

/** A page of rows, newest first, and the cursor of the next. Rows that come meanwhile stand before the first page. */
export async function pageOf<Row extends { ordinal: number }, Item>(
  query: SelectQueryBuilder<any, any, Row>, // any: whichever table it reads, it has the column
  limit: number,
  cursor: string | undefined,
  itemOf: (row: Row) => Item,
): Promise<{ items: Item[]; nextCursor?: string }> {
  let page = query.orderBy('ordinal', 'desc').limit(limit + 1)
  if (cursor !== undefined) page = page.where('ordinal', '<', readCursor(cursor))
  const rows = await page.execute()
  const last = rows.length > limit ? rows[limit - 1] : undefined
  return {
    items: rows.slice(0, limit).map(itemOf),
    ...(last && { nextCursor: Buffer.from(String(last.ordinal)).toString('base64url') }),
  }
}

function readCursor(cursor: string): number {
  const text = Buffer.from(cursor, 'base64url').toString()
  if (/^[1-9]\d{0,15}$/.test(text)) return Number(text)
  throw invalid('cursor', 'give the nextCursor of a list')
}
