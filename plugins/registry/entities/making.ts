import { randomBytes } from 'node:crypto'
import { RuntimeError } from '#core'
import type { PresentedCredentials, Vetted } from '../credentials/presented.ts'
import { entityPath, longestId } from '../did.ts'
import { checkEdge, edgeOf, type Known } from '../graph/edges.ts'
import type { Checker, Protocols } from '../protocols/protocols.ts'
import { conflicting, invalid, refused, unresolved } from '../refusal.ts'
import type { EntityRequest } from '../request.ts'
import { mustOwnId, mustSpeakFor } from '../rights/actor.ts'
import type { Allowance } from '../rights/allowance.ts'
import type { EdgeRow, EntityRow, MintRow } from '../tables.ts'
import type { Writing } from '../writing.ts'
import type { Asked, Outcome } from './creation.ts'
import { detailsOf } from './entity.ts'
import { classOf, contains, groupId, groupType } from './kinds.ts'
import { groupRow, rowOf } from './new-entity.ts'

/** The membership group of an organisation whose request names none. */
export const defaultGroup = 'members'

/** What `Making` needs to check the requests of a transaction. */
export interface MakingParts {
  readonly presented: PresentedCredentials
  readonly protocols: Protocols
  /** Types whose entities are organisational domains. */
  readonly organisational: ReadonlySet<string>
  readonly oracleDid: string
}

/** The rows that one transaction is about to insert. Each request may name what an earlier request made. */
export class Making {
  readonly #parts: MakingParts
  readonly #writing: Writing
  readonly #allowance: Allowance
  /** The entities that the requests name, as far as they existed before or earlier requests have made them. */
  readonly #known: Map<string, Known>
  /** The ids, among those that the requests want, that belong to protocols. */
  readonly #taken: ReadonlySet<string>
  /** The entities that later requests of an atomic batch make. */
  readonly #promised = new Map<string, Known>()
  readonly #checkers = new Map<string, Checker | undefined>()
  readonly #minted = new Map<string, MintRow>()
  /** The entities that the requests so far have made. */
  readonly rows: EntityRow[] = []
  /** The edges of the entities that the requests so far have made. */
  readonly edges: EdgeRow[] = []

  constructor(
    parts: MakingParts,
    writing: Writing,
    allowance: Allowance,
    known: Map<string, Known>,
    taken: ReadonlySet<string>,
  ) {
    this.#parts = parts
    this.#writing = writing
    this.#allowance = allowance
    this.#known = known
    this.#taken = taken
  }

  /** The credentials that the requests so far have made into credits. */
  get mints(): MintRow[] {
    return [...this.#minted.values()]
  }

  /** Lets other requests name the entity of this request before `make` has made the entity. */
  async promise({ did, type, class: given, protocol }: EntityRequest): Promise<void> {
    if (did === undefined) return
    const checker = protocol === undefined ? undefined : await this.#newest(protocol)
    this.#promised.set(did, {
      did,
      type,
      class: checker?.class ?? classOf(type, given, this.#parts.organisational) ?? null,
      status: 'active',
      controller: '',
    })
  }

