import { CompiledQuery } from 'kysely'
import type { EventBatch } from './event-lines.ts'
import type { Dialect, RunDatabase, RunStatus } from './tables.ts'
import type { RunCause } from '../../../plugin.ts'
import type { RunEnd } from '../run.ts'
import type { StepRow } from './steps.ts'
import { partsOfEnds, type RowsOfRun } from '../functions/end.ts'
import {
  channelOf,
  type Telling,
  telling,
  tellingColumns,
  tellsEach,
} from '../../store/channels/channels.ts'

/** What one run adds to the database at once: all of it or nothing. */
export interface RunWrite {
  readonly id: string
  readonly sessionId: string
  /** Whether another process has readers of the run, who are told of what is written. */
  readonly isFollowed: boolean
  readonly epoch: number
  /** The number of this write: the database takes it only after the one before. */
  readonly version: number
  readonly lastSeq: number
  readonly batches: readonly EventBatch[]
  readonly steps: readonly StepRow[]
  /** How far the journal reaches, when it grew. */
  readonly kept?: { readonly seq: number; readonly length: number }
  readonly end?: Pick<RunEnd, 'checkpoint' | 'save' | 'inserts'> & {
    readonly status: RunStatus
    readonly cause?: RunCause
    /** What the statement that writes the end tells the user's readers. */
    readonly telling?: Telling
  }
}

/** The channel on which every replica hears that runs are free. */
export const runChannel = 'kernel_runs'

/** The channel of a session: what replicas with its runs, its sockets or its waiting turns have to hear. */
export const channelOfSession = (sessionId: string): string =>
  channelOf('kernel_session', sessionId)

/** The channel of a run, for the replicas whose readers follow it. */
export const channelOfRun = (runId: string): string => channelOf('kernel_run', runId)

/** How many runs one statement writes at most. */
export const runsPerWrite = 200

type Writes = readonly RunWrite[]
type Write = (
  db: RunDatabase,
  owner: string,
  leaseMs: number,
  writes: Writes,
) => Promise<Set<string>>

/**
 * Makes the function that writes for many runs at once. Every run's part counts only while `owner` holds the
 * run in that epoch (the fence) and extends its lease. Resolves to the ids that were written: for any
 * other, either another process has the run, or this very write was carried out before, or the run was to wait for a
 * person and somebody has stopped it. `now` is the time, as SQL.
 */
export function batchWriter(dialect: Dialect, now: string): Write {
  return dialect === 'postgres' ? postgresWriter(now) : sqliteWriter(now)
}

const runColumns =
  'id text, epoch int, version int, last_seq bigint, kept_seq bigint, kept_length bigint, ' +
  'steps int, status text, cause text, checkpoint text'
const eventColumns = 'run_id text, first_seq bigint, last_seq bigint, body text'
const stepColumns =
  'session_id text, position bigint, run_id text, root_id text, step int, kind text, body text'

/** The same SQL for both databases; `w` is the list of writes. */
const progress = (now: string, lease: string) => `
  last_seq = w.last_seq,
  version = w.version,
  lease_until = ${now} + ${lease},
  kept_seq = coalesce(w.kept_seq, kernel_runs.kept_seq),
  kept_length = coalesce(w.kept_length, kernel_runs.kept_length),
  attempts = case when w.kept_seq is null then kernel_runs.attempts else 0 end,
  deaths = case when w.kept_seq is null then kernel_runs.deaths else 0 end,
  on_trial = case when w.kept_seq is null then kernel_runs.on_trial else 0 end,
  steps = kernel_runs.steps + w.steps`
const end = (now: string) => `
  checkpoint = coalesce(w.checkpoint, kernel_runs.checkpoint),
  owner = case when w.status is null then kernel_runs.owner end,
  ended_at = case when w.status is null then null else ${now} end,
  status = coalesce(w.status, kernel_runs.status),
  cause = case when w.status is null then kernel_runs.cause else w.cause end`
// A stop that was asked for wins over the end of a run that is about to wait for a person.
const fence = (owner: string) =>
  `kernel_runs.id = w.id and kernel_runs.epoch = w.epoch and kernel_runs.version = w.version - 1 and kernel_runs.owner = ${owner}
  and (w.status is null or w.status <> 'waiting' or kernel_runs.stop is null)`

