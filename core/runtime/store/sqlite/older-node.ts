import { type DatabaseSync, StatementSync } from 'node:sqlite'
import { RuntimeError } from '../../../errors.ts'

/**
 * Whether `node:sqlite` is one from before Node 22.16, which tells neither columns nor transactions and knows no arrays.
 * What it lacks is here, at the price of more statements. This file goes when `engines` no longer allows these versions.
 */
export const isOlderNode = !('columns' in StatementSync.prototype)

/** Whether a database is open. */
export function isDatabaseOpen(database: DatabaseSync): boolean {
  if (!isOlderNode) return database.isOpen
  try {
    database.exec('')
    return true
  } catch {
    return false
  }
}

/** Whether a transaction is open. SQLite itself refuses to begin a second one. */
export function isInTransaction(database: DatabaseSync): boolean {
  if (!isOlderNode) return database.isTransaction
  try {
    database.exec('begin')
  } catch {
    return true
  }
  database.exec('rollback')
  return false
}

/** Closes a database and throws where it has an index of words that this Node cannot write: a newer one has made it. */
export function refuseNewerDatabase(database: DatabaseSync, path: string): void {
  if (!isOlderNode) return
  const index = `select 1 from sqlite_schema where sql like '%using fts5%' limit 1`
  if (database.prepare(index).get() === undefined) return
  database.close()
  throw new RuntimeError(
    'DATA_DIR_UNUSABLE',
    `The database ${path} has an index of words that the SQLite of Node ${process.versions.node} cannot write.`,
    { hint: 'Run it with Node 22.16 or newer, as before; or use another DATA_DIR.' },
  )
}

const view = 'columns_of_a_statement'
const quotedOrParameter = /'(?:[^']|'')*'|"(?:[^"]|"")*"|\?\d*/g
const changed = /\b(?:into|update|delete\s+from)\s+("(?:[^"]|"")+"|\w+)[^]*\breturning\b([^]+)/i

/** The columns of a statement's rows that are declared as boolean, by their names. A view of the same rows tells its columns. */
export function booleansOf(database: DatabaseSync, sql: string): ReadonlySet<string> {
  const declared = `select 1 from sqlite_schema where type = 'table' and sql like '%boolean%' limit 1`
  if (database.prepare(declared).get() === undefined) return new Set()
  const [, table, returned] = changed.exec(sql) ?? []
  const query = table ? `select ${returned} from ${table}` : sql
  try {
    database.exec(
      `create temp view ${view} as ${query.replace(quotedOrParameter, withoutParameter)}`,
    )
  } catch {
    // What is no query has no view, and no columns of a table.
    return new Set()
  }
  try {
    const columns = database.prepare(`pragma temp.table_info(${view})`).all()
    const booleans = columns.filter(({ type }) => String(type).toLowerCase() === 'boolean')
    return new Set(booleans.map(({ name }) => String(name)))
  } finally {
    database.exec(`drop view temp.${view}`)
  }
}

/** A view must not have parameters, and its columns are the same without their values. */
const withoutParameter = (found: string): string => (found.startsWith('?') ? 'null' : found)
