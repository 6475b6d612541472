import { Readable } from 'node:stream'
import { z } from 'zod'
import { created, definePlugin } from '#core'
import type { Calling } from './rights/actor.ts'
import {
  claimSchema,
  claimsQuery,
  credentialsQuery,
  evaluationSchema,
  findClaimsSchema,
  revocationSchema,
} from './claims/request.ts'
import { edgePath, entityPath } from './did.ts'
import { tombstoneOf } from './entities/entity.ts'
import { demandedTag, etagOf } from './etag.ts'
import {
  feedSchema,
  findSchema,
  lastEventId,
  listSchema,
  pageSchema,
  walkOf,
  walkSchema,
} from './reading/query.ts'
import { invalid } from './refusal.ts'
import type { Registry } from './registry.ts'
import { entitySchema, protocolSchema, relationshipSchema } from './request.ts'
import { resolutionAnswers } from './resolution/answers.ts'
import { didParameters } from './resolution/did-url.ts'
import { safe } from './safe.ts'
import { entityId, wants } from './wants.ts'

const did = entityId('a DID, or a DID URL with a path, percent-encoded')
const named = z.object({ did })
const version = z.number().int().min(1)
const edgeSchema = relationshipSchema.extend({ did })
const id = z.string().max(100)
const quota = (usual: number) => z.coerce.number().int().min(1).max(100_000_000).default(usual)
const organisational =
  'OrganisationEntity,OrganizationEntity,ProjectEntity,FunderEntity,DistributionAgentEntity'

