import { hash } from 'node:crypto'
import { RuntimeError } from '../../errors.ts'
import type { Log } from '../../plugin.ts'
import { bindingOf, checkBinding, type BoundRequest } from './binding.ts'
import { createCache } from './cache.ts'
import { callerOf, grantsCalling } from './calling.ts'
import { readCredentials, type CredentialHeaders } from './credentials.ts'
import type { Did } from './did.ts'
import { createLane } from './lane.ts'
import { Refusal, refuse, signingKeyNotLoaded, unauthorized, type Reason } from './refusal.ts'
import { memoryReplays, type Replays } from './replays.ts'
import { KEYS_LIVE_MS, type DidResolver } from './resolver.ts'
import type { Signer } from './signer.ts'
import { MAX_CHARACTERS, readToken, type Link, type Tally, type Token } from './token.ts'
import { createUser, type AuthenticatedUser, type Caller, type DelegationState } from './user.ts'
import { verifySignatures } from './verify.ts'

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
  readonly revocations: { isRevoked(cids: readonly string[]): boolean | Promise<boolean> }
  /** The delegation that the user has posted, as it came. */
  stored?(user: string): Promise<string | undefined>
  readonly replays?: Replays
  readonly now?: () => number
  readonly log: Log
}

/** A request, as far as it takes part in authentication. */
export interface AuthRequest extends CredentialHeaders, BoundRequest {}

/** One delegation of a token, and until when its revocation has to be remembered. */
export interface RevocableLink {
  readonly cid: string
  /** Seconds since 1970. */
  readonly expiration: number
}

/** What `POST /delegation` stores beside the token. */
export interface VerifiedDelegation {
  readonly issuer: Did
  /** Seconds since 1970, the earliest of the chain. */
  readonly expiration: number
  readonly cids: readonly string[]
  /** The links that the issuer signed himself, which are his to revoke. */
  readonly revocable: readonly RevocableLink[]
  readonly capabilities: readonly { readonly can: string; readonly with: string }[]
}

export interface AuthStats {
  /** Verdicts remembered. */
  readonly invocations: number
  readonly delegations: number
  /** Work done since the start. */
  readonly blocks: number
  readonly signatures: number
  readonly cached: number
  readonly refused: number
  /** Tokens that wait to be verified. */
  readonly waiting: number
}

export interface Auth {
  /** Proves who calls, or rejects with the one 401. */
  authenticate(request: AuthRequest): Promise<AuthenticatedUser>
  /** The same user with the stored delegation in force, where no header brought one. Never rejects. */
  withDelegation(user: AuthenticatedUser): Promise<AuthenticatedUser>
  /** Verifies a delegation that `issuer` hands in. Rejects with a 400 that says what is wrong. */
  verifyDelegation(raw: string, expected: { issuer: string }): Promise<VerifiedDelegation>
  stats(): AuthStats
}

type Kind = 'invocation' | 'delegation' | 'delegation alone'

/** What remains of a token once it is verified. */
interface Verdict {
  readonly did: Did
  readonly token: Token
  readonly cids: readonly string[]
  /** Milliseconds; the earliest end in the chain. */
  readonly expiresAt: number
  /** Milliseconds; until when nothing has to be verified again. */
  readonly until: number
}

/** A wallet whose clock runs ahead may date a token a little into the future. Nothing else has slack. */
const CLOCK_SLACK_MS = 5_000
/** A delegation that claims to live longer was dated in milliseconds, or by mistake. */
const MAX_DELEGATION_MS = 10 * 366 * 86_400_000
const MAX_INVOCATIONS = 10_000
const MAX_DELEGATIONS = 4_000

/** States of a delegation of one's own that make it useless, not suspicious. */
const LAPSED: Partial<Record<Reason, DelegationState>> = {
  expired: 'expired',
  'not valid yet': 'expired',
  'never expires': 'refused',
  'lives too long': 'refused',
  revoked: 'revoked',
}

/**
 * The order of checks: signing key, header form, size, decoding, audience, time, life, capability,
 * resolver, signatures, revocation, binding. Whatever fails, the caller sees the same 401.
 */
