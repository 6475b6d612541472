import { z } from 'zod'
import { credentialsQuery, revocationSchema } from '../claims/request.ts'
import { route, seesAny } from '../context.ts'
import { onlyKnown } from '../reading/known-parameters.ts'
import { inQuery } from '../reading/query.ts'
import { wants } from '../wants.ts'
import { idParameter } from './parameters.ts'

const aList = 'the number of a status list'
const listNumber = z
  .number(wants(aList))
  .int(wants(aList))
  .min(1, wants(aList))
  .max(10_000, wants(aList))

/** The credentials of approved claims. */
export const credentialsRoutes = {
  'GET /v1/credentials': route({
    auth: 'bearer',
    own: seesAny,
    summary: 'Verifiable credentials, newest first.',
    input: onlyKnown(credentialsQuery),
    async run(query, ctx) {
      const { credentials, readers } = await ctx.self.registry()
      return credentials.list(query, readers.of(ctx))
    },
  }),
  'GET /v1/credentials/:id': route({
    auth: 'bearer',
    own: seesAny,
    summary: 'A verifiable credential, as it was signed.',
    answers: { 200: ['application/json', 'application/vc'] },
    input: onlyKnown(z.object({ id: idParameter })),
    async run({ id }, ctx) {
      const { koa } = ctx
      const { credentials, readers } = await ctx.self.registry()
      const credential = await credentials.read(id, readers.of(ctx))
      if (koa.accepts('application/json', 'application/vc') === 'application/vc')
        koa.set('Content-Type', 'application/vc')
      return credential
    },
  }),
  'POST /v1/credentials/:id/revocation': route({
    auth: 'bearer',
    can: { can: 'registry/admin' },
    summary: 'The issuer, which is the operator of this oracle, takes a credential back.',
    input: revocationSchema.extend({ id: idParameter }),
    async run({ id, reason }, ctx) {
      const registry = await ctx.self.registry()
      return registry.credentials.revoke(id, reason, registry.actorOf(ctx))
    },
  }),
  'GET /v1/credentials/status/:list': route({
    auth: 'public',
    summary: 'Which credentials were revoked: a Bitstring Status List.',
    input: z.object({ list: inQuery(listNumber) }),
    run: async ({ list }, { self }) => (await self.registry()).credentials.statusList(list),
  }),
}
