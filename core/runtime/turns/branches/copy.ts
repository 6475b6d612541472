import { PostgresAdapter, sql } from 'kysely'
import { RuntimeError } from '../../../errors.ts'
import { slices } from '../journal/store.ts'
import type { RunDatabase } from '../journal/tables.ts'
import { positionOf, unanswered } from '../journal/steps.ts'
import { turnOf } from './place.ts'
import { timedId } from '../../base/clock.ts'

/** How many rows of a journal a fork copies at most. */
const mostRows = 20_000
const runsPerStatement = 50

/** What is copied: the rows of a session before a position, into another session of the same user. */
export interface Copying {
  readonly from: string
  readonly to: string
  readonly did: string
  /** The first position that is not copied. */
  readonly end: number
}

/** The last turn of which something stands before a position, and how much stands before it. */
export async function lastTurnBefore(
  db: RunDatabase,
  sessionId: string,
  end: number,
): Promise<{ readonly turn: number; readonly rows: number }> {
  const row = await db
    .selectFrom('kernel_steps')
    .select((eb) => [
      eb.fn.max<number | null>('position').as('last'),
      eb.fn.countAll<number>().as('rows'),
    ])
    .where('session_id', '=', sessionId)
    .where('position', '<', end)
    .executeTakeFirstOrThrow()
  return { turn: row.last === null ? 0 : turnOf(Number(row.last)), rows: Number(row.rows) }
}

/** Copies what stands before the position. Resolves to the last turn that was copied; 0 where nothing stood there. */
export async function copyConversation(trx: RunDatabase, copying: Copying): Promise<number> {
  const { from, to, end } = copying
  const { turn, rows } = await lastTurnBefore(trx, from, end)
  if (rows > mostRows)
    throw new RuntimeError('FORK_TOO_LARGE', `${rows} steps stand before that place.`, {
      hint: `A fork copies ${mostRows} steps at most: branch off earlier, or begin a new conversation.`,
    })
  if (turn === 0) return 0
  await copyRuns(trx, copying, turn)
  // The turns keep their numbers, so a run of the copy is found by that of its original.
  await sql`insert into kernel_steps
      (session_id, position, run_id, root_id, step, kind, body, created_at)
    select ${to}, s.position, n.id, n.root_id, s.step, s.kind, s.body, s.created_at
    from kernel_steps s
    join kernel_runs n on n.session_id = ${to} and n.turn = s.position / ${sql.lit(positionOf(1, 0))}
    where s.session_id = ${from} and s.position < ${end}`.execute(trx)
  await sql`insert into kernel_results
      (session_id, root_id, tool_call_id, handle, bytes, body, source)
    select ${to}, n.id, r.tool_call_id, r.handle, r.bytes, r.body, r.source
    from kernel_results r
    join kernel_runs o on o.id = r.root_id
    join kernel_runs n on n.session_id = ${to} and n.turn = o.turn
    where r.session_id = ${from}`.execute(trx)
  await answerOpenCalls(trx, to, turn)
  await useFilesAgain(trx, copying)
  return turn
}

/** Copies the rows of runs: the copies are at their end, and nobody replays them. */
async function copyRuns(trx: RunDatabase, { from, to }: Copying, last: number): Promise<void> {
  const runs = await trx
    .selectFrom('kernel_runs')
    .selectAll()
    .where('session_id', '=', from)
    .where('turn', '<=', last)
    .orderBy('turn')
    .execute()
  const ids = new Map(runs.map(({ id }) => [id, timedId()] as const))
  const copied = runs.map((run) => {
    const id = ids.get(run.id) ?? run.id
    const isOpen = ['queued', 'running', 'waiting'].includes(run.status)
    const isCut = isOpen || (run.turn === last && run.status === 'continued')
    return {
      ...run,
      id,
      session_id: to,
      root_id: ids.get(run.root_id) ?? id,
      continues: run.continues === null ? null : (ids.get(run.continues) ?? null),
      // The copy answers no request of a client, so its own id stands in the place of one.
      request_id: id,
      namesake: 0,
      status: isCut ? ('finished' as const) : run.status,
      stop: null,
      owner: null,
      lease_until: 0,
      died_with: null,
      on_trial: 0,
      checkpoint: null,
      purged: 1,
      ended_at: run.ended_at ?? run.created_at,
    }
  })
  for (let at = 0; at < copied.length; at += runsPerStatement)
    await trx
      .insertInto('kernel_runs')
      .values(copied.slice(at, at + runsPerStatement))
      .execute()
}

