import type { RevocableLink, VerifiedDelegation } from './grants/delegations.ts'
import { RuntimeError } from '../../errors.ts'
import type { Log } from '../../plugin.ts'
import { checkBinding, type BoundRequest } from './token/binding.ts'
import { Cache } from '../base/cache.ts'
import { readCredentials, type CredentialHeaders } from './token/credentials.ts'
import type { Did } from './did/did.ts'
import { isLookUpUnavailable } from './did/lookups.ts'
import { Refusal, refuse, signingKeyNotLoaded, unauthorized, type Reason } from './did/refusal.ts'
import { MemoryReplays, type Replays } from './token/replays.ts'
import type { DidResolver } from './did/resolver.ts'
import type { Rights } from './grants/rights.ts'
import type { Signer } from './did/signer.ts'
import {
  createUser,
  type AuthenticatedUser,
  type Caller,
  type DelegationSource,
  type DelegationState,
  type Judgement,
} from './user.ts'
import {
  type DelegationVerdict,
  type Revocations,
  Verdicts,
  type VerdictStats,
} from './token/verdicts.ts'

/** What the authentication of one oracle needs. */
export interface AuthOptions {
  /** Without it nobody can authenticate, and every call says so. */
  readonly signer: Signer | undefined
  readonly oracleDid: string
  /** Other DIDs of the same oracle that a token may name as its audience. */
  readonly aliases?: readonly string[]
  readonly maxTtlSeconds: number
  /** Whether a delegation without an invocation authenticates. */
  readonly delegationOnly: boolean
  readonly resolver: DidResolver
  /** Asked on every request, also for tokens verified before. */
  readonly revocations: Revocations
  /** What the operator has granted; without it nothing is. */
  readonly rights?: Rights
  /** The delegation that the user has posted, as it came. */
  stored?(user: string): Promise<string | undefined>
  /** Remembers bound tokens that were used; in memory unless replicas share one database. */
  readonly replays?: Replays
  readonly now?: () => number
  readonly log: Log
}

/** A request, as far as it takes part in authentication. */
export interface AuthRequest extends CredentialHeaders, BoundRequest {
  /** Where it came from: an issuer that has to be looked up costs this address a share of the look-ups. */
  readonly address?: string
}

/** The authentication of one oracle. */
export interface Auth {
  /** Proves who calls, or rejects with the one 401; with 503 when an issuer cannot be looked up just now. */
  authenticate(request: AuthRequest): Promise<AuthenticatedUser>
  /** A user without a request, with the stored delegation in force: for work that outlives its request. */
  restore(did: string): Promise<AuthenticatedUser>
  /** The same user with the stored delegation in force, where no header brought one. Never rejects. */
  withDelegation(user: AuthenticatedUser): Promise<AuthenticatedUser>
  /** Verifies a delegation that `issuer` hands in. Rejects with a 400 that says what is wrong. */
  verifyDelegation(raw: string, expected: { issuer: string }): Promise<VerifiedDelegation>
  /** Work done since the start, and what is remembered of it. */
  stats(): VerdictStats & { readonly refused: number }
}

/** Reasons that make a delegation of one's own useless, not suspicious. */
const LAPSED: Partial<Record<Reason, DelegationState>> = {
  expired: 'expired',
  'not valid yet': 'refused',
  'never expires': 'refused',
  'lives too long': 'refused',
  revoked: 'revoked',
}

/** A caller who proved itself with these headers. */
interface Familiar {
  readonly delegation: string | undefined
  readonly user: AuthenticatedUser
  readonly cids: readonly string[]
  readonly until: number
}
/** Clients send the same pair of headers for minutes: whoever comes again is recognised by the text alone. */
const MAX_FAMILIAR = 1_000

/**
 * The order of checks: signing key, header form, size, decoding, audience, time, life, capability,
 * resolver, signatures, revocation, binding. Whatever fails, the caller sees the same 401.
 */
