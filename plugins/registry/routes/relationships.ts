import { z } from 'zod'
import { created } from '#core'
import { route, seesAny } from '../context.ts'
import { edgePath } from '../did.ts'
import { etagOf } from '../etag.ts'
import { refuseLostDigits } from '../digits.ts'
import { onlyKnown } from '../reading/known-parameters.ts'
import { pageSchema, walkOf, walkSchema } from '../reading/query.ts'
import { relationshipSchema } from '../request.ts'
import { onlyThis } from './only-this.ts'
import { didParameter } from './parameters.ts'

/** An edge, by its ends and its role. */
export const edgeSchema = relationshipSchema.extend({ did: didParameter })

/** Edges, and the walk along them. */
export const relationshipsRoutes = {
  'GET /v1/entities/:did/graph': route({
    auth: 'bearer',
    own: seesAny,
    summary: 'The entities that can be reached, breadth first, and the edges between them.',
    input: onlyKnown(walkSchema),
    async run({ did, ...walk }, ctx) {
      const { graph, readers } = await ctx.self.registry()
      return graph.walk(did, walkOf(walk), readers.of(ctx), ctx.signal)
    },
  }),
  'GET /v1/entities/:did/system': route({
    auth: 'bearer',
    own: seesAny,
    summary: 'The network below an entity: its members, the flows between them, and totals.',
    input: onlyKnown(z.object({ did: didParameter, limit: pageSchema.shape.limit })),
    async run({ did, limit }, ctx) {
      const { systems, readers } = await ctx.self.registry()
      return systems.read(did, limit, readers.of(ctx), ctx.signal)
    },
  }),
  'PUT /v1/entities/:did/relationships/:role/:target': route({
    auth: 'bearer',
    summary: 'Draws an edge, or changes its properties.',
    answers: { 200: ['application/json'], 201: ['application/json'] },
    input: edgeSchema,
    raw: true,
    async run({ did, ...relationship }, ctx) {
      const { role, target } = relationship
      refuseLostDigits(ctx.raw)
      onlyThis(ctx.raw, { did, role, target })
      const registry = await ctx.self.registry()
      const tag = ctx.koa.get('If-Match') || undefined
      const actor = registry.actorOf(ctx)
      const { version, isNew } = await registry.changes.relate(actor, did, relationship, tag)
      ctx.koa.set('ETag', etagOf({ version }))
      const body = { from: did, ...relationship, version }
      return isNew ? created(edgePath(did, relationship), body) : body
    },
  }),
  'DELETE /v1/entities/:did/relationships/:role/:target': route({
    auth: 'bearer',
    summary: 'Removes an edge.',
    input: onlyKnown(edgeSchema.omit({ properties: true })),
    async run({ did, role, target }, ctx) {
      const registry = await ctx.self.registry()
      const tag = ctx.koa.get('If-Match') || undefined
      const actor = registry.actorOf(ctx)
      const { version } = await registry.changes.unrelate(actor, did, role, target, tag)
      ctx.koa.set('ETag', etagOf({ version }))
      return { from: did, role, target, version }
    },
  }),
}
