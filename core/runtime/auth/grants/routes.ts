import { z } from 'zod'
import { RuntimeError } from '../../../errors.ts'
import type { AnyRoute } from '../../../plugin.ts'
import type { Grants } from './grants.ts'
import { checkedGrant, type Grantable, grantSchema } from './request.ts'
import { created } from '../../http/answer/reply.ts'
import { routeOf } from '../../http/routes/route-of.ts'

const grantShape = z.object({
  id: z.string(),
  did: z.string(),
  capabilities: z.array(z.string()),
  resource: z.string().describe('The oracle’s DID, which the capabilities are about'),
  note: z.string().optional(),
  state: z.enum(['active', 'expired', 'revoked']),
  createdAt: z.string(),
  expiresAt: z.string(),
  revokedAt: z.string().optional(),
  car: z.string().describe('The delegation that the oracle’s key signed, a CAR in base64'),
})

const listInput = z.object({
  did: z.string().max(200).optional().describe('Only the grants of this DID'),
  limit: z.coerce.number().int().min(1).max(200).default(50),
  cursor: z
    .string()
    .regex(/^\d{1,15}\.[a-z0-9]{1,100}$/, 'the nextCursor of an earlier page, as it stands')
    .transform((text) => {
      const dot = text.indexOf('.')
      return { createdAt: Number(text.slice(0, dot)), id: text.slice(dot + 1) }
    })
    .optional(),
})

const idInput = z.object({ id: z.string().max(100) })

/** The keys of the operator's routes of grants. */
export const grantRouteKeys = ['POST /grants', 'GET /grants', 'DELETE /grants/:id'] as const

/** The operator's routes of grants. An API key opens none of them: it may use the oracle, not share it out. */
export function grantRoutes(
  grants: Grants,
  grantable: Grantable,
): Record<(typeof grantRouteKeys)[number], AnyRoute> {
  const grantInput = grantSchema(grantable)
  return {
    'POST /grants': routeOf({
      auth: 'operator',
      summary: 'Grants a DID rights on the oracle’s DID; the same grant again answers the first.',
      answers: { 200: ['application/json'], 201: ['application/json'] },
      input: grantInput,
      output: grantShape,
      async run(input, { caller }) {
        const request = checkedGrant(input)
        const { grant, isNew } = await grants.issue({
          ...request,
          // Without a token it is the author of plugins who tries them out: see `openToLoopback`.
          forAuthor: caller === 'operator:loopback',
        })
        return isNew ? created(`/grants/${grant.id}`, grant) : grant
      },
    }),
    'GET /grants': routeOf({
      auth: 'operator',
      summary: 'The grants, newest first, also those that ended a while ago.',
      input: listInput,
      output: z.object({ items: z.array(grantShape), nextCursor: z.string().optional() }),
      run: (input) => grants.list(input),
    }),
    'DELETE /grants/:id': routeOf({
      auth: 'operator',
      summary: 'Ends a grant, in force at once, with all that was re-delegated from it.',
      input: idInput,
      output: grantShape,
      async run({ id }) {
        const ended = await grants.revoke(id)
        if (ended) return ended
        throw new RuntimeError('NOT_FOUND', `There is no grant "${id}".`, {
          hint: 'GET /grants lists them; one that ended 30 days ago is gone.',
        })
      },
    }),
  }
}
