import { hash } from 'node:crypto'
import { bindingOf } from './binding.ts'
import { Cache } from '../../base/cache.ts'
import { callerOf, grantsCalling } from './calling.ts'
import type { Did } from '../did/did.ts'
import { Lane } from '../../base/lane.ts'
import { refuse } from '../did/refusal.ts'
import type { DidResolver } from '../did/resolver.ts'
import { mostCharacters, readToken, type Link, type Tally, type Token } from './token.ts'
import { verifySignatures } from './verify.ts'

/** What remains of a token once it is verified. */
interface Verdict {
  /** Whom the token speaks for. */
  readonly did: Did
  readonly cids: readonly string[]
  /** Milliseconds since 1970; the earliest end in the chain. */
  readonly expiresAt: number
  /** Milliseconds since 1970; until when the token need not be verified again: keys can be withdrawn. */
  readonly until: number
}
/**
 * `bound` is the invocation itself where the token is bound to one request, and so serves once. `isSelf`: the DID that it
 * speaks for signed it.
 */
type InvocationVerdict = Verdict & { readonly bound: Link | undefined; readonly isSelf: boolean }
/** The verdict on a delegation, with the whole token: questions about its grants come later. */
export type DelegationVerdict = Verdict & { readonly token: Token }

/** Where revocations are looked up. */
export interface Revocations {
  isRevoked(cids: readonly string[]): boolean | Promise<boolean>
}

interface VerdictOptions {
  /** The DIDs that a token may be meant for. */
  readonly audiences: ReadonlySet<string>
  readonly maxTtlSeconds: number
  readonly resolver: DidResolver
  readonly revocations: Revocations
  readonly now: () => number
}

/** What a delegation must fulfil beside being sound. */
interface DelegationDemands {
  /** Who must have signed the delegation for the oracle. */
  readonly issuer?: string
  /** Who must either have signed the delegation for the oracle, or be its audience. */
  readonly party?: string
  /** Whether the delegation must let its bearer call. */
  readonly calling?: boolean
  /** The address that pays for the look-ups of issuers. No part of the verdict. */
  readonly address?: string
}

/** How much was examined since the start, and how many verdicts are kept. */
export interface VerdictStats extends Readonly<Tally> {
  /** Verdicts remembered. */
  readonly invocations: number
  readonly delegations: number
  /** Tokens that needed no second look. */
  readonly cached: number
  /** Tokens whose signatures wait for their turn. */
  readonly waiting: number
}

/** A wallet whose clock runs ahead may date a token so far into the future. No other check of time has slack. */
const clockSlackMs = 5_000
/** A delegation that claims to live longer was dated in milliseconds, or by mistake. */
const longestDelegationMs = 10 * 366 * 86_400_000
const mostInvocations = 10_000
const mostDelegations = 4_000

/**
 * The examination of tokens, cheapest check first, and the memory of those that passed. Each token is examined once, and
 * its revocation every time. Rejects with a refusal; `address` is who pays for look-ups.
 */
export class Verdicts {
  readonly #audiences: ReadonlySet<string>
  readonly #maxInvocationMs: number
  readonly #resolver: DidResolver
  readonly #revocations: Revocations
  readonly #now: () => number
  readonly #lane = new Lane()
  readonly #tally: Tally = { blocks: 0, signatures: 0 }
  readonly #invocations = new VerdictCache<InvocationVerdict>(mostInvocations)
  readonly #delegations = new VerdictCache<DelegationVerdict>(mostDelegations)
  #cached = 0

  constructor(options: VerdictOptions) {
    this.#audiences = options.audiences
    this.#maxInvocationMs = options.maxTtlSeconds * 1000
    this.#resolver = options.resolver
    this.#revocations = options.revocations
    this.#now = options.now
  }

  /** The verdict on the token of a call. */
  invocation(text: string, address?: string): Promise<InvocationVerdict> {
    return this.#judge(this.#invocations, text, '', () => this.#examineInvocation(text, address))
  }

  /** The verdict on a delegation, by these demands. */
  delegation(text: string, demands: DelegationDemands): Promise<DelegationVerdict> {
    const key = `${demands.issuer} ${demands.party} ${demands.calling}`
    return this.#judge(this.#delegations, text, key, () => this.#examineDelegation(text, demands))
  }

