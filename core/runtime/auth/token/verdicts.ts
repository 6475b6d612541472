import { hash } from 'node:crypto'
import { bindingOf } from './binding.ts'
import { createCache, type Cache } from '../../base/cache.ts'
import { callerOf, grantsCalling } from './calling.ts'
import type { Did } from '../did/did.ts'
import { createLane } from '../../base/lane.ts'
import { refuse } from '../did/refusal.ts'
import type { DidResolver } from '../did/resolver.ts'
import { MAX_CHARACTERS, readToken, type Link, type Tally, type Token } from './token.ts'
import { verifySignatures } from './verify.ts'

/** What remains of a token once it is verified. */
interface Verdict {
  /** Whom it speaks for. */
  readonly did: Did
  readonly cids: readonly string[]
  /** Milliseconds since 1970; the earliest end in the chain. */
  readonly expiresAt: number
  /** Milliseconds since 1970; until when it need not be verified again: keys can be withdrawn. */
  readonly until: number
}
/** `bound` is the invocation itself where it is bound to one request, and so serves once. */
type InvocationVerdict = Verdict & { readonly bound: Link | undefined }
/** A delegation is kept whole: what it grants is asked later. */
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

/** Judges tokens: each once, and its revocation every time. Rejects with a refusal. `address` is who pays for look-ups. */
interface Verdicts {
  invocation(text: string, address?: string): Promise<InvocationVerdict>
  delegation(text: string, demands: DelegationDemands): Promise<DelegationVerdict>
  readonly stats: VerdictStats
}

/** What is asked of a delegation beside its soundness. */
interface DelegationDemands {
  /** Who must have signed it for the oracle. */
  readonly issuer?: string
  /** Who must either have signed it for the oracle, or have been given it by whoever signed. */
  readonly party?: string
  /** It must let its bearer call. */
  readonly calling?: boolean
  /** Who pays for the look-ups of issuers. No part of the verdict. */
  readonly address?: string
}

export interface VerdictStats extends Readonly<Tally> {
  /** Verdicts remembered. */
  readonly invocations: number
  readonly delegations: number
  /** Tokens that needed no second look. */
  readonly cached: number
  /** Tokens whose signatures wait for their turn. */
  readonly waiting: number
}

/** A wallet whose clock runs ahead may date a token a little into the future. Nothing else has slack. */
const CLOCK_SLACK_MS = 5_000
/** A delegation that claims to live longer was dated in milliseconds, or by mistake. */
const MAX_DELEGATION_MS = 10 * 366 * 86_400_000
const MAX_INVOCATIONS = 10_000
const MAX_DELEGATIONS = 4_000

/** The examination of tokens, cheapest check first, and the memory of those that passed. */
export function createVerdicts(options: VerdictOptions): Verdicts {
  const { audiences, maxTtlSeconds, resolver, revocations, now } = options
  const lane = createLane()
  const tally: Tally = { blocks: 0, signatures: 0 }
  let cached = 0
  const invocations = createVerdictCache<InvocationVerdict>(MAX_INVOCATIONS)
  const delegations = createVerdictCache<DelegationVerdict>(MAX_DELEGATIONS)

  function checkTerms({ root, links }: Token, maxLife: number, party?: string) {
    if (!audiences.has(root.audience) && root.audience !== party) refuse('for another audience')
    const time = now()
    for (const { expiration, notBefore } of links) {
      if (expiration * 1000 <= time) refuse('expired')
      if (notBefore * 1000 > time + CLOCK_SLACK_MS) refuse('not valid yet')
    }
    if (root.expiration === Infinity) refuse('never expires')
    if (root.expiration * 1000 - time > maxLife) refuse('lives too long')
  }

  async function verified(token: Token, did: Did, address: string | undefined): Promise<Verdict> {
    const { links } = token
    const keysUntil = await verifySignatures(token, { resolver, lane, tally, address })
    const expiresAt = Math.min(...links.map((link) => link.expiration)) * 1000
    const cids = links.map((link) => link.cid)
    return { did, cids, expiresAt, until: Math.min(expiresAt, keysUntil) }
  }

  async function examineInvocation(text: string, address?: string): Promise<InvocationVerdict> {
    const token = readToken(text, tally)
    checkTerms(token, maxTtlSeconds * 1000)
    const verdict = await verified(token, callerOf(token.root, audiences), address)
    return { ...verdict, bound: bindingOf(token.root) && token.root }
  }

  async function examineDelegation(
    text: string,
    { issuer, party, calling, address }: DelegationDemands,
  ): Promise<DelegationVerdict> {
    const token = readToken(text, tally)
    const { root } = token
    if (issuer !== undefined && root.issuer !== issuer) refuse('of another user')
    // A caller may bring what somebody else made out to him: it says nothing about who calls.
    const received = party !== undefined && root.issuer !== party
    if (received && root.audience !== party) refuse('of another user')
    checkTerms(token, MAX_DELEGATION_MS, received ? party : undefined)
    if (calling && !grantsCalling(token.root)) refuse('does not grant calling')
    return { ...(await verified(token, token.root.issuer, address)), token }
  }

  async function judge<V extends Verdict>(
    cache: VerdictCache<V>,
    text: string,
    demands: string,
    examine: () => Promise<V>,
  ): Promise<V> {
    if (text.length > MAX_CHARACTERS) refuse('too long')
    const key = `${hash('sha256', text, 'base64')} ${demands}`
    let verdict = cache.get(key)
    if (verdict && now() < verdict.until) cached++
    else verdict = await cache.once(key, examine)
    if (await revocations.isRevoked(verdict.cids)) refuse('revoked')
    return verdict
  }

  return {
    invocation: (text, address) =>
      judge(invocations, text, '', () => examineInvocation(text, address)),
    delegation: (text, demands) =>
      judge(delegations, text, `${demands.issuer} ${demands.party} ${demands.calling}`, () =>
        examineDelegation(text, demands),
      ),
    get stats() {
      return {
        invocations: invocations.size,
        delegations: delegations.size,
        cached,
        waiting: lane.waiting,
        ...tally,
      }
    },
  }
}

interface VerdictCache<V> extends Pick<Cache<V>, 'get' | 'size'> {
  /** Examines, once for all who ask meanwhile, and remembers what passed. */
  once(key: string, examine: () => Promise<V>): Promise<V>
}

/**
 * Refusals are not remembered: a flood of bad tokens must not push out the good ones, and what is
 * not valid yet, or cannot be looked up just now, may be later. Nor are tokens that serve once.
 */
function createVerdictCache<V extends Verdict & { bound?: Link }>(max: number): VerdictCache<V> {
  const cache = createCache<V>(max)
  const underWay = new Map<string, Promise<V>>()

  async function examineAndKeep(key: string, examine: () => Promise<V>): Promise<V> {
    try {
      const verdict = await examine()
      if (!verdict.bound) cache.set(key, verdict)
      return verdict
    } finally {
      underWay.delete(key)
    }
  }

  return {
    get: cache.get,
    get size() {
      return cache.size
    },
    once(key, examine) {
      let examination = underWay.get(key)
      if (!examination) {
        examination = examineAndKeep(key, examine)
        underWay.set(key, examination)
      }
      return examination
    },
  }
}
