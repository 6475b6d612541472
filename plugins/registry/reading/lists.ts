import { setImmediate as breathe } from 'node:timers/promises'
import { PostgresAdapter, sql } from 'kysely'
import { prepared } from '#core'
import { overList } from '../bulk.ts'
import { entityOf, stateOf, type Entity, type Relationship } from '../entities/entity.ts'
import type { Entities } from '../entities/entities.ts'
import { greatestVersion, writeCursor, type Page } from './page.ts'
import { notFound } from '../refusal.ts'
import { entitiesOf, type Reader } from '../rights/reader.ts'
import type { ChangeRow, EdgeRow, EntityRow, RegistryDatabase, StateColumns } from '../tables.ts'

/** The filters of a list of entities; every filter is optional. */
export interface Filter {
  readonly type?: string
  readonly protocol?: string
  readonly controller?: string
  readonly class?: string
  /** Text that the id, the type or a text among the properties contains. */
  readonly q?: string
  readonly status?: 'active' | 'deactivated' | 'all'
  /** Top-level properties by name, each as text: `12.5`, `true`, `ethanol`. */
  readonly properties?: ReadonlyMap<string, string>
}

/** A version of an entity, and the change that made it. */
export interface Version extends Omit<Entity, 'relationships' | 'createdAt' | 'class'> {
  readonly change: {
    readonly action: string
    readonly by: string
    readonly at: string
    /** The edge that the change drew or removed. */
    readonly relationship?: Relationship
    /** All edges, where one change set or removed them together. */
    readonly relationships?: readonly Relationship[]
  }
}

const columns = ['type', 'protocol', 'controller', 'class'] as const
const jsonNumber = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/

/** The number that a text is in JSON, as a property keeps it: databases read `1e200000` each in their own way, or not at all. */
const numberOf = (text: string): string | undefined => {
  const number = jsonNumber.test(text) ? Number(text) : NaN
  return Number.isFinite(number) ? String(number) : undefined
}

/**
 * SQLite answers in the thread of the event loop. What no index answers is looked for in slices of so many changes, and other
 * requests are served between two of them; a page looks at so many slices, and is then given out as it is.
 */
const slice = 2000
const mostSlices = 1000

/** How many combinations of filters stay compiled; a later combination is compiled for each request. */
const mostCompiled = 200

type Parameters = { after: number; until: number; limit: number; status: string } & Record<
  string,
  unknown
>
type Compiled = (parameters: Parameters) => Promise<{ readonly rows: EntityRow[] }>

/** Lists entities in the order of their creation. New entities come last, so a cursor neither skips nor repeats an entity. */
export class Lists {
  readonly #db: RegistryDatabase
  readonly #entities: Entities
  readonly #isPostgres: boolean
  readonly #edgesFrom
  /** One compiled query for each combination of filters that a request has used. */
  readonly #queries = new Map<string, Compiled>()

