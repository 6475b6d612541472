import { prepared } from '#core'
import { mustControl, type Actor } from '../rights/actor.ts'
import type { Entities } from './entities.ts'
import type { Indexes } from '../indexes/indexes.ts'
import { mustMatch } from '../etag.ts'
import type { ChangeAction, EntityRow, RegistryDatabase } from '../tables.ts'
import type { Writing } from '../writing.ts'

/** Checks who may make the next version of an entity, and stores that version. */
export class Versions {
  readonly #entities: Entities
  readonly #indexes: Indexes
  readonly #update

  constructor(db: RegistryDatabase, entities: Entities, indexes: Indexes) {
    this.#indexes = indexes
    this.#entities = entities
    this.#update = prepared(db, (p: Omit<EntityRow, 'ordinal' | 'type' | 'class' | 'created_at'>) =>
      db
        .updateTable('registry_entities')
        .set({
          controller: p.controller,
          protocol: p.protocol,
          protocol_version: p.protocol_version,
          status: p.status,
          version: p.version,
          updated_at: p.updated_at,
          properties: p.properties,
          details: p.details,
          search: p.search,
          edges_made: p.edges_made,
        })
        .where('did', '=', p.did),
    )
  }

  /** Stores a new version of a row, and records the change that made the version. */
  async keep(
    writing: Writing,
    row: EntityRow,
    action: ChangeAction,
    parts: Partial<EntityRow>,
    about: object | null,
  ): Promise<EntityRow> {
    const next = { ...row, ...parts, version: row.version + 1, updated_at: writing.at }
    await this.#update(next, writing.db)
    if (action === 'updated') await this.#indexes.move(row, next, writing.db)
    const { did, type, version, controller, protocol, protocol_version, properties, details } = next
    // A change of an edge leaves the state of the entity as it is, so the recorded change does not repeat the state.
    const state =
      action === 'updated' ? { controller, protocol, protocol_version, properties, details } : {}
    writing.change({
      kind: 'entity',
      did,
      type,
      version,
      action,
      about: about && JSON.stringify(about),
      ...state,
    })
    return next
  }

  /** The row that a caller may change, in the version that the caller has seen. */
  async changeable(
    actor: Actor,
    did: string,
    ifMatch: string | undefined,
    on: RegistryDatabase,
  ): Promise<EntityRow> {
    const row = await this.#entities.activeRow(did, on)
    mustControl(actor, row)
    mustMatch(ifMatch, row)
    return row
  }
}
