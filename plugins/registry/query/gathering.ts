import { compareValues, namesOf, valuesAt } from '../indexes/values.ts'
import type { Read } from './matching.ts'
import type { Driver } from './plan.ts'
import type { Walking } from './walking.ts'

/** A driver whose walk goes in the order that a query sorts by. */
export type Sorted = Exclude<Driver, { kind: 'edges' }>

/** Up to how many entities of an edge or an index are read and sorted for one page. */
const mostGathered = 2048
/** Up to how many positions of a sort are counted, which takes a millisecond or two of the event loop on SQLite. */
const mostCounted = 16_384

/**
 * From where a sorted query takes its entities, where reading and sorting all of these costs less than to walk along the sort
 * until a page is full: from the shortest of some drivers. Both give the same order, so that each page may choose anew.
 */
export async function gatherFrom(
  walking: Walking,
  sorted: Sorted,
  others: readonly Driver[],
  limit: number,
): Promise<Driver | undefined> {
  let shortest: Driver | undefined
  let size = mostGathered
  for (const other of others) {
    const found = await walking.howMany(other, size)
    if (found > size) continue
    shortest = other
    size = found
  }
  if (!shortest) return undefined
  // Among n positions of the sort, a page of `limit` of the `size` is full after n × limit / size of them.
  const dear = Math.min(Math.floor(size ** 2 / (limit + 1)), mostCounted)
  return (await walking.howMany(sorted, dear)) > dear ? shortest : undefined
}

/** The value at which a walk in some order meets an entity first; undefined where it does not meet the entity. */
export function firstIn(driver: Sorted, { row, properties }: Read): string | number | undefined {
  if (driver.kind === 'entities') return ''
  const index = driver.indexes.find(({ protocol }) => protocol === row.protocol)
  if (!index) return undefined
  const within = valuesAt(properties, namesOf(driver.path), index.type)
    .filter((one) =>
      driver.ranges.some(
        ({ low, high }) => compareValues(one, low) >= 0 && compareValues(one, high) <= 0,
      ),
    )
    .sort(compareValues)
  return driver.descending ? within.at(-1) : within[0]
}
