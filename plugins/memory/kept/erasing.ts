import type { MemoryDatabase } from '../tables.ts'
import { holdsAt, type Memory } from './memory.ts'

/** Erases what an owner has, settings and hashes too where `withSettings`. Resolves to how many memories went. */
export async function eraseAll(
  trx: MemoryDatabase,
  did: string,
  withSettings: boolean,
): Promise<number> {
  const { numDeletedRows } = await trx
    .deleteFrom('memory_memories')
    .where('did', '=', did)
    .executeTakeFirst()
  for (const table of [
    'memory_sources',
    'memory_passages',
    'memory_used',
    'memory_denied',
  ] as const)
    await trx.deleteFrom(table).where('did', '=', did).execute()
  if (withSettings)
    for (const table of [
      'memory_erased',
      'memory_sessions',
      'memory_writes',
      'memory_people',
    ] as const)
      await trx.deleteFrom(table).where('did', '=', did).execute()
  return Number(numDeletedRows)
}

/** Forgets a session: what is known from it alone, and what has yet to be read. */
export async function forgetSession(
  trx: MemoryDatabase,
  did: string,
  sessionId: string,
): Promise<void> {
  const known = await trx
    .selectFrom('memory_sources')
    .select('memory_id')
    .where('session_id', '=', sessionId)
    .where('did', '=', did)
    .execute()
  await trx
    .deleteFrom('memory_sources')
    .where('session_id', '=', sessionId)
    .where('did', '=', did)
    .execute()
  for (const { memory_id } of known) {
    const other = await trx
      .selectFrom('memory_sources')
      .select('run_id')
      .where('memory_id', '=', memory_id)
      .limit(1)
      .executeTakeFirst()
    if (!other) await deleteMemory(trx, memory_id)
  }
  for (const table of ['memory_passages', 'memory_used', 'memory_sessions'] as const)
    await trx.deleteFrom(table).where('session_id', '=', sessionId).where('did', '=', did).execute()
}

/** Lets the oldest ended memory go, else the least valuable that was noticed; false where nothing may go. */
export async function makeRoom(
  trx: MemoryDatabase,
  all: readonly Memory[],
  at: number,
): Promise<boolean> {
  const ended = all.filter((one) => !holdsAt(one, at) && one.valid_from <= at)
  const worth = ({ uses, confirmed_at, by }: Memory) =>
    confirmed_at + uses * 86_400_000 + (by === 'noticed' ? 0 : 365 * 86_400_000)
  const candidates =
    ended.length > 0 ? ended : all.filter((one) => one.by === 'noticed' && !one.pinned)
  const [least] = [...candidates].sort((one, other) => worth(one) - worth(other))
  if (!least) return false
  await deleteMemory(trx, least.id)
  return true
}

/** Deletes one memory with its sources. */
export async function deleteMemory(trx: MemoryDatabase, id: string): Promise<void> {
  await trx.deleteFrom('memory_sources').where('memory_id', '=', id).execute()
  await trx.deleteFrom('memory_memories').where('id', '=', id).execute()
}