  get stats(): VerdictStats {
    return {
      invocations: this.#invocations.size,
      delegations: this.#delegations.size,
      cached: this.#cached,
      waiting: this.#lane.waiting,
      ...this.#tally,
    }
  }

  async #judge<V extends Verdict>(
    cache: VerdictCache<V>,
    text: string,
    demands: string,
    examine: () => Promise<V>,
  ): Promise<V> {
    if (text.length > mostCharacters) refuse('too long')
    const key = `${hash('sha256', text, 'base64')} ${demands}`
    let verdict = cache.get(key)
    if (verdict && this.#now() < verdict.until) this.#cached++
    else verdict = await cache.once(key, examine)
    if (await this.#revocations.isRevoked(verdict.cids)) refuse('revoked')
    return verdict
  }

  async #examineInvocation(text: string, address?: string): Promise<InvocationVerdict> {
    const token = readToken(text, this.#tally)
    this.#checkTerms(token, this.#maxInvocationMs)
    const verdict = await this.#verified(token, callerOf(token.root, this.#audiences), address)
    const isSelf = token.root.issuer === verdict.did
    return { ...verdict, bound: bindingOf(token.root) && token.root, isSelf }
  }

  async #examineDelegation(
    text: string,
    { issuer, party, calling, address }: DelegationDemands,
  ): Promise<DelegationVerdict> {
    const token = readToken(text, this.#tally)
    const { root } = token
    if (issuer !== undefined && root.issuer !== issuer) refuse('of another user')
    // A caller may bring a delegation that somebody else made out to the caller: it says nothing about who calls.
    const received = party !== undefined && root.issuer !== party
    if (received && root.audience !== party) refuse('of another user')
    this.#checkTerms(token, longestDelegationMs, received ? party : undefined)
    if (calling && !grantsCalling(token.root)) refuse('does not grant calling')
    return { ...(await this.#verified(token, token.root.issuer, address)), token }
  }

  #checkTerms({ root, links }: Token, maxLife: number, party?: string): void {
    if (!this.#audiences.has(root.audience) && root.audience !== party)
      refuse('for another audience')
    const time = this.#now()
    for (const { expiration, notBefore } of links) {
      if (expiration * 1000 <= time) refuse('expired')
      if (notBefore * 1000 > time + clockSlackMs) refuse('not valid yet')
    }
    if (root.expiration === Infinity) refuse('never expires')
    if (root.expiration * 1000 - time > maxLife) refuse('lives too long')
  }

  async #verified(token: Token, did: Did, address: string | undefined): Promise<Verdict> {
    const { links } = token
    const keysUntil = await verifySignatures(token, {
      resolver: this.#resolver,
      lane: this.#lane,
      tally: this.#tally,
      address,
    })
    const expiresAt = Math.min(...links.map((link) => link.expiration)) * 1000
    const cids = links.map((link) => link.cid)
    return { did, cids, expiresAt, until: Math.min(expiresAt, keysUntil) }
  }
}

/**
 * The verdicts on good tokens. Refusals are not kept: a flood of bad tokens must not push out the good ones, and a token
 * that is not valid yet, or whose issuer cannot be looked up just now, may pass later. Nor are tokens that serve once.
 */
class VerdictCache<V extends Verdict & { bound?: Link }> {
  readonly #kept: Cache<V>
  readonly #underWay = new Map<string, Promise<V>>()

  constructor(max: number) {
    this.#kept = new Cache(max)
  }

  get(key: string): V | undefined {
    return this.#kept.get(key)
  }

  get size(): number {
    return this.#kept.size
  }

  /** Examines a token, once for all who ask meanwhile, and keeps the verdict when the token passed. */
  once(key: string, examine: () => Promise<V>): Promise<V> {
    let examination = this.#underWay.get(key)
    if (!examination) {
      examination = this.#examineAndKeep(key, examine)
      this.#underWay.set(key, examination)
    }
    return examination
  }

  async #examineAndKeep(key: string, examine: () => Promise<V>): Promise<V> {
    try {
      const verdict = await examine()
      if (!verdict.bound) this.#kept.set(key, verdict)
      return verdict
    } finally {
      this.#underWay.delete(key)
    }
  }
}
