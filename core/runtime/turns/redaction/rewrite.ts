import { UsageSum } from '../../model/usage/usage-sum.ts'
import { addSpent, noteOf, type StepRow } from '../journal/steps.ts'
import type { RunDatabase } from '../journal/tables.ts'

/** A row of the journal as it stands from now on. */
export type Rewritten = Pick<StepRow, 'kind' | 'body'>

/** A note without words: what it says of costs stays. */
export const noteOfCost = (row: StepRow): Rewritten => ({
  kind: 'note',
  body: JSON.stringify(costOf(row)),
})

/** What a note says of costs, and that a run was cut short. */
function costOf(row: StepRow) {
  const { usage, summary, partial, loaded, within } = noteOf(row)
  const sum = new UsageSum()
  addSpent(sum, { usage, ...(summary && { summary }) })
  const spent = sum.byModel()
  return {
    ...(spent.length > 0 && { usage: spent }),
    ...(partial && { partial }),
    ...(loaded && { loaded }),
    ...(within !== undefined && { within }),
  }
}

/** Writes a row of the journal anew. */
export async function rewrite(
  trx: RunDatabase,
  row: StepRow,
  { kind, body }: Rewritten,
): Promise<void> {
  await trx
    .updateTable('kernel_steps')
    .set({ kind, body })
    .where('session_id', '=', row.session_id)
    .where('position', '=', row.position)
    .execute()
}

/** Drops the summaries that later turns made: models read the messages again that these stood for. */
export async function dropSummaries(
  trx: RunDatabase,
  sessionId: string,
  steps: readonly StepRow[],
) {
  const rows = await trx
    .selectFrom('kernel_steps')
    .selectAll()
    .where('session_id', '=', sessionId)
    .where('kind', '=', 'summary')
    .where('position', '>', steps[0]?.position ?? 0)
    .execute()
  for (const row of rows) await rewrite(trx, row, noteOfCost(row))
}
