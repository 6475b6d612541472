import { Readable } from 'node:stream'
import { z } from 'zod'
import { created } from '#core'
import { route, seesAny } from '../context.ts'
import { entityPath } from '../did.ts'
import { refuseLostDigits } from '../digits.ts'
import { tombstoneOf } from '../entities/entity.ts'
import { demandedTag, etagOf } from '../etag.ts'
import { onlyKnown } from '../reading/known-parameters.ts'
import { listSchema, pageSchema, querySchema } from '../reading/query.ts'
import { entitySchema } from '../request.ts'
import { wants } from '../wants.ts'
import { onlyThis } from './only-this.ts'
import { didParameter, named } from './parameters.ts'

/** The routes of entities: one by one, as a list, and in batches. */
export const entitiesRoutes = {
  'POST /v1/entities': route({
    auth: 'bearer',
    summary: 'Creates an entity.',
    answers: { 201: ['application/json'] },
    input: entitySchema,
    raw: true,
    async run(request, ctx) {
      refuseLostDigits(ctx.raw)
      const registry = await ctx.self.registry()
      const entity = await registry.changes.create(registry.actorOf(ctx), request)
      ctx.koa.set('ETag', etagOf(entity))
      return created(entityPath(entity.did), entity)
    },
  }),
  'GET /v1/entities': route({
    auth: 'bearer',
    own: seesAny,
    summary: 'Entities in the order of their creation, page by page.',
    input: listSchema,
    async run({ filter, limit, after, query }, ctx) {
      const { lists, queries, readers } = await ctx.self.registry()
      if (query) return queries.find(query, readers.of(ctx), ctx.signal)
      return lists.list(filter, readers.of(ctx), limit, after)
    },
  }),
  'POST /v1/query': route({
    auth: 'bearer',
    can: { can: 'registry/read' },
    summary: 'Entities by a condition on their indexed properties and edges, sorted and counted.',
    input: querySchema,
    async run(query, ctx) {
      const { queries, readers } = await ctx.self.registry()
      return queries.find(query, readers.of(ctx), ctx.signal)
    },
  }),
  'POST /v1/entities/batch': route({
    auth: 'bearer',
    summary: 'Creates entities, one a line; with atomic=true all of them or none.',
    answers: { 200: ['application/x-ndjson'] },
    body: 'ndjson',
    input: onlyKnown(z.object({ atomic: z.stringbool().default(false) })),
    async run({ atomic }, ctx) {
      const registry = await ctx.self.registry()
      const { lines } = ctx
      const actor = registry.actorOf(ctx)
      const results = atomic
        ? await registry.batches.together(actor, lines)
        : registry.batches.each(actor, lines)
      ctx.koa.type = 'application/x-ndjson'
      return Readable.from(results)
    },
  }),
  'GET /v1/entities/:did': route({
    auth: 'bearer',
    own: seesAny,
    summary: 'An entity; 410 with its tombstone once it is deactivated.',
    answers: { 200: ['application/json'], 304: [] },
    input: onlyKnown(named),
    async run({ did }, ctx) {
      const { entities, readers } = await ctx.self.registry()
      const entity = await entities.read(did, readers.of(ctx))
      ctx.koa.set('ETag', etagOf(entity))
      return entity
    },
  }),
  'PATCH /v1/entities/:did': route({
    auth: 'bearer',
    summary: 'Changes an entity by a JSON merge patch, in the version that If-Match names.',
    input: named.loose(),
    raw: true,
    async run({ did, ...patch }, ctx) {
      refuseLostDigits(ctx.raw)
      onlyThis(ctx.raw, { did })
      const tag = demandedTag(ctx.koa.get('If-Match'))
      const registry = await ctx.self.registry()
      const entity = await registry.changes.patch(registry.actorOf(ctx), did, tag, patch)
      ctx.koa.set('ETag', etagOf(entity))
      return entity
    },
  }),
  'DELETE /v1/entities/:did': route({
    auth: 'bearer',
    summary: 'Deactivates an entity on which no other depends.',
    input: onlyKnown(named.extend({ cascade: z.literal('groups', wants('"groups"')).optional() })),
    async run({ did, cascade }, ctx) {
      const tag = demandedTag(ctx.koa.get('If-Match'))
      const registry = await ctx.self.registry()
      const actor = registry.actorOf(ctx)
      return tombstoneOf(await registry.changes.deactivate(actor, did, tag, cascade === 'groups'))
    },
  }),
  'GET /v1/entities/:did/provenance': route({
    auth: 'bearer',
    own: seesAny,
    summary: 'What stands behind a credit: credentials, claims with their readings, verdicts.',
    input: onlyKnown(named),
    async run({ did }, ctx) {
      const { provenances, readers } = await ctx.self.registry()
      return provenances.read(did, readers.of(ctx))
    },
  }),
  'GET /v1/entities/:did/history': route({
    auth: 'bearer',
    own: seesAny,
    summary: 'The versions of an entity, oldest first, and what changed.',
    input: onlyKnown(pageSchema.extend({ did: didParameter })),
    async run({ did, limit, cursor }, ctx) {
      const { lists, readers } = await ctx.self.registry()
      return lists.history(did, readers.of(ctx), limit, cursor)
    },
  }),
}
