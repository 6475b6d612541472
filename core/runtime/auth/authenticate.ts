import type { RevocableLink, VerifiedDelegation } from './grants/delegations.ts'
import { RuntimeError } from '../../errors.ts'
import type { Log } from '../../plugin.ts'
import { checkBinding, type BoundRequest } from './token/binding.ts'
import { Cache } from '../base/cache.ts'
import { isInvoking, readCredentials, type CredentialHeaders } from './token/credentials.ts'
import type { Did } from './did/did.ts'
import { isLookUpUnavailable } from './did/lookups.ts'
import { Refusal, refuse, signingKeyNotLoaded, unauthorized, type Reason } from './did/refusal.ts'
import { practiseReading } from './token/practice.ts'
import { MemoryReplays, type Replays } from './token/replays.ts'
import type { DidResolver } from './did/resolver.ts'
import type { KeyHolder } from './personal/personal-keys.ts'
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
  /** Without a signer no caller can authenticate, and every call says so. */
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
  /** What the operator has granted; without it no caller has a grant. */
  readonly rights?: Rights
  /** The delegation that the user has posted, as it came. */
  stored?(user: string): string | undefined | Promise<string | undefined>
  /** Remembers bound tokens that were used; in memory unless replicas share one database. */
  readonly replays?: Replays
  readonly now?: () => number
  readonly log: Log
}

/** A request, as far as it takes part in authentication. */
export interface AuthRequest extends CredentialHeaders, BoundRequest {
  /** Where the request came from: an issuer that has to be looked up costs this address a share of the look-ups. */
  readonly address?: string
}

/** Reasons that make a delegation of one's own useless, not suspicious. */
const lapses: Partial<Record<Reason, DelegationState>> = {
  expired: 'expired',
  'not valid yet': 'refused',
  'never expires': 'refused',
  'lives too long': 'refused',
  revoked: 'revoked',
}

/** A user whose tokens may have been revoked since this process verified them. */
export interface Unproven {
  readonly user: AuthenticatedUser
  readonly cids: readonly string[]
}

/** What a pair of headers proved a moment ago. */
interface Familiar {
  readonly delegation: string | undefined
  readonly user: AuthenticatedUser
  readonly cids: readonly string[]
  readonly until: number
}
/** How many pairs of headers `Auth` recognises by their text alone: a client sends the same pair for minutes. */
const mostFamiliar = 1_000

/**
 * The authentication of one oracle. The order of checks: signing key, header form, size, decoding, audience, time, life,
 * capability, resolver, signatures, revocation, binding. Whatever fails, the caller sees the same 401.
 */
export class Auth {
  readonly #options: AuthOptions
  readonly #now: () => number
  readonly #replays: Replays
  readonly #judgement: Judgement
  readonly #verdicts: Verdicts
  readonly #familiar = new Cache<Familiar>(mostFamiliar)
  #refused = 0
  #recognitions = 0

  constructor(options: AuthOptions) {
    const { signer, oracleDid, aliases = [], rights, now = Date.now } = options
    const audiences = new Set([oracleDid, ...aliases])
    this.#options = options
    this.#now = now
    this.#replays = options.replays ?? new MemoryReplays({ now })
    this.#judgement = { oracle: { did: oracleDid, keyDid: signer?.did }, rights, now }
    this.#verdicts = new Verdicts({ ...options, audiences, now })
  }

