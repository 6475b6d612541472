import type { EffectState } from '../run.ts'
import type { Held, RunRow, RunStore } from './store.ts'

/**
 * Marks a write before the tool starts it. Undefined: this process does not hold the run any more. The lock on
 * the run's row makes a takeover wait, so the takeover either sees the mark or prevents it.
 */
export async function beginEffect(
  store: RunStore,
  held: Held,
  toolCallId: string,
  tool: string,
): Promise<EffectState | undefined> {
  const fresh = await store.commits.single((db) => {
    let run = db
      .selectFrom('kernel_runs')
      .select((eb) => [
        'session_id',
        'root_id',
        eb.val(toolCallId).as('tool_call_id'),
        eb.val(tool).as('tool'),
        eb.val<'started'>('started').as('state'),
      ])
      .where('id', '=', held.id)
      .where('owner', '=', store.owner)
      .where('epoch', '=', held.epoch)
    if (store.dialect === 'postgres') run = run.forUpdate()
    return db
      .insertInto('kernel_effects')
      .columns(['session_id', 'root_id', 'tool_call_id', 'tool', 'state'])
      .expression(run)
      .onConflict((conflict) => conflict.doNothing())
      .returning('state')
      .execute()
  })
  if (fresh.length > 0) return { state: 'new' }
  const known = await store.db
    .selectFrom('kernel_runs as run')
    .leftJoin('kernel_effects as effect', (join) =>
      join
        .onRef('effect.session_id', '=', 'run.session_id')
        .onRef('effect.root_id', '=', 'run.root_id')
        .on('effect.tool_call_id', '=', toolCallId),
    )
    .select(['effect.state', 'effect.content', 'effect.failed'])
    .where('run.id', '=', held.id)
    .where('run.owner', '=', store.owner)
    .where('run.epoch', '=', held.epoch)
    .executeTakeFirst()
  if (!known) return undefined
  if (known.state !== 'done') return { state: 'unknown' }
  return { state: 'done', content: JSON.parse(known.content ?? '""'), failed: known.failed === 1 }
}

/**
 * Notes what came of a write. No fence checks this note: the process that carried the write out knows its outcome
 * best, and its successor has either not asked yet or has called the outcome unknown.
 */
export async function finishEffect(
  store: RunStore,
  run: Pick<RunRow, 'session_id' | 'root_id'>,
  toolCallId: string,
  content: string,
  failed: boolean,
): Promise<void> {
  await store.commits.single((db) =>
    db
      .updateTable('kernel_effects')
      .set({ state: 'done', content: JSON.stringify(content), failed: failed ? 1 : 0 })
      .where('session_id', '=', run.session_id)
      .where('root_id', '=', run.root_id)
      .where('tool_call_id', '=', toolCallId)
      .where('state', '=', 'started')
      .execute(),
  )
}
