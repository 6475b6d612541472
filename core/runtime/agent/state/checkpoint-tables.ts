import { CompiledQuery, PostgresAdapter, sql, type Kysely } from 'kysely'
import type { Migration } from '../../../plugin.ts'
import { rebuildWithoutRowids } from '../../store/without-rowids.ts'
import { columnsOf, insertion } from '../../turns/functions/end.ts'
import type { EndRow, EndRows } from '../../turns/run.ts'

/** A checkpoint as its row stands in the database. */
export interface CheckpointRow {
  readonly thread_id: string
  readonly namespace: string
  readonly id: string
  readonly parent_id: string | null
  /** The checkpoint as JSON, without its id and the values of its channels. */
  readonly state: string
  readonly metadata: string
}

/** The value of a channel at one of its versions. Many checkpoints may name the version; the table has the value once. */
export interface ValueRow {
  readonly thread_id: string
  readonly namespace: string
  readonly channel: string
  readonly version: string
  readonly value: string
}

/** What a task wrote on top of a checkpoint. At a position below zero a later write replaces an earlier one. */
export interface WriteRow {
  readonly thread_id: string
  readonly namespace: string
  readonly checkpoint_id: string
  readonly task_id: string
  readonly position: number
  readonly channel: string
  readonly value: string
}

/** The rows that a checkpointer adds to its tables at once. */
export interface Rows {
  readonly checkpoints?: readonly CheckpointRow[]
  readonly values?: readonly ValueRow[]
  readonly writes?: readonly WriteRow[]
}

/** The tables of checkpoints. Texts compare byte by byte, because the newest checkpoint is the one with the greatest id. */
export const checkpointMigrations: Readonly<Record<string, Migration>> = {
  async '001-checkpoints'(db) {
    const text = sql.raw(isPostgres(db) ? 'text collate "C"' : 'text')
    await sql`create table checkpoints (
      thread_id ${text} not null, namespace ${text} not null, id ${text} not null,
      parent_id text, state text not null, metadata text not null,
      primary key (thread_id, namespace, id))`.execute(db)
    await sql`create table checkpoint_values (
      thread_id ${text} not null, namespace ${text} not null, channel ${text} not null,
      version ${text} not null, value text not null,
      primary key (thread_id, namespace, channel, version))`.execute(db)
    await sql`create table checkpoint_writes (
      thread_id ${text} not null, namespace ${text} not null, checkpoint_id ${text} not null,
      task_id ${text} not null, position integer not null, channel text not null,
      value text not null,
      primary key (thread_id, namespace, checkpoint_id, task_id, position))`.execute(db)
  },
  /** Has SQLite write fewer pages for each checkpoint. */
  async '002-fewer-pages'(db) {
    if (isPostgres(db)) return
    const thread = ['thread_id', 'namespace']
    const keys = { checkpoints: ['id'], checkpoint_values: ['channel', 'version'] }
    for (const [table, rest] of Object.entries(keys))
      await rebuildWithoutRowids(db, { table, key: [...thread, ...rest] })
  },
}

type Connection = Kysely<any> // any: only this file knows the tables

/** The checkpoint of this id; with an empty id the newest of the thread. */
export async function selectCheckpoint(
  db: Connection,
  thread: string,
  namespace: string,
  id: string,
): Promise<CheckpointRow | undefined> {
  const where = 'select * from checkpoints where thread_id = ? and namespace = ?'
  const [row] = id
    ? await query<CheckpointRow>(db, `${where} and id = ?`, [thread, namespace, id])
    : await query<CheckpointRow>(db, `${where} order by id desc limit 1`, [thread, namespace])
  return row
}

/** The checkpoints that follow `after`, newest first, of those that meet the given conditions. */
export async function selectPage(
  db: Connection,
  where: { thread?: string; namespace?: string; id?: string; before?: string },
  after: CheckpointRow | undefined,
  limit: number,
): Promise<CheckpointRow[]> {
  const conditions = ['1 = 1']
  const values: unknown[] = []
  const add = (condition: string, ...of: unknown[]) => {
    if (of.some((value) => value === undefined)) return
    conditions.push(condition)
    values.push(...of)
  }
  add('thread_id = ?', where.thread)
  add('namespace = ?', where.namespace)
  add('id = ?', where.id)
  add('id < ?', where.before)
  add('(id, thread_id, namespace) < (?, ?, ?)', after?.id, after?.thread_id, after?.namespace)
  const text = `select * from checkpoints where ${conditions.join(' and ')}
    order by id desc, thread_id desc, namespace desc limit ?`
  return await query<CheckpointRow>(db, text, [...values, limit])
}

/** The values of these versions. A channel that was empty at its version has no row. */
export async function selectValues(
  db: Connection,
  thread: string,
  namespace: string,
  versions: Readonly<Record<string, string | number>>,
): Promise<ValueRow[]> {
  const wanted = Object.entries(versions)
  if (wanted.length === 0) return []
  // The database looks up each pair by the whole key, so the cost does not grow with the versions of the thread.
  const text = `with wanted (channel, version) as (values ${tuples(wanted.length, 2)})
    select v.* from wanted w join checkpoint_values v
      on v.thread_id = ? and v.namespace = ? and v.channel = w.channel and v.version = w.version`
  const pairs = wanted.flatMap(([channel, version]) => [channel, String(version)])
  return await query<ValueRow>(db, text, [...pairs, thread, namespace])
}

