import { isDeepStrictEqual } from 'node:util'
import { faultsOf, type Fault } from '#core'
import { controls, mustSpeakFor, type Actor } from '../rights/actor.ts'
import type { Creation } from './creation.ts'
import {
  keptOf,
  none,
  textsOf,
  type PresentedCredentials,
  type Vetted,
} from '../credentials/presented.ts'
import {
  checkEdge,
  edgeOf,
  faultsAgainst,
  isGroupEdge,
  isSameEdge,
  type Facing,
} from '../graph/edges.ts'
import type { Entities } from './entities.ts'
import {
  detailsOf,
  entityOf,
  readDetails,
  relationshipOf,
  type Entity,
  type Relationship,
} from './entity.ts'
import { mergePatch } from './merge-patch.ts'
import type { Checker, Protocols } from '../protocols/protocols.ts'
import { refused, unresolved } from '../refusal.ts'
import { changeableSchema, credentialsSchema, type Changeable } from '../request.ts'
import { Allowance, type Quotas } from '../rights/allowance.ts'
import { searchText } from './search-text.ts'
import type { EdgeRow, EntityRow, RegistryDatabase, StateColumns } from '../tables.ts'
import type { Versions } from './versions.ts'
import type { Writing } from '../writing.ts'

/** What `Patching` needs to apply patches. */
export interface PatchingParts {
  readonly entities: Entities
  readonly protocols: Protocols
  readonly versions: Versions
  readonly creation: Creation
  readonly presented: PresentedCredentials
  readonly quotas: Quotas
}

/** Changes entities by merge patch. */
export class Patching {
  readonly #entities: Entities
  readonly #protocols: Protocols
  readonly #versions: Versions
  readonly #creation: Creation
  readonly #presented: PresentedCredentials
  readonly #quotas: Quotas

  constructor({ entities, protocols, versions, creation, presented, quotas }: PatchingParts) {
    this.#entities = entities
    this.#protocols = protocols
    this.#versions = versions
    this.#creation = creation
    this.#presented = presented
    this.#quotas = quotas
  }

  /** Checks the credentials of a patch before the transaction, except those that the entity had already. */
  async vet(
    actor: Actor,
    did: string,
    { verifiableCredential }: Readonly<Record<string, unknown>>,
  ): Promise<Vetted | undefined> {
    if (verifiableCredential === undefined) return undefined
    if (verifiableCredential === null) return none
    const read = credentialsSchema.safeParse(verifiableCredential)
    if (!read.success) return undefined // `merged` refuses it with all other faults of the patch
    const row = await this.#entities.findRow(did)
    // A caller who does not control the entity must not cost this server checks of signatures: `changeable` refuses the patch.
    return row && controls(actor, row)
      ? this.#presented.vet(read.data, await textsOf(row))
      : undefined
  }

