import { PostgresAdapter, sql } from 'kysely'
import type { Database } from '../../plugin.ts'

/** What becomes of a table of SQLite. */
interface Rebuilt {
  readonly table: string
  /** The columns of the primary key, in their order. */
  readonly key: readonly string[]
  /** The indexes that it has from now on, as SQL, beside those named in `kept`. */
  readonly indexes?: readonly string[]
  /** The indexes of before that stay as they are. */
  readonly kept?: readonly string[]
}

interface Column {
  readonly name: string
  readonly type: string
  readonly notnull: number
  readonly dflt_value: string | null
}

/**
 * For a migration: makes a table of SQLite anew, with the same columns and rows, as one that has no rowids. The rows stand in the
 * order of the key, and no second tree leads from the key to the row, so a new row writes a page less. Whoever knew the table
 * before reads and writes it as before. On PostgreSQL, whose rows lie elsewhere than in the order of any key, nothing happens.
 */
export async function rebuildWithoutRowids(
  db: Database,
  { table, key, indexes = [], kept = [] }: Rebuilt,
): Promise<void> {
  if (db.getExecutor().adapter instanceof PostgresAdapter) return
  const { rows: columns } = await sql<Column>`select name, type, "notnull", dflt_value
    from pragma_table_info(${table}) order by cid`.execute(db)
  const { rows: found } = await sql<{ sql: string }>`select sql from sqlite_schema
    where type = 'index' and tbl_name = ${table} and name in (${sql.join(['', ...kept])})`.execute(
    db,
  )
  const defined = columns.map(({ name, type, notnull, dflt_value }) => {
    const isNeeded = notnull === 1 || key.includes(name)
    const byDefault = dflt_value === null ? '' : ` default ${dflt_value}`
    return `"${name}" ${type}${byDefault}${isNeeded ? ' not null' : ''}`
  })
  const names = columns.map(({ name }) => `"${name}"`).join()
  const anew = `${table}_anew`
  const run = (statement: string) => sql.raw(statement).execute(db)
  await run(`create table ${anew} (${defined.join()}, primary key (${key.join()})) without rowid`)
  await run(`insert into ${anew} (${names}) select ${names} from ${table} order by ${key.join()}`)
  await run(`drop table ${table}`)
  await run(`alter table ${anew} rename to ${table}`)
  for (const statement of [...found.map(({ sql }) => sql), ...indexes]) await run(statement)
}
