import { sql } from 'kysely'
import { mostListed, overList } from '../bulk.ts'
import { compareValues } from '../indexes/values.ts'
import type { EntityRow, RegistryDatabase } from '../tables.ts'
import type { Driver, ValuesDriver } from './plan.ts'

/** Where a walk is: the value that it has come to, and the ordinal of the entity that has it. */
export interface Position {
  readonly value: string | number
  readonly ordinal: number
}

/** An entity that a walk has met, and where. */
export interface Met {
  readonly position: Position
  readonly row: EntityRow
}

/**
 * How many entities one slice of a walk reads: between two slices other requests have their turn. As many as the longest
 * list of `overList`, so that one statement reads them and none of its places is left over.
 */
export const sliceSize = mostListed

/** Into how many parts of indexes one query looks to find out how much they hold. */
const mostLooks = 100

/** How many positions a slice looks at where something leaves out most of them before their entities are read. */
export const narrowedSize = 8 * sliceSize

/** Leaves out the positions of entities that a query cannot find. */
export type Narrow = (
  positions: readonly Position[],
  driver: Driver,
) => Promise<readonly Position[]>

/** Walks along an index, the edges of an entity or all entities, a slice at a time, each by one look into a key. */
export class Walking {
  readonly #db: RegistryDatabase
  readonly #byOrdinal
  readonly #byDid

