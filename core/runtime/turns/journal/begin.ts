import type { Proof } from '../../http/routes/access.ts'
import type { TraceSpan } from '../../telemetry/span.ts'
import { sql } from 'kysely'
import type { RunAdmission, RunCause } from '../../../plugin.ts'
import type { Decision, TurnRequest } from '../run.ts'
import { type Before, type RunRow, type RunStore, toBefore } from './store.ts'
import type { RunDatabase } from './tables.ts'
import { useFiles } from '../../files/files.ts'
import { messageOf, positionOf } from './steps.ts'
import { stopOpenRuns } from './stop.ts'
import { besideWords, toUserMessage } from '../user-message.ts'
import type { WaitingTurnsTable } from '../waiting-tables.ts'
import { titleOf } from '../titles.ts'
import { telling } from '../../store/channels/channels.ts'
import { channelOfSession } from './write.ts'
import { demandAtOnce, demandDay, type Seat } from '../limits.ts'
import { timedId } from '../../base/clock.ts'

/** What begins: a message, or a person's answer to the run that waits for it. */
export interface Beginning {
  readonly did: string
  readonly sessionId: string
  readonly requestId: string
  readonly request: TurnRequest
  readonly answers?: { readonly run: RunRow; readonly decision: Decision }
  /** The turn's seat among the turns of this process, where these are limited. */
  readonly seat?: Seat
  /** What becomes of the turn where another is under way in the session or waits there. By default the one under way ends. */
  readonly whenBusy?: 'wait' | 'refuse'
  /** The waiting turn that begins now; with a cause, the turn ends without having begun. */
  readonly waited?: { readonly id: string; readonly cause?: RunCause }
  /** The plugins were asked about the turn, and let it begin. */
  readonly isAdmitted?: boolean
  /** The span of the turn, where somebody collects spans. */
  readonly span?: TraceSpan
  /** The request of the caller, where there is one. */
  readonly koa?: RunAdmission['koa']
  /** What is left to prove of the user before anything is recorded, or with it. */
  readonly proof?: Proof
}

/** What came of a beginning. */
export type Begun =
  | { readonly outcome: 'no-session' }
  /** The message was sent before: this is its run. */
  | { readonly outcome: 'known'; readonly run: RunRow }
  /** The turn waits until the session is free; it may have done so before. */
  | {
      readonly outcome: 'waits'
      readonly id: string
      readonly sessionId: string
      readonly isNew: boolean
    }
  /** The user has a turn with this request id and other words. */
  | { readonly outcome: 'reused' }
  /** A turn is under way in the session. */
  | { readonly outcome: 'busy' }
  /** As many turns wait in the session as may wait there. */
  | { readonly outcome: 'full' }
  /** The waiting turn has begun elsewhere, or was taken away. */
  | { readonly outcome: 'gone' }
  /** The run that was answered does not wait any more. */
  | { readonly outcome: 'not-waiting' }
  | ({
      readonly outcome: 'begun'
      readonly run: RunRow
      /** The room of the session, where it has one of its own. */
      readonly room: string | null
      /** The request, with the model of the session where the request names none. */
      readonly request: TurnRequest
      /** Runs of the session that must end first. */
      readonly superseded: readonly string[]
      /** Runs of the session that waited for a person, and have ended now. */
      readonly closed: readonly RunRow[]
      /** Whether the statement that recorded the run has told the user's readers of it. */
      readonly isTold?: boolean
    } & Before)

/** How many turns may wait in one session. */
export const mostWaiting = 20

/**
 * Records a run in one transaction, which first updates the session's row. Of two messages that come at once, the second waits
 * for the transaction of the first, and then supersedes the first run.
 */