  constructor(db: RegistryDatabase, entities: Entities) {
    this.#db = db
    this.#entities = entities
    this.#isPostgres = db.getExecutor().adapter instanceof PostgresAdapter
    this.#edgesFrom = overList<EdgeRow>(db, (dids) =>
      db.selectFrom('registry_edges').selectAll().where('source', 'in', dids).orderBy('position'),
    )
  }

  #compile(
    filter: Filter,
    byNumber: readonly boolean[],
    seesAll: boolean,
    inSlices: boolean,
  ): Compiled {
    return prepared(this.#db, (p: Parameters) => {
      let query = this.#db
        .selectFrom('registry_entities')
        .selectAll()
        .where('ordinal', '>', p.after)
        .orderBy('ordinal')
        .limit(p.limit)
      if (inSlices) query = query.where('ordinal', '<=', p.until)
      if (filter.status !== 'all') query = query.where('status', '=', p.status as 'active')
      for (const column of columns)
        if (filter[column] !== undefined) query = query.where(column, '=', p[column] as string)
      if (!seesAll) query = query.where(entitiesOf({ did: p.reader }))
      if (filter.q !== undefined) query = query.where(sql<boolean>`search like ${p.q} escape '\\'`)
      for (const [at, isNumber] of byNumber.entries())
        query = query.where(
          this.#hasProperty(p[`name${at}`], p[`value${at}`], isNumber && p[`number${at}`]),
        )
      return query
    })
  }

  /** `number` is the value as a number where it can be one, else false. */
  #hasProperty(name: unknown, value: unknown, number: unknown) {
    if (this.#isPostgres)
      return sql<boolean>`exists (
        select 1 from jsonb_each(properties::jsonb) as part (name, value)
        where part.name = ${name} and case jsonb_typeof(part.value)
          when 'string' then part.value #>> '{}' = ${value}
          when 'boolean' then part.value::text = ${value}
          ${number === false ? sql`` : sql`when 'number' then (part.value #>> '{}')::numeric = ${number}::text::numeric`}
          else false end)`
    const real = sql`cast(${number} as real)`
    return sql<boolean>`exists (
      select 1 from json_each(registry_entities.properties) as part
      where part.key = ${name} and case part.type
        when 'text' then part.value = ${value}
        when 'true' then 'true' = ${value}
        when 'false' then 'false' = ${value}
        ${number === false ? sql`` : sql`when 'integer' then part.value = ${real} when 'real' then part.value = ${real}`}
        else 0 end)`
  }

  /** Whether no index answers a list by itself, so that SQLite would look at every entity without a pause. */
  #isSlow({ q, properties, status, ...filter }: Filter, { did }: Reader): boolean {
    if (this.#isPostgres) return false
    const named = columns.filter((column) => filter[column] !== undefined)
    const byIndex = named.length === 0 || (named.length === 1 && named[0] !== 'class')
    const isUsual = status === undefined || status === 'active' || status === 'all'
    return (
      !byIndex || !isUsual || q !== undefined || (properties?.size ?? 0) > 0 || did !== undefined
    )
  }

  /** The rows of a page; `left` where the bound and not the end of the list ended it. */
  async #slices(filter: Filter, after: number, limit: number, reader: Reader) {
    if (!this.#isSlow(filter, reader))
      return { rows: await this.#rows(filter, after, limit, reader) }
    const { seq } = await this.#db
      .selectFrom('registry_clock')
      .select('seq')
      .executeTakeFirstOrThrow()
    const rows: EntityRow[] = []
    let from = after
    for (let slices = 0; from < seq && rows.length < limit; slices++) {
      if (slices === mostSlices) return { rows, left: from }
      const until = from + slice
      rows.push(...(await this.#rows(filter, from, limit - rows.length, reader, until)))
      from = until
      await breathe()
    }
    return { rows }
  }

  async #rows(
    filter: Filter,
    after: number,
    limit: number,
    reader: Reader,
    until?: number,
  ): Promise<EntityRow[]> {
    const seesAll = reader.did === undefined
    const properties = [...(filter.properties ?? [])]
    const numbers = properties.map(([, value]) => numberOf(value))
    const byNumber = numbers.map((number) => number !== undefined)
    const status = filter.status ?? 'active'
    const shape = [
      status === 'all',
      seesAll,
      until !== undefined,
      ...[...columns, 'q' as const].map((name) => filter[name] !== undefined),
      ...byNumber,
    ].join()
    let query = this.#queries.get(shape)
    if (!query) {
      query = this.#compile(filter, byNumber, seesAll, until !== undefined)
      if (this.#queries.size < mostCompiled) this.#queries.set(shape, query)
    }
    const values: Record<string, unknown> = { reader: reader.did }
    for (const [at, [name, value]] of properties.entries())
      Object.assign(values, {
        [`name${at}`]: name,
        [`value${at}`]: value,
        [`number${at}`]: numbers[at],
      })
    for (const column of columns) values[column] = filter[column]
    if (filter.q !== undefined)
      values.q = `%${filter.q.toLowerCase().replace(/[\\%_]/g, (sign) => `\\${sign}`)}%`
    return (await query({ after, until: until ?? 0, limit, status, ...values })).rows
  }

  /** The entities of some rows, whose edges one query reads together. */
  async withEdges(found: readonly EntityRow[]): Promise<Entity[]> {
    const sources = found.flatMap(({ did, edges_made }) => (edges_made > 0 ? [did] : []))
    const bySource = Map.groupBy(await this.#edgesFrom(sources), ({ source }) => source)
    return found.map((row) => entityOf(row, bySource.get(row.did) ?? []))
  }

  async #stateBefore(did: string, version: number) {
    return (await this.#db
      .selectFrom('registry_changes')
      .selectAll()
      .where('did', '=', did)
      .where('kind', '=', 'entity')
      .where('version', '<', version)
      .where('properties', 'is not', null)
      .orderBy('version', 'desc')
      .limit(1)
      .executeTakeFirst()) as (ChangeRow & StateColumns) | undefined // the query asks for rows that have properties
  }

  /** A page of the entities that a filter lets through and the reader sees. */
  async list(filter: Filter, reader: Reader, limit: number, after = 0): Promise<Page<Entity>> {
    const { rows, left } = await this.#slices(filter, after, limit + 1, reader)
    const last = rows.length > limit ? rows[limit - 1]?.ordinal : left
    const items = await this.withEdges(rows.slice(0, limit))
    return { items, ...(last !== undefined && { nextCursor: writeCursor(last) }) }
  }

  /** The versions of an active or deactivated entity, oldest first. */
  async history(did: string, reader: Reader, limit: number, after = 0): Promise<Page<Version>> {
    await this.#entities.mustSee(did, reader)
    const row = await this.#entities.findRow(did)
    if (!row) throw notFound('entity', did)
    const found = await this.#db
      .selectFrom('registry_changes')
      .selectAll()
      .where('did', '=', did)
      .where('kind', '=', 'entity')
      .where('version', '>', Math.min(after, greatestVersion))
      .orderBy('version')
      .limit(limit + 1)
      .execute()
    const page = found.slice(0, limit)
    const before =
      page[0]?.properties === null ? await this.#stateBefore(did, page[0].version) : undefined
    let state = before
    const items = page.map((change) => {
      if (hasState(change)) state = change
      return versionOf(change, state!)
    })
    const last = found.length > limit ? page.at(-1) : undefined
    return { items, ...(last && { nextCursor: writeCursor(last.version) }) }
  }
}

const hasState = (change: ChangeRow): change is ChangeRow & StateColumns =>
  change.properties !== null

function versionOf(change: ChangeRow, state: StateColumns): Version {
  const { did, type, version, action, actor, at } = change
  const about = change.about === null ? {} : JSON.parse(change.about)
  return {
    did,
    type,
    version,
    status: action === 'deactivated' ? 'deactivated' : 'active',
    ...stateOf(state),
    updatedAt: at,
    change: { action, by: actor, at, ...about },
  }
}