/** The writes of tasks on top of a checkpoint. */
export async function selectWrites(
  db: Connection,
  thread: string,
  namespace: string,
  id: string,
): Promise<WriteRow[]> {
  const text = `select * from checkpoint_writes
    where thread_id = ? and namespace = ? and checkpoint_id = ? order by task_id, position`
  return await query<WriteRow>(db, text, [thread, namespace, id])
}

/** Deletes all rows of a thread. */
export async function deleteAll(db: Connection, thread: string): Promise<void> {
  for (const table of ['checkpoints', 'checkpoint_values', 'checkpoint_writes'])
    await query(db, `delete from ${table} where thread_id = ?`, [thread])
}

/**
 * Deletes one checkpoint of a thread, with its writes and with the values that no other checkpoint of the thread names. A
 * version has a random fraction, so the digits of a version stand only in the checkpoints that name it; a value whose
 * digits stand elsewhere by chance stays.
 */
export async function deleteCheckpoint(db: Connection, thread: string, id: string): Promise<void> {
  const at = isPostgres(db) ? 'strpos' : 'instr'
  const of = [thread, id]
  await db.transaction().execute(async (trx) => {
    const [row] = await query<CheckpointRow>(
      trx,
      'delete from checkpoints where thread_id = ? and id = ? returning *',
      of,
    )
    await query(trx, 'delete from checkpoint_writes where thread_id = ? and checkpoint_id = ?', of)
    // Only plain JSON can be searched for digits.
    const others = `select 1 from checkpoints c where c.thread_id = v.thread_id
      and c.namespace = v.namespace and (${at}(c.state, v.version) > 0 or c.state like '!%')`
    if (row)
      await query(
        trx,
        `delete from checkpoint_values as v where v.thread_id = ? and v.namespace = ?
          and ${at}(?, v.version) > 0 and not exists (${others})`,
        [thread, row.namespace, row.state],
      )
  })
}

/** Inserts the rows of several writers. The result is the same as if they had written one after the other. */
export async function insertRows(db: Connection, all: readonly Rows[]): Promise<void> {
  for (const each of insertionsOf(all))
    for (let from = 0; from < each.rows.length; from += rowsPerStatement) {
      const rows = each.rows.slice(from, from + rowsPerStatement)
      const columns = columnsOf(each)
      await query(
        db,
        insertion(each, `values ${tuples(rows.length, columns.length)}`),
        rows.flatMap((row) => columns.map((column) => row[column])),
      )
    }
}

/** The same rows by their tables, each row once; tables that get none are left out. */
export function insertionsOf(all: readonly Rows[]): EndRows[] {
  return [
    insertionOf(
      all.flatMap((rows) => rows.checkpoints ?? []),
      {
        table: 'checkpoints',
        key: ['thread_id', 'namespace', 'id'],
        replaces: 'always',
      },
    ),
    insertionOf(
      all.flatMap((rows) => rows.values ?? []),
      {
        table: 'checkpoint_values',
        key: ['thread_id', 'namespace', 'channel', 'version'],
        replaces: 'never',
      },
    ),
    insertionOf(
      all.flatMap((rows) => rows.writes ?? []),
      {
        table: 'checkpoint_writes',
        key: ['thread_id', 'namespace', 'checkpoint_id', 'task_id', 'position'],
        replaces: 'below zero',
      },
    ),
  ].filter(({ rows }) => rows.length > 0)
}

/** How many rows one statement inserts. PostgreSQL answers over a network, so few statements are faster than many. */
export const rowsPerStatement = 100

/** One statement may not touch a row twice. */
function insertionOf(
  rows: readonly (CheckpointRow | ValueRow | WriteRow)[],
  into: Omit<EndRows, 'rows'>,
): EndRows {
  const { key, replaces } = into
  const byKey = new Map<string, EndRow>()
  for (const found of rows) {
    const row: EndRow = { ...found }
    const name = JSON.stringify(key.map((column) => row[column]))
    const later = replaces === 'always' || (replaces === 'below zero' && isBelowZero(row))
    if (later || !byKey.has(name)) byKey.set(name, row)
  }
  return { ...into, rows: [...byKey.values()] }
}

function isBelowZero(row: object): boolean {
  return 'position' in row && Number(row.position) < 0
}

function tuples(count: number, width: number): string {
  const one = `(${Array(width).fill('?').join()})`
  return Array(count).fill(one).join()
}

async function query<Row>(
  db: Connection,
  text: string,
  parameters: readonly unknown[],
): Promise<Row[]> {
  const { rows } = await db.executeQuery<Row>(
    CompiledQuery.raw(isPostgres(db) ? numbered(text) : text, [...parameters]),
  )
  return rows
}

const numberedTexts = new Map<string, string>()

/** The text with the numbered placeholders of PostgreSQL. The map stays small: the texts differ only in their count of rows. */
function numbered(text: string): string {
  let known = numberedTexts.get(text)
  if (known === undefined) {
    let number = 0
    known = text.replace(/\?/g, () => `$${++number}`)
    numberedTexts.set(text, known)
  }
  return known
}

function isPostgres(db: Connection): boolean {
  return db.getExecutor().adapter instanceof PostgresAdapter
}
