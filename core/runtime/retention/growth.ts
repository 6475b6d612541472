import { sql } from 'kysely'
import type { Migration } from '../../plugin.ts'
import type { Store } from '../store/store.ts'

/** The table of how large the database was: a row a day, the days of a month. */
export const storageDaysMigration: Migration = async (db) => {
  await sql`create table kernel_storage_days (
    day bigint primary key, at bigint not null, bytes bigint not null)`.execute(db)
}

const dayMs = 86_400_000
/** How many days stay in the table, and over how many of them growth is told. */
const days = { kept: 31, told: 7 }

/** How much of the disk the database uses, without the pages of a SQLite file that are free. */
async function usedBytes({ db, kind }: Pick<Store, 'db' | 'kind'>): Promise<number> {
  const asked =
    kind === 'postgres'
      ? sql<{ bytes: number }>`select pg_database_size(current_database()) as bytes`
      : sql<{ bytes: number }>`select (page_count - freelist_count) * page_size as bytes
          from pragma_page_count, pragma_freelist_count, pragma_page_size`
  const { rows } = await asked.execute(db)
  return Number(rows[0]?.bytes ?? 0)
}

/** Notes how large the database is, once for each day. */
export async function noteSize(store: Pick<Store, 'db' | 'kind' | 'now'>): Promise<void> {
  const { db, now } = store
  const today = sql`(${now} / ${sql.lit(dayMs)})`
  const { rows } = await sql`select 1 from kernel_storage_days where day = ${today}`.execute(db)
  if (rows.length > 0) return
  const bytes = await usedBytes(store)
  await sql`insert into kernel_storage_days (day, at, bytes) values (${today}, ${now}, ${bytes})
    on conflict (day) do nothing`.execute(db)
  await sql`delete from kernel_storage_days where day < ${today} - ${sql.lit(days.kept)}`.execute(
    db,
  )
}

/** By how many bytes the database has grown a day over the last week; undefined before a day has gone by. */
export async function growthPerDay(
  store: Pick<Store, 'db' | 'kind' | 'now'>,
): Promise<number | undefined> {
  const { db, now } = store
  const { rows } = await sql<{ ms: number; bytes: number }>`select ${now} - at as ms, bytes
    from kernel_storage_days where at >= ${now} - ${sql.lit((days.told + 1) * dayMs)}
    order by day limit 1`.execute(db)
  const [first] = rows
  if (first === undefined || Number(first.ms) < dayMs) return undefined
  const grown = (await usedBytes(store)) - Number(first.bytes)
  return Math.round(grown / (Number(first.ms) / dayMs))
}
