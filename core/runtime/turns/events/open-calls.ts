import { fromBatch } from '../journal/event-lines.ts'
import type { RunDatabase } from '../journal/tables.ts'

/** A call of a client's own tool that no client has answered yet, with the event that told listeners of the call. */
export interface OpenCall {
  readonly toolCallId: string
  readonly event: string
  readonly data: string
}

/** A run that is under way, and what it waits for. */
export interface OpenRun {
  readonly runId: string
  readonly requestId: string
  /** Its last event that is in the database. */
  readonly lastSeq: number
  readonly calls: readonly OpenCall[]
}

/** The names of the events that ask clients to carry out a call. */
const asking = new Set(['browser_tool_call', 'action_call'])
const batchesAtOnce = 8

/** The runs of a session that are under way, with the calls that wait for a client's answer. */
export async function openRuns(db: RunDatabase, sessionId: string): Promise<OpenRun[]> {
  const runs = await db
    .selectFrom('kernel_runs')
    .select(['id', 'request_id', 'last_seq'])
    .where('session_id', '=', sessionId)
    .where('status', 'in', ['queued', 'running'])
    .orderBy('turn')
    .execute()
  return Promise.all(
    runs.map(async ({ id, request_id, last_seq }): Promise<OpenRun> => {
      const calls = await openCalls(db, id)
      return { runId: id, requestId: request_id, lastSeq: last_seq, calls }
    }),
  )
}

async function openCalls(db: RunDatabase, runId: string): Promise<OpenCall[]> {
  const rows = await db
    .selectFrom('kernel_client_answers')
    .select('tool_call_id')
    .where('run_id', '=', runId)
    .where('answer', 'is', null)
    .execute()
  const open = new Set(rows.map((row) => row.tool_call_id))
  const calls: OpenCall[] = []
  // Read from the end, because a run stands still where it asks.
  for (let before = Number.MAX_SAFE_INTEGER; open.size > 0;) {
    const batches = await db
      .selectFrom('kernel_run_events')
      .select(['first_seq', 'body'])
      .where('run_id', '=', runId)
      .where('last_seq', '<', before)
      .orderBy('last_seq', 'desc')
      .limit(batchesAtOnce)
      .execute()
    for (const batch of batches)
      for (const { event, data } of fromBatch(batch).reverse()) {
        if (!asking.has(event)) continue
        const { toolCallId } = JSON.parse(data) as { toolCallId: string } // an event of ours
        if (open.delete(toolCallId)) calls.unshift({ toolCallId, event, data })
      }
    if (batches.length < batchesAtOnce) break
    before = batches.at(-1)?.first_seq ?? 0
  }
  return calls
}
