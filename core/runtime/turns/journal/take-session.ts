import type { RunDatabase } from './tables.ts'

/**
 * Takes the session's row until the transaction ends, so that no turn begins in the session meanwhile. Undefined where
 * there is no such session, or where it is not this user's.
 */
export function takeSession(
  trx: RunDatabase,
  sessionId: string,
  did?: string,
): Promise<{ readonly turns: number } | undefined> {
  return trx
    .updateTable('kernel_sessions')
    .set((eb) => ({ turns: eb.ref('turns') }))
    .where('id', '=', sessionId)
    .$if(did !== undefined, (query) => query.where('did', '=', did ?? ''))
    .returning('turns')
    .executeTakeFirst()
}
