import { mustControl, mustSpeakFor } from '../rights/actor.ts'
import type { creation } from './create.ts'
import { edgeOf } from '../graph/edges.ts'
import type { Entities } from './entities.ts'
import { entityOf, type Entity } from './entity.ts'
import { contains, readGroupId } from './kinds.ts'
import { groupRow } from './new-entity.ts'
import { Allowance, type Quotas } from '../rights/allowance.ts'
import { conflicting, invalid, unresolved } from '../refusal.ts'
import type { Versions } from './versions.ts'
import type { Writing } from '../writing.ts'

/** Adds membership groups to organisations that are there. */
export function groups(
  { findRow, activeRow }: Entities,
  { keep }: Versions,
  { insertEntities, insertEdges }: ReturnType<typeof creation>,
  quotas: Quotas,
) {
  /** The id of a group says to which organisation it belongs. */
  return async function addGroup(
    writing: Writing,
    did: string,
    controller: string | undefined,
  ): Promise<Entity> {
    const { db: trx, actor } = writing
    const { organisation, name } = readGroupId(did) ?? {}
    if (organisation === undefined || name === undefined)
      throw invalid('did', 'the id of a group is "<organisation>:group:<name>"')
    if (!(await findRow(organisation, trx)))
      throw unresolved('did', `there is no organisation ${organisation}`)
    const row = await activeRow(organisation, trx)
    mustControl(actor, row)
    if (controller !== undefined && controller !== row.controller) mustSpeakFor(actor, controller)
    if (row.class !== 'cognitive-twin')
      throw invalid('did', `${organisation} is no organisational domain`)
    if (await findRow(did, trx))
      throw conflicting(`${did} is in use already, or was.`, 'Take another name.', { did })
    const allowance = await Allowance.open(writing, quotas)
    allowance.take({ entities: 1, edges: 1 })
    await allowance.keep()
    const group = groupRow(writing, did, name, controller ?? row.controller)
    await insertEntities([group], trx)
    const relationship = { role: contains, target: did }
    await insertEdges([edgeOf(organisation, relationship, row.edges_made, actor)], trx)
    await keep(writing, row, 'related', { edges_made: row.edges_made + 1 }, { relationship })
    return entityOf(group, [])
  }
}
