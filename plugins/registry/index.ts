import { Readable } from 'node:stream'
import { z } from 'zod'
import { created, definePlugin } from '#core'
import { actorOf } from './actor.ts'
import {
  claimSchema,
  claimsQuery,
  credentialsQuery,
  evaluationSchema,
  findClaimsSchema,
  revocationSchema,
} from './claims/request.ts'
import { edgePath, entityPath } from './did.ts'
import { tombstoneOf } from './entity.ts'
import { demandedTag, etagOf } from './etag.ts'
import {
  feedSchema,
  findSchema,
  lastEventId,
  listSchema,
  pageSchema,
  walkOf,
  walkSchema,
} from './query.ts'
import { invalid } from './refusal.ts'
import type { Registry } from './registry.ts'
import { entitySchema, protocolSchema, relationshipSchema } from './request.ts'
import { didParameters } from './resolution/did-url.ts'
import { safe } from './safe.ts'
import { entityId, wants } from './wants.ts'

const did = entityId('a DID, or a DID URL with a path, percent-encoded')
const named = z.object({ did })
const version = z.number().int().min(1)
const edgeSchema = relationshipSchema.extend({ did })
const id = z.string().max(100)
const organisational =
  'OrganisationEntity,OrganizationEntity,ProjectEntity,FunderEntity,DistributionAgentEntity'

