import { resolutionAnswers } from '../resolution/answers.ts'
import { z } from 'zod'
import { route } from '../context.ts'
import { didParameters } from '../resolution/did-url.ts'

/** DID resolution, as W3C binds it to HTTP. */
export const identifiersRoutes = {
  'GET /1.0/identifiers/:did': route({
    auth: 'public',
    summary: 'Resolves a DID, or dereferences a DID URL (W3C DID Resolution).',
    answers: resolutionAnswers,
    input: didParameters.extend({ did: z.string() }),
    run: async ({ did, ...beside }, { self, koa }) =>
      (await self.registry()).resolution.answer(did, beside, koa),
  }),
  'GET /1.0/identifiers/:did/:path': route({
    auth: 'public',
    summary: 'The same for an id whose path is not percent-encoded.',
    answers: resolutionAnswers,
    input: didParameters.extend({ did: z.string(), path: z.string() }),
    run: async ({ did, path, ...beside }, { self, koa }) =>
      (await self.registry()).resolution.answer(`${did}/${path}`, beside, koa),
  }),
}
