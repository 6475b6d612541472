import type { MemoryDatabase } from '../tables.ts'
import { holdsAt, type Memory, type Said } from './memory.ts'
import type { Passages } from './passages.ts'

/** Stands in the place of a hash where a person erased everything. */
export const everything = 'all'

/** Erases what an owner has, settings and hashes too where `withSettings`. Resolves to how many memories went. */
export async function eraseAll(
  trx: MemoryDatabase,
  did: string,
  { passages, at, withSettings }: { passages: Passages; at: number; withSettings: boolean },
): Promise<number> {
  await passages.dropAll(trx, did)
  const { numDeletedRows } = await trx
    .deleteFrom('memory_memories')
    .where('did', '=', did)
    .executeTakeFirst()
  for (const table of [
    'memory_sources',
    'memory_passages',
    'memory_vectors',
    'memory_used',
    'memory_denials',
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
  else
    // A turn that is under way knows by this that its words are not to be kept.
    await trx
      .insertInto('memory_erased')
      .values({ did, hash: everything, at })
      .onConflict((conflict) => conflict.columns(['did', 'hash']).doUpdateSet({ at }))
      .execute()
  return Number(numDeletedRows)
}

/** Forgets a session: what is known from it alone, and what was said in it. */
export async function forgetSession(
  trx: MemoryDatabase,
  passages: Passages,
  did: string,
  sessionId: string,
): Promise<void> {
  await forgetPassages(trx, passages, did, sessionId)
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
  for (const table of ['memory_used', 'memory_sessions'] as const)
    await trx.deleteFrom(table).where('session_id', '=', sessionId).where('did', '=', did).execute()
}

/** The rooms that keep something which was said in a session, in an order that is always the same. */
export async function roomsOf(trx: MemoryDatabase, sessionId: string): Promise<string[]> {
  const rows = await trx
    .selectFrom('memory_sources')
    .select('did')
    .distinct()
    .where('session_id', '=', sessionId)
    // Of persons it is the one whose session it is: an import may name any session.
    .where('did', 'like', 'room:%')
    .orderBy('did')
    .execute()
  return rows.map(({ did }) => did)
}

/** Forgets what was said in a session. */
export async function forgetPassages(
  trx: MemoryDatabase,
  passages: Passages,
  did: string,
  sessionId: string,
): Promise<void> {
  const rows = await trx
    .deleteFrom('memory_passages')
    .where('session_id', '=', sessionId)
    .where('did', '=', did)
    .returning(['run_id', 'findable'])
    .execute()
  const findable = rows.filter((row) => row.findable === 1)
  await passages.drop(
    trx,
    findable.map(({ run_id }) => run_id),
  )
}

/** Takes the words of erased memories out of what was said: where they were said, where they were said again, and what waits to be read. */
export async function forgetWords(
  trx: MemoryDatabase,
  passages: Passages,
  did: string,
  gone: readonly Memory[],
  sources: ReadonlyMap<string, readonly Said[]>,
  at: number,
): Promise<void> {
  if (gone.length === 0) return
  const runs = new Set(gone.flatMap(({ id }) => (sources.get(id) ?? []).map(({ runId }) => runId)))
  const waiting = await trx
    .selectFrom('memory_passages')
    .select('run_id')
    .where('did', '=', did)
    .where('read_at', 'is', null)
    .execute()
  for (const { run_id } of waiting) runs.add(run_id)
  for (const { text, value } of gone)
    // A look finds so many turns at most, and finds no turn again that the index has lost.
    for (let found = await passages.with(trx, did, value || text); found.length > 0;) {
      for (const run of found) runs.add(run)
      await passages.drop(trx, found)
      found = await passages.with(trx, did, value || text)
    }
  await passages.drop(trx, [...runs])
  for (const run of runs)
    await trx
      .updateTable('memory_passages')
      .set({ words: '', reply: '', findable: 0 })
      .where('run_id', '=', run)
      .where('did', '=', did)
      .execute()
  await trx
    .updateTable('memory_passages')
    .set({ read_at: at })
    .where('did', '=', did)
    .where('read_at', 'is', null)
    .execute()
}

/** Lets the oldest ended memory go, else the least valuable that was noticed; resolves to it, or to nothing where none may go. */
export async function makeRoom(
  trx: MemoryDatabase,
  all: readonly Memory[],
  at: number,
): Promise<Memory | undefined> {
  const ended = all.filter((one) => !holdsAt(one, at) && one.valid_from <= at)
  const worth = ({ uses, confirmed_at, by }: Memory) =>
    confirmed_at + uses * 86_400_000 + (by === 'noticed' ? 0 : 365 * 86_400_000)
  const candidates =
    ended.length > 0 ? ended : all.filter((one) => one.by === 'noticed' && !one.pinned)
  const [least] = [...candidates].sort((one, other) => worth(one) - worth(other))
  if (least) await deleteMemory(trx, least.id)
  return least
}

/** Deletes one memory with its sources. */
export async function deleteMemory(trx: MemoryDatabase, id: string): Promise<void> {
  await trx.deleteFrom('memory_sources').where('memory_id', '=', id).execute()
  await trx.deleteFrom('memory_vectors').where('memory_id', '=', id).execute()
  await trx.deleteFrom('memory_memories').where('id', '=', id).execute()
}
