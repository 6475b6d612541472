import { z } from 'zod'
import { created } from '#core'
import { route, seesAny } from '../context.ts'
import { onlyKnown } from '../reading/known-parameters.ts'
import { subscriptionSchema } from '../subscriptions/request.ts'
import { wants } from '../wants.ts'
import { idParameter } from './parameters.ts'

const state = z.enum(['active', 'dead'], wants('"active" or "dead"')).optional()
const one = onlyKnown(z.object({ id: idParameter }))

/** Subscriptions to changes, each seen by whoever made it. */
export const subscriptionsRoutes = {
  'POST /v1/subscriptions': route({
    auth: 'bearer',
    summary: 'Posts changes of entities to an address, signed.',
    answers: { 201: ['application/json'] },
    input: subscriptionSchema,
    async run(request, ctx) {
      const registry = await ctx.self.registry()
      const made = await registry.subscriptions.create(registry.actorOf(ctx), request)
      return created(`/v1/subscriptions/${made.id}`, made)
    },
  }),
  'GET /v1/subscriptions': route({
    auth: 'bearer',
    own: seesAny,
    summary:
      'The subscriptions of the caller, the newest first; ?state=dead lists those that gave up.',
    input: onlyKnown(z.object({ state })),
    async run({ state }, ctx) {
      const registry = await ctx.self.registry()
      return registry.subscriptions.list(registry.actorOf(ctx), state)
    },
  }),
  'GET /v1/subscriptions/:id': route({
    auth: 'bearer',
    own: seesAny,
    summary: 'A subscription of the caller, and how far it has come.',
    input: one,
    async run({ id }, ctx) {
      const registry = await ctx.self.registry()
      return registry.subscriptions.read(registry.actorOf(ctx), id)
    },
  }),
  'POST /v1/subscriptions/:id/revival': route({
    auth: 'bearer',
    summary: 'Lets a dead subscription live again, from where it gave up or from now on.',
    input: z.object({
      id: idParameter,
      from: z.enum(['there', 'now'], wants('"there" or "now"')).default('there'),
    }),
    async run({ id, from }, ctx) {
      const registry = await ctx.self.registry()
      return registry.subscriptions.revive(registry.actorOf(ctx), id, from)
    },
  }),
  'DELETE /v1/subscriptions/:id': route({
    auth: 'bearer',
    summary: 'Ends a subscription.',
    input: one,
    async run({ id }, ctx) {
      const registry = await ctx.self.registry()
      return registry.subscriptions.remove(registry.actorOf(ctx), id)
    },
  }),
}
