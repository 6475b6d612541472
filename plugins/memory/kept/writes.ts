import { sql } from 'kysely'
import { RuntimeError } from '#core'
import type { MemoryDatabase } from '../tables.ts'

/** How many writes a person may make in a time, over all routes and tools together. */
export const writes = { max: 60, perMs: 60_000 }

/** Counts a write of a person, also one that is refused later. Throws RATE_LIMITED past the limit. */
export async function countWrite(db: MemoryDatabase, did: string, at: number): Promise<void> {
  // A minute that began later than now was counted by a clock that has gone back since.
  const { rows } = await sql<{ at: number; count: number }>`
    insert into memory_writes (did, at, count) values (${did}, ${at}, 1)
    on conflict (did) do update set
      count = case when memory_writes.at between ${at - writes.perMs + 1} and ${at}
        then memory_writes.count + 1 else 1 end,
      at = case when memory_writes.at between ${at - writes.perMs + 1} and ${at}
        then memory_writes.at else ${at} end
    returning at, count`.execute(db)
  const [row] = rows
  if (!row || Number(row.count) <= writes.max) return
  const seconds = Math.max(1, Math.ceil((Number(row.at) + writes.perMs - at) / 1_000))
  throw new RuntimeError(
    'RATE_LIMITED',
    `More than ${writes.max} changes of what is remembered were asked for in a minute.`,
    {
      hint: `Try again in ${seconds} seconds.`,
      headers: { 'Retry-After': String(seconds) },
    },
  )
}
