import { randomBytes } from 'node:crypto'
import { RuntimeError } from '#core'
import { bulkInsert, overList } from './bulk.ts'
import { entityPath, longestId } from './did.ts'
import { checkEdge, edgeOf, type Known } from './edges.ts'
import { detailsOf } from './entity.ts'
import { classOf, contains, groupId, groupType } from './kinds.ts'
import { groupRow, rowOf } from './new-entity.ts'
import type { Checker, Protocols } from './protocols.ts'
import { conflicting, invalid, refused, unresolved } from './refusal.ts'
import type { EntityRequest } from './request.ts'
import type { EdgeRow, EntityRow, RegistryDatabase } from './tables.ts'
import type { Writing } from './writing.ts'

/** What became of one request: the entity, or why there is none. */
export type Outcome =
  | { readonly row: EntityRow; readonly edges: readonly EdgeRow[]; readonly error?: undefined }
  | { readonly row?: undefined; readonly error: RuntimeError }

export interface Creating {
  readonly db: RegistryDatabase
  readonly protocols: Protocols
  /** Types whose entities are organisational domains. */
  readonly organisational: ReadonlySet<string>
  readonly oracleDid: string
}

/** Makes entities, any number in one transaction. */
export function creation({ db, protocols, organisational, oracleDid }: Creating) {
  const insertEntities = bulkInsert(db, 'registry_entities', [
    'did',
    'ordinal',
    'type',
    'class',
    'controller',
    'protocol',
    'protocol_version',
    'status',
    'version',
    'created_at',
    'updated_at',
    'properties',
    'details',
    'search',
    'edges_made',
  ])
  const insertEdges = bulkInsert(db, 'registry_edges', [
    'source',
    'role',
    'target',
    'position',
    'properties',
  ])
  const entitiesOf = overList<Known>(db, (dids) =>
    db
      .selectFrom('registry_entities')
      .select(['did', 'type', 'class', 'status', 'controller'])
      .where('did', 'in', dids),
  )
  const protocolsOf = overList<{ did: string }>(db, (dids) =>
    db.selectFrom('registry_protocols').select('did').where('did', 'in', dids),
  )

  /** What is known of the ids that the requests name, before any of them is carried out. */
  async function lookUp(requests: readonly EntityRequest[], on: RegistryDatabase) {
    const named = new Set<string>()
    const wanted = new Set<string>()
    for (const { did, relationships, groups = [defaultGroup] } of requests) {
      if (did !== undefined) wanted.add(did)
      if (did !== undefined) for (const group of groups) named.add(groupId(did, group))
      for (const { target } of relationships ?? []) named.add(target)
    }
    const known = new Map<string, Known>()
    for (const row of await entitiesOf([...new Set([...named, ...wanted])], on))
      known.set(row.did, row)
    const taken = new Set((await protocolsOf([...wanted], on)).map(({ did }) => did))
    return { known, taken }
  }

  /**
   * Creates what can be created. With `together` the requests may name each other in any order, for they are kept all
   * or not at all: that is up to the caller, who sees the outcomes.
   */
  async function createAll(
    writing: Writing,
    requests: readonly EntityRequest[],
    together = false,
  ): Promise<Outcome[]> {
    const { db: trx, actor } = writing
    const { known, taken } = await lookUp(requests, trx)
    const promised = new Map<string, Known>()
    if (together)
      for (const { did, type, class: given } of requests)
        if (did !== undefined)
          promised.set(did, {
            did,
            type,
            class: classOf(type, given, organisational) ?? null,
            status: 'active',
            controller: '',
          })
    const checkers = new Map<string, Checker | undefined>()
    const rows: EntityRow[] = []
    const edges: EdgeRow[] = []

    async function checkerOf(did: string): Promise<Checker> {
      if (!checkers.has(did)) checkers.set(did, await protocols.newest(did, trx))
      const checker = checkers.get(did)
      if (checker) return checker
      throw unresolved('protocol', `there is no protocol ${did}`, 'POST /v1/protocols makes one.')
    }

    function add(row: EntityRow, own: readonly EdgeRow[]): void {
      rows.push(row)
      for (const edge of own) edges.push(edge)
      known.set(row.did, row)
    }

    async function create(request: EntityRequest): Promise<Outcome> {
      const { type, properties } = request
      const did = request.did ?? `did:ixo:entity:${randomBytes(16).toString('hex')}`
      const present = known.get(did)
      if (present || taken.has(did)) throw inUse(did, present)
      if (type === groupType) throw invalid('type', 'create a group by itself, not in a batch')
      const protocol = await checkerOf(request.protocol!)
      const faults = protocol.conform(properties)
      if (faults.length > 0) throw refused(faults, `The protocol is ${protocol.did}.`)
      const twin = classOf(type, request.class, organisational)
      const groups = twin === 'cognitive-twin' ? (request.groups ?? [defaultGroup]) : []
      if (request.groups && twin !== 'cognitive-twin')
        throw invalid(
          'groups',
          'only an organisational domain has groups',
          'Its class is cognitive-twin.',
        )
      const groupIds = new Map(groups.map((group) => [groupId(did, group), group]))
      const own: EdgeRow[] = []
      for (const [at, relationship] of (request.relationships ?? []).entries()) {
        const { role, target } = relationship
        // Whoever sends what they once read names the groups too.
        if (role === contains && groupIds.has(target)) continue
        const entity =
          target === did
            ? { type, class: twin ?? null }
            : (known.get(target) ?? promised.get(target))
        checkEdge(relationship, entity, protocol, `relationships.${at}`)
        own.push(edgeOf(did, relationship, own.length))
      }
      for (const target of groupIds.keys()) {
        const present = known.get(target)
        if (present) throw inUse(present.did, present)
        if (target.length > longestId)
          throw invalid('did', 'too long for the ids of its groups, which begin with it')
        own.push(edgeOf(did, { role: contains, target }, own.length))
      }

      const controller = request.controller ?? actor.did ?? oracleDid
      const state = {
        controller,
        protocol: protocol.did,
        protocol_version: protocol.version,
        properties: JSON.stringify(properties),
        details: detailsOf(request.services, request.verifiableCredential),
      }
      const row = rowOf(writing, { did, type, class: twin ?? null, ...state }, properties, own)
      add(row, own)
      for (const [id, group] of groupIds) add(groupRow(writing, id, group, controller), [])
      return { row, edges: own }
    }

    const outcomes: Outcome[] = []
    for (const request of requests) {
      try {
        outcomes.push(await create(request))
      } catch (error) {
        if (!(error instanceof RuntimeError)) throw error
        outcomes.push({ error })
      }
    }
    await insertEntities(rows, trx)
    await insertEdges(edges, trx)
    return outcomes
  }

  return { createAll, entitiesOf, insertEdges, insertEntities }
}

const defaultGroup = 'members'

function inUse(did: string, present: Known | undefined): RuntimeError {
  return present?.status === 'deactivated'
    ? conflicting(`${did} was deactivated, and an id is never used again.`, 'Take another did.', {
        did,
      })
    : conflicting(
        `${did} is in use already.`,
        `Read it at ${entityPath(did)}, or leave out the did, and one is minted.`,
        { did },
      )
}