export async function beginRun(
  store: RunStore,
  trx: RunDatabase,
  beginning: Beginning,
): Promise<Begun> {
  const { did, sessionId, requestId, answers, seat, whenBusy, waited } = beginning
  const { begin } = store
  if (waited && !(await isOurs(store, trx, sessionId))) return { outcome: 'busy' }
  // A session is not called after words that its user has not said.
  const { from, message } = beginning.request
  const title = from === 'plugin' ? null : titleOf(message)
  const [session] = (await begin.takeTurn({ session: sessionId, did, title }, trx)).rows
  if (!session) return { outcome: 'no-session' }
  const { turns: turn, room } = session
  const request = withSession(beginning.request, session)
  const [look] = (await begin.look({ session: sessionId, did, request: requestId, turn }, trx)).rows
  if (!look) throw new Error('The database returned no row for a select without a table.')
  if (look.known !== null) return knownRun(store, trx, look.known, request)
  if (look.waits !== null && look.waits !== waited?.id)
    return knownWaiting(trx, look.waits, request)
  const isBusy = look.hasOpenRuns > 0
  if (whenBusy && (isBusy || Number(look.waitingTurns) > 0)) {
    if (whenBusy === 'refuse') return { outcome: 'busy' }
    if (Number(look.waitingTurns) >= mostWaiting) return { outcome: 'full' }
    return enqueue(store, trx, beginning, turn)
  }
  if (waited && !waited.cause && isBusy) return { outcome: 'busy' }
  if (waited && !(await leaveQueue(trx, waited.id))) return { outcome: 'gone' }
  if (seat) {
    demandAtOnce(seat.limits, Number(look.busySessions))
    seat.take()
  }

  const continued = answers && (await takeWaiting(trx, answers.run.id))
  if (answers && !continued) return { outcome: 'not-waiting' }
  const { carried: superseded, closed } =
    isBusy && !waited
      ? await stopOpenRuns(store, trx, sessionId, 'superseded')
      : { carried: [], closed: [] }
  const stopped = look.wasStopped > 0 && (await takeEarlyStop(store, trx, sessionId, requestId))
  const id = waited?.id ?? timedId()
  const [run] = (
    await begin.insertRun(
      {
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
        stop: waited?.cause ? 'superseded' : stopped ? 'aborted' : null,
        steps: continued ? 0 : 1,
        cause: waited?.cause ?? null,
        ...telling(channelOfSession(sessionId), `began ${id} ${sessionId}`),
      },
      trx,
    )
  ).rows
  if (!run) throw new Error('The database did not return the row that it inserted.')
  // A run that continues another has the request of the first run of the chain.
  if (!continued) {
    const { model } = beginning.request
    if (model !== undefined && model !== session.model)
      await begin.chooseModel({ session: sessionId, model: chosen(model) }, trx)
    const beside = besideWords(request)
    if (beside !== undefined) await begin.insertRequest({ run_id: id, request: beside }, trx)
    const body = JSON.stringify(toUserMessage(id, request))
    const position = positionOf(turn, 0)
    const kind = request.from ?? 'user'
    await begin.insertWords({ session_id: sessionId, position, run_id: id, kind, body }, trx)
    await takeFiles(store, trx, beginning)
  }
  // The count comes last, because users who share an address wait here for each other until the transaction ends.
  if (seat) await countForTheDay(store, trx, seat)
  return { outcome: 'begun', run, room, request, superseded, closed, ...toBefore(look) }
}

/** The word that chooses the default again. */
const usual = 'default'

const chosen = (model: string): string | null => (model === usual ? null : model)

/** A request with the model of its session, which stays until a message names another one, and whether others read along. */
function withSession(
  request: TurnRequest,
  { model, shared }: { readonly model: string | null; readonly shared: number },
): TurnRequest {
  const isOther = model !== null && request.model === undefined
  if (!isOther && shared === 0) return request
  return { ...request, ...(isOther && { model }), ...(shared === 1 && { shared: true as const }) }
}

/** Takes the session's row, unless another process holds it now, which may be about to begin the turn. */
async function isOurs({ dialect }: RunStore, trx: RunDatabase, sessionId: string) {
  if (dialect === 'sqlite') return true
  const { rows } = await sql`select id from kernel_sessions
    where id = ${sessionId} for update skip locked`.execute(trx)
  return rows.length > 0
}

