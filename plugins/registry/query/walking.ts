import { sql } from 'kysely'
import { mostListed, overList } from '../bulk.ts'
import { compareValues } from '../indexes/values.ts'
import type { EntityRow, RegistryDatabase } from '../tables.ts'
import type { Driver } from './plan.ts'

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
  async slice(driver: Driver, after: Position | undefined) {
    const positions = await this.#positions(driver, after)
    const done = positions.length < sliceSize
    if (driver.kind === 'entities') {
      const met = positions.map(({ row, ...position }) => ({ position, row: row! }))
      return { met, last: positions.at(-1), done }
    }
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
    return { met, last: positions.at(-1), done }
  }

  async #positions(
    driver: Driver,
    after: Position | undefined,
  ): Promise<(Position & { readonly row?: EntityRow })[]> {
    if (driver.kind === 'values') return this.#values(driver, after)
    if (driver.kind === 'edges') return this.#edges(driver, after)
    const { only, descending } = driver
    let query = this.#db.selectFrom('registry_entities').selectAll()
    if (only) query = query.where(only[0], '=', only[1])
    if (after) query = query.where('ordinal', descending ? '<' : '>', after.ordinal)
    const rows = await query
      .orderBy('ordinal', descending ? 'desc' : 'asc')
      .limit(sliceSize)
      .execute()
    return rows.map((row) => ({ value: '', ordinal: row.ordinal, row }))
  }

  async #edges(
    { condition: { direction, role }, did }: Extract<Driver, { kind: 'edges' }>,
    after: Position | undefined,
  ): Promise<Position[]> {
    // `@in.x = did` asks what `did` has an edge to, so the walk goes along the targets.
    const [fixed, walked] =
      direction === 'in' ? (['source', 'target'] as const) : (['target', 'source'] as const)
    let query = this.#db
      .selectFrom('registry_edges')
      .select(walked)
      .where(fixed, '=', did)
      .where('role', '=', role)
    if (after) query = query.where(walked, '>', String(after.value))
    const rows = await query.orderBy(walked).limit(sliceSize).execute()
    return rows.map((row) => ({ value: Object.values(row)[0] ?? '', ordinal: 0 }))
  }

  /** The next values of all ranges, from the indexes of several protocols merged into one order. */
  async #values(
    driver: Extract<Driver, { kind: 'values' }>,
    after: Position | undefined,
  ): Promise<Position[]> {
    const { ranges, descending, indexes } = driver
    const inOrder = (a: Position, b: Position) =>
      (compareValues(a.value, b.value) || a.ordinal - b.ordinal) * (descending ? -1 : 1)
    const found: Position[] = []
    for (const { low, high } of ranges) {
      const end = descending ? low : high
      if (after && compareValues(end, after.value) * (descending ? -1 : 1) < 0) continue
      const wanted = sliceSize - found.length
      const lists: Position[][] = []
      for (const { id } of indexes)
        lists.push(await this.#range(driver, id, low, high, after, wanted))
      const merged = lists.length === 1 ? (lists[0] ?? []) : lists.flat().sort(inOrder)
      found.push(...merged.slice(0, wanted))
      if (found.length >= sliceSize) break
    }
    return found
  }

  async #range(
    { isText, descending }: Extract<Driver, { kind: 'values' }>,
    id: number,
    low: string | number,
    high: string | number,
    after: Position | undefined,
    limit: number,
  ): Promise<Position[]> {
    const table = sql.table(isText ? 'registry_index_texts' : 'registry_index_numbers')
    const type = isText ? sql`text` : sql`double precision`
    const typed = (value: string | number) => sql`cast(${value} as ${type})`
    const next = after
      ? sql`and (value, ordinal) ${descending ? sql`<` : sql`>`} (${typed(after.value)}, ${after.ordinal})`
      : sql``
    const order = descending ? sql`value desc, ordinal desc` : sql`value, ordinal`
    const { rows } = await sql<Position>`select value, ordinal from ${table}
      where index_id = ${id} and value >= ${typed(low)} and value <= ${typed(high)} ${next}
      order by ${order} limit ${limit}`.execute(this.#db)
    return rows
  }
}
