import { sql } from 'kysely'
import { RuntimeError } from '../../../errors.ts'
import type { RunStore } from '../journal/store.ts'
import { takeSession } from '../journal/take-session.ts'

/**
 * Moves the head of a session, which is what the engine left behind there; resolves to the head that an earlier move left
 * and nothing needs any more. A head moves only between two runs: the end of a run that is under way would move it back.
 */
export function moveHead(
  store: RunStore,
  sessionId: string,
  checkpoint: string,
): Promise<'no-session' | { readonly replaced?: string }> {
  return store.commits.atomic(async (trx) => {
    // Taking the session's row lets no message slip in.
    const session = await takeSession(trx, sessionId)
    if (!session) return 'no-session'
    const busy = await trx
      .selectFrom('kernel_runs')
      .select('id')
      .where('session_id', '=', sessionId)
      .where(sql<boolean>`status in ('queued', 'running')`)
      .executeTakeFirst()
    if (busy)
      throw new RuntimeError('CONFLICT', 'A turn is under way in this session.', {
        hint: 'Try again when the turn has ended.',
      })
    const before = await trx
      .selectFrom('kernel_heads')
      .select('checkpoint')
      .where('session_id', '=', sessionId)
      .where('turn', '=', session.turns)
      .executeTakeFirst()
    await trx
      .insertInto('kernel_heads')
      .values({ session_id: sessionId, turn: session.turns, checkpoint })
      .onConflict((conflict) =>
        conflict.columns(['session_id', 'turn']).doUpdateSet({ checkpoint }),
      )
      .execute()
    return before && before.checkpoint !== checkpoint ? { replaced: before.checkpoint } : {}
  })
}
