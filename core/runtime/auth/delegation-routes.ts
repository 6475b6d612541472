import { z } from 'zod'
import type { AnyRoute, RouteContext } from '../../plugin.ts'
import { routeOf } from '../http/routes/route-of.ts'
import { unauthorized } from './did/refusal.ts'
import type { Delegations } from './grants/delegations.ts'
import type { LazyAuth } from './lazy.ts'
import type { StoredDelegations } from './stored-delegations.ts'
import type { AuthenticatedUser } from './user.ts'

/** The keys of the routes by which a caller hands in a delegation and takes it back. */
export const delegationRouteKeys = [
  'POST /delegation',
  'GET /delegation',
  'DELETE /delegation',
] as const

/** What the delegation routes work on. */
export interface DelegationParts {
  readonly auth: LazyAuth
  readonly delegations: Delegations
  readonly oracleDid: string
  readonly stored: StoredDelegations
  /** Called when a user has revoked a delegation. */
  onRevoked(did: string): void
}

const delegationInput = z.object({
  raw: z.string().min(1).max(6144).describe('The delegation, a CAR in base64'),
})

/** The routes by which a caller hands in a delegation, asks for it and revokes it. */
export function delegationRoutes({
  auth,
  delegations,
  oracleDid,
  stored,
  onRevoked,
}: DelegationParts): Record<(typeof delegationRouteKeys)[number], AnyRoute> {
  // A ucan route of the kernel: the user is the one that the kernel's own authentication made.
  const caller = (ctx: RouteContext) => ctx.user as AuthenticatedUser
  return {
    'POST /delegation': routeOf({
      signed: true,
      summary: 'Keeps a signed delegation of the caller for this oracle.',
      input: delegationInput,
      output: z.object({ ok: z.literal(true), expiration: z.number() }),
      async run({ raw }, ctx) {
        const user = caller(ctx)
        // A caller who comes with a delegation alone may hand in that very one, and no other.
        if (user.via === 'delegation' && !user.carries(raw)) throw unauthorized()
        const verified = await auth.verifyDelegation(raw, { issuer: user.did })
        await delegations.store(user.did, oracleDid, raw, verified)
        stored.forget(user.did)
        return { ok: true, expiration: verified.expiration }
      },
    }),
    'GET /delegation': {
      signed: true,
      summary: 'Whether a delegation of the caller is in force.',
      output: z.object({ authorized: z.boolean(), expiration: z.number().optional() }),
      async run(_, ctx) {
        const user = caller(ctx)
        const current = await delegations.current(user.did, oracleDid)
        if (!current || current.expiration * 1000 <= Date.now()) return { authorized: false }
        return { authorized: true, expiration: current.expiration }
      },
    },
    'DELETE /delegation': {
      signed: true,
      summary: 'Revokes the caller’s delegation: it authenticates nobody any more.',
      output: z.object({ ok: z.literal(true) }),
      async run(_, ctx) {
        const user = caller(ctx)
        const header = user.delegation === 'header' ? ctx.koa.get('x-ucan-delegation') : ''
        // The header is verified first: after the revocation its delegation would fail.
        const carried = header && (await auth.verifyDelegation(header, { issuer: user.did }))
        const kept = await delegations.current(user.did, oracleDid)
        // A caller who comes with a delegation alone ends that very one, and no other.
        if (kept && (user.via === 'invocation' || user.carries(kept.raw)))
          await delegations.revoke(user.did, oracleDid)
        if (carried) await delegations.revokeToken(carried)
        stored.forget(user.did)
        onRevoked(user.did)
        return { ok: true }
      },
    },
  }
}
