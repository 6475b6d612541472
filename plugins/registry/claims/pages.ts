import type { SelectQueryBuilder } from 'kysely'
import { writeCursor, type Page } from '../reading/page.ts'

/** A page of rows, newest first. Rows that are added between two pages would stand before the first, so no page repeats one. */
export async function pageOf<Row extends { ordinal: number }, Item>(
  query: SelectQueryBuilder<any, any, Row>, // any: the query may read any table that has the column `ordinal`
  limit: number,
  after: number | undefined,
  itemOf: (row: Row) => Item,
): Promise<Page<Item>> {
  let page = query.orderBy('ordinal', 'desc').limit(limit + 1)
  if (after !== undefined) page = page.where('ordinal', '<', after)
  const rows = await page.execute()
  const last = rows.length > limit ? rows[limit - 1] : undefined
  return {
    items: rows.slice(0, limit).map(itemOf),
    ...(last && { nextCursor: writeCursor(last.ordinal) }),
  }
}
