import { prepared, RuntimeError, type Fault } from '#core'
import { mustControl, type Actor } from './actor.ts'
import { checkEdge, edgeOf, groupRow, type creation } from './create.ts'
import type { Entities } from './entities.ts'
import { detailsOf, entityOf, relationshipOf, type Entity, type Relationship } from './entity.ts'
import { contains, groupType, readGroupId } from './kinds.ts'
import { mustMatch } from './etag.ts'
import { mergePatch } from './merge-patch.ts'
import type { Checker, Protocols } from './protocols.ts'
import { conflicting, invalid, notFound, refused, unresolved } from './refusal.ts'
import { changeableSchema, type Changeable } from './request.ts'
import { searchText } from './search-text.ts'
import type { EdgeRow, EntityRow, RegistryDatabase } from './tables.ts'
import type { Write, Writing } from './writing.ts'

/** What depends on an entity, and how. */
interface Dependent {
  readonly did: string
  readonly type: string
  /** The role of its edge, or `controller`. */
  readonly role: string
}

/** How many dependents an answer lists. */
const listed = 100

/** Changes of entities that are there. */
export function changes(
  db: RegistryDatabase,
  write: Write,
  entities: Entities,
  protocols: Protocols,
  { entitiesOf, insertEdges, insertEntities }: ReturnType<typeof creation>,
) {
  const { activeRow, edgesOf } = entities
  const update = prepared(db, (p: Omit<EntityRow, 'ordinal' | 'type' | 'class' | 'created_at'>) =>
    db
      .updateTable('registry_entities')
      .set({
        controller: p.controller,
        protocol: p.protocol,
        protocol_version: p.protocol_version,
        status: p.status,
        version: p.version,
        updated_at: p.updated_at,
        properties: p.properties,
        details: p.details,
        search: p.search,
        edges_made: p.edges_made,
      })
      .where('did', '=', p.did),
  )
  const edge = prepared(db, (p: { source: string; role: string; target: string }) =>
    db
      .selectFrom('registry_edges')
      .selectAll()
      .where('source', '=', p.source)
      .where('role', '=', p.role)
      .where('target', '=', p.target),
  )

  /** Keeps a new version of a row, with the change that made it. */
  async function keep(
    writing: Writing,
    row: EntityRow,
    action: string,
    parts: Partial<EntityRow>,
    about: object | null,
  ): Promise<EntityRow> {
    const next = { ...row, ...parts, version: row.version + 1, updated_at: writing.at }
    await update(next, writing.db)
    const { did, type, version, controller, protocol, protocol_version, properties, details } = next
    // An edge leaves the rest as it is, so its version need not repeat it.
    const state =
      action === 'updated' ? { controller, protocol, protocol_version, properties, details } : {}
    writing.change({
      kind: 'entity',
      did,
      type,
      version,
      action,
      about: about && JSON.stringify(about),
      ...state,
    })
    return next
  }

  /** The version of the protocol that an entity conforms to: the newest, else the one it already has. */
  async function chooseVersion(
    on: RegistryDatabase,
    row: EntityRow,
    after: Changeable,
    relationships: readonly Relationship[],
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
    const edges = await facing(relationships, on)
    const found = candidates.map((checker) => ({
      checker,
      faults: faultsOf(checker, after.properties, edges),
    }))
    const fitting = found.find(({ faults }) => faults.length === 0)
    if (fitting) return fitting.checker
    throw refused(found[0]!.faults, `The protocol is ${protocol}, version ${first.version}.`)
  }

  /** Edges with the entities they lead to. */
  async function facing(relationships: readonly Relationship[], on: RegistryDatabase) {
    if (relationships.length === 0) return []
    const targets = [...new Set(relationships.map(({ target }) => target))]
    const known = new Map((await entitiesOf(targets, on)).map((row) => [row.did, row]))
    return relationships.map((relationship) => ({
      relationship,
      entity: known.get(relationship.target),
    }))
  }

  async function patch(
    writing: Writing,
    did: string,
    ifMatch: string | undefined,
    body: Readonly<Record<string, unknown>>,
  ): Promise<Entity> {
    const { db: trx, actor } = writing
    const row = await changeable(actor, did, ifMatch, trx)
    const edges = await edgesOf(row, trx)
    const before = entityOf(row, edges)
    checkFixed(before, body)
    const after = merged(before, body)
    const groups = edges.filter(isGroupEdge).map(relationshipOf)
    // Groups come and go as entities; a list of relationships need not repeat them.
    const relationships =
      after.relationships === undefined
        ? before.relationships
        : [
            ...groups,
            ...after.relationships.filter((one) => !groups.some((group) => isSameEdge(group, one))),
          ]
    const checker = await chooseVersion(trx, row, after, relationships)
    let made = row.edges_made
    let kept: readonly EdgeRow[] = edges
    if (after.relationships !== undefined) {
      await trx.deleteFrom('registry_edges').where('source', '=', did).execute()
      kept = relationships.map((relationship) => edgeOf(did, relationship, made++))
      await insertEdges(kept, trx)
    }
    const next = await keep(
      writing,
      row,
      'updated',
      {
        controller: after.controller,
        protocol: checker?.did ?? null,
        protocol_version: checker?.version ?? null,
        properties: JSON.stringify(after.properties),
        details: detailsOf(after.services, after.verifiableCredential),
        search: searchText(did, row.type, after.properties),
        edges_made: made,
      },
      after.relationships === undefined ? null : { relationships },
    )
    return entityOf(next, kept)
  }

  /** The row that a caller may change, in the version that the caller has seen. */
  async function changeable(
    actor: Actor,
    did: string,
    ifMatch: string | undefined,
    on: RegistryDatabase,
  ): Promise<EntityRow> {
    const row = await activeRow(did, on)
    mustControl(actor, row)
    mustMatch(ifMatch, row)
    return row
  }

  async function relate(
    writing: Writing,
    did: string,
    relationship: Relationship,
    ifMatch?: string,
  ): Promise<{ relationship: Relationship; version: number; isNew: boolean }> {
    const { db: trx, actor } = writing
    const row = await changeable(actor, did, ifMatch, trx)
    const { role, target } = relationship
    const [entity] = await entitiesOf([target], trx)
    if (!entity) throw notFound('entity', target, 'Create it first.')
    const checker = row.protocol === null ? undefined : await roles(row, relationship, entity, trx)
    checkEdge(relationship, entity, checker, 'relationship')
    const { rows } = await edge({ source: did, role, target }, trx)
    const present = rows[0]
    const wanted = edgeOf(did, relationship, present?.position ?? row.edges_made)
    if (present && present.properties === wanted.properties)
      return { relationship, version: row.version, isNew: false }
    if (present)
      await trx
        .updateTable('registry_edges')
        .set({ properties: wanted.properties })
        .where('source', '=', did)
        .where('role', '=', role)
        .where('target', '=', target)
        .execute()
    else await insertEdges([wanted], trx)
    const edges_made = row.edges_made + (present ? 0 : 1)
    const next = await keep(writing, row, 'related', { edges_made }, { relationship })
    return { relationship, version: next.version, isNew: !present }
  }

  /** The version whose roles an edge is checked against: the newest, else the entity's own. */
  async function roles(
    row: EntityRow,
    relationship: Relationship,
    entity: Parameters<typeof checkEdge>[1],
    on: RegistryDatabase,
  ): Promise<Checker | undefined> {
    const present = await protocols.checker(row.protocol!, row.protocol_version ?? 0, on)
    const newest = await protocols.newest(row.protocol!, on)
    const edges = [{ relationship, entity }]
    return newest && faultsOf(newest, undefined, edges).length === 0 ? newest : present
  }

  async function unrelate(
    writing: Writing,
    did: string,
    role: string,
    target: string,
    ifMatch?: string,
  ): Promise<{ version: number }> {
    const { db: trx, actor } = writing
    const row = await changeable(actor, did, ifMatch, trx)
    const { rows } = await edge({ source: did, role, target }, trx)
    if (!rows[0]) throw notFound('relationship', `${role} from ${did} to ${target}`)
    // A group without its organisation is nothing, so it goes with the edge.
    if (isGroupEdge(rows[0])) {
      const { organisation } = await deactivate(writing, await activeRow(target, trx), false)
      return { version: organisation!.version }
    }
    await removeEdge(trx, did, role, target)
    const relationship = relationshipOf(rows[0])
    return keep(writing, row, 'unrelated', {}, { relationship })
  }

  const removeEdge = (on: RegistryDatabase, source: string, role: string, target: string) =>
    on
      .deleteFrom('registry_edges')
      .where('source', '=', source)
      .where('role', '=', role)
      .where('target', '=', target)
      .execute()

  /** What would be left hanging without these entities. */
  async function dependentsOf(
    removed: readonly EntityRow[],
    on: RegistryDatabase,
  ): Promise<Dependent[]> {
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

  /** Ends an entity, where nothing depends on it. Its own edges go; what it was stays in the history. */
  async function deactivate(
    writing: Writing,
    row: EntityRow,
    withGroups: boolean,
  ): Promise<{ row: EntityRow; organisation?: EntityRow }> {
    const { db: trx } = writing
    const edges = await edgesOf(row, trx)
    const groups: EntityRow[] = []
    for (const { target } of edges.filter(isGroupEdge)) groups.push(await activeRow(target, trx))
    const removed = withGroups ? [row, ...groups] : [row]
    const dependents = await dependentsOf(removed, trx)
    if (!withGroups)
      dependents.unshift(...groups.map(({ did, type }) => ({ did, type, role: contains })))
    if (dependents.length > 0)
      throw conflicting(
        `${row.did} cannot be deactivated while ${dependents.length > listed ? `more than ${listed}` : dependents.length} depend on it: ${dependents
          .slice(0, 3)
          .map(({ did }) => did)
          .join(', ')}${dependents.length > 3 ? ', …' : ''}.`,
        groups.length > 0 && !withGroups
          ? 'DELETE with ?cascade=groups removes its membership groups along.'
          : 'Change or remove those first.',
        { dependents: dependents.slice(0, listed) },
      )
    const organisation = row.type === groupType ? await leaveOrganisation(writing, row) : undefined
    let last = row
    for (const one of removed.toReversed()) {
      const own = one === row ? edges : await edgesOf(one, trx)
      if (own.length > 0)
        await trx.deleteFrom('registry_edges').where('source', '=', one.did).execute()
      const about = own.length === 0 ? null : { relationships: own.map(relationshipOf) }
      last = await keep(
        writing,
        one,
        'deactivated',
        { status: 'deactivated', edges_made: 0 },
        about,
      )
    }
    return { row: last, ...(organisation && { organisation }) }
  }

  /** Takes a group out of its organisation, unless it is the last one. */
  async function leaveOrganisation(writing: Writing, group: EntityRow) {
    const { db: trx } = writing
    const { organisation: did = '' } = readGroupId(group.did) ?? {}
    const organisation = await entities.findRow(did, trx)
    if (organisation?.status !== 'active') return undefined
    const groups = (await edgesOf(organisation, trx)).filter(isGroupEdge)
    if (groups.length === 1 && groups[0]?.target === group.did)
      throw conflicting(
        `${group.did} is the last membership group of ${did}, which cannot be without one.`,
        'Add another group first, or DELETE the organisation with ?cascade=groups.',
        { dependents: [{ did, type: organisation.type, role: contains }] },
      )
    await removeEdge(trx, did, contains, group.did)
    const relationship = { role: contains, target: group.did }
    return keep(writing, organisation, 'unrelated', {}, { relationship })
  }

  return {
    patch: (actor: Actor, did: string, ifMatch: string, body: Readonly<Record<string, unknown>>) =>
      write(actor, (writing) => patch(writing, did, ifMatch, body)),

    /** The same inside a transaction, and without a version that the caller has seen. */
    patchIn: (writing: Writing, did: string, body: Readonly<Record<string, unknown>>) =>
      patch(writing, did, undefined, body),

    relate: (actor: Actor, did: string, relationship: Relationship, ifMatch?: string) =>
      write(actor, (writing) => relate(writing, did, relationship, ifMatch)),

    relateIn: relate,

    unrelate: (actor: Actor, did: string, role: string, target: string, ifMatch?: string) =>
      write(actor, (writing) => unrelate(writing, did, role, target, ifMatch)),

    deactivate: (actor: Actor, did: string, ifMatch: string, withGroups: boolean) =>
      write(actor, async (writing) => {
        const row = await changeable(actor, did, ifMatch, writing.db)
        return (await deactivate(writing, row, withGroups)).row
      }),

    /** Adds a group to an organisation; its id says to which. */
    addGroup: (actor: Actor, did: string, controller: string | undefined) =>
      write(actor, async (writing) => {
        const { db: trx } = writing
        const { organisation, name } = readGroupId(did) ?? {}
        if (organisation === undefined || name === undefined)
          throw invalid('did', 'the id of a group is "<organisation>:group:<name>"')
        const row = await entities.findRow(organisation, trx)
        if (!row) throw unresolved('did', `there is no organisation ${organisation}`)
        await activeRow(organisation, trx)
        mustControl(actor, row)
        if (row.class !== 'cognitive-twin')
          throw invalid('did', `${organisation} is no organisational domain`)
        if (await entities.findRow(did, trx))
          throw conflicting(`${did} is in use already, or was.`, 'Take another name.', { did })
        const group = groupRow(writing, did, name, controller ?? row.controller)
        await insertEntities([group], trx)
        const relationship = { role: contains, target: did }
        await insertEdges([edgeOf(organisation, relationship, row.edges_made)], trx)
        await keep(writing, row, 'related', { edges_made: row.edges_made + 1 }, { relationship })
        return entityOf(group, [])
      }),
  }
}
export type Changes = ReturnType<typeof changes>

/** What keeps properties and edges from conforming to a protocol. */
export function faultsOf(
  checker: Checker,
  properties: Readonly<Record<string, unknown>> | undefined,
  edges: readonly {
    readonly relationship: Relationship
    readonly entity: Parameters<typeof checkEdge>[1]
  }[],
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

const isGroupEdge = ({ source, role, target }: EdgeRow): boolean =>
  role === contains && readGroupId(target)?.organisation === source

const isSameEdge = (a: Relationship, b: Relationship) => a.role === b.role && a.target === b.target

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
