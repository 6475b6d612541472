import { prepared } from '#core'
import { entityOf, tombstoneOf, type Entity } from './entity.ts'
import { gone, notFound } from '../refusal.ts'
import { entitiesOf, everything, type Reader } from '../rights/reader.ts'
import type { EdgeRow, EntityRow, RegistryDatabase } from '../tables.ts'

/** Reads entities one by one. Every method reads in the transaction that its caller passes, or else what is committed. */
export class Entities {
  readonly #db: RegistryDatabase
  readonly #byDid
  readonly #edgesFrom
  readonly #seenBy

  constructor(db: RegistryDatabase) {
    this.#db = db
    this.#byDid = prepared(db, (p: { did: string }) =>
      db.selectFrom('registry_entities').selectAll().where('did', '=', p.did),
    )
    this.#edgesFrom = prepared(db, (p: { did: string }) =>
      db.selectFrom('registry_edges').selectAll().where('source', '=', p.did).orderBy('position'),
    )
    this.#seenBy = prepared(db, (p: { did: string; reader: string }) =>
      db
        .selectFrom('registry_entities')
        .select('did')
        .where('did', '=', p.did)
        .where(entitiesOf({ did: p.reader })),
    )
  }

  /** The row of an entity, active or not. */
  async findRow(did: string, on = this.#db): Promise<EntityRow | undefined> {
    return (await this.#byDid({ did }, on)).rows[0]
  }

  /** The row of an active entity: 404 for an unknown entity, 410 for a deactivated one. */
  async activeRow(did: string, on = this.#db): Promise<EntityRow> {
    const row = await this.findRow(did, on)
    if (!row) throw notFound('entity', did)
    if (row.status !== 'active')
      throw gone('entity', did, tombstoneOf(row), 'The history of the entity is still there.')
    return row
  }

  /** Answers 404 to a reader who does not see the entity, as if there were no such entity. */
  async mustSee(did: string, reader: Reader): Promise<void> {
    if (reader.did === undefined) return
    const { rows } = await this.#seenBy({ did, reader: reader.did })
    if (rows.length === 0) throw notFound('entity', did)
  }

  /** The edges from an entity, in their order. */
  async edgesOf(row: EntityRow, on = this.#db): Promise<EdgeRow[]> {
    return row.edges_made === 0 ? [] : (await this.#edgesFrom({ did: row.did }, on)).rows
  }

  /** The active entity: 404 when the reader sees no such entity, 410 with the tombstone when the entity is deactivated. */
  async read(did: string, reader: Reader = everything): Promise<Entity> {
    await this.mustSee(did, reader)
    const row = await this.activeRow(did)
    return entityOf(row, await this.edgesOf(row))
  }
}
