import { RuntimeError, type Fault } from '#core'
import type { Actor } from '../rights/actor.ts'
import { unknown } from '../protocols/conform.ts'
import { type Relationship } from '../entities/entity.ts'
import { contains, groupType, isOfKind, readGroupId } from '../entities/kinds.ts'
import type { Checker } from '../protocols/protocols.ts'
import { conflicting, invalid, refused, unresolved } from '../refusal.ts'
import type { EdgeRow, EntityRow, RegistryDatabase } from '../tables.ts'

/** The columns of an entity that the checks of edges and ids read. */
export type Known = Pick<EntityRow, 'did' | 'type' | 'class' | 'status' | 'controller'>

/** An edge with its target, which is undefined where there is no such entity. */
export interface Facing {
  readonly relationship: Relationship
  readonly entity: (Pick<Known, 'type' | 'class'> & Partial<Known>) | undefined
}

/** The row of an edge, which names the party that drew the edge. */
export const edgeOf = (
  source: string,
  { role, target, properties }: Relationship,
  position: number,
  actor: Pick<Actor, 'name' | 'isOperator'>,
): EdgeRow => ({
  source,
  role,
  target,
  position,
  properties: properties === undefined ? null : JSON.stringify(properties),
  drawn_by: actor.name,
  by_operator: actor.isOperator ? 1 : 0,
  confirmed_by: null,
})

/** Refuses an edge whose target is not an active entity, or whose role and target the protocol of its source does not allow. */
export function checkEdge(
  { role, target }: Relationship,
  entity: Facing['entity'],
  protocol: Checker | undefined,
  path: string,
): void {
  if (!entity)
    throw unresolved(`${path}.target`, `there is no entity ${target}`, 'Create it first.')
  if (entity.status === 'deactivated')
    throw conflicting(`${target} was deactivated, so nothing can relate to it.`, 'Name another.', {
      path: `${path}.target`,
    })
  const roles = protocol?.relationships
  if (!roles || (role === contains && entity.type === groupType)) return
  const kind = Object.hasOwn(roles, role) ? roles[role] : undefined
  if (kind === undefined)
    throw refused([unknown(`${path}.role`, role, 'relationship', Object.keys(roles))])
  if (!isOfKind(entity, kind))
    throw invalid(
      `${path}.target`,
      `the role "${role}" is for ${kind}, and ${target} is ${entity.type}`,
    )
}

/** The faults that keep properties and edges from conforming to a protocol. */
export function faultsAgainst(
  checker: Checker,
  properties: Readonly<Record<string, unknown>> | undefined,
  edges: readonly Facing[],
): Fault[] {
  const faults = properties === undefined ? [] : checker.conform(properties)
  for (const [at, { relationship, entity }] of edges.entries()) {
    try {
      checkEdge(relationship, entity, checker, `relationships.${at}`)
    } catch (error) {
      if (!(error instanceof RuntimeError)) throw error
      const details = Array.isArray(error.details) ? (error.details as Fault[]) : []
      faults.push(
        ...(details.length > 0
          ? details
          : [{ path: `relationships.${at}`, message: error.message }]),
      )
    }
  }
  return faults
}

/** Whether an edge leads from an organisation to a group of its own. */
export const isGroupEdge = ({ source, role, target }: EdgeRow): boolean =>
  role === contains && readGroupId(target)?.organisation === source

/** Whether two edges of one entity have the same role and target. */
export const isSameEdge = (a: Relationship, b: Relationship) =>
  a.role === b.role && a.target === b.target

/** Deletes the row of an edge. */
export const removeEdge = (on: RegistryDatabase, source: string, role: string, target: string) =>
  on
    .deleteFrom('registry_edges')
    .where('source', '=', source)
    .where('role', '=', role)
    .where('target', '=', target)
    .execute()
