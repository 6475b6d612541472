import { invalid } from '../refusal.ts'
import type { NonAdopters } from './request.ts'

/**
 * What a commitment says of its non-adopters, with their number by stratum; undefined where it says nothing. Refuses
 * counts that contradict the frame or the mark.
 */
export function marked(
  { nonAdopters, nonAdopterCounts }: NonAdopters = {},
  counts: ReadonlyMap<string, number>,
): NonAdopters | undefined {
  const entries = Object.entries(nonAdopterCounts ?? {})
  for (const [name, count] of entries) {
    const all = counts.get(name)
    if (all === undefined)
      throw invalid(`nonAdopterCounts.${name}`, `the frame has no stratum "${name}"`)
    if (count > all)
      throw invalid(
        `nonAdopterCounts.${name}`,
        `${count} are more than the ${all} ids of the stratum`,
      )
  }
  const total = entries.reduce((sum, [, count]) => sum + count, 0)
  if (nonAdopters === undefined) {
    if (entries.length === 0) return undefined
    return {
      nonAdopters: total > 0 ? 'included' : 'none',
      nonAdopterCounts: withAll(counts, entries),
    }
  }
  if (nonAdopters === 'none' && total > 0)
    throw invalid('nonAdopters', `"none" contradicts the ${total} non-adopters that are counted`)
  if (nonAdopters === 'included' && total === 0)
    throw invalid(
      'nonAdopterCounts',
      'missing; give how many non-adopters each stratum of the frame has, or mark them line by line',
      'Where there are none, say "none".',
    )
  return { nonAdopters, nonAdopterCounts: withAll(counts, entries) }
}

/** A count for every stratum: 0 for a stratum that is not named. */
function withAll(counts: ReadonlyMap<string, number>, entries: readonly [string, number][]) {
  const named = new Map(entries)
  return Object.fromEntries([...counts.keys()].map((name) => [name, named.get(name) ?? 0]))
}
