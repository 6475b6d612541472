import type { DatabaseSync } from 'node:sqlite'

/** How much of a file may be free: what comes next uses these pages, and giving them back only to take them again is work. */
const freeShare = 0.05

/** Gives free pages of a file back, at most so many; resolves to how many. Call this between two transactions. */
export function giveBackPages(database: DatabaseSync, most: number): number {
  const number = (pragma: string) =>
    Number(Object.values(database.prepare(`pragma ${pragma}`).get() ?? {})[0])
  const isIncremental = number('auto_vacuum') === 2
  const free = number('freelist_count')
  // Of the pages that are used: a share of all pages would be one of those that go, too.
  const over = free - Math.ceil((number('page_count') - free) * freeShare)
  const pages = isIncremental ? Math.max(0, Math.min(most, over)) : 0
  // A prepared statement would give one page back each time it runs.
  if (pages > 0) database.exec(`pragma incremental_vacuum(${pages})`)
  return pages
}
