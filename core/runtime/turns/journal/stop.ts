import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import type { RunCause } from '../../../plugin.ts'
import { takeSession } from './take-session.ts'
import type { WaitingCall } from '../run.ts'
import { isOpenIn } from '../indexes/open-runs.ts'
import { isNote, noteOf, positionOf, unanswered } from './steps.ts'
import type { RunRow, RunStore } from './store.ts'
import type { WaitingTurnsTable } from '../waiting-tables.ts'
import type { RunDatabase, Stop } from './tables.ts'

/** How long a Stop that came before its message waits for the message. */
const earlyStopMs = 60_000

/** Whose runs a Stop means: all of a session, or the one of a request. */
export interface StopRequest {
  readonly did: string
  readonly sessionId: string
  readonly requestId?: string
  /** Called in the transaction that takes a turn out of the queue. */
  onUnqueued?(trx: RunDatabase, turn: WaitingTurnsTable): Promise<void>
}

/** What a Stop came upon. */
export interface Stopped {
  /** The runs that a process carries, which is to be told. */
  readonly runIds: readonly string[]
  readonly isKnown: boolean
  /** The runs that waited for a person, and are closed now: the session is free. */
  readonly closed?: readonly RunRow[]
  /** The turn that waited for its beginning, and waits no more. */
  readonly unqueued?: string
}

/**
 * Marks the open runs of a session, or the run of one request, as stopped. Turns that wait for their beginning stay, but
 * for the one of that request. The Stop of an unknown request is noted,
 * because its message may still be on its way. Undefined when the caller has no such session.
 */
export function stopRuns(
  store: RunStore,
  { did, sessionId, requestId, onUnqueued }: StopRequest,
): Promise<Stopped | undefined> {
  return store.commits.atomic(async (trx) => {
    // Taking the session's row lets no message slip in between the look and the note.
    const session = await takeSession(trx, sessionId, did)
    if (!session) return undefined
    const { carried, closed } = await stopOpenRuns(store, trx, sessionId, 'aborted', requestId)
    if (carried.length + closed.length > 0) return { runIds: carried, closed, isKnown: true }
    if (requestId === undefined) return { runIds: [], isKnown: false }
    const run = await trx
      .selectFrom('kernel_runs')
      .select('id')
      .where('session_id', '=', sessionId)
      .where('request_id', '=', requestId)
      .executeTakeFirst()
    if (!run) {
      const { rows } = await sql<WaitingTurnsTable>`delete from kernel_waiting_turns
        where session_id = ${sessionId} and request_id = ${requestId} returning *`.execute(trx)
      if (rows[0]) {
        await onUnqueued?.(trx, rows[0])
        return { runIds: [], isKnown: true, unqueued: rows[0].id }
      }
      const until = sql<number>`${store.now} + ${earlyStopMs}`
      await trx
        .insertInto('kernel_early_stops')
        .values({ session_id: sessionId, request_id: requestId, until })
        .onConflict((conflict) =>
          conflict.columns(['session_id', 'request_id']).doUpdateSet({ until }),
        )
        .execute()
    }
    return { runIds: [], isKnown: true }
  })
}

/**
 * Marks every open run of the session as stopped. Resolves to the runs that a process carries, which is to be told, and to
 * those that waited for a person, which this function closes: each unanswered call of theirs gets a result.
 */
export async function stopOpenRuns(
  store: RunStore,
  trx: RunDatabase,
  sessionId: string,
  stop: Stop,
  requestId?: string,
): Promise<{ carried: string[]; closed: RunRow[] }> {
  let open = trx
    .selectFrom('kernel_runs')
    .selectAll()
    .where(isOpenIn(sql.val(sessionId)))
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
  const end: WaitingEnd =
    stop === 'aborted'
      ? { status: 'aborted', cause: 'stopped' }
      : { status: 'interrupted', cause: 'superseded' }
  const closed = await closeWaiting(store, trx, ids, end)
  return { carried: ids.filter((id) => !closed.some((row) => row.id === id)), closed }
}

/** How a run ends that waited for a person, and what the model reads of the calls that nobody decided about. */
export interface WaitingEnd {
  readonly status: 'aborted' | 'interrupted'
  readonly cause: RunCause
  readonly words?: string
}

/** Closes those of the runs that wait for a person: each unanswered call gets a result. Resolves to them. */
export async function closeWaiting(
  store: RunStore,
  trx: RunDatabase,
  ids: readonly string[],
  { words = neverApproved, ...end }: WaitingEnd,
): Promise<RunRow[]> {
  const waiting = await trx
    .updateTable('kernel_runs')
    .set(end)
    .where('id', 'in', ids)
    .where('status', '=', 'waiting')
    .returningAll()
    .execute()
  for (const run of waiting) await answerWaitingCalls(store, trx, run, words)
  return waiting
}

/** What the model reads of a call that a person was asked about when the run ended. */
export const neverApproved =
  'Nobody approved this before the conversation went on, so it was not done.'

/** Gives a closed run's unanswered calls a result, because a model must never read a call without one. */
async function answerWaitingCalls(
  store: RunStore,
  trx: RunDatabase,
  run: RunRow,
  words: string,
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
          content: words,
          failed: true,
        }),
        created_at: store.now,
      })),
    )
    .execute()
}

/** How many of a run's newest notes are looked at for the call that waits. */
const mostNotes = 50

/** The call at which a run waits: that of the newest step at which it came to stand. */
export async function waitingCall(
  db: RunDatabase,
  { session_id, root_id }: Pick<RunRow, 'session_id' | 'root_id'>,
): Promise<WaitingCall | undefined> {
  const rows = await db
    .selectFrom('kernel_steps')
    .select(['kind', 'body'])
    .where('session_id', '=', session_id)
    .where('root_id', '=', root_id)
    .where('kind', '=', 'note')
    .orderBy('position', 'desc')
    .limit(mostNotes)
    .execute()
  for (const row of rows) {
    const { waits } = isNote(row) ? noteOf(row) : {}
    if (waits) return waits
  }
  return undefined
}
