import { sql } from 'kysely'
import type { RunStore } from '../journal/store.ts'
import { takeSession } from '../journal/take-session.ts'

/**
 * Moves the head of a session, which is what the engine left behind there. A head moves only between two runs: the end
 * of a run that is under way would move it back.
 */
export function moveHead(
  store: RunStore,
  sessionId: string,
  checkpoint: string,
): Promise<'moved' | 'no-session' | 'busy'> {
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
    if (busy) return 'busy'
    await trx
      .insertInto('kernel_heads')
      .values({ session_id: sessionId, turn: session.turns, checkpoint })
      .onConflict((conflict) =>
        conflict.columns(['session_id', 'turn']).doUpdateSet({ checkpoint }),
      )
      .execute()
    return 'moved'
  })
}
