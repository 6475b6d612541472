import { z } from 'zod'
import { created } from '#core'
import { answerSchema, claimSchema, claimsQuery, evaluationSchema } from '../claims/request.ts'
import { route, seesAny } from '../context.ts'
import { refuseLostDigits } from '../digits.ts'
import { onlyKnown } from '../reading/known-parameters.ts'
import { idParameter } from './parameters.ts'

/** Claims about assets, and what oracles say of them. */
export const claimsRoutes = {
  'POST /v1/claims': route({
    auth: 'bearer',
    summary: 'Claims something of an asset.',
    answers: { 201: ['application/json'] },
    input: claimSchema,
    raw: true,
    async run(request, ctx) {
      refuseLostDigits(ctx.raw)
      const registry = await ctx.self.registry()
      const claim = await registry.claims.submit(request, registry.actorOf(ctx))
      return created(`/v1/claims/${claim.id}`, claim)
    },
  }),
  'GET /v1/claims': route({
    auth: 'bearer',
    own: seesAny,
    summary: 'Claims, newest first.',
    input: onlyKnown(claimsQuery),
    async run(query, ctx) {
      const { claims, readers } = await ctx.self.registry()
      return claims.list(query, readers.of(ctx))
    },
  }),
  'GET /v1/claims/:id': route({
    auth: 'bearer',
    own: seesAny,
    summary: 'A claim, with what an oracle said of it.',
    input: onlyKnown(z.object({ id: idParameter })),
    async run({ id }, ctx) {
      const { claims, readers } = await ctx.self.registry()
      return claims.read(id, readers.of(ctx))
    },
  }),
  'POST /v1/claims/:id/submission': route({
    auth: 'bearer',
    summary: 'Fills in a claim that was opened about an asset, such as a question of a survey.',
    input: answerSchema.extend({ id: idParameter }),
    raw: true,
    async run({ id, ...answer }, ctx) {
      refuseLostDigits(ctx.raw)
      const registry = await ctx.self.registry()
      return registry.claims.fill(id, answer, registry.actorOf(ctx))
    },
  }),
  'POST /v1/claims/:id/credit': route({
    auth: 'bearer',
    summary: 'Makes the credit of an approved claim once more, after what kept it from being made.',
    input: z.object({ id: idParameter }),
    async run({ id }, ctx) {
      const registry = await ctx.self.registry()
      await registry.minting.again(id, registry.actorOf(ctx))
      return registry.claims.read(id, registry.readers.of(ctx))
    },
  }),
  'POST /v1/claims/:id/evaluation': route({
    auth: 'bearer',
    summary: 'An oracle approves a claim, which makes it a credential, or rejects it.',
    input: evaluationSchema.extend({ id: idParameter }),
    async run({ id, ...verdict }, ctx) {
      const registry = await ctx.self.registry()
      return registry.claims.evaluate(id, verdict, registry.actorOf(ctx))
    },
  }),
}
