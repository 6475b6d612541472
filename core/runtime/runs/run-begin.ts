import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import type { Decision, TurnRequest } from './run.ts'
import type { Before, RunRow, RunStore } from './run-store.ts'
import type { RunDatabase, RunsTable, Stop } from './run-tables.ts'
import { runChannel } from './run-write.ts'
import { positionOf, unanswered } from '../agent/steps.ts'
import { titleOf } from './sessions.ts'

/** What begins: a message, or a person's answer to the run that waits for it. */
export interface Beginning {
  readonly did: string
  readonly sessionId: string
  readonly requestId: string
  readonly request: TurnRequest
  readonly answers?: { readonly run: RunRow; readonly decision: Decision }
}

/** What the database made of it. */
export type Begun =
  | { readonly outcome: 'no-session' }
  /** The message was sent before: this is its run. */
  | { readonly outcome: 'known'; readonly run: RunRow }
  /** Nobody waits any more for the answer. */
  | { readonly outcome: 'not-waiting' }
  | ({
      readonly outcome: 'begun'
      readonly run: RunRow
      /** Runs of the session that must end first. */
      readonly superseded: readonly string[]
    } & Before)

/**
 * Records a run, all in one transaction that begins by taking the session's row: two messages at once
 * are one after the other, and the later one supersedes the earlier.
 */
export async function beginRun(
  store: RunStore,
  trx: RunDatabase,
  { did, sessionId, requestId, request, answers }: Beginning,
): Promise<Begun> {
  const session = await trx
    .updateTable('kernel_sessions')
    .set((eb) => ({
      turns: eb('turns', '+', 1),
      updated_at: store.now,
      title: sql<string>`coalesce(title, ${titleOf(request.message)})`,
    }))
    .where('id', '=', sessionId)
    .where('did', '=', did)
    .returning('turns')
    .executeTakeFirst()
  if (!session) return { outcome: 'no-session' }
  const known = await trx
    .selectFrom('kernel_runs')
    .selectAll()
    .where('session_id', '=', sessionId)
    .where('request_id', '=', requestId)
    .executeTakeFirst()
  if (known) return { outcome: 'known', run: known }

  const continued = answers && (await takeWaiting(trx, answers.run.id))
  if (answers && !continued) return { outcome: 'not-waiting' }
  const { carried: superseded } = await stopOpenRuns(store, trx, sessionId, 'superseded')
  const { turns: turn } = session
  const before = await store.before({ session_id: sessionId, turn }, trx)
  const id = randomUUID()
  const stopped = await takeEarlyStop(store, trx, sessionId, requestId)
  const run = await trx
    .insertInto('kernel_runs')
    .values({
      id,
      session_id: sessionId,
      did,
      turn,
      root_id: continued?.root_id ?? id,
      root_turn: continued?.root_turn ?? turn,
      continues: continued?.id ?? null,
      decision: answers ? JSON.stringify(answers.decision) : null,
      request_id: requestId,
      status: superseded.length > 0 ? 'queued' : 'running',
      stop: stopped ? 'aborted' : null,
      owner: store.owner,
      epoch: 1,
      attempts: 0,
      version: 0,
      last_seq: 0,
      kept_seq: 0,
      kept_length: 0,
      steps: continued ? 0 : 1,
      purged: 0,
      lease_until: store.leaseEnd,
      created_at: store.now,
    })
    .returningAll()
    .$if(store.dialect === 'postgres', (insert) =>
      // Whoever holds a socket of this session hears of the run once it is recorded.
      insert.returning(
        sql<string>`pg_notify(${runChannel}, ${`began ${id} ${sessionId}`})`.as('told'),
      ),
    )
    .executeTakeFirstOrThrow()
  await trx
    .insertInto('kernel_run_requests')
    .values({ run_id: id, request: JSON.stringify(request) })
    .execute()
  if (!continued) await insertUserMessage(store, trx, run, request)
  return { outcome: 'begun', run, superseded, ...before }
}