export function createAuth(options: AuthOptions): Auth {
  const { signer, maxTtlSeconds, delegationOnly, resolver, revocations, log } = options
  const { now = Date.now, replays = memoryReplays({ now }) } = options
  const audiences = new Set([options.oracleDid, ...(options.aliases ?? [])])
  const lane = createLane()
  const tally: Tally & { cached: number; refused: number } = {
    blocks: 0,
    signatures: 0,
    cached: 0,
    refused: 0,
  }
  const invocations = createCache<Verdict>(MAX_INVOCATIONS)
  const delegations = createCache<Verdict>(MAX_DELEGATIONS)
  const underWay = new Map<string, Promise<Verdict>>()

  async function examine(kind: Kind, text: string, issuer: string | undefined): Promise<Verdict> {
    const token = readToken(text, tally)
    const { root, links } = token
    if (!audiences.has(root.audience)) refuse('for another audience')
    if (issuer !== undefined && root.issuer !== issuer) refuse('of another user')
    const time = now()
    checkTime(links, time)
    const life = root.expiration * 1000 - time
    if (life === Infinity) refuse('never expires')
    if (life > (kind === 'invocation' ? maxTtlSeconds * 1000 : MAX_DELEGATION_MS))
      refuse('lives too long')
    const did = kind === 'invocation' ? callerOf(root) : root.issuer
    if (kind === 'delegation alone' && !grantsCalling(root)) refuse('does not grant calling')
    await verifySignatures(token, { resolver, lane, tally })
    const expiresAt = Math.min(...links.map((link) => link.expiration)) * 1000
    const lookedUp = links.some((link) => !link.issuer.startsWith('did:key:'))
    return {
      did,
      token,
      cids: links.map((link) => link.cid),
      expiresAt,
      until: lookedUp ? Math.min(expiresAt, time + KEYS_LIVE_MS) : expiresAt,
    }
  }

  async function admit(kind: Kind, text: string, issuer?: string): Promise<Verdict> {
    if (text.length > MAX_CHARACTERS) refuse('too long')
    const key = hash('sha256', text, 'base64')
    const verdict = await verdictOn(kind, text, key, issuer)
    if (issuer !== undefined && verdict.did !== issuer) refuse('of another user')
    if (await revocations.isRevoked(verdict.cids)) refuse('revoked')
    return verdict
  }

  // Refusals are not remembered: a flood of bad tokens must not push out the good ones, and what is
  // not valid yet, or cannot be resolved just now, may be later.
  async function verdictOn(kind: Kind, text: string, hashed: string, issuer?: string) {
    const cache = kind === 'invocation' ? invocations : delegations
    const key = `${kind} ${hashed}`
    const known = cache.get(key)
    if (known && now() < known.until) {
      tally.cached++
      return known
    }
    const flight = `${key} ${issuer}`
    let verdict = underWay.get(flight)
    if (!verdict) {
      verdict = examine(kind, text, issuer).finally(() => underWay.delete(flight))
      underWay.set(flight, verdict)
    }
    const found = await verdict
    cache.set(key, found)
    return found
  }

  async function callerByInvocation(request: AuthRequest, text: string): Promise<Verdict> {
    const verdict = await admit('invocation', text)
    const binding = bindingOf(verdict.token.root)
    if (binding) await checkBinding(verdict.token.root, binding, request, replays)
    return verdict
  }

  async function authenticate(request: AuthRequest): Promise<AuthenticatedUser> {
    const { invocation, delegation } = readCredentials(request)
    if (invocation !== undefined) {
      const proved = await callerByInvocation(request, invocation)
      return userOf({ ...proved, via: 'invocation', raw: delegation }, delegation, 'header')
    }
    if (delegation === undefined) refuse('no credential')
    if (!delegationOnly) refuse('delegations alone do not authenticate here')
    const proved = await admit('delegation alone', delegation)
    return userOf({ ...proved, via: 'delegation', raw: delegation }, delegation, 'header')
  }

  async function userOf(
    caller: Caller,
    raw: string | undefined,
    source: 'header' | 'stored',
  ): Promise<AuthenticatedUser> {
    if (raw === undefined) return createUser(caller, 'missing', now)
    try {
      const { token, expiresAt } = await admit('delegation', raw, caller.did)
      return createUser(caller, { root: token.root, source, until: expiresAt }, now)
    } catch (error) {
      const lapsed = error instanceof Refusal ? LAPSED[error.reason] : undefined
      if (lapsed === undefined) throw error
      return createUser(caller, lapsed, now)
    }
  }

  function loaded() {
    if (!signer) throw signingKeyNotLoaded()
  }

  return {
    async authenticate(request) {
      loaded()
      try {
        return await authenticate(request)
      } catch (error) {
        tally.refused++
        report(log, error)
        throw unauthorized()
      }
    },
    async withDelegation(user) {
      if (user.delegation || !options.stored) return user
      try {
        const raw = await options.stored(user.did)
        const caller = { ...user, raw: undefined }
        const enriched = await userOf(caller, raw, 'stored')
        // A header that lapsed says more than a store that is empty.
        return raw === undefined ? user : { ...enriched, carries: user.carries }
      } catch (error) {
        report(log, error)
        return createUser({ ...user, raw: undefined }, 'refused', now)
      }
    },
    async verifyDelegation(raw, { issuer }) {
      loaded()
      try {
        const { did, token, cids, expiresAt } = await admit('delegation', raw, issuer)
        return {
          issuer: did,
          expiration: expiresAt / 1000,
          cids,
          revocable: token.links
            .filter((link) => link.issuer === did)
            .map(({ cid, expiration }) => ({
              cid,
              expiration: Math.min(expiration, Number.MAX_SAFE_INTEGER),
            })),
          capabilities: token.root.ucan.capabilities.map((grant) => ({
            can: grant.can,
            with: grant.with,
          })),
        }
      } catch (error) {
        report(log, error)
        const reason = error instanceof Refusal ? error.reason : 'not readable'
        throw new RuntimeError('BAD_REQUEST', `The delegation is refused: ${reason}.`, {
          details: { reason },
        })
      }
    },
    stats: () => ({
      invocations: invocations.size,
      delegations: delegations.size,
      ...tally,
      waiting: lane.waiting,
    }),
  }
}

function checkTime(links: readonly Link[], time: number) {
  for (const { expiration, notBefore } of links) {
    if (expiration * 1000 <= time) refuse('expired')
    if (notBefore * 1000 > time + CLOCK_SLACK_MS) refuse('not valid yet')
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
