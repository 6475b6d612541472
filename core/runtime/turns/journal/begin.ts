import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import type { Decision, TurnRequest } from '../run.ts'
import { type Before, type RunRow, type RunStore, toBefore } from './store.ts'
import type { RunDatabase } from './tables.ts'
import { positionOf } from './steps.ts'
import { stopOpenRuns } from './stop.ts'
import { besideWords, toUserMessage } from '../user-message.ts'
import { titleOf } from './sessions.ts'
import { dayNameOf, demandAtOnce, demandDay, type Seat } from '../limits.ts'

/** What begins: a message, or a person's answer to the run that waits for it. */
export interface Beginning {
  readonly did: string
  readonly sessionId: string
  readonly requestId: string
  readonly request: TurnRequest
  readonly answers?: { readonly run: RunRow; readonly decision: Decision }
  /** Its place among the turns of this process, where they are limited. */
  readonly seat?: Seat
}

/** What came of a beginning. */
export type Begun =
  | { readonly outcome: 'no-session' }
  /** The message was sent before: this is its run. */
  | { readonly outcome: 'known'; readonly run: RunRow }
  /** The run that was answered does not wait any more. */
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
  { did, sessionId, requestId, request, answers, seat }: Beginning,
): Promise<Begun> {
  const { begin } = store
  const title = titleOf(request.message)
  const [session] = (await begin.takeTurn({ session: sessionId, did, title }, trx)).rows
  if (!session) return { outcome: 'no-session' }
  const { turns: turn } = session
  const [look] = (await begin.look({ session: sessionId, did, request: requestId, turn }, trx)).rows
  if (!look) throw new Error('The database returned no row for a select without a table.')
  if (look.known !== null) return { outcome: 'known', run: (await store.find(look.known, trx))! }
  if (seat) {
    demandAtOnce(seat.limits, Number(look.busySessions))
    seat.take()
  }

  const continued = answers && (await takeWaiting(trx, answers.run.id))
  if (answers && !continued) return { outcome: 'not-waiting' }
  const { carried: superseded } =
    look.hasOpenRuns > 0 ? await stopOpenRuns(store, trx, sessionId, 'superseded') : { carried: [] }
  const stopped = look.wasStopped > 0 && (await takeEarlyStop(store, trx, sessionId, requestId))
  const id = randomUUID()
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
        stop: stopped ? 'aborted' : null,
        steps: continued ? 0 : 1,
        told: `began ${id} ${sessionId}`,
      },
      trx,
    )
  ).rows
  if (!run) throw new Error('The database did not return the row that it inserted.')
  // A run that continues another has the request of the first run of the chain.
  if (!continued) {
    await begin.insertRequest({ run_id: id, request: besideWords(request) }, trx)
    const body = JSON.stringify(toUserMessage(id, request))
    const position = positionOf(turn, 0)
    await begin.insertWords({ session_id: sessionId, position, run_id: id, body }, trx)
  }
  // The count comes last, because users who share an address wait here for each other until the transaction ends.
  if (seat) await countForTheDay(store, trx, seat)
  return { outcome: 'begun', run, superseded, ...toBefore(look) }
}

/** Counts the turn. Throws when it is one too many, and the transaction undoes all that was recorded of the turn. */
async function countForTheDay(store: RunStore, trx: RunDatabase, seat: Seat): Promise<void> {
  const { did, address } = seat.asking
  const { countTurn, countTurnThere } = store.begin
  const { rows } =
    address === undefined
      ? await countTurn({ who: did }, trx)
      : await countTurnThere({ who: did, there: dayNameOf(address) }, trx)
  for (const { who, turns } of rows)
    demandDay(seat.limits, who === did ? 'did' : 'address', Number(turns))
}

/** Marks the waiting run as continued. Of several answers at once, one gets through here. */
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