function postgresWriter(now: string): Write {
  const leaseNow = `(extract(epoch from clock_timestamp()) * 1000)::bigint`
  const names = (columns: string) => columns.replaceAll(/ (text|int|bigint)/g, '')
  const statement = (saved: string) => `with fence as (
    update kernel_runs set ${progress(leaseNow, '$5::bigint')}, ${end(now)}
    from json_to_recordset($1::json) as w(${runColumns})
    where ${fence('$4')} returning kernel_runs.id
  ), events as (
    insert into kernel_run_events (${names(eventColumns)})
    select ${names(eventColumns)} from json_to_recordset($2::json) as e(${eventColumns})
    where e.run_id in (select id from fence)
  ), steps as (
    insert into kernel_steps (${names(stepColumns)}, created_at)
    select ${names(stepColumns)}, ${now} from json_to_recordset($3::json) as s(${stepColumns})
    where s.run_id in (select id from fence)
  )${saved}
  select coalesce((select json_agg(id) from fence), '[]') as ids,
    (select ${tellsEach} from json_to_recordset($6::json) as m(${tellingColumns})
      where m.run_id in (select id from fence)) as told`
  const usual = statement('')
  return async (db, owner, leaseMs, writes) => {
    const values: unknown[] = [runsOf(writes), eventsOf(writes), stepsOf(writes), owner, leaseMs]
    values.push(tellingsOf(writes))
    const saved = savesByRows(writes) ? partsOfEnds(rowsOfEnds(writes), values.length + 1) : nothing
    const sql = saved.sql === '' ? usual : statement(saved.sql)
    const query = CompiledQuery.raw(sql, [...values, ...saved.values])
    const { rows } = await db.executeQuery<{ ids: string[] }>(query)
    return new Set(rows[0]?.ids)
  }
}

const nothing = { sql: '', values: [] }

/** How many rows are kept with ends in one statement at most: PostgreSQL takes 65,535 values, and a row has fewer than ten. */
const mostRowsOfEnds = 2_000

/**
 * Whether PostgreSQL writes all that is kept with these ends in the statement that ends the runs; otherwise a transaction calls
 * what the ends have to `save`. Two ends of one session might have rows of one key, which one statement may not touch twice.
 */
export function savesByRows(writes: Writes): boolean {
  const saving = writes.filter(({ end }) => end?.save)
  const sessions = new Set(saving.map(({ sessionId }) => sessionId))
  const rows = saving.flatMap(({ end }) => end?.inserts ?? []).flatMap((each) => each.rows)
  return (
    saving.every(({ end }) => end?.inserts) &&
    sessions.size === saving.length &&
    rows.length <= mostRowsOfEnds
  )
}

const rowsOfEnds = (writes: Writes): RowsOfRun[] =>
  writes.map(({ id, end }) => ({ runId: id, inserts: end?.inserts ?? [] }))

function sqliteWriter(now: string): Write {
  const leaseNow = `cast(unixepoch('subsec') * 1000 as integer)`
  const columns = (list: string) =>
    list.replaceAll(/(\w+) (text|int|bigint)/g, (_, name) => `value->>'${name}' as ${name}`)
  const update = (set: string) => `update kernel_runs set ${set}
    from (select ${columns(runColumns)} from json_each(?)) as w
    where ${fence('?')} returning id`
  // SQLite writes the indexes of every column that an update names, whether its value is another one or not.
  const going = update(progress(leaseNow, '?'))
  const ending = update(`${progress(leaseNow, '?')}, ${end(now)}`)
  const listed = async (db: RunDatabase, owner: string, leaseMs: number, writes: Writes) => {
    const held = new Set<string>()
    for (const [sql, isMeant] of [
      [going, ({ end }: RunWrite) => !end],
      [ending, ({ end }: RunWrite) => end],
    ] as const) {
      const meant = writes.filter(isMeant)
      if (meant.length === 0) continue
      const { rows } = await db.executeQuery<{ id: string }>(
        CompiledQuery.raw(sql, [leaseMs, runsOf(meant), owner]),
      )
      for (const { id } of rows) held.add(id)
    }
    return held
  }
  const one = singleWriter(now, leaseNow)
  const insertEvents = rowsWriter(
    'insert into kernel_run_events (run_id, first_seq, last_seq, body)',
    '?, ?, ?, ?',
    `${columns(eventColumns)}`,
  )
  const insertSteps = rowsWriter(
    `insert into kernel_steps
      (session_id, position, run_id, root_id, step, kind, body, created_at)`,
    `?, ?, ?, ?, ?, ?, ?, ${now}`,
    `${columns(stepColumns)}, ${now}`,
  )
  return async (db, owner, leaseMs, writes) => {
    let held = new Set<string>()
    if (writes.length > mostSingly) held = await listed(db, owner, leaseMs, writes)
    else for (const each of writes) if (await one(db, owner, leaseMs, each)) held.add(each.id)
    const ours = writes.filter(({ id }) => held.has(id))
    const events = ours.flatMap(({ id, batches }) => batches.map((batch) => ({ id, ...batch })))
    await insertEvents(
      db,
      events.map(({ id, first_seq, last_seq, body }) => [id, first_seq, last_seq, body]),
      () => eventsOf(ours),
    )
    const steps = ours.flatMap(({ steps }) => steps)
    await insertSteps(
      db,
      steps.map((row) => [
        ...[row.session_id, row.position, row.run_id, row.root_id],
        ...[row.step, row.kind, row.body],
      ]),
      () => stepsOf(ours),
    )
    return held
  }
}

