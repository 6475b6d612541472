import type { MemoryDatabase } from '../tables.ts'
import { writes } from './writes.ts'

const dayMs = 86_400_000
const usedDays = 30

/** Lets old rows go: what turns were shown, turns that were read, counts of long ago. */
export async function sweep(db: MemoryDatabase, now: number): Promise<void> {
  const before = now - usedDays * dayMs
  await db.deleteFrom('memory_used').where('at', '<', before).execute()
  // What stays findable goes with its session.
  await db
    .deleteFrom('memory_passages')
    .where('read_at', '<', now - dayMs)
    .where('findable', '=', 0)
    .execute()
  await db
    .deleteFrom('memory_passages')
    .where('at', '<', before)
    .where('findable', '=', 0)
    .execute()
  await db
    .deleteFrom('memory_counts')
    .where('day', '<', Math.floor(before / dayMs))
    .execute()
  for (const table of ['memory_erased', 'memory_denials'] as const)
    await db
      .deleteFrom(table)
      .where('at', '<', now - 365 * dayMs)
      .execute()
  await db
    .deleteFrom('memory_writes')
    .where('at', '<', now - writes.perMs)
    .execute()
}