  /** Makes the entity of a request, with its edges and groups; throws, and makes nothing, where the request is refused. */
  async make({ request, vetted }: Asked): Promise<Outcome> {
    const { type, properties, class: given } = request
    const { actor } = this.#writing
    const { oracleDid, organisational } = this.#parts
    const controller = request.controller ?? actor.did ?? oracleDid
    mustOwnId(actor, request.did)
    if (request.controller !== undefined) mustSpeakFor(actor, controller)
    if (vetted instanceof RuntimeError) throw vetted
    const did = request.did ?? `did:ixo:entity:${randomBytes(16).toString('hex')}`
    const present = this.#known.get(did)
    if (present || this.#taken.has(did)) throw inUse(did, present)
    if (type === groupType) throw invalid('type', 'create a group by itself, not in a batch')
    const protocol = await this.#checkerOf(request.protocol)
    const faults = protocol.conform(properties)
    if (faults.length > 0) throw refused(faults, `The protocol is ${protocol.did}.`)
    const twin = protocol.class ?? classOf(type, given, organisational) ?? null
    if (given !== undefined && given !== twin)
      throw invalid('class', `entities of ${protocol.did} are of the class ${twin}, not ${given}`)
    const groups = groupsOf(did, twin, request)
    const edges = this.#edgesOf(did, { type, class: twin }, request, protocol, groups)
    const minted = await this.#settle(vetted, did, controller, protocol, edges)
    this.#allowance.take({ entities: 1 + groups.size, edges: edges.length })
    for (const mint of minted) this.#minted.set(mint.credential, mint)
    const state = {
      controller,
      protocol: protocol.did,
      protocol_version: protocol.version,
      properties: JSON.stringify(properties),
      details: detailsOf(request.services, vetted.entries),
    }
    const row = rowOf(this.#writing, { did, type, class: twin, ...state }, properties, edges)
    this.#add(row, edges)
    for (const [id, group] of groups) this.#add(groupRow(this.#writing, id, group, controller), [])
    return { row, edges }
  }

  async #checkerOf(did: string | undefined): Promise<Checker> {
    // The schema lets only groups come without a protocol, and `make` has refused groups before.
    if (did === undefined) throw invalid('protocol', 'missing; give the DID of a protocol')
    const checker = await this.#newest(did)
    if (checker) return checker
    throw unresolved('protocol', `there is no protocol ${did}`, 'POST /v1/protocols makes one.')
  }

  async #newest(did: string): Promise<Checker | undefined> {
    if (!this.#checkers.has(did))
      this.#checkers.set(did, await this.#parts.protocols.newest(did, this.#writing.db))
    return this.#checkers.get(did)
  }

  /** The edges of a new entity: those that the request lists, and one to each group. */
  #edgesOf(
    did: string,
    self: Pick<Known, 'type' | 'class'>,
    { relationships = [] }: EntityRequest,
    protocol: Checker,
    groups: ReadonlyMap<string, string>,
  ): EdgeRow[] {
    const { actor } = this.#writing
    const edges: EdgeRow[] = []
    for (const [at, relationship] of relationships.entries()) {
      const { role, target } = relationship
      // A client that sends back an entity that it read lists the edges to the groups too.
      if (role === contains && groups.has(target)) continue
      const entity = target === did ? self : (this.#known.get(target) ?? this.#promised.get(target))
      checkEdge(relationship, entity, protocol, `relationships.${at}`)
      edges.push(edgeOf(did, relationship, edges.length, actor))
    }
    for (const target of groups.keys()) {
      const present = this.#known.get(target)
      if (present) throw inUse(present.did, present)
      if (target.length > longestId)
        throw invalid('did', 'too long for the ids of its groups, which begin with it')
      edges.push(edgeOf(did, { role: contains, target }, edges.length, actor))
    }
    return edges
  }

  /** The credentials that become credits by this entity. */
  async #settle(
    vetted: Vetted,
    did: string,
    controller: string,
    protocol: Checker,
    edges: readonly EdgeRow[],
  ): Promise<MintRow[]> {
    const mints = protocol.mints !== undefined
    // Most entities present nothing, and a batch has many of them.
    if (vetted.proven.length === 0 && !mints) return []
    const targets = new Set(edges.map(({ target }) => target))
    return this.#parts.presented.settle(
      vetted,
      { did, controller, targets, mints, wasMinted: false },
      this.#writing,
      new Set(this.#minted.keys()),
    )
  }

  #add(row: EntityRow, edges: readonly EdgeRow[]): void {
    this.rows.push(row)
    for (const edge of edges) this.edges.push(edge)
    this.#known.set(row.did, row)
  }
}

/** The groups of a new entity, by their ids: only an organisational domain has some. */
function groupsOf(
  did: string,
  twin: string | null,
  { groups }: EntityRequest,
): ReadonlyMap<string, string> {
  if (twin === 'cognitive-twin')
    return new Map((groups ?? [defaultGroup]).map((group) => [groupId(did, group), group]))
  if (groups)
    throw invalid(
      'groups',
      'only an organisational domain has groups',
      'Its class is cognitive-twin.',
    )
  return new Map()
}

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