/** Up to so many rows are written with plain values, in one statement; more of them as a list. */
const mostPlainRows = 16

/** Makes the function that inserts rows on SQLite. Of JSON, SQLite reads the text of a row again for each of its columns. */
function rowsWriter(insert: string, values: string, listed: string) {
  const plain: string[] = []
  const list = `${insert} select ${listed} from json_each(?)`
  return async (db: RunDatabase, rows: readonly (readonly unknown[])[], json: () => string) => {
    const { length } = rows
    if (length === 0) return
    const isPlain = length <= mostPlainRows
    if (isPlain) plain[length] ??= `${insert} values ${Array(length).fill(`(${values})`).join()}`
    const sql = (isPlain && plain[length]) || list
    await db.executeQuery(CompiledQuery.raw(sql, sql === list ? [json()] : rows.flat()))
  }
}

/** Up to so many runs are written one by one: a statement with plain values costs less than half of one with a list. */
const mostSingly = 4

/** Makes the function that writes the row of one run on SQLite: the same as the list does. False where the fence refuses it. */
function singleWriter(now: string, leaseNow: string) {
  const update = (more: string, fence: string) => `update kernel_runs
    set last_seq = ?, version = ?, lease_until = ${leaseNow} + ?, steps = steps + ?${more}
    where id = ? and epoch = ? and version = ? and owner = ?${fence} returning id`
  const kept = ', kept_seq = ?, kept_length = ?, attempts = 0, deaths = 0, on_trial = 0'
  const end = `, checkpoint = coalesce(?, checkpoint), owner = null, ended_at = ${now}, status = ?, cause = ?`
  const statements = {
    going: update('', ''),
    kept: update(kept, ''),
    ending: update(end, ''),
    'kept ending': update(kept + end, ''),
    waiting: update(end, ' and stop is null'),
    'kept waiting': update(kept + end, ' and stop is null'),
  }
  return async (db: RunDatabase, owner: string, leaseMs: number, write: RunWrite) => {
    const { id, epoch, version, lastSeq, kept, steps, end } = write
    const kind = !end ? undefined : end.status === 'waiting' ? 'waiting' : 'ending'
    const statement = kept ? (kind ? (`kept ${kind}` as const) : 'kept') : (kind ?? 'going')
    const { rows } = await db.executeQuery(
      CompiledQuery.raw(statements[statement], [
        ...[lastSeq, version, leaseMs, steps.length],
        ...(kept ? [kept.seq, kept.length] : []),
        ...(end ? [end.checkpoint ?? null, end.status, end.cause ?? null] : []),
        ...[id, epoch, version - 1, owner],
      ]),
    )
    return rows.length > 0
  }
}

const runsOf = (writes: readonly RunWrite[]) =>
  JSON.stringify(
    writes.map(({ id, epoch, version, lastSeq, kept, steps, end }) => ({
      id,
      epoch,
      version,
      last_seq: lastSeq,
      kept_seq: kept?.seq ?? null,
      kept_length: kept?.length ?? null,
      steps: steps.length,
      status: end?.status ?? null,
      cause: end?.cause ?? null,
      checkpoint: end?.checkpoint ?? null,
    })),
  )

/** Whom the writes concern: readers at other replicas, and at an end whoever waits for the session. */
const tellingsOf = (writes: readonly RunWrite[]) =>
  JSON.stringify(
    writes.flatMap(({ id, sessionId, isFollowed, end }) =>
      [
        ...(isFollowed ? [telling(channelOfRun(id), `events ${id}`)] : []),
        ...(end ? [telling(channelOfSession(sessionId), 'ended')] : []),
        ...(end?.telling ? [end.telling] : []),
      ].map(({ to, payload, told }) => ({ run_id: id, to_channel: to, payload, told })),
    ),
  )

const eventsOf = (writes: readonly RunWrite[]) =>
  JSON.stringify(
    writes.flatMap(({ id, batches }) => batches.map((batch) => ({ run_id: id, ...batch }))),
  )

const stepsOf = (writes: readonly RunWrite[]) =>
  JSON.stringify(writes.flatMap(({ steps }) => steps))
