import { z } from 'zod'
import { RuntimeError } from '../../../errors.ts'
import type { AnyRoute, RouteContext } from '../../../plugin.ts'
import { fieldsIn } from '../../base/fields.ts'
import { unauthorized } from '../did/refusal.ts'
import { created } from '../../http/answer/reply.ts'
import { routeOf } from '../../http/routes/route-of.ts'
import { keyAbilities, type PersonalKeys } from './personal-keys.ts'

/** The keys of the routes by which people make and end keys of their own. */
export const personalKeyRouteKeys = ['POST /keys', 'GET /keys', 'DELETE /keys/:id'] as const

const ability = z.enum(keyAbilities)
const keyInput = z.object({
  name: z
    .string()
    .trim()
    .min(1)
    .max(80)
    .regex(/^[^\p{Cc}]*$/u, 'expected a name without control characters')
    .describe('What the key is for, for the list'),
  days: z.number().int().min(1).max(365).default(90),
  can: z
    .array(ability)
    .min(1)
    .max(10)
    .default(['oracle/call'])
    .describe('What the key opens; by default talking with the agent'),
})
const keyShape = z.object({
  id: z.string(),
  name: z.string(),
  can: z.array(z.string()),
  createdAt: z.string(),
  expiresAt: z.string(),
  lastUsedAt: z.string().optional().describe('To the minute'),
})
const noStore = { 'Cache-Control': 'no-store' }

/** The routes of personal keys. No personal key opens them. */
export function personalKeyRoutes(
  keys: PersonalKeys,
  onRevoked: (did: string) => void,
): Record<(typeof personalKeyRouteKeys)[number], AnyRoute> {
  return {
    'POST /keys': routeOf({
      signed: true,
      // A repeat could only be answered from a copy of the key, and there is none.
      idempotent: true,
      summary:
        'Makes a key of the caller for programs that send one fixed header. It is shown this once.',
      answers: { 201: ['application/json'] },
      input: keyInput,
      output: keyShape.extend({ key: z.string() }),
      async run(input, ctx) {
        const { did, isSelf } = callerOf(ctx)
        if (!isSelf) throw notThemselves()
        const made = await keys.make(did, input)
        ctx.koa.set(noStore)
        ctx.audit({ key: made.id })
        return created(`/keys/${made.id}`, made)
      },
    }),
    'GET /keys': routeOf({
      signed: true,
      summary: 'The caller’s keys in force, without the keys themselves.',
      input: z.object({}),
      output: z.object({ keys: z.array(keyShape) }),
      run: async (_, ctx) => ({ keys: await keys.list(callerOf(ctx).did) }),
    }),
    'DELETE /keys/:id': routeOf({
      signed: true,
      summary: 'Ends a key of the caller, at once and on every replica. Its open streams close.',
      input: z.object({ id: z.string().max(100) }),
      output: z.object({ ok: z.literal(true) }),
      async run({ id }, ctx) {
        const { did } = callerOf(ctx)
        if (!(await keys.revoke(did, id)))
          throw new RuntimeError('NOT_FOUND', 'You have no such key.', {
            hint: 'GET /keys lists yours; one that has expired or was ended is gone.',
          })
        onRevoked(did)
        return { ok: true }
      },
    }),
  }
}

interface Caller {
  readonly did: string
  /** Whether a key of the DID itself signed the call. */
  readonly isSelf: boolean
}

/** The caller. The edge lets none without a user through to these routes. */
function callerOf({ user }: RouteContext): Caller {
  if (!user) throw unauthorized()
  return { did: user.did, isSelf: fieldsIn(user).isSelf === true }
}

const notThemselves = () =>
  new RuntimeError('FORBIDDEN', 'A delegation makes no keys in the name of its user.', {
    hint: 'Sign the request with the key of the DID itself.',
  })
