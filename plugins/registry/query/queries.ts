import { setImmediate as breathe } from 'node:timers/promises'
import { RuntimeError } from '#core'
import type { Entity } from '../entities/entity.ts'
import type { Lists } from '../reading/lists.ts'
import { protocolsOf, type Reader } from '../rights/reader.ts'
import { seenAmong } from '../rights/seen-among.ts'
import { invalid } from '../refusal.ts'
import type { EntityRow, RegistryDatabase } from '../tables.ts'
import { bind, type Bound, type EdgeCondition, type Known } from './binding.ts'
import { printOf, readPosition, writePosition } from './cursor.ts'
import { parse, type Condition, type Parameters } from './grammar.ts'
import { firstIn, gatherFrom, type Sorted } from './gathering.ts'
import { holds, type Read } from './matching.ts'
import { Holders, Narrowing } from './narrowing.ts'
import { besides, plan, type Driver } from './plan.ts'
import { orderOf, Walking, type Met, type Narrow, type Position } from './walking.ts'

/** What a query asks. */
export interface Query {
  readonly where?: string
  readonly parameters?: Parameters
  /** Fields that must have a value: type, protocol, controller, class, and `q` for a text. */
  readonly filter?: Readonly<Record<string, string | undefined>>
  /** The path of an indexed property or `@created`; with `-` before it the greatest first. */
  readonly sort?: string
  readonly status?: 'active' | 'deactivated' | 'all'
  readonly limit: number
  readonly cursor?: string
  readonly count?: boolean
}

/** A page of what a query finds. It may hold less than the limit, even nothing, and still have a next one. */
export interface Found {
  readonly items: readonly Entity[]
  readonly nextCursor?: string
  /** How many there are in all; at least so many, where `isExact` is false. */
  readonly count?: { readonly entities: number; readonly isExact: boolean }
}

/** How many entities a page looks at before it is given out as it is, and how many a count. */
const mostLooked = { page: 10_000, count: 100_000 }
/** The most indexes that a caller's query chooses among. */
const mostIndexes = 10_000

/** What a page is made of. */
interface Part {
  readonly rows: readonly Met[]
  /** Where to go on, where a bound ended the walk. */
  readonly left?: Position | undefined
  readonly count?: Found['count']
}

interface Plan {
  readonly driver: Driver
  readonly narrow?: Narrow | undefined
  /** Where a sorted query takes its entities from, which are then sorted; without it the walk is in order. */
  readonly from?: Driver | undefined
  readonly condition: Bound | undefined
  readonly status: 'active' | 'deactivated' | 'all'
  readonly reader: Reader
}

/** Answers queries: walks along one index or edge in bounded slices, and checks everything else on what it meets. */
export class Queries {
  readonly #db: RegistryDatabase
  readonly #lists: Lists
  readonly #walking: Walking
  readonly #narrowing: Narrowing
  readonly #holders: Holders

  constructor(db: RegistryDatabase, lists: Lists) {
    this.#db = db
    this.#lists = lists
    this.#walking = new Walking(db)
    this.#holders = new Holders(db)
    this.#narrowing = new Narrowing(db, this.#walking, this.#holders)
  }

