import { z } from 'zod'
import { created, definePlugin } from '#core'
import { actorOf } from './actor.ts'
import { entityPath } from './did.ts'
import { etagOf } from './entity.ts'
import type { Registry } from './registry.ts'
import { entitySchema, protocolSchema } from './request.ts'
import { entityId } from './wants.ts'

const did = entityId('a DID, or a DID URL with a path, percent-encoded')
const organisational =
  'OrganisationEntity,OrganizationEntity,ProjectEntity,FunderEntity,DistributorEntity'

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
      .transform((text) => new Set(text.split(',').flatMap((type) => type.trim() || [])))
      .describe('Types whose entities are organisational domains, with membership groups'),
  },

  migrations: {
    '001-entities': async (db) => (await import('./tables.ts')).createEntities(db),
    '002-protocols': async (db) => (await import('./tables.ts')).createProtocols(db),
  },

  /** The registry is loaded with the first request: a server that has none of them starts sooner. */
  setup({ db, log, oracle, env }) {
    let loading: Promise<Registry> | undefined
    return () =>
      (loading ??= import('./registry.ts').then(({ registry }) =>
        registry({ db, log, oracle, organisational: env.REGISTRY_ORGANISATION_TYPES }),
      ))
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
    'GET /v1/entities/:did': {
      auth: 'bearer',
      summary: 'An entity; 410 with its tombstone once it is deactivated.',
      input: z.object({ did }),
      async run({ did }, { self, koa }) {
        const entity = await (await self()).entities.read(did)
        koa.set('ETag', etagOf(entity))
        return entity
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
    'GET /v1/protocols/:did': {
      auth: 'bearer',
      summary: 'A protocol, or an earlier version of it.',
      input: z.object({ did, version: z.coerce.number().int().min(1).optional() }),
      async run({ did, version }, { self, koa }) {
        const protocol = await (await self()).protocols.read(did, version)
        koa.set('ETag', etagOf(protocol))
        return protocol
      },
    },
  },
})