const seesAny = async (ctx: Calling & { readonly self: { registry(): Promise<Registry> } }) =>
  (await ctx.self.registry()).readers.hasAny(ctx)

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
    REGISTRY_READ: z
      .enum(['granted', 'public'], 'granted or public')
      .default('granted')
      .describe(
        'granted: callers read what is theirs or names them, and all with registry/read; public: everybody who may call reads everything',
      ),
    REGISTRY_ENTITIES_PER_DID: quota(10_000).describe('Entities that one DID ever creates'),
    REGISTRY_PROTOCOLS_PER_DID: quota(1_000).describe('Protocols that one DID ever creates'),
    REGISTRY_EDGES_PER_DID: quota(100_000).describe('Edges that one DID ever draws'),
    REGISTRY_CLAIMS_PER_DID: quota(100_000).describe('Claims that one DID ever submits'),
    REGISTRY_ORGANISATION_TYPES: z
      .string()
      .default(organisational)
      .describe('Types whose entities are organisational domains, with membership groups'),
  },

  migrations: {
    '001-entities': async (db) => (await import('./tables.ts')).createEntities(db),
    '002-protocols': async (db) => (await import('./tables.ts')).createProtocols(db),
    '003-claims': async (db) => (await import('./claims/tables.ts')).createClaims(db),
    '004-rights': async (db) => (await import('./rights/tables.ts')).createRights(db),
  },

  /** The registry is loaded with the first request: a server that has none of them starts sooner. */
  setup({ db, oracle, env }) {
    let loading: Promise<Registry> | undefined
    const load = () =>
      (loading ??= import('./registry.ts').then(({ registry }) =>
        registry({
          db,
          oracle,
          organisational: wordsOf(env.REGISTRY_ORGANISATION_TYPES),
          quotas: {
            entities: env.REGISTRY_ENTITIES_PER_DID,
            protocols: env.REGISTRY_PROTOCOLS_PER_DID,
            edges: env.REGISTRY_EDGES_PER_DID,
            claims: env.REGISTRY_CLAIMS_PER_DID,
          },
          isPublic: env.REGISTRY_READ === 'public',
        }),
      ))
    return { oracleDid: oracle.did, registry: load }
  },

  prompt: () =>
    'The registry holds digital twins by DID. Find before you create, walk the graph instead of guessing how things relate, and look at a protocol before you fill in its properties. Name entities to the user by their properties, with the DID beside.',

  tools: {
    find_entities: {
      description:
        'Finds entities by type, protocol, controller, class, text or exact properties, oldest first. Deactivated ones only when asked for.',
      effect: 'read',
      input: findSchema,
      async run({ limit, cursor, properties = {}, ...filter }, ctx) {
        const exact = new Map(Object.entries(properties).map(([key, value]) => [key, `${value}`]))
        const { entities, readers } = await ctx.self.registry()
        const wanted = { ...filter, properties: exact }
        return entities.list(wanted, readers.of(ctx), limit, cursor)
      },
    },
    get_entity: {
      description: 'Reads one entity by its DID.',
      effect: 'read',
      input: named,
      async run({ did }, ctx) {
        const { entities, readers } = await ctx.self.registry()
        return entities.read(did, readers.of(ctx))
      },
    },
    create_entity: {
      description:
        'Records a new entity that follows a protocol. The user becomes its controller. Look at the protocol first.',
      effect: 'write',
      can: { can: 'registry/write', with: (_, { self }) => self.oracleDid },
      input: entitySchema,
      async run(request, ctx) {
        const { entities, actorOf } = await ctx.self.registry()
        return entities.create(actorOf(ctx), safe(request))
      },
    },
    relate_entities: {
      description:
        'Draws an edge from an entity that the user controls to another, in a role that the protocol of the first one has; or confirms an edge as it is.',
      effect: 'write',
      can: { can: 'registry/write', with: (_, { self }) => self.oracleDid },
      input: edgeSchema,
      async run({ did, ...relationship }, ctx) {
        const { entities, actorOf } = await ctx.self.registry()
        const made = await entities.relate(actorOf(ctx), did, safe(relationship))
        return { did, ...relationship, version: made.version }
      },
    },
    traverse_entities: {
      description:
        'Walks the graph from an entity: which entities it reaches over how many edges, and by which roles.',
      effect: 'read',
      input: walkSchema,
      async run({ did, ...walk }, ctx) {
        const { entities, readers } = await ctx.self.registry()
        return entities.traverse(did, walkOf(walk), readers.of(ctx), ctx.signal)
      },
    },
    describe_protocol: {
      description:
        'What a protocol asks of its entities: properties with their types, roles with the kinds of entity in them. Without a DID it lists the protocols.',
      effect: 'read',
      input: z.object({ did: did.optional(), version: version.optional() }),
      async run({ did, version }, ctx) {
        const { protocols, readers } = await ctx.self.registry()
        const reader = readers.of(ctx)
        return did === undefined ? protocols.list(reader, 50) : protocols.read(did, reader, version)
      },
    },
    find_claims: {
      description:
        'Finds claims about assets by asset, type, status or oracle, newest first, with what an oracle said of each and the credential that it became.',
      effect: 'read',
      input: findClaimsSchema,
      async run(query, ctx) {
        const { claims, readers } = await ctx.self.registry()
        return claims.list(query, readers.of(ctx))
      },
    },
    submit_claim: {
      description:
        'Submits a claim about an asset, such as a period of use, for an oracle to evaluate. The user controls the asset.',
      can: { can: 'registry/write', with: (_, { self }) => self.oracleDid },
      input: claimSchema,
      async run(claim, ctx) {
        const { claims, actorOf } = await ctx.self.registry()
        return claims.submit(safe(claim), actorOf(ctx))
      },
    },
    evaluate_claim: {
      description:
        'Records an oracle’s verdict on a claim, once and for good; approved, the claim becomes a signed credential. The user controls the oracle and says what the verdict is.',
      can: { can: 'registry/write', with: (_, { self }) => self.oracleDid },
      // The claim comes back with what its submitter wrote.
      foreign: true,
      input: evaluationSchema.extend({ claim: id.describe('The id of the claim') }),
      async run({ claim, ...verdict }, ctx) {
        const { claims, actorOf } = await ctx.self.registry()
        return claims.evaluate(claim, safe(verdict), actorOf(ctx))
      },
    },
  },

  routes: {
    'POST /v1/entities': {
      auth: 'bearer',
      summary: 'Creates an entity.',
      answers: { 201: ['application/json'] },
      input: entitySchema,
      async run(request, ctx) {
        const { entities, actorOf } = await ctx.self.registry()
        const entity = await entities.create(actorOf(ctx), request)
        ctx.koa.set('ETag', etagOf(entity))
        return created(entityPath(entity.did), entity)
      },
    },
    'GET /v1/entities': {
      auth: 'bearer',
      own: (ctx) => seesAny(ctx),
      summary: 'Entities in the order of their creation, page by page.',
      input: listSchema,
      async run({ filter, limit, after }, ctx) {
        const { entities, readers } = await ctx.self.registry()
        return entities.list(filter, readers.of(ctx), limit, after)
      },
    },
    'POST /v1/entities/batch': {
      auth: 'bearer',
      summary: 'Creates entities, one a line; with atomic=true all of them or none.',
      answers: { 200: ['application/x-ndjson'] },
      body: 'ndjson',
      input: z.object({ atomic: z.stringbool().default(false) }),
      async run({ atomic }, ctx) {
        const { batches, actorOf } = await ctx.self.registry()
        const { lines } = ctx
        const actor = actorOf(ctx)
        const results = atomic ? await batches.together(actor, lines) : batches.each(actor, lines)
        ctx.koa.type = 'application/x-ndjson'
        return Readable.from(results)
      },
    },
    'GET /v1/entities/:did': {
      auth: 'bearer',
      own: (ctx) => seesAny(ctx),
      summary: 'An entity; 410 with its tombstone once it is deactivated.',
      answers: { 200: ['application/json'], 304: [] },
      input: named,
      async run({ did }, ctx) {
        const { entities, readers } = await ctx.self.registry()
        const entity = await entities.read(did, readers.of(ctx))
        ctx.koa.set('ETag', etagOf(entity))
        return entity
      },
    },
    'PATCH /v1/entities/:did': {
      auth: 'bearer',
      summary: 'Changes an entity by a JSON merge patch, in the version that If-Match names.',
      input: named.loose(),
      async run({ did, ...patch }, ctx) {
        const tag = demandedTag(ctx.koa.get('If-Match'))
        const { entities, actorOf } = await ctx.self.registry()
        const entity = await entities.patch(actorOf(ctx), did, tag, patch)
        ctx.koa.set('ETag', etagOf(entity))
        return entity
      },
    },
    'DELETE /v1/entities/:did': {
      auth: 'bearer',
      summary: 'Deactivates an entity on which no other depends.',
      input: named.extend({ cascade: z.literal('groups', wants('"groups"')).optional() }),
      async run({ did, cascade }, ctx) {
        const tag = demandedTag(ctx.koa.get('If-Match'))
        const { entities, actorOf } = await ctx.self.registry()
        const actor = actorOf(ctx)
        return tombstoneOf(await entities.deactivate(actor, did, tag, cascade === 'groups'))
      },
    },
    'GET /v1/entities/:did/graph': {
      auth: 'bearer',
      own: (ctx) => seesAny(ctx),
      summary: 'The entities that can be reached, breadth first, and the edges between them.',
      input: walkSchema,
      async run({ did, ...walk }, ctx) {
        const { entities, readers } = await ctx.self.registry()
        return entities.traverse(did, walkOf(walk), readers.of(ctx), ctx.signal)
      },
    },
    'GET /v1/entities/:did/history': {
      auth: 'bearer',
      own: (ctx) => seesAny(ctx),
      summary: 'The versions of an entity, oldest first, and what changed.',
      input: pageSchema.extend({ did }),
      async run({ did, limit, cursor }, ctx) {
        const { entities, readers } = await ctx.self.registry()
        return entities.history(did, readers.of(ctx), limit, cursor)
      },
    },
    'PUT /v1/entities/:did/relationships/:role/:target': {
      auth: 'bearer',
      summary: 'Draws an edge, or changes its properties.',
      answers: { 200: ['application/json'], 201: ['application/json'] },
      input: edgeSchema,
      async run({ did, ...relationship }, ctx) {
        const { entities, actorOf } = await ctx.self.registry()
        const tag = ctx.koa.get('If-Match') || undefined
        const actor = actorOf(ctx)
        const { version, isNew } = await entities.relate(actor, did, relationship, tag)
        ctx.koa.set('ETag', etagOf({ version }))
        const body = { from: did, ...relationship, version }
        return isNew ? created(edgePath(did, relationship), body) : body
      },
    },
    'DELETE /v1/entities/:did/relationships/:role/:target': {
      auth: 'bearer',
      summary: 'Removes an edge.',
      input: edgeSchema.omit({ properties: true }),
      async run({ did, role, target }, ctx) {
        const { entities, actorOf } = await ctx.self.registry()
        const tag = ctx.koa.get('If-Match') || undefined
        const actor = actorOf(ctx)
        const { version } = await entities.unrelate(actor, did, role, target, tag)
        ctx.koa.set('ETag', etagOf({ version }))
        return { from: did, role, target, version }
      },
    },
    'GET /v1/events': {
      auth: 'bearer',
      own: (ctx) => seesAny(ctx),
      summary: 'The changes as Server-Sent Events; Last-Event-ID goes on where a reader left off.',
      answers: { 200: ['text/event-stream'] },
      input: feedSchema,
      async run({ after, ...wanted }, ctx) {
        const { events, readers } = await ctx.self.registry()
        const header = ctx.koa.get('Last-Event-ID')
        const from = header === '' ? after : readEventId(header)
        return events.follow(
          from,
          (change) =>
            (wanted.did === undefined || change.did === wanted.did) &&
            (wanted.type === undefined || change.type === wanted.type) &&
            (wanted.kind === undefined || change.kind === wanted.kind),
          ctx.signal,
          () => readers.still(ctx),
        )
      },
    },
    'POST /v1/protocols': {
      auth: 'bearer',
      summary: 'Creates a protocol.',
      answers: { 201: ['application/json'] },
      input: protocolSchema,
      async run(request, ctx) {
        const { protocols, actorOf } = await ctx.self.registry()
        const protocol = await protocols.create(actorOf(ctx), request)
        ctx.koa.set('ETag', etagOf(protocol))
        return created(`/v1/protocols/${encodeURIComponent(protocol.did)}`, protocol)
      },
    },
    'GET /v1/protocols': {
      auth: 'bearer',
      own: (ctx) => seesAny(ctx),
      summary: 'Every protocol in its newest version.',
      input: pageSchema,
      async run({ limit, cursor }, ctx) {
        const { protocols, readers } = await ctx.self.registry()
        return protocols.list(readers.of(ctx), limit, cursor)
      },
    },
    'GET /v1/protocols/:did': {
      auth: 'bearer',
      own: (ctx) => seesAny(ctx),
      summary: 'A protocol, or an earlier version of it.',
      answers: { 200: ['application/json'], 304: [] },
      input: named.extend({ version: z.coerce.number().pipe(version).optional() }),
      async run({ did, version }, ctx) {
        const { protocols, readers } = await ctx.self.registry()
        const protocol = await protocols.read(did, readers.of(ctx), version)
        ctx.koa.set('ETag', etagOf(protocol))
        return protocol
      },
    },
    'PUT /v1/protocols/:did': {
      auth: 'bearer',
      summary: 'The next version of a protocol; lists the entities that do not conform to it.',
      input: protocolSchema.extend({ did }),
      async run({ did, ...request }, ctx) {
        const { protocols, actorOf } = await ctx.self.registry()
        const tag = ctx.koa.get('If-Match') || undefined
        const actor = actorOf(ctx)
        const { protocol, touched } = await protocols.replace(actor, did, request, tag)
        ctx.koa.set('ETag', etagOf(protocol))
        return { ...protocol, ...(await protocols.nonConforming(touched)) }
      },
    },
    'DELETE /v1/protocols/:did': {
      auth: 'bearer',
      summary: 'Removes a protocol that nothing uses.',
      input: named,
      async run({ did }, ctx) {
        const { protocols, actorOf } = await ctx.self.registry()
        const tag = ctx.koa.get('If-Match') || undefined
        return protocols.remove(actorOf(ctx), did, tag)
      },
    },
    'POST /v1/claims': {
      auth: 'bearer',
      summary: 'Claims something of an asset.',
      answers: { 201: ['application/json'] },
      input: claimSchema,
      async run(request, ctx) {
        const { claims, actorOf } = await ctx.self.registry()
        const claim = await claims.submit(request, actorOf(ctx))
        return created(`/v1/claims/${claim.id}`, claim)
      },
    },
    'GET /v1/claims': {
      auth: 'bearer',
      own: (ctx) => seesAny(ctx),
      summary: 'Claims, newest first.',
      input: claimsQuery,
      async run(query, ctx) {
        const { claims, readers } = await ctx.self.registry()
        return claims.list(query, readers.of(ctx))
      },
    },
    'GET /v1/claims/:id': {
      auth: 'bearer',
      own: (ctx) => seesAny(ctx),
      summary: 'A claim, with what an oracle said of it.',
      input: z.object({ id }),
      async run({ id }, ctx) {
        const { claims, readers } = await ctx.self.registry()
        return claims.read(id, readers.of(ctx))
      },
    },
    'POST /v1/claims/:id/evaluation': {
      auth: 'bearer',
      summary: 'An oracle approves a claim, which makes it a credential, or rejects it.',
      input: evaluationSchema.extend({ id }),
      async run({ id, ...verdict }, ctx) {
        const { claims, actorOf } = await ctx.self.registry()
        return claims.evaluate(id, verdict, actorOf(ctx))
      },
    },
    'GET /v1/credentials': {
      auth: 'bearer',
      own: (ctx) => seesAny(ctx),
      summary: 'Verifiable credentials, newest first.',
      input: credentialsQuery,
      async run(query, ctx) {
        const { credentials, readers } = await ctx.self.registry()
        return credentials.list(query, readers.of(ctx))
      },
    },
    'GET /v1/credentials/:id': {
      auth: 'bearer',
      own: (ctx) => seesAny(ctx),
      summary: 'A verifiable credential, as it was signed.',
      answers: { 200: ['application/json', 'application/vc'] },
      input: z.object({ id }),
      async run({ id }, ctx) {
        const { koa } = ctx
        const { credentials, readers } = await ctx.self.registry()
        const credential = await credentials.read(id, readers.of(ctx))
        if (koa.accepts('application/json', 'application/vc') === 'application/vc')
          koa.set('Content-Type', 'application/vc')
        return credential
      },
    },
    'POST /v1/credentials/:id/revocation': {
      auth: 'bearer',
      can: { can: 'registry/admin' },
      summary: 'The issuer, which is the operator of this oracle, takes a credential back.',
      input: revocationSchema.extend({ id }),
      async run({ id, reason }, ctx) {
        const { credentials, actorOf } = await ctx.self.registry()
        return credentials.revoke(id, reason, actorOf(ctx))
      },
    },
    'GET /v1/credentials/status/:list': {
      auth: 'public',
      summary: 'Which credentials were revoked: a Bitstring Status List.',
      input: z.object({ list: z.coerce.number().int().min(1).max(10_000) }),
      run: async ({ list }, { self }) => (await self.registry()).credentials.statusList(list),
    },
    'GET /1.0/identifiers/:did': {
      auth: 'public',
      summary: 'Resolves a DID, or dereferences a DID URL (W3C DID Resolution).',
      answers: resolutionAnswers,
      input: didParameters.extend({ did: z.string() }),
      run: async ({ did, ...beside }, { self, koa }) =>
        (await self.registry()).resolve(did, beside, koa),
    },
    'GET /1.0/identifiers/:did/:path': {
      auth: 'public',
      summary: 'The same for an id whose path is not percent-encoded.',
      answers: resolutionAnswers,
      input: didParameters.extend({ did: z.string(), path: z.string() }),
      run: async ({ did, path, ...beside }, { self, koa }) =>
        (await self.registry()).resolve(`${did}/${path}`, beside, koa),
    },
  },
})

const wordsOf = (list: string) => new Set(list.split(',').flatMap((word) => word.trim() || []))

function readEventId(header: string): number {
  const read = lastEventId.safeParse(header)
  if (read.success) return read.data
  throw invalid('Last-Event-ID', read.error.issues[0]?.message ?? 'not an id')
}
