import type { KeptResult, NewResult } from '../run.ts'
import type { RunRow, RunStore } from './store.ts'

/** How many bytes of results one turn keeps: enough for a dozen large ones, and no model reads more. */
const mostBytes = 32 * 1024 * 1024
/** How many results one turn keeps. */
const mostResults = 200

/** What came of keeping a result: its handle, `full` when the turn keeps no more, `lost` when another process has the run. */
export type Keeping = { readonly handle: string } | 'full' | 'lost'

/**
 * Keeps the whole result of a call of which the model reads a part. A call that runs again replaces its result. The handle
 * has the number of the turn, so that no later result of the session gets the handle of one that was deleted.
 */
export function keepResult(
  store: RunStore,
  held: RunRow,
  { toolCallId, body, source }: NewResult,
): Promise<Keeping> {
  const bytes = Buffer.byteLength(body)
  return store.commits.atomic(async (db): Promise<Keeping> => {
    let run = db
      .selectFrom('kernel_runs')
      .select('id')
      .where('id', '=', held.id)
      .where('owner', '=', store.owner)
      .where('epoch', '=', held.epoch)
    // The lock makes two results of one run take different numbers, and makes a takeover wait until this result is kept.
    if (store.dialect === 'postgres') run = run.forUpdate()
    if (!(await run.executeTakeFirst())) return 'lost'
    const rows = await db
      .selectFrom('kernel_results')
      .select(['tool_call_id', 'handle', 'bytes'])
      .where('session_id', '=', held.session_id)
      .where('root_id', '=', held.root_id)
      .execute()
    const known = rows.find((row) => row.tool_call_id === toolCallId)
    const others = rows.filter((row) => row !== known)
    const kept = others.reduce((sum, row) => sum + row.bytes, 0)
    if (kept + bytes > mostBytes || others.length >= mostResults) return 'full'
    const values = { bytes, body, source: source ? JSON.stringify(source) : null }
    if (known) {
      await db
        .updateTable('kernel_results')
        .set(values)
        .where('session_id', '=', held.session_id)
        .where('handle', '=', known.handle)
        .execute()
      return { handle: known.handle }
    }
    const number = rows.length + 1
    const handle = `r${held.root_turn}${number === 1 ? '' : `-${number}`}`
    await db
      .insertInto('kernel_results')
      .values({
        session_id: held.session_id,
        root_id: held.root_id,
        tool_call_id: toolCallId,
        handle,
        ...values,
      })
      .execute()
    return { handle }
  })
}

/** A kept result of the session of a run; undefined when the session has none of this handle. */
export async function readResult(
  store: RunStore,
  { session_id }: Pick<RunRow, 'session_id'>,
  handle: string,
): Promise<KeptResult | undefined> {
  const row = await store.db
    .selectFrom('kernel_results')
    .select(['body', 'source'])
    .where('session_id', '=', session_id)
    .where('handle', '=', handle)
    .executeTakeFirst()
  if (!row) return undefined
  return { body: row.body, ...(row.source !== null && { source: JSON.parse(row.source) }) }
}
