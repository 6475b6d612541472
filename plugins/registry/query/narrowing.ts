import { mostListed, overList } from '../bulk.ts'
import { seenAmong } from '../rights/seen-among.ts'
import type { Reader } from '../rights/reader.ts'
import type { RegistryDatabase } from '../tables.ts'
import type { Bound, EdgeCondition } from './binding.ts'
import { edgesThatMust, type Driver } from './plan.ts'
import { narrowedSize, type Narrow, type Walking } from './walking.ts'

/** Up to how many positions of an edge or an index are counted, and how many of an index are taken as a set. */
const mostProbed = 4096

/** The lengths of lists: a slice that is narrowed is one statement. */
const lengths = [16, mostListed, narrowedSize]

/**
 * Intersects edges and indexes before any entity is read: of several ways to what a query asks for it takes the shortest,
 * and along this way leaves out what the others do not have.
 */
export class Narrowing {
  readonly #walking: Walking
  readonly #holders: Holders
  readonly #byDid

  constructor(db: RegistryDatabase, walking: Walking, holders: Holders) {
    this.#walking = walking
    this.#holders = holders
    this.#byDid = overList<{ did: string; ordinal: number }>(
      db,
      (dids) =>
        db.selectFrom('registry_entities').select(['did', 'ordinal']).where('did', 'in', dids),
      lengths,
    )
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
      if (driver.kind === 'values') {
        let kept = positions.map(({ ordinal }) => ordinal)
        for (const edge of edges) kept = await this.#holders.amongOrdinals(edge, kept, reader)
        const left = new Set(kept)
        return positions.filter(({ ordinal }) => left.has(ordinal))
      }
      let kept = positions.map(({ value }) => String(value))
      if (ordinals)
        kept = (await this.#byDid(kept)).flatMap(({ did, ordinal }) =>
          ordinals.has(ordinal) ? [did] : [],
        )
      for (const edge of edges) kept = [...(await this.#holders.among(edge, kept, reader))]
      const left = new Set(kept)
      return positions.filter(({ value }) => left.has(String(value)))
    }
  }
}

/** What one statement asks of edges: a role, and the entity at the other end. */
interface Asked {
  readonly role: string
  readonly other: string
}

/** Tells of which entities a condition on edges holds. An edge from an entity that the reader does not see counts for nothing. */
export class Holders {
  readonly #db: RegistryDatabase
  readonly #dids
  readonly #ordinals

  constructor(db: RegistryDatabase) {
    this.#db = db
    const dids = (own: End, other: End) =>
      overList<{ did: string }, string, Asked>(
        db,
        (values, asked) =>
          db
            .selectFrom('registry_edges')
            .select(`${own} as did`)
            .where(own, 'in', values)
            .where('role', '=', asked.role)
            .where(other, '=', asked.other),
        lengths,
      )
    this.#dids = { out: dids('source', 'target'), in: dids('target', 'source') }
    // Only what holds comes out of the database, and of the entities it reads the ids alone.
    const ordinals = (own: End, other: End) =>
      overList<{ ordinal: number }, number, Asked>(
        db,
        (values, asked) =>
          db
            .selectFrom('registry_entities as one')
            .select('one.ordinal')
            .where('one.ordinal', 'in', values)
            .where(({ exists, selectFrom }) =>
              exists(
                selectFrom('registry_edges as edge')
                  .select('edge.role')
                  .whereRef(`edge.${own}`, '=', 'one.did')
                  .where('edge.role', '=', asked.role)
                  .where(`edge.${other}`, '=', asked.other),
              ),
            ),
        lengths,
      )
    this.#ordinals = { out: ordinals('source', 'target'), in: ordinals('target', 'source') }
  }

  /** Those of some entities, by their DIDs. */
  async among(
    { direction, role, dids: asked }: EdgeCondition,
    dids: readonly string[],
    reader: Reader,
  ): Promise<ReadonlySet<string>> {
    const holding = new Set<string>()
    if (dids.length === 0) return holding
    for (const other of await this.#others(direction, asked, reader))
      for (const { did } of await this.#dids[direction](dids, this.#db, { role, other }))
        holding.add(did)
    return holding
  }

  /** Those of some entities, by their ordinals. */
  async amongOrdinals(
    { direction, role, dids: asked }: EdgeCondition,
    ordinals: readonly number[],
    reader: Reader,
  ): Promise<number[]> {
    const holding = new Set<number>()
    if (ordinals.length === 0) return []
    for (const other of await this.#others(direction, asked, reader))
      for (const { ordinal } of await this.#ordinals[direction](ordinals, this.#db, {
        role,
        other,
      }))
        holding.add(ordinal)
    return [...holding]
  }

  /** The entities at the other end, as far as an edge with them counts for the reader. */
  async #others(
    direction: EdgeCondition['direction'],
    asked: readonly string[],
    reader: Reader,
  ): Promise<Iterable<string>> {
    return direction === 'in' ? seenAmong(this.#db, 'entity', asked, reader) : new Set(asked)
  }
}

type End = 'source' | 'target'
