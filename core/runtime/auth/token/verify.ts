import { UCAN } from '@ucanto/core'
import { principal } from '../did/ed25519.ts'
import type { Lane } from '../../base/lane.ts'
import { refuse } from '../did/refusal.ts'
import type { DidResolver } from '../did/resolver.ts'
import type { Link, Tally, Token } from './token.ts'

/** One request from outside must not become many of ours. */
const MAX_LOOKUPS = 3

/**
 * Verifies every signature of a token, each once, from the root to the proofs, and stops at the
 * first that does not hold. Keys that must be looked up are, before the first verification. Answers
 * until when these keys may be believed, in milliseconds since 1970.
 */
export async function verifySignatures(
  token: Token,
  {
    resolver,
    lane,
    tally,
    address,
  }: {
    resolver: DidResolver
    lane: Lane
    tally: Tally
    /** Whose share of the look-ups it costs. */
    address: string | undefined
  },
): Promise<number> {
  const issuers = [...new Set(token.links.map((link) => link.issuer))]
  if (issuers.filter((did) => !did.startsWith('did:key:')).length > MAX_LOOKUPS)
    refuse('too many issuers to look up')
  const found = new Map(
    await Promise.all(
      issuers.map(async (did) => [did, await resolver.verificationKeys(did, address)] as const),
    ),
  )

  await lane.run(() => {
    for (const link of token.links)
      if (!found.get(link.issuer)!.keys.some((key) => isSignedBy(link, key, tally)))
        refuse('a signature does not hold')
  })
  return Math.min(...[...found.values()].map(({ until }) => until))
}

function isSignedBy({ ucan, issuer }: Link, key: string, tally: Tally): boolean {
  tally.signatures++
  // The verifier answers at once, so ucanto does too; a promise here would be a truthy refusal.
  return UCAN.verifySignature(ucan, principal.parse(key).withDID(issuer)) === true
}