  /** Proves who calls, or rejects with the one 401; with 503 when the database or an issuer cannot be asked just now. */
  async authenticate(request: AuthRequest): Promise<AuthenticatedUser> {
    if (!this.#options.signer) throw signingKeyNotLoaded()
    try {
      return await this.#callerOf(request)
    } catch (error) {
      if (isOurs(error)) throw error
      this.#refused++
      report(this.#options.log, error)
      throw unauthorized()
    }
  }

  /**
   * The user whom the same headers proved a moment ago, as far as this process knows: whoever takes the user so has yet to ask
   * whether one of `cids` was revoked elsewhere.
   */
  familiar(request: CredentialHeaders): Unproven | undefined {
    if (!this.#options.signer || !isInvoking(request)) return undefined
    const { invocation, delegation } = readCredentials(request)
    // A delegation that was revoked makes another user, who may call all the same.
    if (invocation === undefined || delegation !== undefined) return undefined
    const known = this.#known(invocation, undefined)
    return known && { user: known.user, cids: known.cids }
  }

  /** Has a token read that proves nothing, so that the first caller's is read sooner. */
  practise(): void {
    practiseReading()
  }

  /** A user without a request, with the stored delegation in force: for work that outlives its request. */
  async restore(did: string): Promise<AuthenticatedUser> {
    const caller: Caller = {
      did: did as Did, // the user was authenticated when the run began
      via: 'invocation',
      isSelf: false,
      expiresAt: Infinity,
      cids: [],
      carries: () => false,
    }
    return this.withDelegation(createUser(caller, 'missing', this.#judgement))
  }

  /** The user whom a personal key proves, with the stored delegation in force. */
  async byKey(key: KeyHolder, cids: readonly string[]): Promise<AuthenticatedUser> {
    if (!this.#options.signer) throw signingKeyNotLoaded()
    const { did, expiresAt } = key
    const caller: Caller = {
      ...{ did, expiresAt, key, cids },
      via: 'key',
      isSelf: false,
      carries: () => false,
    }
    return this.withDelegation(createUser(caller, 'missing', this.#judgement))
  }

  /** The same user with the stored delegation in force, where no header brought one. Never rejects. */
  withDelegation(user: AuthenticatedUser): AuthenticatedUser | Promise<AuthenticatedUser> {
    if (user.delegation || !this.#options.stored) return user
    const raw = this.#options.stored(user.did)
    // Most users have posted none, and it is known of most: their requests wait for nothing.
    return raw === undefined ? user : this.#withStored(user, raw)
  }

  async #withStored(
    user: AuthenticatedUser,
    stored: string | Promise<string | undefined>,
  ): Promise<AuthenticatedUser> {
    const { log } = this.#options
    try {
      const raw = await stored
      return raw === undefined ? user : (await this.#userWith(user, raw, 'stored')).user
    } catch (error) {
      if (isLookUpUnavailable(error))
        log.warn('The issuers of a stored delegation cannot be looked up')
      else report(log, error)
      return createUser(user, 'refused', this.#judgement)
    }
  }

  /** Verifies a delegation that `issuer` hands in. Rejects with a 400 that says what is wrong. */
  async verifyDelegation(raw: string, { issuer }: { issuer: string }): Promise<VerifiedDelegation> {
    if (!this.#options.signer) throw signingKeyNotLoaded()
    try {
      return describe(await this.#verdicts.delegation(raw, { issuer }))
    } catch (error) {
      if (isOurs(error)) throw error
      report(this.#options.log, error)
      const reason = error instanceof Refusal ? error.reason : 'not readable'
      throw new RuntimeError('BAD_REQUEST', `The delegation is refused: ${reason}.`, {
        details: { reason },
      })
    }
  }

  /** How much was examined since the start, and how many verdicts are kept. */
  stats(): VerdictStats & { readonly refused: number } {
    const { cached, ...stats } = this.#verdicts.stats
    return { ...stats, cached: cached + this.#recognitions, refused: this.#refused }
  }

  /** Who calls, by the invocation, or by the delegation alone where the oracle takes that for a proof. */
  async #callerOf(request: AuthRequest): Promise<AuthenticatedUser> {
    const { invocation, delegation } = readCredentials(request)
    if (invocation !== undefined) {
      const recognising = this.#recognised(invocation, delegation)
      const known = recognising instanceof Promise ? await recognising : recognising
      return known ?? this.#invoking(request, invocation, delegation)
    }
    if (delegation === undefined) refuse('no credential')
    if (!this.#options.delegationOnly) refuse('delegations alone do not authenticate here')
    return this.#delegating(request, delegation)
  }

  /** The user whom the same two headers proved a moment ago, unless a token has expired or was revoked since. */
  #recognised(
    invocation: string,
    delegation: string | undefined,
  ): AuthenticatedUser | undefined | Promise<AuthenticatedUser | undefined> {
    const known = this.#known(invocation, delegation)
    if (known === undefined) return undefined
    const revoked = this.#options.revocations.isRevoked(known.cids)
    if (typeof revoked !== 'boolean')
      return revoked.then((ended) => (ended ? this.#forget(invocation) : known.user))
    if (revoked) return this.#forget(invocation)
    this.#recognitions++
    return known.user
  }

  /** From now on the headers of a revoked token are nobody's, without a look at the database. */
  #forget(invocation: string): undefined {
    this.#familiar.delete(invocation)
  }

  #known(invocation: string, delegation: string | undefined): Familiar | undefined {
    const known = this.#familiar.get(invocation)
    const counts = known?.delegation === delegation && known && this.#now() < known.until
    return counts ? known : undefined
  }

  /** The user whom an invocation proves, with the delegation beside it in force. */
  async #invoking(
    request: AuthRequest,
    invocation: string,
    delegation: string | undefined,
  ): Promise<AuthenticatedUser> {
    const { address } = request
    const { did, expiresAt, bound, cids, until, isSelf } = await this.#verdicts.invocation(
      invocation,
      address,
    )
    if (bound) await checkBinding(bound, request, this.#replays)
    const carries = (raw: string) => raw === delegation
    const caller: Caller = { did, expiresAt, via: 'invocation', isSelf, cids, carries }
    if (delegation === undefined) {
      const user = createUser(caller, 'missing', this.#judgement)
      if (!bound) this.#familiar.set(invocation, { delegation, user, cids, until })
      return user
    }
    const { user, verdict } = await this.#userWith(caller, delegation, 'header', address)
    if (!bound && verdict)
      this.#familiar.set(invocation, {
        delegation,
        user,
        cids: [...cids, ...verdict.cids],
        until: Math.min(until, verdict.until),
      })
    return user
  }

  /** The user whom a delegation alone proves. */
  async #delegating({ address }: AuthRequest, delegation: string): Promise<AuthenticatedUser> {
    const verdict = await this.#verdicts.delegation(delegation, { calling: true, address })
    const { did, expiresAt, cids, token } = verdict
    const carries = (raw: string) => raw === delegation
    const caller: Caller = { did, expiresAt, via: 'delegation', isSelf: false, cids, carries }
    return createUser(caller, { root: token.root, source: 'header', expiresAt }, this.#judgement)
  }

  /** Puts a delegation in force for a caller whom something else has proved. */
  async #userWith(
    caller: Caller,
    raw: string,
    source: DelegationSource,
    address?: string,
  ): Promise<{ user: AuthenticatedUser; verdict?: DelegationVerdict }> {
    try {
      const verdict = await this.#verdicts.delegation(raw, { party: caller.did, address })
      const { token, expiresAt, did } = verdict
      const from = did === caller.did ? source : 'received'
      const both = { ...caller, cids: [...caller.cids, ...verdict.cids] }
      return {
        user: createUser(both, { root: token.root, source: from, expiresAt }, this.#judgement),
        verdict,
      }
    } catch (error) {
      const lapsed = error instanceof Refusal ? lapses[error.reason] : undefined
      if (lapsed === undefined) throw error
      return { user: createUser(caller, lapsed, this.#judgement) }
    }
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

/** Whether the server could not judge just now: its database is away or busy, or an issuer cannot be looked up. */
const isOurs = (error: unknown): error is RuntimeError =>
  error instanceof RuntimeError && error.status >= 500

/** Tells the log why, without the message of an unknown error: a library may quote the token that it choked on. */
function report(log: Log, error: unknown) {
  if (error instanceof Refusal)
    return log.info({ reason: error.reason }, 'a credential was refused')
  const { name = 'unknown', stack = '' } = error instanceof Error ? error : {}
  const at = stack.split('\n').find((line) => line.startsWith('    at '))
  log.error({ fault: name, at: at?.trim() }, 'authentication failed unexpectedly')
}
