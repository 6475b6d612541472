import { prepared } from '#core'
import { controls, mustControl, type Actor } from '../rights/actor.ts'
import type { Creation } from '../entities/creation.ts'
import type { Deactivation } from '../entities/deactivation.ts'
import { checkEdge, edgeOf, faultsAgainst, isGroupEdge, removeEdge, type Facing } from './edges.ts'
import { mustMatch } from '../etag.ts'
import type { Entities } from '../entities/entities.ts'
import { relationshipOf, type Relationship } from '../entities/entity.ts'
import type { Checker, Protocols } from '../protocols/protocols.ts'
import { notFound } from '../refusal.ts'
import { Allowance, type Quotas } from '../rights/allowance.ts'
import type { EdgeRow, EntityRow, RegistryDatabase } from '../tables.ts'
import type { Versions } from '../entities/versions.ts'
import type { Writing } from '../writing.ts'

/** What `Relating` needs to draw and remove edges. */
export interface RelatingParts {
  readonly entities: Entities
  readonly protocols: Protocols
  readonly versions: Versions
  readonly deactivation: Deactivation
  readonly creation: Creation
  readonly quotas: Quotas
}

/** Draws and removes edges one by one. */
export class Relating {
  readonly #entities: Entities
  readonly #protocols: Protocols
  readonly #versions: Versions
  readonly #deactivation: Deactivation
  readonly #creation: Creation
  readonly #quotas: Quotas
  readonly #edge

  constructor(
    db: RegistryDatabase,
    { entities, protocols, versions, deactivation, creation, quotas }: RelatingParts,
  ) {
    this.#entities = entities
    this.#protocols = protocols
    this.#versions = versions
    this.#deactivation = deactivation
    this.#creation = creation
    this.#quotas = quotas
    this.#edge = prepared(db, (p: { source: string; role: string; target: string }) =>
      db
        .selectFrom('registry_edges')
        .selectAll()
        .where('source', '=', p.source)
        .where('role', '=', p.role)
        .where('target', '=', p.target),
    )
  }

  /** Draws an edge, changes its properties, or confirms it as it is. */
  async relate(
    writing: Writing,
    did: string,
    relationship: Relationship,
    ifMatch?: string,
  ): Promise<{ relationship: Relationship; version: number; isNew: boolean }> {
    const { db: trx, actor } = writing
    const row = await this.#entities.activeRow(did, trx)
    mustMatch(ifMatch, row)
    const { role, target } = relationship
    const [entity] = await this.#creation.entitiesOf([target], trx)
    const { rows } = await this.#edge({ source: did, role, target }, trx)
    const present = rows[0]
    const wanted = edgeOf(did, relationship, present?.position ?? row.edges_made, actor)
    const stands = present !== undefined && present.properties === wanted.properties
    // The controller of either end of an edge may confirm the edge; only the controller of its source draws and changes it.
    if (stands && entity && (controls(actor, row) || controls(actor, entity))) {
      await this.#confirm(present, actor, trx)
      return { relationship, version: row.version, isNew: false }
    }
    mustControl(actor, row)
    if (!entity) throw notFound('entity', target, 'Create it first.')
    const checker =
      row.protocol === null ? undefined : await this.#roles(row, relationship, entity, trx)
    checkEdge(relationship, entity, checker, 'relationship')
    if (present) {
      const { properties, drawn_by, by_operator, confirmed_by } = wanted
      await this.#change(present, { properties, drawn_by, by_operator, confirmed_by }, trx)
    } else {
      const allowance = await Allowance.open(writing, this.#quotas)
      allowance.take({ edges: 1 })
      await allowance.keep()
      await this.#creation.insertEdges([wanted], trx)
    }
    const edges_made = row.edges_made + (present ? 0 : 1)
    const next = await this.#versions.keep(
      writing,
      row,
      'related',
      { edges_made },
      { relationship },
    )
    return { relationship, version: next.version, isNew: !present }
  }

  #change({ source, role, target }: EdgeRow, parts: Partial<EdgeRow>, on: RegistryDatabase) {
    return on
      .updateTable('registry_edges')
      .set(parts)
      .where('source', '=', source)
      .where('role', '=', role)
      .where('target', '=', target)
      .execute()
  }

  /** Records that one more party confirms an edge as it is. A confirmation makes no new version of the entity. */
  async #confirm(present: EdgeRow, actor: Actor, on: RegistryDatabase): Promise<void> {
    const { drawn_by, confirmed_by } = present
    if (actor.did !== undefined && drawn_by !== actor.did && confirmed_by !== actor.did)
      await this.#change(present, { confirmed_by: actor.did }, on)
    if (actor.isOperator && present.by_operator === 0)
      await this.#change(present, { by_operator: 1 }, on)
  }

  /** The version of the protocol that `relate` checks an edge against: the newest if the edge conforms to it, else the entity's own. */
  async #roles(
    row: EntityRow,
    relationship: Relationship,
    entity: Facing['entity'],
    on: RegistryDatabase,
  ): Promise<Checker | undefined> {
    const present = await this.#protocols.checker(row.protocol!, row.protocol_version ?? 0, on)
    const newest = await this.#protocols.newest(row.protocol!, on)
    const edges = [{ relationship, entity }]
    return newest && faultsAgainst(newest, undefined, edges).length === 0 ? newest : present
  }

  /** Removes an edge; a membership group goes with the edge that leads to it. */
  async unrelate(
    writing: Writing,
    did: string,
    role: string,
    target: string,
    ifMatch?: string,
  ): Promise<{ version: number }> {
    const { db: trx, actor } = writing
    const row = await this.#entities.activeRow(did, trx)
    mustMatch(ifMatch, row)
    const { rows } = await this.#edge({ source: did, role, target }, trx)
    const [entity] = await this.#creation.entitiesOf([target], trx)
    // The controller of the target may remove the edge too, so that nobody has to bear an edge that a stranger drew.
    const isFromOutside = rows[0] && !isGroupEdge(rows[0]) && entity && controls(actor, entity)
    if (!isFromOutside) mustControl(actor, row)
    if (!rows[0]) throw notFound('relationship', `${role} from ${did} to ${target}`)
    // A membership group exists only as part of its organisation, so the group is deactivated together with the edge.
    if (isGroupEdge(rows[0])) {
      const { organisation } = await this.#deactivation.deactivate(
        writing,
        await this.#entities.activeRow(target, trx),
        false,
      )
      return { version: organisation!.version }
    }
    await removeEdge(trx, did, role, target)
    const relationship = relationshipOf(rows[0])
    return this.#versions.keep(writing, row, 'unrelated', {}, { relationship })
  }
}
