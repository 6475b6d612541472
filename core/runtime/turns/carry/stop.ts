import { sql } from 'kysely'
import { stopOpenRuns } from '../journal/begin.ts'
import type { RunStore } from '../journal/store.ts'

/** A run that is stopped before it arrives must arrive within this time. */
const earlyStopMs = 60_000

export interface StopRequest {
  readonly did: string
  readonly sessionId: string
  readonly requestId?: string
}

/**
 * Marks the open runs of a session, or the one of a request, as stopped. A request that is not known is
 * remembered: it may still be on its way. Undefined when the caller has no such session.
 */
export function stopRuns(
  store: RunStore,
  { did, sessionId, requestId }: StopRequest,
): Promise<{ runIds: string[]; isKnown: boolean } | undefined> {
  return store.commits.atomic(async (trx) => {
    // Taking the session's row lets no message slip in between the look and the note.
    const session = await trx
      .updateTable('kernel_sessions')
      .set((eb) => ({ turns: eb.ref('turns') }))
      .where('id', '=', sessionId)
      .where('did', '=', did)
      .returning('id')
      .executeTakeFirst()
    if (!session) return undefined
    const { carried, closed } = await stopOpenRuns(store, trx, sessionId, 'aborted', requestId)
    if (carried.length + closed.length > 0) return { runIds: carried, isKnown: true }
    if (requestId === undefined) return { runIds: [], isKnown: false }
    const run = await trx
      .selectFrom('kernel_runs')
      .select('id')
      .where('session_id', '=', sessionId)
      .where('request_id', '=', requestId)
      .executeTakeFirst()
    if (!run) {
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