/** Answers the calls that have no result in the copy: they were not carried out there. */
async function answerOpenCalls(trx: RunDatabase, sessionId: string, turn: number): Promise<void> {
  const run = await trx
    .selectFrom('kernel_runs')
    .select(['id', 'root_id', 'root_turn'])
    .where('session_id', '=', sessionId)
    .where('turn', '=', turn)
    .executeTakeFirst()
  if (!run) return
  const rows = await trx
    .selectFrom('kernel_steps')
    .selectAll()
    .where('session_id', '=', sessionId)
    .where('position', '>=', positionOf(run.root_turn, 0))
    .orderBy('position')
    .execute()
  const last = Number(rows.at(-1)?.position ?? positionOf(turn, 0))
  const open = unanswered(rows)
  for (const [nth, { id, name }] of open.entries())
    await trx
      .insertInto('kernel_steps')
      .values({
        session_id: sessionId,
        position: last + 1 + nth,
        run_id: run.id,
        root_id: run.root_id,
        step: last + 1 - positionOf(turn, 0),
        kind: 'tool',
        body: JSON.stringify({
          role: 'tool',
          id: `${id}-open`,
          toolCallId: id,
          name,
          content: 'This call was not carried out in this branch.',
          failed: true,
        }),
        created_at: rows.at(-1)?.created_at ?? 0,
      })
      .execute()
}

/** Counts the copy among those that use the files which its messages name. */
async function useFilesAgain(trx: RunDatabase, { from, to, did }: Copying): Promise<void> {
  const isPostgres = trx.getExecutor().adapter instanceof PostgresAdapter
  const found = sql.raw(isPostgres ? 'strpos(s.body, u.file_id)' : 'instr(s.body, u.file_id)')
  const { rows } = await sql<{ file_id: string }>`select u.file_id from kernel_file_uses u
    join kernel_files f on f.id = u.file_id and f.did = ${did}
    where u.session_id = ${from} and exists
      (select 1 from kernel_steps s where s.session_id = ${to} and ${found} > 0)`.execute(trx)
  for (const some of slices(
    rows.map(({ file_id }) => file_id),
    200,
  ))
    await sql`insert into kernel_file_uses (session_id, file_id)
      select ${to}, id from kernel_files where id in (${sql.join(some)})
      on conflict (session_id, file_id) do nothing`.execute(trx)
}

/** Writes words that the model of a branch reads and its user does not, as a turn of their own. */
export async function writeTold(
  trx: RunDatabase,
  { to, did }: Copying,
  turn: number,
  content: string,
  now: number,
): Promise<void> {
  const id = timedId()
  const empty = { owner: null, stop: null, checkpoint: null, continues: null, decision: null }
  const counts = { epoch: 1, attempts: 0, version: 1, last_seq: 0, kept_seq: 0, kept_length: 0 }
  const times = { lease_until: 0, created_at: now, ended_at: now }
  await trx
    .insertInto('kernel_runs')
    .values({
      ...{ id, session_id: to, did, turn, root_id: id, root_turn: turn, request_id: id },
      ...{ status: 'finished', steps: 1, purged: 1, ...empty, ...counts, ...times },
    })
    .execute()
  await trx
    .insertInto('kernel_steps')
    .values({
      session_id: to,
      position: positionOf(turn, 0),
      run_id: id,
      root_id: id,
      step: 0,
      kind: 'plugin',
      body: JSON.stringify({ role: 'user', id: `user-${id}`, content, origin: 'branches' }),
      created_at: now,
    })
    .execute()
}
