import { UCAN } from '@ucanto/core'
import { principal } from '../did/ed25519.ts'
import type { Lane } from '../../base/lane.ts'
import { refuse } from '../did/refusal.ts'
import type { DidResolver } from '../did/resolver.ts'
import type { Link, Tally, Token } from './token.ts'

/** How many issuers of a token are looked up: one request from outside must not make this server send many. */
const mostLookups = 3

/**
 * Verifies every signature of a token, each once, from the root to the proofs, and stops at the
 * first that does not hold. All keys are looked up before the first verification. Resolves to the time until when these
 * keys may be believed, in milliseconds since 1970.
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
    /** The address whose share the look-ups cost. */
    address: string | undefined
  },
): Promise<number> {
  const issuers = [...new Set(token.links.map((link) => link.issuer))]
  if (issuers.filter((did) => !did.startsWith('did:key:')).length > mostLookups)
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
  // The verifier answers at once, so ucanto does too. Only `true` counts: a promise would be truthy, whatever it holds.
  return UCAN.verifySignature(ucan, principal.parse(key).withDID(issuer)) === true
}