  /** A page of the entities of which a condition holds, as far as the reader sees them. */
  async find(query: Query, reader: Reader, signal?: AbortSignal): Promise<Found> {
    const { where, parameters, filter, sort, status = 'active', limit, cursor } = query
    const parsed = conditionOf(query)
    const known = await this.#known([...pathsOf(parsed), sort?.replace(/^-/, '')], reader)
    const condition = parsed && bind(parsed, known)
    const ways = plan(condition, sort, known)
    const print = printOf({ where, parameters, filter, sort, status })
    const after = cursor === undefined ? undefined : readPosition(cursor, print)
    const way = after?.way ?? (await this.#narrowing.shortest(ways))
    const driver = ways[way]
    if (!driver)
      throw invalid('cursor', 'the indexes have changed', 'Begin again without a cursor.')
    const asked = { driver, condition, status, reader }
    const sorted = driver.kind === 'edges' ? undefined : driver
    const others = sort === undefined ? [] : besides(condition, sort)
    const from = sorted && (await gatherFrom(this.#walking, sorted, others, limit))
    const { rows, left, count } = from
      ? await this.#gathered({ ...asked, driver: sorted, from }, after, query, signal)
      : await this.#walked(
          { ...asked, narrow: await this.#narrowing.along(driver, ways, condition, reader) },
          after,
          query,
          signal,
        )
    const more = rows.length > limit ? rows[limit - 1]?.position : left
    const items = await this.#lists.withEdges(rows.slice(0, limit).map(({ row }) => row))
    return {
      items,
      ...(more && { nextCursor: writePosition(print, { ...more, way }) }),
      ...(count && { count }),
    }
  }

  /** The DIDs of some entities, active or not, of which a condition holds and which the reader sees. */
  async matching(
    query: Pick<Query, 'where' | 'parameters'>,
    rows: readonly EntityRow[],
    reader: Reader,
  ): Promise<Set<string>> {
    const parsed = conditionOf(query)
    const condition = parsed && bind(parsed, await this.#known(pathsOf(parsed), reader))
    const driver: Driver = { kind: 'entities', descending: false }
    const met = rows.map((row) => ({ row, position: { value: '', ordinal: row.ordinal } }))
    const found = await this.#filter({ driver, condition, status: 'all', reader }, met)
    return new Set(found.map(({ row }) => row.did))
  }

  /** A page, and one more, of what a walk meets. */
  async #walked(
    asked: Plan,
    after: Position | undefined,
    { limit, count }: Query,
    signal: AbortSignal | undefined,
  ): Promise<Part> {
    const rows: Met[] = []
    const walk = this.#walk(asked, after, mostLooked.page, signal)
    let left: Position | undefined
    for (;;) {
      const next = await walk.next()
      if (next.done) {
        left = next.value
        break
      }
      rows.push(...next.value)
      if (rows.length > limit) break
    }
    return { rows, left, ...(count && { count: await this.#count(asked, signal) }) }
  }

  /** A page, and one more, of what another driver than that of the sort has, sorted. */
  async #gathered(
    asked: Plan & { readonly driver: Sorted; readonly from: Driver },
    after: Position | undefined,
    { limit, count }: Query,
    signal: AbortSignal | undefined,
  ): Promise<Part> {
    const seen = new Set<number>()
    const positions: Position[] = []
    let reached: Position | undefined
    for (let done = false; !done;) {
      signal?.throwIfAborted()
      const slice = await this.#walking.slice(asked.from, reached)
      const fresh = slice.met.filter(({ row }) => !seen.has(row.ordinal))
      for (const { row } of fresh) seen.add(row.ordinal)
      // Only the positions are kept until all are sorted: entities may be large.
      for (const { position } of await this.#filter(asked, fresh)) positions.push(position)
      reached = slice.last
      // What others add meanwhile does not keep a page waiting.
      done = slice.done || seen.size > mostLooked.page
      await breathe()
    }
    const inOrder = orderOf(asked.driver)
    positions.sort(inOrder)
    const next = after ? positions.findIndex((one) => inOrder(one, after) > 0) : 0
    const page = next < 0 ? [] : positions.slice(next, next + limit + 1)
    return {
      rows: await this.#walking.at(page),
      ...(count && { count: { entities: positions.length, isExact: true } }),
    }
  }

  async #count(asked: Plan, signal: AbortSignal | undefined) {
    const walk = this.#walk(asked, undefined, mostLooked.count, signal)
    let entities = 0
    for (;;) {
      const next = await walk.next()
      if (next.done) return { entities, isExact: next.value === undefined }
      entities += next.value.length
    }
  }

  /** What is found, slice by slice; at its end where to go on, if the bound and not the end of the index ended it. */
  async *#walk(
    asked: Plan,
    from: Position | undefined,
    most: number,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<Met[], Position | undefined> {
    const { driver, narrow } = asked
    let after = from
    for (let looked = 0; looked < most;) {
      signal?.throwIfAborted()
      const slice = await this.#walking.slice(driver, after, narrow)
      const { met, last, done } = slice
      looked += slice.looked + 1
      const found = await this.#filter(asked, met)
      if (found.length > 0) yield found
      if (done) return undefined
      after = last
      await breathe()
    }
    return after
  }

  /** What is found among some entities; those that were gathered get their places in the order of the sort. */
  async #filter(asked: Plan, met: readonly Met[]): Promise<Met[]> {
    const { driver, from, condition, status, reader } = asked
    const present = met.filter(({ row }) => status === 'all' || row.status === status)
    const edges = await this.#edgesOf(condition, present, reader)
    const found = present.flatMap(({ row, position }): Met[] => {
      const read: Read = { row, properties: JSON.parse(row.properties) }
      if (condition && !holds(condition, read, edges)) return []
      if (driver.kind === 'edges') return [{ row, position }]
      // An entity with a list stands in an index once for each item, and counts where a walk meets it first.
      const value = firstIn(driver, read)
      if (value === undefined || (!from && value !== position.value)) return []
      return [{ row, position: { value, ordinal: row.ordinal } }]
    })
    if (reader.did === undefined || found.length === 0) return found
    const dids = found.map(({ row }) => row.did)
    const seen = await seenAmong(this.#db, 'entity', dids, reader)
    return found.filter(({ row }) => seen.has(row.did))
  }

  /** Of which entities of a slice each condition on edges holds. */
  async #edgesOf(condition: Bound | undefined, met: readonly Met[], reader: Reader) {
    const holding = new Map<EdgeCondition, ReadonlySet<string>>()
    if (!condition || met.length === 0) return holding
    const dids = met.map(({ row }) => row.did)
    for (const one of edgeConditionsOf(condition))
      holding.set(one, await this.#holders.among(one, dids, reader))
    return holding
  }

  /** The indexes that the reader may name, by their paths; 503 while one that the query needs is being filled. */
  async #known(named: readonly (string | undefined)[], reader: Reader): Promise<Known> {
    const rows = await this.#db
      .selectFrom('registry_indexes')
      .innerJoin('registry_protocols', 'registry_protocols.did', 'registry_indexes.protocol')
      .selectAll('registry_indexes')
      .where('dropped', '=', 0)
      .where(protocolsOf(reader))
      .orderBy('id')
      .limit(mostIndexes)
      .execute()
    const unfilled = rows.find(({ filled, path }) => filled !== null && named.includes(path))
    if (unfilled)
      throw new RuntimeError('UNAVAILABLE', `The index of "${unfilled.path}" is being filled.`, {
        hint: 'Ask again in a moment.',
        headers: { 'Retry-After': '2' },
        details: { protocol: unfilled.protocol, path: unfilled.path },
      })
    return Map.groupBy(rows, ({ path }) => path)
  }
}

function conditionOf({
  where,
  parameters,
  filter = {},
}: Pick<Query, 'where' | 'parameters' | 'filter'>): Condition | undefined {
  const parts = Object.entries(filter).flatMap(([name, value]): Condition[] => {
    if (value === undefined) return []
    const values = [value]
    return name === 'q'
      ? [{ kind: 'compare', path: '@text', operator: 'contains', values }]
      : [{ kind: 'compare', path: `@${name}`, operator: '=', values }]
  })
  if (where !== undefined) parts.push(parse(where, parameters))
  return parts.length > 0 ? { kind: 'and', parts } : undefined
}

function pathsOf(condition: Condition | undefined): string[] {
  if (!condition) return []
  if (condition.kind === 'compare') return [condition.path]
  return (condition.kind === 'not' ? [condition.part] : condition.parts).flatMap(pathsOf)
}

function edgeConditionsOf(condition: Bound): EdgeCondition[] {
  if (condition.kind === 'edge') return [condition]
  if (condition.kind === 'not') return edgeConditionsOf(condition.part)
  return 'parts' in condition ? condition.parts.flatMap(edgeConditionsOf) : []
}
