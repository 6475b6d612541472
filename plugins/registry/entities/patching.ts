import { controls, mustSpeakFor, type Actor } from '../rights/actor.ts'
import type { creation } from './create.ts'
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
  faultsOf,
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
import type { EdgeRow, EntityRow, RegistryDatabase } from '../tables.ts'
import type { Versions } from './versions.ts'
import type { Writing } from '../writing.ts'

/** Changes entities by merge patch. */
export function patching(
  db: RegistryDatabase,
  { findRow, edgesOf }: Entities,
  protocols: Protocols,
  { keep, changeable }: Versions,
  { entitiesOf, insertEdges, insertMints }: ReturnType<typeof creation>,
  presented: PresentedCredentials,
  quotas: Quotas,
) {
  /** Looks at what a patch presents, before the transaction: only what was not there before. */
  async function vet(
    actor: Actor,
    did: string,
    { verifiableCredential }: Readonly<Record<string, unknown>>,
  ): Promise<Vetted | undefined> {
    if (verifiableCredential === undefined) return undefined
    if (verifiableCredential === null) return none
    const read = credentialsSchema.safeParse(verifiableCredential)
    if (!read.success) return undefined // refused with all other faults of the patch
    const row = await findRow(did)
    // Nobody makes this server check signatures for a change that it refuses anyway.
    return row && controls(actor, row) ? presented.vet(read.data, await textsOf(row)) : undefined
  }

  /** Whether an entity is a credit already. */
  async function isMinted(did: string, on: RegistryDatabase): Promise<boolean> {
    const row = await on
      .selectFrom('registry_mints')
      .select('credential')
      .where('entity', '=', did)
      .limit(1)
      .executeTakeFirst()
    return row !== undefined
  }

  /** The version of the protocol that an entity conforms to: the newest, else the one it already has. */
  async function chooseVersion(
    on: RegistryDatabase,
    row: EntityRow,
    after: Changeable,
    edges: readonly Facing[],
    canMint: boolean,
  ): Promise<Checker | undefined> {
    const { protocol = row.protocol ?? undefined } = after
    if (protocol === undefined) return undefined
    const candidates = [
      await protocols.newest(protocol, on),
      protocol === row.protocol
        ? await protocols.checker(protocol, row.protocol_version ?? 0, on)
        : undefined,
    ].filter((checker) => checker !== undefined)
    const [first] = candidates
    if (!first)
      throw unresolved(
        'protocol',
        `there is no protocol ${protocol}`,
        'POST /v1/protocols makes one.',
      )
    // What was no credit stays none where its protocol begins to mint: it keeps the version it has.
    const lagging = candidates.find(({ mints }) => mints === undefined)
    if (first.mints !== undefined && !canMint && lagging) candidates.splice(0, 1)
    const found = candidates.map((checker) => ({
      checker,
      faults: faultsOf(checker, after.properties, edges),
    }))
    const fitting = found.find(({ faults }) => faults.length === 0)
    if (fitting) return fitting.checker
    throw refused(found[0]!.faults, `The protocol is ${protocol}, version ${first.version}.`)
  }

  /** Edges with the entities they lead to. */
  async function facing(
    relationships: readonly Relationship[],
    on: RegistryDatabase,
  ): Promise<Facing[]> {
    if (relationships.length === 0) return []
    const targets = [...new Set(relationships.map(({ target }) => target))]
    const known = new Map((await entitiesOf(targets, on)).map((row) => [row.did, row]))
    return relationships.map((relationship) => ({
      relationship,
      entity: known.get(relationship.target),
    }))
  }

  async function apply(
    writing: Writing,
    did: string,
    ifMatch: string | undefined,
    body: Readonly<Record<string, unknown>>,
    vetted: Vetted | undefined,
  ): Promise<Entity> {
    const { db: trx, actor } = writing
    const row = await changeable(actor, did, ifMatch, trx)
    const edges = await edgesOf(row, trx)
    const before = entityOf(row, edges)
    checkFixed(before, body)
    const after = merged(before, body)
    if (after.controller !== row.controller) mustSpeakFor(actor, after.controller)
    const groups = edges.filter(isGroupEdge).map(relationshipOf)
    // Groups come and go as entities; a list of relationships need not repeat them.
    const relationships =
      after.relationships === undefined
        ? before.relationships
        : [
            ...after.relationships,
            ...groups.filter(
              (group) => !after.relationships!.some((one) => isSameEdge(group, one)),
            ),
          ]
    const edgesAfter = await facing(relationships, trx)
    for (const [at, { relationship, entity }] of edgesAfter.entries())
      checkEdge(relationship, entity, undefined, `relationships.${at}`)
    const presenting = vetted ?? keptOf(row)
    const wasMinted = await isMinted(did, trx)
    const canMint = wasMinted || presenting.proven.length > 0
    const checker = await chooseVersion(trx, row, after, edgesAfter, canMint)
    let made = row.edges_made
    let kept: readonly EdgeRow[] = edges
    if (after.relationships !== undefined) {
      await trx.deleteFrom('registry_edges').where('source', '=', did).execute()
      const present = new Map(edges.map((edge) => [`${edge.role} ${edge.target}`, edge]))
      let drawn = 0
      kept = relationships.map((relationship) => {
        const edge = edgeOf(did, relationship, made++, actor)
        const before = present.get(`${edge.role} ${edge.target}`)
        if (!before) drawn++
        // A list that repeats an edge neither draws nor confirms it: whoever stood by it does so still.
        return before?.properties === edge.properties
          ? { ...before, position: edge.position }
          : edge
      })
      if (drawn > 0) {
        const allowance = await Allowance.open(writing, quotas)
        allowance.take({ edges: drawn })
        await allowance.keep()
      }
      await insertEdges(kept, trx)
    }
    const details = readDetails(row)
    const mints = checker?.mints !== undefined
    const minted = await presented.settle(
      presenting,
      {
        did,
        controller: after.controller,
        targets: new Set(kept.map(({ target }) => target)),
        mints,
        wasMinted,
      },
      writing,
    )
    await insertMints(minted, trx)
    const next = await keep(
      writing,
      row,
      'updated',
      {
        controller: after.controller,
        protocol: checker?.did ?? null,
        protocol_version: checker?.version ?? null,
        properties: JSON.stringify(after.properties),
        details: vetted
          ? detailsOf(after.services, vetted.entries)
          : detailsOf(after.services, details.verifiableCredential, details.checked ?? false),
        search: searchText(did, row.type, after.properties),
        edges_made: made,
      },
      after.relationships === undefined ? null : { relationships },
    )
    return entityOf(next, kept)
  }

  return { vet, apply }
}

const fixed = ['did', 'type', 'class', 'status', 'version', 'createdAt', 'updatedAt'] as const

/** Whoever sends back what they read may send these too, unchanged. */
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
  // It is read as `{ did, version }` and written as the DID; the version follows from the check.
  if (isProtocolAsRead(patch.protocol)) patch.protocol = patch.protocol.did
  const base = { controller, protocol: protocol?.did, properties, services, verifiableCredential }
  const after = mergePatch(base, patch) as Record<string, unknown> // the base is an object
  for (const list of ['services', 'verifiableCredential', 'relationships'])
    if (patch[list] === null) after[list] = []
  if (patch.properties === null) after.properties = {}
  if (patch.protocol === null && protocol) after.protocol = null
  const parsed = changeableSchema.safeParse(after)
  if (parsed.success) return parsed.data
  throw refused(
    parsed.error.issues.map(({ path, message }) => ({ path: path.map(String).join('.'), message })),
  )
}

const isProtocolAsRead = (value: unknown): value is { did: unknown } =>
  typeof value === 'object' && value !== null && 'did' in value
