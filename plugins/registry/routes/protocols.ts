import { created } from '#core'
import { route, seesAny } from '../context.ts'
import { etagOf } from '../etag.ts'
import { refuseLostDigits } from '../digits.ts'
import { onlyKnown } from '../reading/known-parameters.ts'
import { inQuery, pageSchema } from '../reading/query.ts'
import { protocolSchema } from '../request.ts'
import { onlyThis } from './only-this.ts'
import { didParameter, named, version } from './parameters.ts'

/** Protocols and their versions. */
export const protocolsRoutes = {
  'POST /v1/protocols': route({
    auth: 'bearer',
    summary: 'Creates a protocol.',
    answers: { 201: ['application/json'] },
    input: protocolSchema,
    raw: true,
    async run(request, ctx) {
      refuseLostDigits(ctx.raw)
      const registry = await ctx.self.registry()
      const protocol = await registry.protocolChanges.create(registry.actorOf(ctx), request)
      ctx.koa.set('ETag', etagOf(protocol))
      return created(`/v1/protocols/${encodeURIComponent(protocol.did)}`, protocol)
    },
  }),
  'GET /v1/protocols': route({
    auth: 'bearer',
    own: seesAny,
    summary: 'Every protocol in its newest version.',
    input: onlyKnown(pageSchema),
    async run({ limit, cursor }, ctx) {
      const { protocols, readers } = await ctx.self.registry()
      return protocols.list(readers.of(ctx), limit, cursor)
    },
  }),
  'GET /v1/protocols/:did': route({
    auth: 'bearer',
    own: seesAny,
    summary: 'A protocol, or an earlier version of it.',
    answers: { 200: ['application/json'], 304: [] },
    input: onlyKnown(named.extend({ version: inQuery(version).optional() })),
    async run({ did, version }, ctx) {
      const { protocols, readers } = await ctx.self.registry()
      const protocol = await protocols.read(did, readers.of(ctx), version)
      ctx.koa.set('ETag', etagOf(protocol))
      return protocol
    },
  }),
  'PUT /v1/protocols/:did': route({
    auth: 'bearer',
    summary: 'The next version of a protocol; lists the entities that do not conform to it.',
    input: protocolSchema.extend({ did: didParameter }),
    raw: true,
    async run({ did, ...request }, ctx) {
      refuseLostDigits(ctx.raw)
      onlyThis(ctx.raw, { did })
      const registry = await ctx.self.registry()
      const tag = ctx.koa.get('If-Match') || undefined
      const actor = registry.actorOf(ctx)
      const { protocol, touched } = await registry.protocolChanges.replace(actor, did, request, tag)
      ctx.koa.set('ETag', etagOf(protocol))
      return { ...protocol, ...(await registry.conformance.check(touched)) }
    },
  }),
  'DELETE /v1/protocols/:did': route({
    auth: 'bearer',
    summary: 'Removes a protocol that nothing uses.',
    input: onlyKnown(named),
    async run({ did }, ctx) {
      const registry = await ctx.self.registry()
      const tag = ctx.koa.get('If-Match') || undefined
      return registry.protocolChanges.remove(registry.actorOf(ctx), did, tag)
    },
  }),
}