  /** Whether an entity is a credit already. */
  async #isMinted(did: string, on: RegistryDatabase): Promise<boolean> {
    const row = await on
      .selectFrom('registry_mints')
      .select('credential')
      .where('entity', '=', did)
      .limit(1)
      .executeTakeFirst()
    return row !== undefined
  }

  /** The version of the protocol that the patched entity conforms to: the newest, else the version that the entity already has. */
  async #chooseVersion(
    on: RegistryDatabase,
    row: EntityRow,
    after: Changeable,
    edges: readonly Facing[],
    canMint: boolean,
  ): Promise<Checker | undefined> {
    const { protocol = row.protocol ?? undefined } = after
    if (protocol === undefined) return undefined
    const candidates = [
      await this.#protocols.newest(protocol, on),
      protocol === row.protocol
        ? await this.#protocols.checker(protocol, row.protocol_version ?? 0, on)
        : undefined,
    ].filter((checker) => checker !== undefined)
    const [first] = candidates
    if (!first)
      throw unresolved(
        'protocol',
        `there is no protocol ${protocol}`,
        'POST /v1/protocols makes one.',
      )
    // An entity that was no credit stays none when its protocol begins to mint: the entity keeps its version of the protocol.
    const lagging = candidates.find(({ mints }) => mints === undefined)
    if (first.mints !== undefined && !canMint && lagging) candidates.splice(0, 1)
    const found = candidates.map((checker) => ({
      checker,
      faults: [...classFaults(checker, row), ...faultsAgainst(checker, after.properties, edges)],
    }))
    const fitting = found.find(({ faults }) => faults.length === 0)
    if (fitting) return fitting.checker
    throw refused(found[0]!.faults, `The protocol is ${protocol}, version ${first.version}.`)
  }

  /** Edges with the entities they lead to. */
  async #facing(relationships: readonly Relationship[], on: RegistryDatabase): Promise<Facing[]> {
    if (relationships.length === 0) return []
    const targets = [...new Set(relationships.map(({ target }) => target))]
    const known = new Map(
      (await this.#creation.entitiesOf(targets, on)).map((row) => [row.did, row]),
    )
    return relationships.map((relationship) => ({
      relationship,
      entity: known.get(relationship.target),
    }))
  }

  /** Replaces the edges of an entity by those of a list. */
  async #redraw(
    writing: Writing,
    { did, edges_made }: EntityRow,
    edges: readonly EdgeRow[],
    relationships: readonly Relationship[],
  ): Promise<{ readonly kept: readonly EdgeRow[]; readonly made: number }> {
    const { db: trx, actor } = writing
    await trx.deleteFrom('registry_edges').where('source', '=', did).execute()
    const present = new Map(edges.map((edge) => [`${edge.role} ${edge.target}`, edge]))
    let made = edges_made
    let drawn = 0
    const kept = relationships.map((relationship) => {
      const edge = edgeOf(did, relationship, made++, actor)
      const before = present.get(`${edge.role} ${edge.target}`)
      if (!before) drawn++
      // A list that repeats an edge neither draws nor confirms the edge: `drawn_by` and `confirmed_by` stay as they are.
      return before?.properties === edge.properties ? { ...before, position: edge.position } : edge
    })
    if (drawn > 0) {
      const allowance = await Allowance.open(writing, this.#quotas)
      allowance.take({ edges: drawn })
      await allowance.keep()
    }
    await this.#creation.insertEdges(kept, trx)
    return { kept, made }
  }

  /** Applies a merge patch to an entity, whose credentials `vet` has checked. */
  async apply(
    writing: Writing,
    did: string,
    ifMatch: string | undefined,
    body: Readonly<Record<string, unknown>>,
    vetted: Vetted | undefined,
  ): Promise<Entity> {
    const { db: trx, actor } = writing
    const row = await this.#versions.changeable(actor, did, ifMatch, trx)
    const edges = await this.#entities.edgesOf(row, trx)
    const before = entityOf(row, edges)
    checkFixed(before, body)
    const after = merged(before, body)
    if (after.controller !== row.controller) mustSpeakFor(actor, after.controller)
    const groups = edges.filter(isGroupEdge).map(relationshipOf)
    // A list of relationships need not repeat the edges to groups, which requests for the groups themselves add and remove.
    const relationships =
      after.relationships === undefined
        ? before.relationships
        : [
            ...after.relationships,
            ...groups.filter(
              (group) => !after.relationships!.some((one) => isSameEdge(group, one)),
            ),
          ]
    const edgesAfter = await this.#facing(relationships, trx)
    for (const [at, { relationship, entity }] of edgesAfter.entries())
      checkEdge(relationship, entity, undefined, `relationships.${at}`)
    const presenting = vetted ?? keptOf(row)
    const wasMinted = await this.#isMinted(did, trx)
    const canMint = wasMinted || presenting.proven.length > 0
    const checker = await this.#chooseVersion(trx, row, after, edgesAfter, canMint)
    const details = readDetails(row)
    const mints = checker?.mints !== undefined
    const minted = await this.#presented.settle(
      presenting,
      {
        did,
        controller: after.controller,
        targets: new Set(relationships.map(({ target }) => target)),
        mints,
        wasMinted,
      },
      writing,
    )
    const state = {
      controller: after.controller,
      protocol: checker?.did ?? null,
      protocol_version: checker?.version ?? null,
      properties: JSON.stringify(after.properties),
      details: vetted
        ? detailsOf(after.services, vetted.entries)
        : detailsOf(after.services, details.verifiableCredential, details.checked ?? false),
    }
    const isRedrawn = !isDeepStrictEqual(relationships, before.relationships)
    if (!isRedrawn && minted.length === 0 && isSameState(row, state)) return before
    const { kept, made } = isRedrawn
      ? await this.#redraw(writing, row, edges, relationships)
      : { kept: edges, made: row.edges_made }
    await this.#creation.insertMints(minted, trx)
    const search = searchText(did, row.type, after.properties)
    const next = await this.#versions.keep(
      writing,
      row,
      'updated',
      { ...state, search, edges_made: made },
      isRedrawn ? { relationships } : null,
    )
    return entityOf(next, kept)
  }
}

const fixed = ['did', 'type', 'class', 'status', 'version', 'createdAt', 'updatedAt'] as const

/** Refuses a change of a fixed member. A client that sends back an entity that it read may send these members unchanged. */
function checkFixed(before: Entity, body: Readonly<Record<string, unknown>>): void {
  const faults = fixed.flatMap((name) =>
    Object.hasOwn(body, name) && body[name] !== (before[name] ?? null)
      ? [{ path: name, message: `it stays ${JSON.stringify(before[name] ?? null)}; leave it out` }]
      : [],
  )
  if (faults.length > 0) throw refused(faults)
}

/** The changeable parts of an entity with a patch applied. */
function merged(before: Entity, body: Readonly<Record<string, unknown>>): Changeable {
  const { controller, protocol, properties, services, verifiableCredential } = before
  const patch = { ...body }
  // A client reads the protocol as `{ did, version }` and writes only its DID; `#chooseVersion` finds the version.
  if (isProtocolAsRead(patch.protocol)) patch.protocol = patch.protocol.did
  const base = { controller, protocol: protocol?.did, properties, services, verifiableCredential }
  const after = mergePatch(base, patch) as Record<string, unknown> // the base is an object
  for (const list of ['services', 'verifiableCredential', 'relationships'])
    if (patch[list] === null) after[list] = []
  if (patch.properties === null) after.properties = {}
  if (patch.protocol === null && protocol) after.protocol = null
  const parsed = changeableSchema.safeParse(after)
  if (parsed.success) return parsed.data
  throw refused(faultsOf(parsed.error))
}

/** The fault of a protocol whose entities are of another class, which an entity never changes. */
const classFaults = ({ did, class: twin }: Checker, row: EntityRow): Fault[] =>
  twin === undefined || twin === row.class
    ? []
    : [
        {
          path: 'protocol',
          message: `entities of ${did} are of the class ${twin}; this one is not`,
        },
      ]

/** Whether a state is that of a row already: a patch that changes nothing makes no version. */
function isSameState(row: EntityRow, after: StateColumns): boolean {
  const parsed = (text: string | null): unknown => (text === null ? null : JSON.parse(text))
  return (
    row.controller === after.controller &&
    row.protocol === after.protocol &&
    row.protocol_version === after.protocol_version &&
    isDeepStrictEqual(parsed(row.properties), parsed(after.properties)) &&
    isDeepStrictEqual(parsed(row.details), parsed(after.details))
  )
}

const isProtocolAsRead = (value: unknown): value is { did: unknown } =>
  typeof value === 'object' && value !== null && 'did' in value
