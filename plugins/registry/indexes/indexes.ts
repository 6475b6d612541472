import { prepared } from '#core'
import { bulkInsert } from '../bulk.ts'
import type { Effective } from '../protocols/definition.ts'
import type { EntityRow, RegistryDatabase } from '../tables.ts'
import type { Writing } from '../writing.ts'
import { namesOf, valuesAt } from './values.ts'
import type { IndexRow, NumberRow, TextRow } from './tables.ts'

/** Keeps a job that fills and clears indexes, in the transaction that declares them. */
export type AskToFill = (on: RegistryDatabase, key: string) => Promise<unknown>

/** How many entities, or values to delete, one step of the filling takes: a step holds up other writers. */
const atOnce = 500

type Indexed = Pick<EntityRow, 'protocol' | 'properties' | 'ordinal'>

/** The values of indexed properties, which every write of an entity keeps in its own transaction. */
export class Indexes {
  readonly #db: RegistryDatabase
  readonly #ask: AskToFill
  readonly #declared
  readonly #insertNumbers
  readonly #insertTexts
  readonly #deleteNumber
  readonly #deleteText

  constructor(db: RegistryDatabase, ask: AskToFill) {
    this.#db = db
    this.#ask = ask
    this.#declared = prepared(db, (p: { protocol: string }) =>
      db
        .selectFrom('registry_indexes')
        .selectAll()
        .where('protocol', '=', p.protocol)
        .where('dropped', '=', 0)
        .orderBy('id'),
    )
    this.#insertNumbers = bulkInsert(db, 'registry_index_numbers', columns, true)
    this.#insertTexts = bulkInsert(db, 'registry_index_texts', columns, true)
    this.#deleteNumber = prepared(db, (p: NumberRow) =>
      db
        .deleteFrom('registry_index_numbers')
        .where('index_id', '=', p.index_id)
        .where('value', '=', p.value)
        .where('ordinal', '=', p.ordinal),
    )
    this.#deleteText = prepared(db, (p: TextRow) =>
      db
        .deleteFrom('registry_index_texts')
        .where('index_id', '=', p.index_id)
        .where('value', '=', p.value)
        .where('ordinal', '=', p.ordinal),
    )
  }

  /** The indexes that a protocol declares now. */
  async declaredBy(protocol: string, on = this.#db): Promise<IndexRow[]> {
    return (await this.#declared({ protocol }, on)).rows
  }

  async #valuesOf(rows: readonly Indexed[], on: RegistryDatabase): Promise<Values> {
    const values: Values = { numbers: [], texts: [] }
    for (const [protocol, group] of Map.groupBy(rows, ({ protocol }) => protocol)) {
      if (protocol === null) continue
      const declared = await this.declaredBy(protocol, on)
      if (declared.length > 0) for (const row of group) collect(values, declared, row)
    }
    return values
  }

  async #insert({ numbers, texts }: Values, on: RegistryDatabase): Promise<void> {
    await this.#insertNumbers(numbers, on)
    await this.#insertTexts(texts, on)
  }

  /** Writes the values of new entities. */
  async add(rows: readonly Indexed[], on: RegistryDatabase): Promise<void> {
    await this.#insert(await this.#valuesOf(rows, on), on)
  }

  /** Replaces the values of an entity that has changed. */
  async move(before: Indexed, after: Indexed, on: RegistryDatabase): Promise<void> {
    if (before.protocol === after.protocol && before.properties === after.properties) return
    const { numbers, texts } = await this.#valuesOf([before], on)
    for (const row of numbers) await this.#deleteNumber(row, on)
    for (const row of texts) await this.#deleteText(row, on)
    await this.add([after], on)
  }

  /** Brings the indexes of a protocol to what its newest version declares; a protocol that is removed declares none. */
  async declare(
    { db: on }: Writing,
    protocol: string,
    version: number,
    { indexes = {} }: Pick<Effective, 'indexes'>,
  ): Promise<void> {
    const present = await this.declaredBy(protocol, on)
    const stays = ({ path, type }: IndexRow) =>
      Object.hasOwn(indexes, path) && indexes[path] === type
    const goes = present.filter((row) => !stays(row)).map(({ id }) => id)
    if (goes.length > 0)
      await on.updateTable('registry_indexes').set({ dropped: 1 }).where('id', 'in', goes).execute()
    const comes = Object.entries(indexes).filter(
      ([path]) => !present.some((row) => row.path === path && stays(row)),
    )
    if (comes.length > 0) {
      const { last } = await on
        .selectFrom('registry_indexes')
        .select((all) => all.fn.max('id').as('last'))
        .executeTakeFirstOrThrow()
      // A new protocol has no entities, so its indexes are filled as they are.
      const filled = version === 1 ? null : 0
      await on
        .insertInto('registry_indexes')
        .values(
          comes.map(([path, type], at) => ({
            id: (last ?? 0) + 1 + at,
            protocol,
            path,
            type,
            filled,
            dropped: 0,
          })),
        )
        .execute()
    }
    if (goes.length > 0 || (comes.length > 0 && version > 1))
      await this.#ask(on, `${protocol} ${version}`)
  }

  /** One step of filling or clearing, in the transaction of its caller; false when there is nothing to do. */
  async step(trx: RegistryDatabase): Promise<boolean> {
    const row = await trx
      .selectFrom('registry_indexes')
      .selectAll()
      .where((is) => is.or([is('dropped', '=', 1), is('filled', 'is not', null)]))
      .orderBy('id')
      .limit(1)
      .executeTakeFirst()
    if (!row) return false
    await (row.dropped === 1 ? this.#clear(row, trx) : this.#fill(row, trx))
    return true
  }

  async #fill(row: IndexRow, trx: RegistryDatabase): Promise<void> {
    const entities = await trx
      .selectFrom('registry_entities')
      .select(['protocol', 'properties', 'ordinal'])
      .where('protocol', '=', row.protocol)
      .where('ordinal', '>', row.filled ?? 0)
      .orderBy('ordinal')
      .limit(atOnce)
      .execute()
    const values: Values = { numbers: [], texts: [] }
    for (const entity of entities) collect(values, [row], entity)
    await this.#insert(values, trx)
    const filled = entities.length < atOnce ? null : (entities.at(-1)?.ordinal ?? null)
    await trx.updateTable('registry_indexes').set({ filled }).where('id', '=', row.id).execute()
  }

  async #clear({ id, type }: IndexRow, trx: RegistryDatabase): Promise<void> {
    const table = type === 'string' ? 'registry_index_texts' : 'registry_index_numbers'
    const found = await trx
      .selectFrom(table)
      .select(['value', 'ordinal'])
      .where('index_id', '=', id)
      .orderBy('value')
      .orderBy('ordinal')
      .limit(atOnce)
      .execute()
    const drop = type === 'string' ? this.#deleteText : this.#deleteNumber
    for (const { value, ordinal } of found)
      await drop({ index_id: id, value: value as never, ordinal }, trx) // the type of the index says which it is
    if (found.length < atOnce)
      await trx.deleteFrom('registry_indexes').where('id', '=', id).execute()
  }
}

const columns = ['index_id', 'value', 'ordinal'] as const

interface Values {
  readonly numbers: NumberRow[]
  readonly texts: TextRow[]
}

function collect(
  { numbers, texts }: Values,
  declared: readonly IndexRow[],
  { properties, ordinal }: Indexed,
): void {
  const read: Record<string, unknown> = JSON.parse(properties)
  for (const { id: index_id, path, type } of declared)
    for (const value of valuesAt(read, namesOf(path), type))
      if (typeof value === 'string') texts.push({ index_id, value, ordinal })
      else numbers.push({ index_id, value, ordinal })
}
