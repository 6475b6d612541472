import { sql } from 'kysely'
import type { Message } from '../../../plugin.ts'
import { fromBatch, toBatches, type RunEvent } from '../journal/event-lines.ts'
import { isNote, messageOf, type StepRow } from '../journal/steps.ts'
import { slices, type RunStore } from '../journal/store.ts'
import type { RunDatabase } from '../journal/tables.ts'
import { takeSession } from '../journal/take-session.ts'
import { forgetWords } from '../search/tables.ts'
import type { TurnRequest } from '../run.ts'
import { titleOf } from '../titles.ts'
import { dropSummaries, noteOfCost, rewrite, type Rewritten } from './rewrite.ts'

/** What stands in place of words that were taken back. */
export const removed = '[removed]'

/** A turn whose words are to be taken back. */
export interface RedactedTurn {
  readonly did: string
  readonly sessionId: string
  readonly rootId: string
}

/** The turn of a request: its first run, and whether any run of it has yet to end. Undefined where there is none. */
export async function turnOfRequest(
  store: RunStore,
  { did, sessionId, requestId }: Pick<RedactedTurn, 'did' | 'sessionId'> & { requestId: string },
): Promise<{ readonly rootId: string; readonly isOpen: boolean } | undefined> {
  const asked = await store.db
    .selectFrom('kernel_runs')
    .select('root_id')
    .where('session_id', '=', sessionId)
    .where('did', '=', did)
    .where('request_id', '=', requestId)
    .executeTakeFirst()
  if (!asked) return undefined
  const open = await store.openOf(sessionId, asked.root_id)
  return { rootId: asked.root_id, isOpen: open !== undefined }
}

/**
 * Takes the words of a turn back that has ended: what was said, the reply, and what its tools were told and answered. The rows
 * stay, so that turns, prices and ends are counted as before.
 */
export function redactTurn(store: RunStore, turn: RedactedTurn): Promise<void> {
  const { did, sessionId, rootId } = turn
  return store.commits.atomic(async (trx) => {
    if (!(await takeSession(trx, sessionId, did))) return
    const runs = await trx
      .selectFrom('kernel_runs')
      .select('id')
      .where('session_id', '=', sessionId)
      .where('root_id', '=', rootId)
      .execute()
    const steps = await store.stepsOf({ session_id: sessionId, root_id: rootId }, trx)
    await forgetTitle(trx, sessionId, steps)
    for (const step of steps) await rewrite(trx, step, redactedRow(step))
    await forgetWords(trx, sessionId)
    await dropSummaries(trx, sessionId, steps)
    for (const { id } of runs) await redactEvents(trx, id)
    await redactRequest(trx, rootId)
    await trx
      .updateTable('kernel_sessions')
      .set((eb) => ({ redactions: eb('redactions', '+', 1) }))
      .where('id', '=', sessionId)
      .execute()
    await forgetBeside(trx, { sessionId, rootId, runIds: runs.map(({ id }) => id) })
  })
}

/** A row of the journal without words. What calls of models cost stays. */
function redactedRow(row: StepRow): Rewritten {
  if (isNote(row)) return noteOfCost(row)
  return { kind: row.kind, body: JSON.stringify(redactedMessage(messageOf(row))) }
}

function redactedMessage(message: ReturnType<typeof messageOf>): Message {
  if (message.role === 'system') return { role: 'system', content: removed }
  const { role, id } = message
  if (role === 'tool') {
    const { toolCallId, name, failed } = message
    return { role, id, toolCallId, name, content: removed, ...(failed && { failed }) }
  }
  if (role !== 'assistant') return { ...pick(message), role: 'user', id, content: removed }
  const { content, toolCalls, usage, model } = message
  return {
    role,
    id,
    content: content === '' ? '' : removed,
    ...(toolCalls && { toolCalls: toolCalls.map((call) => ({ ...call, args: {} })) }),
    ...(usage && { usage }),
    ...(model !== undefined && { model }),
  }
}

/** Whose words they were, which is no word of theirs. */
const pick = (message: object) =>
  'origin' in message && typeof message.origin === 'string' ? { origin: message.origin } : {}

/** A session that was named after the words has no name until the next turn. */
async function forgetTitle(trx: RunDatabase, sessionId: string, steps: readonly StepRow[]) {
  const words = steps.find(({ kind }) => kind === 'user' || kind === 'plugin')
  if (!words) return
  await trx
    .updateTable('kernel_sessions')
    .set({ title: null })
    .where('id', '=', sessionId)
    .where('title', '=', titleOf(messageOf(words).content))
    .execute()
}

/** Leaves of the events of a run that there was a reply, and how the run ended. */
async function redactEvents(trx: RunDatabase, runId: string): Promise<void> {
  const rows = await trx
    .selectFrom('kernel_run_events')
    .select('body')
    .where('run_id', '=', runId)
    .orderBy('last_seq')
    .execute()
  await trx.deleteFrom('kernel_run_events').where('run_id', '=', runId).execute()
  const kept: RunEvent[] = []
  let hasReply = false
  for (const event of rows.flatMap(fromBatch)) {
    if (event.event === 'run' || event.event === 'done') kept.push(event)
    else if (event.event === 'message' && !hasReply) {
      hasReply = true
      const { timestamp } = JSON.parse(event.data)
      kept.push({ ...event, data: JSON.stringify({ content: removed, timestamp }) })
    }
  }
  for (const batch of toBatches(kept))
    await trx
      .insertInto('kernel_run_events')
      .values({ run_id: runId, ...batch })
      .execute()
}

/** Leaves of a request who asked it. */
async function redactRequest(trx: RunDatabase, rootId: string): Promise<void> {
  const row = await trx
    .selectFrom('kernel_run_requests')
    .select('request')
    .where('run_id', '=', rootId)
    .executeTakeFirst()
  if (!row) return
  const { from, origin, source, shared, model }: Partial<TurnRequest> = JSON.parse(row.request)
  await trx
    .updateTable('kernel_run_requests')
    .set({ request: JSON.stringify({ from, origin, source, shared, model }) })
    .where('run_id', '=', rootId)
    .execute()
}

/** Deletes what stands beside the journal: whole results, answers of clients, what notices say of the turn. */
async function forgetBeside(
  trx: RunDatabase,
  of: { readonly sessionId: string; readonly rootId: string; readonly runIds: readonly string[] },
): Promise<void> {
  const { sessionId, rootId, runIds } = of
  await trx
    .deleteFrom('kernel_results')
    .where('session_id', '=', sessionId)
    .where('root_id', '=', rootId)
    .execute()
  await trx
    .updateTable('kernel_effects')
    .set({ content: removed })
    .where('session_id', '=', sessionId)
    .where('root_id', '=', rootId)
    .where('content', 'is not', null)
    .execute()
  for (const ids of slices(runIds)) {
    await trx.deleteFrom('kernel_client_answers').where('run_id', 'in', ids).execute()
    await sql`delete from kernel_notices where session_id = ${sessionId}
      and run_id in (${sql.join(ids)})`.execute(trx)
  }
}