  constructor(db: RegistryDatabase) {
    this.#db = db
    this.#byOrdinal = overList<EntityRow, number>(db, (ordinals) =>
      db.selectFrom('registry_entities').selectAll().where('ordinal', 'in', ordinals),
    )
    this.#byDid = overList<EntityRow>(db, (dids) =>
      db.selectFrom('registry_entities').selectAll().where('did', 'in', dids),
    )
  }

  /** The next slice after a position, and the position to go on from; `done` once there is no more. */
  async slice(driver: Driver, after: Position | undefined, narrow?: Narrow) {
    const size = narrow ? narrowedSize : sliceSize
    const all = await this.#positions(driver, after, size)
    const rest = { last: all.at(-1), done: all.length < size, looked: all.length }
    if (driver.kind === 'entities') {
      const met = all.map(({ row, ...position }) => ({ position, row: row! }))
      return { met, ...rest }
    }
    const positions = narrow ? await narrow(all, driver) : all
    const rows =
      driver.kind === 'edges'
        ? await this.#byDid(positions.map(({ value }) => String(value)))
        : await this.#byOrdinal(positions.map(({ ordinal }) => ordinal))
    const known = new Map(
      rows.map((row) => [driver.kind === 'edges' ? row.did : row.ordinal, row] as const),
    )
    const met = positions.flatMap((position): Met[] => {
      const row = known.get(driver.kind === 'edges' ? String(position.value) : position.ordinal)
      return row ? [{ position, row }] : []
    })
    return { met, ...rest }
  }

  /** The entities at some positions of an index, in the order of the positions. */
  async at(positions: readonly Position[]): Promise<Met[]> {
    const rows = await this.#byOrdinal(positions.map(({ ordinal }) => ordinal))
    const known = new Map(rows.map((row) => [row.ordinal, row]))
    return positions.flatMap((position): Met[] => {
      const row = known.get(position.ordinal)
      return row ? [{ position, row }] : []
    })
  }

  /** How many positions a driver has, as far as `most` and one more. */
  async howMany(driver: Driver, most: number): Promise<number> {
    if (driver.kind !== 'values') {
      const some =
        driver.kind === 'edges'
          ? this.#edgesOf(driver).limit(most + 1)
          : this.#entitiesOf(driver).limit(most + 1)
      const { count } = await this.#db
        .selectFrom(some.as('some'))
        .select(({ fn }) => fn.countAll<number | string>().as('count'))
        .executeTakeFirstOrThrow()
      return Number(count)
    }
    const { indexes, ranges } = driver
    if (indexes.length * ranges.length > mostLooks) return most + 1
    let found = 0
    for (const { id } of indexes)
      for (const { low, high } of ranges) {
        const within = sql`select 1 as one from ${this.#within(driver, id, low, high)} limit ${most + 1 - found}`
        const answer = await sql<{
          count: number | string
        }>`select count(*) as count from (${within}) as counted`.execute(this.#db)
        found += Number(answer.rows[0]?.count)
        if (found > most) return found
      }
    return found
  }

  /** The ordinals of the entities that an index has; the caller has seen that there are few. */
  async ordinalsOf(driver: ValuesDriver): Promise<ReadonlySet<number>> {
    const ordinals = new Set<number>()
    for (const { id } of driver.indexes)
      for (const { low, high } of driver.ranges) {
        const { rows } = await sql<{
          ordinal: number
        }>`select ordinal from ${this.#within(driver, id, low, high)}`.execute(this.#db)
        for (const { ordinal } of rows) ordinals.add(ordinal)
      }
    return ordinals
  }

  async #positions(
    driver: Driver,
    after: Position | undefined,
    size: number,
  ): Promise<(Position & { readonly row?: EntityRow })[]> {
    if (driver.kind === 'values') return this.#values(driver, after, size)
    if (driver.kind === 'edges') return this.#edges(driver, after, size)
    const { only, descending } = driver
    let query = this.#db.selectFrom('registry_entities').selectAll()
    if (only) query = query.where(only[0], '=', only[1])
    if (after) query = query.where('ordinal', descending ? '<' : '>', after.ordinal)
    const rows = await query
      .orderBy('ordinal', descending ? 'desc' : 'asc')
      .limit(size)
      .execute()
    return rows.map((row) => ({ value: '', ordinal: row.ordinal, row }))
  }

  #entitiesOf({ only }: Extract<Driver, { kind: 'entities' }>) {
    const all = this.#db.selectFrom('registry_entities').select('did')
    return only ? all.where(only[0], '=', only[1]) : all
  }

  #edgesOf({ condition: { direction, role }, did }: Extract<Driver, { kind: 'edges' }>) {
    // `@in.x = did` asks what `did` has an edge to, so the walk goes along the targets.
    const [fixed, walked] =
      direction === 'in' ? (['source', 'target'] as const) : (['target', 'source'] as const)
    return this.#db
      .selectFrom('registry_edges')
      .select(`${walked} as did`)
      .where(fixed, '=', did)
      .where('role', '=', role)
  }

  async #edges(
    driver: Extract<Driver, { kind: 'edges' }>,
    after: Position | undefined,
    size: number,
  ): Promise<Position[]> {
    const walked = driver.condition.direction === 'in' ? 'target' : 'source'
    let query = this.#edgesOf(driver)
    if (after) query = query.where(walked, '>', String(after.value))
    const rows = await query.orderBy(walked).limit(size).execute()
    return rows.map(({ did }) => ({ value: did, ordinal: 0 }))
  }

  /** The next values of all ranges, from the indexes of several protocols merged into one order. */
  async #values(
    driver: ValuesDriver,
    after: Position | undefined,
    size: number,
  ): Promise<Position[]> {
    const { ranges, descending, indexes } = driver
    const inOrder = orderOf(driver)
    const found: Position[] = []
    for (const { low, high } of ranges) {
      const end = descending ? low : high
      if (after && compareValues(end, after.value) * (descending ? -1 : 1) < 0) continue
      const wanted = size - found.length
      const lists: Position[][] = []
      for (const { id } of indexes)
        lists.push(await this.#range(driver, id, low, high, after, wanted))
      const merged = lists.length === 1 ? (lists[0] ?? []) : lists.flat().sort(inOrder)
      found.push(...merged.slice(0, wanted))
      if (found.length >= size) break
    }
    return found
  }

  async #range(
    driver: ValuesDriver,
    id: number,
    low: string | number,
    high: string | number,
    after: Position | undefined,
    limit: number,
  ): Promise<Position[]> {
    const { descending } = driver
    const typed = typedAs(driver)
    const next = after
      ? sql`and (value, ordinal) ${descending ? sql`<` : sql`>`} (${typed(after.value)}, ${after.ordinal})`
      : sql``
    const order = descending ? sql`value desc, ordinal desc` : sql`value, ordinal`
    const { rows } =
      await sql<Position>`select value, ordinal from ${this.#within(driver, id, low, high)} ${next}
      order by ${order} limit ${limit}`.execute(this.#db)
    return rows
  }

  /** The part of an index between two values: its table and the condition. */
  #within(driver: ValuesDriver, id: number, low: string | number, high: string | number) {
    const table = sql.table(driver.isText ? 'registry_index_texts' : 'registry_index_numbers')
    const typed = typedAs(driver)
    return sql`${table} where index_id = ${id} and value >= ${typed(low)} and value <= ${typed(high)}`
  }
}

/** Which of two positions of a walk comes first. */
export const orderOf =
  ({ descending }: { readonly descending: boolean }) =>
  (a: Position, b: Position): number =>
    (compareValues(a.value, b.value) || a.ordinal - b.ordinal) * (descending ? -1 : 1)

/** A value as a parameter of the type that the index has. */
function typedAs({ isText }: ValuesDriver) {
  const type = isText ? sql`text` : sql`double precision`
  return (value: string | number) => sql`cast(${value} as ${type})`
}
