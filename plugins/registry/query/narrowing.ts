import { overList } from '../bulk.ts'
import { seenAmong } from '../rights/seen-among.ts'
import type { Reader } from '../rights/reader.ts'
import type { RegistryDatabase } from '../tables.ts'
import type { Bound, EdgeCondition } from './binding.ts'
import { edgesThatMust, type Driver } from './plan.ts'
import type { Narrow, Walking } from './walking.ts'

/** Up to how many positions of an edge or an index are counted, and how many of an index are taken as a set. */
const mostProbed = 4096

/**
 * Intersects edges and indexes before any entity is read: of several ways to what a query asks for it takes the shortest,
 * and along this way leaves out what the others do not have.
 */
export class Narrowing {
  readonly #db: RegistryDatabase
  readonly #walking: Walking
  readonly #byOrdinal
  readonly #byDid

  constructor(db: RegistryDatabase, walking: Walking) {
    this.#db = db
    this.#walking = walking
    const ids = db.selectFrom('registry_entities').select(['did', 'ordinal'])
    type Ids = { did: string; ordinal: number }
    this.#byOrdinal = overList<Ids, number>(db, (ordinals) => ids.where('ordinal', 'in', ordinals))
    this.#byDid = overList<Ids>(db, (dids) => ids.where('did', 'in', dids))
  }

  /** Which of several drivers has the fewest positions; the first where none has few. */
  async shortest(ways: readonly Driver[]): Promise<number> {
    let best = { way: 0, size: Infinity }
    if (ways.length === 1) return best.way
    for (const [way, driver] of ways.entries()) {
      const size = await this.#walking.howMany(driver, mostProbed)
      if (size < best.size) best = { way, size }
    }
    return best.way
  }

  /** What leaves out positions along a driver; undefined where there is nothing to intersect with. */
  async along(
    driver: Driver,
    ways: readonly Driver[],
    condition: Bound | undefined,
    reader: Reader,
  ): Promise<Narrow | undefined> {
    if (driver.kind === 'entities') return undefined
    const other = driver.kind === 'edges' && ways.find(({ kind }) => kind === 'values')
    const isSmall = other && (await this.#walking.howMany(other, mostProbed)) <= mostProbed
    const ordinals =
      isSmall && other.kind === 'values' ? await this.#walking.ordinalsOf(other) : undefined
    const edges = edgesThatMust(condition).filter(
      (one) => driver.kind !== 'edges' || one !== driver.condition,
    )
    if (!ordinals && edges.length === 0) return undefined
    return async (positions) => {
      const byDid = driver.kind === 'edges'
      const rows = byDid
        ? await this.#byDid(positions.map(({ value }) => String(value)))
        : await this.#byOrdinal(positions.map(({ ordinal }) => ordinal))
      let kept = ordinals ? rows.filter(({ ordinal }) => ordinals.has(ordinal)) : rows
      for (const edge of edges) {
        const dids = kept.map(({ did }) => did)
        const holding = await holdersOf(this.#db, edge, dids, reader)
        kept = kept.filter(({ did }) => holding.has(did))
      }
      const left = new Set(kept.map(({ did, ordinal }) => (byDid ? did : ordinal)))
      return positions.filter(({ value, ordinal }) => left.has(byDid ? String(value) : ordinal))
    }
  }
}

/** Which of some entities a condition on edges holds of. An edge from an entity that the reader does not see counts for nothing. */
export async function holdersOf(
  db: RegistryDatabase,
  { direction, role, dids: asked }: EdgeCondition,
  dids: readonly string[],
  reader: Reader,
): Promise<ReadonlySet<string>> {
  const others = direction === 'in' ? [...(await seenAmong(db, 'entity', asked, reader))] : asked
  const [own, other] =
    direction === 'in' ? (['target', 'source'] as const) : (['source', 'target'] as const)
  if (others.length === 0 || dids.length === 0) return new Set()
  const rows = await db
    .selectFrom('registry_edges')
    .select(`${own} as did`)
    .where(own, 'in', dids)
    .where('role', '=', role)
    .where(other, 'in', others)
    .execute()
  return new Set(rows.map(({ did }) => did))
}
