import { relationshipOf } from './entity.ts'
import { groupType } from './kinds.ts'
import { searchText } from './search-text.ts'
import type { EdgeRow, EntityRow } from '../tables.ts'
import type { Writing } from '../writing.ts'

/** Makes the row of a new entity, and records the change `created`. */
export function rowOf(
  writing: Writing,
  entity: Pick<
    EntityRow,
    | 'did'
    | 'type'
    | 'class'
    | 'controller'
    | 'protocol'
    | 'protocol_version'
    | 'properties'
    | 'details'
  >,
  properties: Readonly<Record<string, unknown>>,
  edges: readonly EdgeRow[],
): EntityRow {
  const { class: _, ...recorded } = entity
  const ordinal = writing.change({
    kind: 'entity',
    version: 1,
    action: 'created',
    about: edges.length === 0 ? null : JSON.stringify({ relationships: edges.map(relationshipOf) }),
    ...recorded,
  })
  return {
    ...entity,
    ordinal,
    status: 'active',
    version: 1,
    created_at: writing.at,
    updated_at: writing.at,
    search: searchText(entity.did, entity.type, properties),
    edges_made: edges.length,
  }
}

/** The row of a membership group. */
export function groupRow(
  writing: Writing,
  did: string,
  name: string,
  controller: string,
): EntityRow {
  const properties = { name }
  return rowOf(
    writing,
    {
      did,
      type: groupType,
      class: null,
      controller,
      protocol: null,
      protocol_version: null,
      properties: JSON.stringify(properties),
      details: null,
    },
    properties,
    [],
  )
}
