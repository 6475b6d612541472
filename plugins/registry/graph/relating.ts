import { prepared } from '#core'
import { controls, mustControl, type Actor } from '../rights/actor.ts'
import type { creation } from '../entities/create.ts'
import type { Deactivate } from '../entities/deactivation.ts'
import { checkEdge, edgeOf, faultsOf, isGroupEdge, removeEdge, type Facing } from './edges.ts'
import { mustMatch } from '../etag.ts'
import type { Entities } from '../entities/entities.ts'
import { relationshipOf, type Relationship } from '../entities/entity.ts'
import type { Checker, Protocols } from '../protocols/protocols.ts'
import { notFound } from '../refusal.ts'
import { Allowance, type Quotas } from '../rights/allowance.ts'
import type { EdgeRow, EntityRow, RegistryDatabase } from '../tables.ts'
import type { Versions } from '../entities/versions.ts'
import type { Writing } from '../writing.ts'

/** Draws and removes edges one by one. */
export function relating(
  db: RegistryDatabase,
  { activeRow }: Entities,
  protocols: Protocols,
  { keep }: Versions,
  deactivate: Deactivate,
  { entitiesOf, insertEdges }: ReturnType<typeof creation>,
  quotas: Quotas,
) {
  const edge = prepared(db, (p: { source: string; role: string; target: string }) =>
    db
      .selectFrom('registry_edges')
      .selectAll()
      .where('source', '=', p.source)
      .where('role', '=', p.role)
      .where('target', '=', p.target),
  )

  async function relate(
    writing: Writing,
    did: string,
    relationship: Relationship,
    ifMatch?: string,
  ): Promise<{ relationship: Relationship; version: number; isNew: boolean }> {
    const { db: trx, actor } = writing
    const row = await activeRow(did, trx)
    mustMatch(ifMatch, row)
    const { role, target } = relationship
    const [entity] = await entitiesOf([target], trx)
    const { rows } = await edge({ source: did, role, target }, trx)
    const present = rows[0]
    const wanted = edgeOf(did, relationship, present?.position ?? row.edges_made, actor)
    const stands = present !== undefined && present.properties === wanted.properties
    // Whoever is at either end of an edge may stand by it; only its source draws and changes it.
    if (stands && entity && (controls(actor, row) || controls(actor, entity))) {
      await confirm(present, actor, trx)
      return { relationship, version: row.version, isNew: false }
    }
    mustControl(actor, row)
    if (!entity) throw notFound('entity', target, 'Create it first.')
    const checker = row.protocol === null ? undefined : await roles(row, relationship, entity, trx)
    checkEdge(relationship, entity, checker, 'relationship')
    if (present) {
      const { properties, drawn_by, by_operator, confirmed_by } = wanted
      await change(present, { properties, drawn_by, by_operator, confirmed_by }, trx)
    } else {
      const allowance = await Allowance.open(writing, quotas)
      allowance.take({ edges: 1 })
      await allowance.keep()
      await insertEdges([wanted], trx)
    }
    const edges_made = row.edges_made + (present ? 0 : 1)
    const next = await keep(writing, row, 'related', { edges_made }, { relationship })
    return { relationship, version: next.version, isNew: !present }
  }

  const change = (
    { source, role, target }: EdgeRow,
    parts: Partial<EdgeRow>,
    on: RegistryDatabase,
  ) =>
    on
      .updateTable('registry_edges')
      .set(parts)
      .where('source', '=', source)
      .where('role', '=', role)
      .where('target', '=', target)
      .execute()

  /** An edge as it is gets the word of one more party; that makes no version of anything. */
  async function confirm(present: EdgeRow, actor: Actor, on: RegistryDatabase): Promise<void> {
    const { drawn_by, confirmed_by } = present
    if (actor.did !== undefined && drawn_by !== actor.did && confirmed_by !== actor.did)
      await change(present, { confirmed_by: actor.did }, on)
    if (actor.isOperator && present.by_operator === 0) await change(present, { by_operator: 1 }, on)
  }

  /** The version whose roles an edge is checked against: the newest, else the entity's own. */
  async function roles(
    row: EntityRow,
    relationship: Relationship,
    entity: Facing['entity'],
    on: RegistryDatabase,
  ): Promise<Checker | undefined> {
    const present = await protocols.checker(row.protocol!, row.protocol_version ?? 0, on)
    const newest = await protocols.newest(row.protocol!, on)
    const edges = [{ relationship, entity }]
    return newest && faultsOf(newest, undefined, edges).length === 0 ? newest : present
  }

  async function unrelate(
    writing: Writing,
    did: string,
    role: string,
    target: string,
    ifMatch?: string,
  ): Promise<{ version: number }> {
    const { db: trx, actor } = writing
    const row = await activeRow(did, trx)
    mustMatch(ifMatch, row)
    const { rows } = await edge({ source: did, role, target }, trx)
    const [entity] = await entitiesOf([target], trx)
    // Nobody has to be pointed at: an edge ends by the word of either end.
    const isFromOutside = rows[0] && !isGroupEdge(rows[0]) && entity && controls(actor, entity)
    if (!isFromOutside) mustControl(actor, row)
    if (!rows[0]) throw notFound('relationship', `${role} from ${did} to ${target}`)
    // A group without its organisation is nothing, so it goes with the edge.
    if (isGroupEdge(rows[0])) {
      const { organisation } = await deactivate(writing, await activeRow(target, trx), false)
      return { version: organisation!.version }
    }
    await removeEdge(trx, did, role, target)
    const relationship = relationshipOf(rows[0])
    return keep(writing, row, 'unrelated', {}, { relationship })
  }

  return { relate, unrelate }
}