export default definePlugin({
  name: 'registry',
  version: '0.1.0',
  summary:
    'Digital twins and how they relate: organisations, projects, assets, oracles; their protocols, claims and credentials.',
  whenToUse: [
    'The user asks about an organisation, a project, a device or another entity, or how they relate.',
    'The user wants an entity recorded, or two of them related.',
  ],
  whenNotToUse: ['The question is about the ledger itself.'],
  examples: ['Which stoves did the project in Lusaka distribute?', 'Register a new cookstove.'],
  tags: ['twins', 'entities', 'graph', 'did', 'protocols', 'claims', 'credentials'],
  visibility: 'on-demand',
  stability: 'beta',
  category: 'data',

  env: {
    REGISTRY_ORGANISATION_TYPES: z
      .string()
      .default(organisational)
      .describe('Types whose entities are organisational domains, with membership groups'),
  },

  migrations: {
    '001-entities': async (db) => (await import('./tables.ts')).createEntities(db),
    '002-protocols': async (db) => (await import('./tables.ts')).createProtocols(db),
    '003-claims': async (db) => (await import('./claims/tables.ts')).createClaims(db),
  },

  /** The registry is loaded with the first request: a server that has none of them starts sooner. */
  setup({ db, oracle, env }) {
    let loading: Promise<Registry> | undefined
    return () =>
      (loading ??= import('./registry.ts').then(({ registry }) =>
        registry({ db, oracle, organisational: wordsOf(env.REGISTRY_ORGANISATION_TYPES) }),
      ))
  },

  prompt: () =>
    'The registry holds digital twins by DID. Find before you create, walk the graph instead of guessing how things relate, and look at a protocol before you fill in its properties. Name entities to the user by their properties, with the DID beside.',

  tools: {
    find_entities: {
      description:
        'Finds entities by type, protocol, controller, class, text or exact properties, oldest first. Deactivated ones only when asked for.',
      effect: 'read',
      input: findSchema,
      async run({ limit, cursor, properties = {}, ...filter }, { self }) {
        const exact = new Map(Object.entries(properties).map(([key, value]) => [key, `${value}`]))
        return (await self()).entities.list({ ...filter, properties: exact }, limit, cursor)
      },
    },
    get_entity: {
      description: 'Reads one entity by its DID.',
      effect: 'read',
      input: named,
      run: async ({ did }, { self }) => (await self()).entities.read(did),
    },
    create_entity: {
      description:
        'Records a new entity that follows a protocol. The user becomes its controller unless another is named. Look at the protocol first.',
      effect: 'write',
      can: { can: 'registry/create' },
      input: entitySchema,
      run: async (request, { self, user }) =>
        (await self()).entities.create(actorOf({ user }), safe(request)),
    },
    relate_entities: {
      description:
        'Draws an edge from an entity that the user controls to another, in a role that the protocol of the first one has.',
      effect: 'write',
      input: edgeSchema,
      async run({ did, ...relationship }, { self, user }) {
        const { entities } = await self()
        const made = await entities.relate(actorOf({ user }), did, safe(relationship))
        return { did, ...relationship, version: made.version }
      },
    },
    traverse_entities: {
      description:
        'Walks the graph from an entity: which entities it reaches over how many edges, and by which roles.',
      effect: 'read',
      input: walkSchema,
      run: async ({ did, ...walk }, { self, signal }) =>
        (await self()).entities.traverse(did, walkOf(walk), signal),
    },
    describe_protocol: {
      description:
        'What a protocol asks of its entities: properties with their types, roles with the kinds of entity in them. Without a DID it lists the protocols.',
      effect: 'read',
      input: z.object({ did: did.optional(), version: version.optional() }),
      async run({ did, version }, { self }) {
        const { protocols } = await self()
        return did === undefined ? protocols.list(50) : protocols.read(did, version)
      },
    },
    find_claims: {
      description:
        'Finds claims about assets by asset, type, status or oracle, newest first, with what an oracle said of each and the credential that it became.',
      effect: 'read',
      input: findClaimsSchema,
      run: async (query, { self }) => (await self()).claims.list(query),
    },
    submit_claim: {
      description:
        'Submits a claim about an asset, such as a period of use, for an oracle to evaluate. The user controls the asset.',
      can: { can: 'registry/claim' },
      input: claimSchema,
      run: async (claim, ctx) => (await ctx.self()).claims.submit(safe(claim), actorOf(ctx)),
    },
    evaluate_claim: {
      description:
        'Records an oracle’s verdict on a claim, once and for good; approved, the claim becomes a signed credential. The user controls the oracle and says what the verdict is.',
      can: { can: 'registry/evaluate' },
      input: evaluationSchema.extend({ claim: id.describe('The id of the claim') }),
      run: async ({ claim, ...verdict }, ctx) =>
        (await ctx.self()).claims.evaluate(claim, safe(verdict), actorOf(ctx)),
    },
  },

  routes: {
    'POST /v1/entities': {
      auth: 'bearer',
      summary: 'Creates an entity.',
      input: entitySchema,
      async run(request, { self, user, caller, koa }) {
        const { entities } = await self()
        const entity = await entities.create(actorOf({ user, caller }), request)
        koa.set('ETag', etagOf(entity))
        return created(entityPath(entity.did), entity)
      },
    },
    'GET /v1/entities': {
      auth: 'bearer',
      summary: 'Entities in the order of their creation, page by page.',
      input: listSchema,
      run: async ({ filter, limit, after }, { self }) =>
        (await self()).entities.list(filter, limit, after),
    },
    'POST /v1/entities/batch': {
      auth: 'bearer',
      summary: 'Creates entities, one a line; with atomic=true all of them or none.',
      body: 'ndjson',
      input: z.object({ atomic: z.stringbool().default(false) }),
      async run({ atomic }, { self, user, caller, lines, koa }) {
        const { batches } = await self()
        const actor = actorOf({ user, caller })
        const results = atomic ? await batches.together(actor, lines) : batches.each(actor, lines)
        koa.type = 'application/x-ndjson'
        return Readable.from(results)
      },
    },
    'GET /v1/entities/:did': {
      auth: 'bearer',
      summary: 'An entity; 410 with its tombstone once it is deactivated.',
      input: named,
      async run({ did }, { self, koa }) {
        const entity = await (await self()).entities.read(did)
        koa.set('ETag', etagOf(entity))
        return entity
      },
    },
    'PATCH /v1/entities/:did': {
      auth: 'bearer',
      summary: 'Changes an entity by a JSON merge patch, in the version that If-Match names.',
      input: named.loose(),
      async run({ did, ...patch }, { self, user, caller, koa }) {
        const tag = demandedTag(koa.get('If-Match'))
        const { entities } = await self()
        const entity = await entities.patch(actorOf({ user, caller }), did, tag, patch)
        koa.set('ETag', etagOf(entity))
        return entity
      },
    },
    'DELETE /v1/entities/:did': {
      auth: 'bearer',
      summary: 'Deactivates an entity on which no other depends.',
      input: named.extend({ cascade: z.literal('groups', wants('"groups"')).optional() }),
      async run({ did, cascade }, { self, user, caller, koa }) {
        const tag = demandedTag(koa.get('If-Match'))
        const { entities } = await self()
        const actor = actorOf({ user, caller })
        return tombstoneOf(await entities.deactivate(actor, did, tag, cascade === 'groups'))
      },
    },
    'GET /v1/entities/:did/graph': {
      auth: 'bearer',
      summary: 'The entities that can be reached, breadth first, and the edges between them.',
      input: walkSchema,
      run: async ({ did, ...walk }, { self, signal }) =>
        (await self()).entities.traverse(did, walkOf(walk), signal),
    },
    'GET /v1/entities/:did/history': {
      auth: 'bearer',
      summary: 'The versions of an entity, oldest first, and what changed.',
      input: pageSchema.extend({ did }),
      run: async ({ did, limit, cursor }, { self }) =>
        (await self()).entities.history(did, limit, cursor),
    },
    'PUT /v1/entities/:did/relationships/:role/:target': {
      auth: 'bearer',
      summary: 'Draws an edge, or changes its properties.',
      input: edgeSchema,
      async run({ did, ...relationship }, { self, user, caller, koa }) {
        const { entities } = await self()
        const tag = koa.get('If-Match') || undefined
        const actor = actorOf({ user, caller })
        const { version, isNew } = await entities.relate(actor, did, relationship, tag)
        koa.set('ETag', etagOf({ version }))
        const body = { from: did, ...relationship, version }
        return isNew ? created(edgePath(did, relationship), body) : body
      },
    },
    'DELETE /v1/entities/:did/relationships/:role/:target': {
      auth: 'bearer',
      summary: 'Removes an edge.',
      input: edgeSchema.omit({ properties: true }),
      async run({ did, role, target }, { self, user, caller, koa }) {
        const { entities } = await self()
        const tag = koa.get('If-Match') || undefined
        const actor = actorOf({ user, caller })
        const { version } = await entities.unrelate(actor, did, role, target, tag)
        koa.set('ETag', etagOf({ version }))
        return { from: did, role, target, version }
      },
    },
    'GET /v1/events': {
      auth: 'bearer',
      summary: 'The changes as Server-Sent Events; Last-Event-ID goes on where a reader left off.',
      input: feedSchema,
      async run({ after, ...wanted }, { self, signal, koa }) {
        const { events } = await self()
        const header = koa.get('Last-Event-ID')
        const from = header === '' ? after : readEventId(header)
        return events.follow(
          from,
          (change) =>
            (wanted.did === undefined || change.did === wanted.did) &&
            (wanted.type === undefined || change.type === wanted.type) &&
            (wanted.kind === undefined || change.kind === wanted.kind),
          signal,
        )
      },
    },
    'POST /v1/protocols': {
      auth: 'bearer',
      summary: 'Creates a protocol.',
      input: protocolSchema,
      async run(request, { self, user, caller, koa }) {
        const { protocols } = await self()
        const protocol = await protocols.create(actorOf({ user, caller }), request)
        koa.set('ETag', etagOf(protocol))
        return created(`/v1/protocols/${encodeURIComponent(protocol.did)}`, protocol)
      },
    },
    'GET /v1/protocols': {
      auth: 'bearer',
      summary: 'Every protocol in its newest version.',
      input: pageSchema,
      run: async ({ limit, cursor }, { self }) => (await self()).protocols.list(limit, cursor),
    },
    'GET /v1/protocols/:did': {
      auth: 'bearer',
      summary: 'A protocol, or an earlier version of it.',
      input: named.extend({ version: z.coerce.number().pipe(version).optional() }),
      async run({ did, version }, { self, koa }) {
        const protocol = await (await self()).protocols.read(did, version)
        koa.set('ETag', etagOf(protocol))
        return protocol
      },
    },
    'PUT /v1/protocols/:did': {
      auth: 'bearer',
      summary: 'The next version of a protocol; lists the entities that do not conform to it.',
      input: protocolSchema.extend({ did }),
      async run({ did, ...request }, { self, user, caller, koa }) {
        const { protocols } = await self()
        const tag = koa.get('If-Match') || undefined
        const actor = actorOf({ user, caller })
        const { protocol, touched } = await protocols.replace(actor, did, request, tag)
        koa.set('ETag', etagOf(protocol))
        return { ...protocol, ...(await protocols.nonConforming(touched)) }
      },
    },
    'DELETE /v1/protocols/:did': {
      auth: 'bearer',
      summary: 'Removes a protocol that nothing uses.',
      input: named,
      async run({ did }, { self, user, caller, koa }) {
        const { protocols } = await self()
        const tag = koa.get('If-Match') || undefined
        return protocols.remove(actorOf({ user, caller }), did, tag)
      },
    },
    'POST /v1/claims': {
      auth: 'bearer',
      summary: 'Claims something of an asset.',
      input: claimSchema,
      async run(request, ctx) {
        const claim = await (await ctx.self()).claims.submit(request, actorOf(ctx))
        return created(`/v1/claims/${claim.id}`, claim)
      },
    },
    'GET /v1/claims': {
      auth: 'bearer',
      summary: 'Claims, newest first.',
      input: claimsQuery,
      run: async (query, { self }) => (await self()).claims.list(query),
    },
    'GET /v1/claims/:id': {
      auth: 'bearer',
      summary: 'A claim, with what an oracle said of it.',
      input: z.object({ id }),
      run: async ({ id }, { self }) => (await self()).claims.read(id),
    },
    'POST /v1/claims/:id/evaluation': {
      auth: 'bearer',
      summary: 'An oracle approves a claim, which makes it a credential, or rejects it.',
      input: evaluationSchema.extend({ id }),
      run: async ({ id, ...verdict }, ctx) =>
        (await ctx.self()).claims.evaluate(id, verdict, actorOf(ctx)),
    },
    'GET /v1/credentials': {
      auth: 'bearer',
      summary: 'Verifiable credentials, newest first.',
      input: credentialsQuery,
      run: async (query, { self }) => (await self()).credentials.list(query),
    },
    'GET /v1/credentials/:id': {
      auth: 'bearer',
      summary: 'A verifiable credential, as it was signed.',
      input: z.object({ id }),
      async run({ id }, { self, koa }) {
        const credential = await (await self()).credentials.read(id)
        if (koa.accepts('application/json', 'application/vc') === 'application/vc')
          koa.set('Content-Type', 'application/vc')
        return credential
      },
    },
    'POST /v1/credentials/:id/revocation': {
      auth: 'bearer',
      summary: 'The oracle that approved a claim takes its credential back.',
      input: revocationSchema.extend({ id }),
      run: async ({ id, reason }, ctx) =>
        (await ctx.self()).credentials.revoke(id, reason, actorOf(ctx)),
    },
    'GET /v1/credentials/status/:list': {
      auth: 'public',
      summary: 'Which credentials were revoked: a Bitstring Status List.',
      input: z.object({ list: z.coerce.number().int().min(1).max(10_000) }),
      run: async ({ list }, { self }) => (await self()).credentials.statusList(list),
    },
    'GET /1.0/identifiers/:did': {
      auth: 'public',
      summary: 'Resolves a DID, or dereferences a DID URL (W3C DID Resolution).',
      input: didParameters.extend({ did: z.string() }),
      run: async ({ did, ...beside }, { self, koa }) => (await self()).resolve(did, beside, koa),
    },
    'GET /1.0/identifiers/:did/:path': {
      auth: 'public',
      summary: 'The same for an id whose path is not percent-encoded.',
      input: didParameters.extend({ did: z.string(), path: z.string() }),
      run: async ({ did, path, ...beside }, { self, koa }) =>
        (await self()).resolve(`${did}/${path}`, beside, koa),
    },
  },
})

const wordsOf = (list: string) => new Set(list.split(',').flatMap((word) => word.trim() || []))

function readEventId(header: string): number {
  const read = lastEventId.safeParse(header)
  if (read.success) return read.data
  throw invalid('Last-Event-ID', read.error.issues[0]?.message ?? 'not an id')
}