export function createAuth(options: AuthOptions): Auth {
  const { signer, delegationOnly, log, now = Date.now } = options
  const { replays = new MemoryReplays({ now }) } = options
  const audiences = new Set([options.oracleDid, ...(options.aliases ?? [])])
  const oracle = { did: options.oracleDid, keyDid: signer?.did }
  const judgement: Judgement = { oracle, rights: options.rights, now }
  const verdicts = new Verdicts({ ...options, audiences, now })
  const familiar = new Cache<Familiar>(MAX_FAMILIAR)
  let refused = 0
  let familiars = 0

  /** The user of the same two headers a moment ago, if nothing has ended since. */
  function recognised(invocation: string, delegation: string | undefined) {
    const known = familiar.get(invocation)
    if (known === undefined || known.delegation !== delegation || now() >= known.until)
      return undefined
    const revoked = options.revocations.isRevoked(known.cids)
    if (typeof revoked !== 'boolean')
      return revoked.then((ended) => (ended ? undefined : known.user))
    if (revoked) return undefined
    familiars++
    return known.user
  }

  async function authenticate(request: AuthRequest): Promise<AuthenticatedUser> {
    const { invocation, delegation } = readCredentials(request)
    const carries = (raw: string) => raw === delegation
    if (invocation !== undefined) {
      const recognising = recognised(invocation, delegation)
      const known = recognising instanceof Promise ? await recognising : recognising
      if (known) return known
      const { did, expiresAt, bound, cids, until } = await verdicts.invocation(
        invocation,
        request.address,
      )
      if (bound) await checkBinding(bound, request, replays)
      const caller: Caller = { did, expiresAt, via: 'invocation', cids, carries }
      if (delegation === undefined) {
        const user = createUser(caller, 'missing', judgement)
        if (!bound) familiar.set(invocation, { delegation, user, cids, until })
        return user
      }
      const { user, verdict } = await userWith(caller, delegation, 'header', request.address)
      if (!bound && verdict)
        familiar.set(invocation, {
          delegation,
          user,
          cids: [...cids, ...verdict.cids],
          until: Math.min(until, verdict.until),
        })
      return user
    }
    if (delegation === undefined) refuse('no credential')
    if (!delegationOnly) refuse('delegations alone do not authenticate here')
    const verdict = await verdicts.delegation(delegation, {
      calling: true,
      address: request.address,
    })
    const { did, expiresAt, cids, token } = verdict
    const caller: Caller = { did, expiresAt, via: 'delegation', cids, carries }
    return createUser(caller, { root: token.root, source: 'header', expiresAt }, judgement)
  }

  /** Puts a delegation in force for a caller whom something else has proved. */
  async function userWith(
    caller: Caller,
    raw: string,
    source: DelegationSource,
    address?: string,
  ): Promise<{ user: AuthenticatedUser; verdict?: DelegationVerdict }> {
    try {
      const verdict = await verdicts.delegation(raw, { party: caller.did, address })
      const { token, expiresAt, did } = verdict
      const from = did === caller.did ? source : 'received'
      const both = { ...caller, cids: [...caller.cids, ...verdict.cids] }
      return {
        user: createUser(both, { root: token.root, source: from, expiresAt }, judgement),
        verdict,
      }
    } catch (error) {
      const lapsed = error instanceof Refusal ? LAPSED[error.reason] : undefined
      if (lapsed === undefined) throw error
      return { user: createUser(caller, lapsed, judgement) }
    }
  }

  async function withDelegation(user: AuthenticatedUser): Promise<AuthenticatedUser> {
    if (user.delegation || !options.stored) return user
    try {
      const raw = await options.stored(user.did)
      return raw === undefined ? user : (await userWith(user, raw, 'stored')).user
    } catch (error) {
      if (isLookUpUnavailable(error))
        log.warn('The issuers of a stored delegation cannot be looked up')
      else report(log, error)
      return createUser(user, 'refused', judgement)
    }
  }

  return {
    async authenticate(request) {
      if (!signer) throw signingKeyNotLoaded()
      try {
        return await authenticate(request)
      } catch (error) {
        if (isLookUpUnavailable(error)) throw error
        refused++
        report(log, error)
        throw unauthorized()
      }
    },

    restore: (did) =>
      withDelegation(
        createUser(
          {
            did: did as Did,
            via: 'invocation',
            expiresAt: Infinity,
            cids: [],
            carries: () => false,
          }, // it was authenticated when its run began
          'missing',
          judgement,
        ),
      ),

    withDelegation,

    async verifyDelegation(raw, { issuer }) {
      if (!signer) throw signingKeyNotLoaded()
      try {
        return describe(await verdicts.delegation(raw, { issuer }))
      } catch (error) {
        if (isLookUpUnavailable(error)) throw error
        report(log, error)
        const reason = error instanceof Refusal ? error.reason : 'not readable'
        throw new RuntimeError('BAD_REQUEST', `The delegation is refused: ${reason}.`, {
          details: { reason },
        })
      }
    },

    stats: () => {
      const { cached, ...stats } = verdicts.stats
      return { ...stats, cached: cached + familiars, refused }
    },
  }
}

function describe({ did, cids, expiresAt, token }: DelegationVerdict): VerifiedDelegation {
  const own = token.links.filter((link) => link.issuer === did)
  return {
    issuer: did,
    expiration: expiresAt / 1000,
    cids,
    revocable: own.map(({ cid, expiration }) => ({
      cid,
      expiration: Math.min(expiration, Number.MAX_SAFE_INTEGER),
    })),
    capabilities: token.root.ucan.capabilities.map((grant) => ({
      can: grant.can,
      with: grant.with,
    })),
  }
}

/** Tells the log why, in words of ours: an error of a library may quote the token that it choked on. */
function report(log: Log, error: unknown) {
  if (error instanceof Refusal)
    return log.info({ reason: error.reason }, 'a credential was refused')
  const { name = 'unknown', stack = '' } = error instanceof Error ? error : {}
  const at = stack.split('\n').find((line) => line.startsWith('    at '))
  log.error({ fault: name, at: at?.trim() }, 'authentication failed unexpectedly')
}
