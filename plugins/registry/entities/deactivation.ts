import { isGroupEdge, removeEdge } from '../graph/edges.ts'
import type { Entities } from './entities.ts'
import { relationshipOf } from './entity.ts'
import { contains, groupType, readGroupId } from './kinds.ts'
import { conflicting } from '../refusal.ts'
import type { EntityRow, RegistryDatabase } from '../tables.ts'
import type { Versions } from './versions.ts'
import type { Writing } from '../writing.ts'

/** An entity that depends on another one, and by which role. */
interface Dependent {
  readonly did: string
  readonly type: string
  /** The role of the edge from the dependent entity, or `controller`. */
  readonly role: string
}

/** How many dependents an answer lists at most. */
const listed = 100

/** Deactivates entities on which nothing depends. */
export class Deactivation {
  readonly #entities: Entities
  readonly #versions: Versions

  constructor(entities: Entities, versions: Versions) {
    this.#entities = entities
    this.#versions = versions
  }

  /** The entities that have an edge to one of these entities, or that one of these entities controls. */
  async #dependentsOf(removed: readonly EntityRow[], on: RegistryDatabase): Promise<Dependent[]> {
    const dids = removed.map(({ did }) => did)
    const found: Dependent[] = []
    for (const { did, type } of removed) {
      const organisation = type === groupType ? readGroupId(did)?.organisation : undefined
      const sources = await on
        .selectFrom('registry_edges as edge')
        .innerJoin('registry_entities as entity', 'entity.did', 'edge.source')
        .select(['entity.did', 'entity.type', 'edge.role'])
        .where('edge.target', '=', did)
        .where('edge.source', 'not in', dids)
        .where((where) =>
          where.not(
            where.and([
              where('edge.source', '=', organisation ?? ''),
              where('edge.role', '=', contains),
            ]),
          ),
        )
        .limit(listed + 1)
        .execute()
      const controlled = await on
        .selectFrom('registry_entities')
        .select(['did', 'type'])
        .where('controller', '=', did)
        .where('status', '=', 'active')
        .where('did', 'not in', dids)
        .limit(listed + 1)
        .execute()
      found.push(...sources, ...controlled.map((one) => ({ ...one, role: 'controller' })))
    }
    return found
  }

  /** Removes the edge from an organisation to a group, and refuses to remove the last group of an organisation. */
  async #leaveOrganisation(writing: Writing, group: EntityRow) {
    const { db: trx } = writing
    const { organisation: did = '' } = readGroupId(group.did) ?? {}
    const organisation = await this.#entities.findRow(did, trx)
    if (organisation?.status !== 'active') return undefined
    const groups = (await this.#entities.edgesOf(organisation, trx)).filter(isGroupEdge)
    if (groups.length === 1 && groups[0]?.target === group.did)
      throw conflicting(
        `${group.did} is the last membership group of ${did}, which cannot be without one.`,
        'Add another group first, or DELETE the organisation with ?cascade=groups.',
        { dependents: [{ did, type: organisation.type, role: contains }] },
      )
    await removeEdge(trx, did, contains, group.did)
    const relationship = { role: contains, target: group.did }
    return this.#versions.keep(writing, organisation, 'unrelated', {}, { relationship })
  }

  /** Deactivates an entity on which nothing depends. The edges from the entity are deleted; its history stays. */
  async deactivate(
    writing: Writing,
    row: EntityRow,
    withGroups: boolean,
  ): Promise<{ row: EntityRow; organisation?: EntityRow }> {
    const { db: trx } = writing
    const edges = await this.#entities.edgesOf(row, trx)
    const groups: EntityRow[] = []
    for (const { target } of edges.filter(isGroupEdge))
      groups.push(await this.#entities.activeRow(target, trx))
    const removed = withGroups ? [row, ...groups] : [row]
    const dependents = await this.#dependentsOf(removed, trx)
    if (!withGroups)
      dependents.unshift(...groups.map(({ did, type }) => ({ did, type, role: contains })))
    if (dependents.length > 0) {
      throw conflicting(
        `${row.did} cannot be deactivated while ${told(dependents)}.`,
        groups.length > 0 && !withGroups
          ? 'DELETE with ?cascade=groups removes its membership groups along.'
          : 'Change or remove those first.',
        { dependents: dependents.slice(0, listed) },
      )
    }
    const organisation =
      row.type === groupType ? await this.#leaveOrganisation(writing, row) : undefined
    let last = row
    for (const one of removed.toReversed()) {
      const own = one === row ? edges : await this.#entities.edgesOf(one, trx)
      if (own.length > 0)
        await trx.deleteFrom('registry_edges').where('source', '=', one.did).execute()
      const about = own.length === 0 ? null : { relationships: own.map(relationshipOf) }
      last = await this.#versions.keep(
        writing,
        one,
        'deactivated',
        { status: 'deactivated', edges_made: 0 },
        about,
      )
    }
    return { row: last, ...(organisation && { organisation }) }
  }
}

/** Which entities depend on one, each told once however many edges it has. */
function told(dependents: readonly Dependent[]): string {
  const dids = [...new Set(dependents.map(({ did }) => did))]
  const names = [...dids.slice(0, 3), ...(dids.length > 3 ? ['…'] : [])].join(', ')
  if (dependents.length > listed) return `others depend on it in more than ${listed} ways: ${names}`
  return dids.length === 1
    ? `1 entity depends on it: ${names}`
    : `${dids.length} entities depend on it: ${names}`
}