/** Makes the waiting run one that was continued; only one answer gets through here. */
async function takeWaiting(trx: RunDatabase, runId: string): Promise<RunRow | undefined> {
  return trx
    .updateTable('kernel_runs')
    .set({ status: 'continued' })
    .where('id', '=', runId)
    .where('status', '=', 'waiting')
    .returningAll()
    .executeTakeFirst()
}

/**
 * Tells every open run of the session to end, and resolves to those that somebody carries. One that waits for a
 * person has nobody to tell: it is closed here, its unanswered requests to tools with it.
 */
export async function stopOpenRuns(
  store: RunStore,
  trx: RunDatabase,
  sessionId: string,
  stop: Stop,
  requestId?: string,
): Promise<{ carried: string[]; closed: string[] }> {
  let open = trx
    .selectFrom('kernel_runs')
    .selectAll()
    .where('session_id', '=', sessionId)
    .where(sql<boolean>`status in ('queued', 'running', 'waiting')`)
  if (requestId !== undefined) open = open.where('request_id', '=', requestId)
  const runs = await open.execute()
  if (runs.length === 0) return { carried: [], closed: [] }
  const ids = runs.map(({ id }) => id)
  await trx
    .updateTable('kernel_runs')
    .set({ stop })
    .where('id', 'in', ids)
    .where('stop', 'is', null)
    .execute()
  const waiting = await trx
    .updateTable('kernel_runs')
    .set({ status: stop === 'aborted' ? 'aborted' : 'interrupted' })
    .where('id', 'in', ids)
    .where('status', '=', 'waiting')
    .returningAll()
    .execute()
  for (const run of waiting) await answerWaitingCalls(store, trx, run)
  const closed = waiting.map(({ id }) => id)
  return { carried: ids.filter((id) => !closed.includes(id)), closed }
}

/** A model must never read a request to a tool without its result. */
async function answerWaitingCalls(
  store: RunStore,
  trx: RunDatabase,
  run: RunsTable,
): Promise<void> {
  const open = unanswered(await store.stepsOf(run, trx))
  if (open.length === 0) return
  await trx
    .insertInto('kernel_steps')
    .values(
      open.map(({ id, name }, i) => ({
        session_id: run.session_id,
        position: positionOf(run.turn, run.steps + i),
        run_id: run.id,
        root_id: run.root_id,
        step: run.steps,
        kind: 'tool' as const,
        body: JSON.stringify({
          role: 'tool',
          id: randomUUID(),
          toolCallId: id,
          name,
          content: 'Nobody approved this before the conversation went on, so it was not done.',
          failed: true,
        }),
        created_at: store.now,
      })),
    )
    .execute()
}

/** Whether the run was stopped before it arrived. */
async function takeEarlyStop(
  store: RunStore,
  trx: RunDatabase,
  sessionId: string,
  requestId: string,
): Promise<boolean> {
  const rows = await trx
    .deleteFrom('kernel_early_stops')
    .where('session_id', '=', sessionId)
    .where('request_id', '=', requestId)
    .returning(sql<number>`case when until > ${store.now} then 1 else 0 end`.as('counts'))
    .execute()
  return rows[0]?.counts === 1
}

async function insertUserMessage(
  store: RunStore,
  trx: RunDatabase,
  run: RunsTable,
  { message, attachments }: TurnRequest,
): Promise<void> {
  const said = { role: 'user', id: `user-${run.id}`, content: message }
  await trx
    .insertInto('kernel_steps')
    .values({
      session_id: run.session_id,
      position: positionOf(run.turn, 0),
      run_id: run.id,
      root_id: run.root_id,
      step: 0,
      kind: 'user',
      body: JSON.stringify(attachments?.length ? { ...said, attachments } : said),
      created_at: store.now,
    })
    .execute()
}
