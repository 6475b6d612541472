import { randomBytes } from 'node:crypto'
import { giveWay, RuntimeError } from '#core'
import { mustOwnId, mustSpeakFor } from '../rights/actor.ts'
import { bulkInsert, overList } from '../bulk.ts'
import { none, type PresentedCredentials, type Vetted } from '../credentials/presented.ts'
import { entityPath, longestId } from '../did.ts'
import { checkEdge, edgeOf, type Known } from '../graph/edges.ts'
import { detailsOf } from './entity.ts'
import { classOf, contains, groupId, groupType } from './kinds.ts'
import { groupRow, rowOf } from './new-entity.ts'
import type { Checker, Protocols } from '../protocols/protocols.ts'
import { conflicting, invalid, refused, unresolved } from '../refusal.ts'
import type { EntityRequest } from '../request.ts'
import { Allowance, type Quotas } from '../rights/allowance.ts'
import type { EdgeRow, EntityRow, MintRow, RegistryDatabase } from '../tables.ts'
import type { Writing } from '../writing.ts'

/** What became of one request: the entity, or why there is none. */
export type Outcome =
  | { readonly row: EntityRow; readonly edges: readonly EdgeRow[]; readonly error?: undefined }
  | { readonly row?: undefined; readonly error: RuntimeError }

/** A request whose credentials were looked at: what they prove, or why they are refused. */
export interface Asked {
  readonly request: EntityRequest
  readonly vetted: Vetted | RuntimeError
}

export interface Creating {
  readonly db: RegistryDatabase
  readonly presented: PresentedCredentials
  readonly quotas: Quotas
  readonly protocols: Protocols
  /** Types whose entities are organisational domains. */
  readonly organisational: ReadonlySet<string>
  readonly oracleDid: string
}

/** Makes entities, any number in one transaction. */
export function creation({
  db,
  presented,
  quotas,
  protocols,
  organisational,
  oracleDid,
}: Creating) {
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
    'drawn_by',
    'by_operator',
    'confirmed_by',
  ])
  const insertMints = bulkInsert(db, 'registry_mints', ['credential', 'entity', 'at'])
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
  async function lookUp(all: readonly Asked[], on: RegistryDatabase) {
    const named = new Set<string>()
    const wanted = new Set<string>()
    for (const { request } of all) {
      const { did, relationships, groups = [defaultGroup] } = request
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

  /** Looks at what the requests present, before the transaction. */
  async function vet(requests: readonly EntityRequest[]): Promise<Asked[]> {
    const asked: Asked[] = []
    for (const request of requests)
      asked.push({
        request,
        vetted: request.verifiableCredential
          ? await presented.vet(request.verifiableCredential).catch(asOutcome)
          : none,
      })
    return asked
  }

  /**
   * Creates what can be created. With `together` the requests may name each other in any order, for they are kept all
   * or not at all: that is up to the caller, who sees the outcomes.
   */
  async function createAll(
    writing: Writing,
    all: readonly Asked[],
    together = false,
  ): Promise<Outcome[]> {
    const { db: trx, actor } = writing
    const { known, taken } = await lookUp(all, trx)
    const allowance = await Allowance.open(writing, quotas)
    const promised = new Map<string, Known>()
    if (together)
      for (const { request } of all) {
        const { did, type, class: given } = request
        if (did !== undefined)
          promised.set(did, {
            did,
            type,
            class: classOf(type, given, organisational) ?? null,
            status: 'active',
            controller: '',
          })
      }
    const checkers = new Map<string, Checker | undefined>()
    const rows: EntityRow[] = []
    const edges: EdgeRow[] = []
    const used = new Map<string, MintRow>()

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

    async function create({ request, vetted }: Asked): Promise<Outcome> {
      const { type, properties } = request
      const controller = request.controller ?? actor.did ?? oracleDid
      mustOwnId(actor, request.did)
      if (request.controller !== undefined) mustSpeakFor(actor, controller)
      if (vetted instanceof RuntimeError) throw vetted
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
        own.push(edgeOf(did, relationship, own.length, actor))
      }
      for (const target of groupIds.keys()) {
        const present = known.get(target)
        if (present) throw inUse(present.did, present)
        if (target.length > longestId)
          throw invalid('did', 'too long for the ids of its groups, which begin with it')
        own.push(edgeOf(did, { role: contains, target }, own.length, actor))
      }

      const mints = protocol.mints !== undefined
      // Most entities present nothing, and a batch has many of them.
      const minted =
        vetted.proven.length === 0 && !mints
          ? []
          : await presented.settle(
              vetted,
              {
                did,
                controller,
                targets: new Set(own.map(({ target }) => target)),
                mints,
                wasMinted: false,
              },
              writing,
              new Set(used.keys()),
            )
      allowance.take({ entities: 1 + groups.length, edges: own.length })
      for (const mint of minted) used.set(mint.credential, mint)
      const state = {
        controller,
        protocol: protocol.did,
        protocol_version: protocol.version,
        properties: JSON.stringify(properties),
        details: detailsOf(request.services, vetted.entries),
      }
      const row = rowOf(writing, { did, type, class: twin ?? null, ...state }, properties, own)
      add(row, own)
      for (const [id, group] of groupIds) add(groupRow(writing, id, group, controller), [])
      return { row, edges: own }
    }

    const outcomes: Outcome[] = []
    for (const asked of all) {
      await giveWay()
      try {
        outcomes.push(await create(asked))
      } catch (error) {
        outcomes.push({ error: asOutcome(error) })
      }
    }
    await insertEntities(rows, trx)
    await insertEdges(edges, trx)
    await insertMints([...used.values()], trx)
    await allowance.keep()
    return outcomes
  }

  return { vet, createAll, entitiesOf, insertEdges, insertEntities, insertMints }
}

/** A refusal is the answer to one request; any other error ends them all. */
function asOutcome(error: unknown): RuntimeError {
  if (error instanceof RuntimeError) return error
  throw error
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
