import type { Memory } from '../kept/memory.ts'
import type { MemoryDatabase } from '../tables.ts'

/** Notes which memories a turn was shown. */
export async function noteShown(
  db: MemoryDatabase,
  { did, sessionId }: { readonly did: string; readonly sessionId: string },
  requestId: string,
  shown: readonly Memory[],
  at: number,
): Promise<void> {
  const ids = JSON.stringify(shown.map(({ id }) => id))
  await db
    .insertInto('memory_used')
    .values({ session_id: sessionId, request_id: requestId, did, run_id: null, ids, at })
    .onConflict((conflict) =>
      conflict.columns(['session_id', 'request_id']).doUpdateSet({ ids, at }),
    )
    .execute()
}

/** Notes by which run memories were used, and that they were. */
export async function noteUse(
  trx: MemoryDatabase,
  turn: { readonly runId: string; readonly sessionId: string; readonly did: string },
): Promise<void> {
  const rows = await trx
    .updateTable('memory_used')
    .set({ run_id: turn.runId })
    .where('session_id', '=', turn.sessionId)
    .where('did', '=', turn.did)
    .where('run_id', 'is', null)
    .returning('ids')
    .execute()
  const ids = new Set(rows.flatMap(({ ids }) => idsIn(ids)))
  if (ids.size > 0)
    await trx
      .updateTable('memory_memories')
      .set((eb) => ({ uses: eb('uses', '+', 1) }))
      .where('did', '=', turn.did)
      .where('id', 'in', [...ids])
      .execute()
}

function idsIn(text: string): string[] {
  const found: unknown = JSON.parse(text)
  return Array.isArray(found) ? found.filter((id) => typeof id === 'string') : []
}