/** The run that has the request id of the turn. */
async function knownRun(
  store: RunStore,
  trx: RunDatabase,
  id: string,
  { message }: TurnRequest,
): Promise<Begun> {
  const run = await store.find(id, trx)
  if (!run) throw new Error(`The run ${id} is gone within the transaction that found it.`)
  const { rows } = await sql<{ body: string }>`select body from kernel_steps
    where session_id = ${run.session_id} and position = ${positionOf(run.root_turn, 0)}
    and kind in ('user', 'plugin')`.execute(trx)
  const isOther = rows[0] !== undefined && messageOf(rows[0]).content !== message
  return isOther ? { outcome: 'reused' } : { outcome: 'known', run }
}

/** The waiting turn that has the request id of the turn. */
async function knownWaiting(
  trx: RunDatabase,
  id: string,
  { message }: TurnRequest,
): Promise<Begun> {
  const { rows } = await sql<WaitingTurnsTable>`select * from kernel_waiting_turns
    where id = ${id}`.execute(trx)
  if (!rows[0]) throw new Error(`The turn ${id} is gone within the transaction that found it.`)
  const { session_id: sessionId, request } = rows[0]
  const kept: TurnRequest = JSON.parse(request) // written by `enqueue`
  if (kept.message !== message) return { outcome: 'reused' }
  return { outcome: 'waits', id, sessionId, isNew: false }
}

/** Keeps the turn until the session is free. Its place is the number of the turn that it would have been. */
async function enqueue(
  store: RunStore,
  trx: RunDatabase,
  { did, sessionId, requestId, request, seat }: Beginning,
  place: number,
): Promise<Begun> {
  const id = timedId()
  await takeFiles(store, trx, { did, sessionId, request })
  await sql`insert into kernel_waiting_turns
    (id, session_id, did, request_id, place, request, address, created_at)
    values (${id}, ${sessionId}, ${did}, ${requestId}, ${place}, ${JSON.stringify(request)},
      ${seat?.asking.address ?? null}, ${store.now})`.execute(trx)
  return { outcome: 'waits', id, sessionId, isNew: true }
}

/** Has the session refer to the files of the message from now on. */
async function takeFiles(
  store: RunStore,
  trx: RunDatabase,
  { did, sessionId, request }: Pick<Beginning, 'did' | 'sessionId' | 'request'>,
): Promise<void> {
  const { parts } = request
  if (parts) await useFiles(store, trx, { did, sessionId, ids: parts.map(({ file }) => file) })
}

/** Takes a turn out of its queue; false when it does not wait there any more. */
export async function leaveQueue(trx: RunDatabase, id: string): Promise<boolean> {
  const { rows } =
    await sql`delete from kernel_waiting_turns where id = ${id} returning id`.execute(trx)
  return rows.length > 0
}

/** Counts the turn. Throws when it is one too many, and the transaction undoes all that was recorded of the turn. */
async function countForTheDay(store: RunStore, trx: RunDatabase, seat: Seat): Promise<void> {
  const { did, address } = seat.asking
  const { countTurn, countTurnThere } = store.begin
  const { rows } =
    address === undefined
      ? await countTurn({ who: did }, trx)
      : await countTurnThere({ who: did, there: address }, trx)
  for (const { who, turns } of rows)
    demandDay(seat.limits, who === did ? 'did' : 'address', Number(turns))
}

/** Marks the waiting run as continued. Of several answers that come at once only one succeeds. */
async function takeWaiting(trx: RunDatabase, runId: string): Promise<RunRow | undefined> {
  return trx
    .updateTable('kernel_runs')
    .set({ status: 'continued' })
    .where('id', '=', runId)
    .where('status', '=', 'waiting')
    .returningAll()
    .executeTakeFirst()
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
