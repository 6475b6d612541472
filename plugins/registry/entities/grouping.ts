import { mustControl, mustSpeakFor } from '../rights/actor.ts'
import type { Creation } from './creation.ts'
import { edgeOf } from '../graph/edges.ts'
import type { Entities } from './entities.ts'
import { entityOf, type Entity } from './entity.ts'
import { contains, readGroupId } from './kinds.ts'
import { groupRow } from './new-entity.ts'
import { Allowance, type Quotas } from '../rights/allowance.ts'
import { conflicting, invalid, unresolved } from '../refusal.ts'
import type { Versions } from './versions.ts'
import type { Writing } from '../writing.ts'

/** What `addGroup` needs to add a group. */
export interface GroupingParts {
  readonly entities: Entities
  readonly versions: Versions
  readonly creation: Creation
  readonly quotas: Quotas
}

/** Adds a membership group to an existing organisation, which the id of the group names. */
export async function addGroup(
  { entities, versions, creation, quotas }: GroupingParts,
  writing: Writing,
  did: string,
  controller: string | undefined,
): Promise<Entity> {
  const { db: trx, actor } = writing
  const { organisation, name } = readGroupId(did) ?? {}
  if (organisation === undefined || name === undefined)
    throw invalid('did', 'the id of a group is "<organisation>:group:<name>"')
  if (!(await entities.findRow(organisation, trx)))
    throw unresolved('did', `there is no organisation ${organisation}`)
  const row = await entities.activeRow(organisation, trx)
  mustControl(actor, row)
  if (controller !== undefined && controller !== row.controller) mustSpeakFor(actor, controller)
  if (row.class !== 'cognitive-twin')
    throw invalid('did', `${organisation} is no organisational domain`)
  if (await entities.findRow(did, trx))
    throw conflicting(`${did} is in use already, or was.`, 'Take another name.', { did })
  const allowance = await Allowance.open(writing, quotas)
  allowance.take({ entities: 1, edges: 1 })
  await allowance.keep()
  const group = groupRow(writing, did, name, controller ?? row.controller)
  await creation.insertEntities([group], trx)
  const relationship = { role: contains, target: did }
  await creation.insertEdges([edgeOf(organisation, relationship, row.edges_made, actor)], trx)
  await versions.keep(writing, row, 'related', { edges_made: row.edges_made + 1 }, { relationship })
  return entityOf(group, [])
}
