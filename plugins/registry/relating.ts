import { prepared } from '#core'
import type { creation } from './create.ts'
import type { Deactivate } from './deactivation.ts'
import { checkEdge, edgeOf, faultsOf, isGroupEdge, removeEdge, type Facing } from './edges.ts'
import type { Entities } from './entities.ts'
import { relationshipOf, type Relationship } from './entity.ts'
import type { Checker, Protocols } from './protocols.ts'
import { notFound } from './refusal.ts'
import type { EntityRow, RegistryDatabase } from './tables.ts'
import type { Versions } from './versions.ts'
import type { Writing } from './writing.ts'

/** Draws and removes edges one by one. */
export function relating(
  db: RegistryDatabase,
  { activeRow }: Entities,
  protocols: Protocols,
  { keep, changeable }: Versions,
  deactivate: Deactivate,
  { entitiesOf, insertEdges }: ReturnType<typeof creation>,
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
    const row = await changeable(actor, did, ifMatch, trx)
    const { role, target } = relationship
    const [entity] = await entitiesOf([target], trx)
    if (!entity) throw notFound('entity', target, 'Create it first.')
    const checker = row.protocol === null ? undefined : await roles(row, relationship, entity, trx)
    checkEdge(relationship, entity, checker, 'relationship')
    const { rows } = await edge({ source: did, role, target }, trx)
    const present = rows[0]
    const wanted = edgeOf(did, relationship, present?.position ?? row.edges_made)
    if (present && present.properties === wanted.properties)
      return { relationship, version: row.version, isNew: false }
    if (present)
      await trx
        .updateTable('registry_edges')
        .set({ properties: wanted.properties })
        .where('source', '=', did)
        .where('role', '=', role)
        .where('target', '=', target)
        .execute()
    else await insertEdges([wanted], trx)
    const edges_made = row.edges_made + (present ? 0 : 1)
    const next = await keep(writing, row, 'related', { edges_made }, { relationship })
    return { relationship, version: next.version, isNew: !present }
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
    const row = await changeable(actor, did, ifMatch, trx)
    const { rows } = await edge({ source: did, role, target }, trx)
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
