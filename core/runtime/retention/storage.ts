import { statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { sql } from 'kysely'
import { isOlderNode } from '../store/sqlite/older-node.ts'
import type { Store } from '../store/store.ts'
import { growthPerDay } from './growth.ts'

/** How much of the disk a table takes with its indexes, and how many rows it has. */
export interface TableSize {
  readonly name: string
  readonly kind: string
  readonly rows: number
  readonly bytes: number
}

/** How much of the disk the database takes. */
export interface Storage {
  readonly database: 'sqlite' | 'postgres'
  /** The whole database. */
  readonly bytes: number
  /** The part of a SQLite file that nothing uses. */
  readonly freeBytes: number
  /** By how much the database has grown a day over the last week; absent before a day has gone by. */
  readonly growthPerDay?: number
  /** What the disk of a SQLite file has left. */
  readonly diskFreeBytes?: number
  /** In how many days the disk is full at this growth; absent where the database does not grow, or the disk is elsewhere. */
  readonly daysLeft?: number
  readonly kinds: readonly Omit<TableSize, 'name'>[]
  readonly tables: readonly TableSize[]
}

/** The part of a store that these figures are read from. */
export type MeasuredStore = Pick<Store, 'db' | 'kind' | 'file' | 'now'>

type Size = Pick<TableSize, 'name' | 'rows' | 'bytes'>

/** How long a look into a SQLite file may take: every page of the file is read. */
const lookMs = 60_000
/** From so many rows on PostgreSQL's own estimate is told, because counting reads the whole table. */
const mostCounted = 100_000

/** The kinds of rows by the beginnings of the names of tables; the first that fits counts. */
const kinds: readonly (readonly [beginning: string, kind: string])[] = [
  ['kernel_run_events', 'events'],
  ['kernel_run_requests', 'events'],
  ['kernel_effects', 'events'],
  ['kernel_results', 'events'],
  ['kernel_client_answers', 'events'],
  ['kernel_runs', 'runs'],
  ['kernel_quarantine', 'runs'],
  ['kernel_unsettled', 'runs'],
  ['kernel_waiting_turns', 'runs'],
  ['kernel_steps', 'transcripts'],
  ['kernel_sessions', 'sessions'],
  ['kernel_heads', 'sessions'],
  ['checkpoint', 'checkpoints'],
  ['kernel_file', 'files'],
  ['kernel_job', 'jobs'],
  ['kernel_notice', 'notices'],
  ['kernel_audit', 'audit'],
  ['kernel_room', 'rooms'],
  ['kernel_', 'other'],
  ['sqlite_', 'other'],
]

/** Asks a database how large its tables are, beside the event loop. */
export async function readStorage(store: MeasuredStore): Promise<Storage> {
  const { sizes, bytes, freeBytes } = await readSizes(store, true)
  const tables = sizes
    .map(({ name, ...size }) => ({ name, kind: kindOf(name), ...size }))
    .toSorted((a, b) => b.bytes - a.bytes || (a.name < b.name ? -1 : 1))
  const sums = new Map<string, Omit<TableSize, 'name'>>()
  for (const { kind, rows, bytes } of tables) {
    const sum = sums.get(kind)
    sums.set(kind, { kind, rows: rows + (sum?.rows ?? 0), bytes: bytes + (sum?.bytes ?? 0) })
  }
  const future = await futureOf(store, freeBytes)
  return { database: store.kind, bytes, freeBytes, ...future, kinds: [...sums.values()], tables }
}

/** How many bytes each table takes with its indexes, without counting the rows. */
export async function readTableBytes(store: MeasuredStore): Promise<ReadonlyMap<string, number>> {
  const { sizes } = await readSizes(store, false)
  return new Map(sizes.map(({ name, bytes }) => [name, bytes]))
}

const readSizes = (store: MeasuredStore, isCounting: boolean): Promise<Read> =>
  store.kind === 'postgres' ? ofPostgres(store, isCounting) : ofSqlite(store, isCounting)

/** How the database grows, and how long its disk suffices. */
async function futureOf(
  store: MeasuredStore,
  freeBytes: number,
): Promise<Pick<Storage, 'growthPerDay' | 'diskFreeBytes' | 'daysLeft'>> {
  const growth = await growthPerDay(store)
  const disk = store.file === undefined ? undefined : await statfs(dirname(store.file))
  const diskFreeBytes = disk && disk.bavail * disk.bsize
  const daysLeft =
    growth !== undefined && growth > 0 && diskFreeBytes !== undefined
      ? Math.floor((diskFreeBytes + freeBytes) / growth)
      : undefined
  return {
    ...(growth !== undefined && { growthPerDay: growth }),
    ...(diskFreeBytes !== undefined && { diskFreeBytes }),
    ...(daysLeft !== undefined && { daysLeft }),
  }
}

const kindOf = (name: string): string =>
  kinds.find(([beginning]) => name.startsWith(beginning))?.[1] ?? 'plugins'

interface Read {
  readonly sizes: readonly Size[]
  readonly bytes: number
  readonly freeBytes: number
}

async function ofPostgres({ db }: MeasuredStore, isCounting: boolean): Promise<Read> {
  const { rows } =
    await sql<Size>`select c.relname as name, greatest(c.reltuples, 0)::bigint as rows,
    pg_total_relation_size(c.oid) as bytes from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = current_schema() and c.relkind in ('r', 'p')`.execute(db)
  const sizes: Size[] = []
  for (const { name, rows: estimate, bytes } of rows) {
    const isEstimated = !isCounting || Number(estimate) > mostCounted
    sizes.push({
      name,
      bytes: Number(bytes),
      rows: isEstimated ? Number(estimate) : await count(db, name),
    })
  }
  const whole = await sql<{
    bytes: number
  }>`select pg_database_size(current_database()) as bytes`.execute(db)
  return { sizes, bytes: Number(whole.rows[0]?.bytes ?? 0), freeBytes: 0 }
}

async function count(db: Store['db'], table: string): Promise<number> {
  const { rows } = await sql<{
    rows: number
  }>`select count(*) as rows from ${sql.table(table)}`.execute(db)
  return Number(rows[0]?.rows ?? 0)
}

const tableBytes = `select coalesce(s.tbl_name, d.name) as name, sum(d.pgsize) as bytes
  from dbstat('main', 1) as d left join sqlite_schema as s on s.name = d.name group by 1`
/**
 * Before Node 22.16 SQLite does not tell of its pages. These are the statements, one for each table, that say how long the
 * values of a table are: an estimate, without indexes.
 */
const estimates = `select 'select ' || quote(t.name) || ' as name, coalesce(sum(' ||
    group_concat('coalesce(octet_length("' || replace(c.name, '"', '""') || '"), 0)', ' + ') ||
    '), 0) as bytes from "' || replace(t.name, '"', '""') || '"' as text
  from sqlite_schema as t join pragma_table_info(t.name) as c where t.type = 'table' group by t.name`
const fileBytes = `select page_count * page_size as bytes, freelist_count * page_size as freeBytes
  from pragma_page_count, pragma_page_size, pragma_freelist_count`

interface FileBytes {
  readonly bytes: number
  readonly freeBytes: number
}

async function ofSqlite({ db, file }: MeasuredStore, isCounting: boolean): Promise<Read> {
  if (file !== undefined) return ofFile(file, isCounting)
  const { rows } = isOlderNode ? await estimated(db) : await sql.raw<Size>(tableBytes).execute(db)
  const whole = await sql.raw<FileBytes>(fileBytes).execute(db)
  const sizes: Size[] = []
  for (const { name, bytes } of rows) sizes.push({ name, bytes, rows: await count(db, name) })
  return { sizes, ...(whole.rows[0] ?? { bytes: 0, freeBytes: 0 }) }
}

async function estimated(db: Store['db']): Promise<{ readonly rows: Size[] }> {
  const rows: Size[] = []
  for (const { text } of (await sql.raw<{ text: string }>(estimates).execute(db)).rows)
    rows.push(...(await sql.raw<Size>(text).execute(db)).rows)
  return { rows }
}

/** Reads the file in a thread with a connection of its own, because SQLite goes through all pages of the file. */
function ofFile(file: string, isCounting: boolean): Promise<Read> {
  const read = Promise.withResolvers<Read>()
  const thread = new Worker(`(${readInThread})()`, {
    eval: true,
    workerData: {
      ...{ file, tableBytes, fileBytes, rows: isCounting ? 'count(*)' : '0' },
      ...(isOlderNode && { estimates }),
    },
    name: 'storage',
    execArgv: ['--report-exclude-env'],
    env: {},
  })
  const late = setTimeout(
    () => read.reject(new Error(`${file} could not be read in a minute.`)),
    lookMs,
  )
  thread.once('message', read.resolve)
  thread.once('error', read.reject)
  thread.once('exit', () => read.reject(new Error('The thread that reads the file ended early.')))
  return read.promise.finally(() => {
    clearTimeout(late)
    void thread.terminate()
  })
}

/** The whole program of the thread. The thread gets the source text of this function, so it uses nothing outside of it. */
function readInThread(): void {
  const { workerData, parentPort } = process.getBuiltinModule('node:worker_threads')
  const { DatabaseSync } = process.getBuiltinModule('node:sqlite')
  const { file, tableBytes, estimates, fileBytes, rows }: Record<string, string> = workerData
  const database = new DatabaseSync(file ?? '', { readOnly: true })
  database.exec('pragma busy_timeout = 5000')
  const all = (text = '') => database.prepare(text).all()
  // One transaction, so that the figures agree with each other.
  database.exec('begin')
  const tables = estimates
    ? all(estimates).flatMap(({ text }) => all(String(text)))
    : all(tableBytes)
  const sizes = tables.map((table) => {
    const name = String(table.name).replaceAll('"', '""')
    return { ...table, ...all(`select ${rows} as rows from "${name}" limit 1`)[0] }
  })
  const [whole] = all(fileBytes)
  database.exec('commit')
  database.close()
  parentPort?.postMessage({ sizes, ...whole })
}
