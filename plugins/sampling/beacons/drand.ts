import { bls12_381 as bls } from '@noble/curves/bls12-381'
import { createHash } from 'node:crypto'
import type { Chain } from './chains.ts'
import type { DrandEvidence, Published } from './published.ts'

/** The value of a round, with what proves it. */
export interface VerifiedRound {
  readonly randomness: string
  readonly evidence: DrandEvidence
}

/**
 * Verifies a round with the key of its chain, and without any network: the signature, and that the randomness is the
 * SHA-256 of the signature. Returns the sentence of the first thing that is wrong instead.
 */
export function verifyRound(
  chain: Chain,
  round: number,
  published: Published,
): VerifiedRound | { readonly fault: string } {
  const { signature, randomness, previous_signature: previous } = published
  const of = `round ${round} of the chain ${chain.name}`
  if (published.round !== round)
    return { fault: `the round is ${published.round}, and ${round} was committed` }
  const digits = chain.signatureBytes * 2
  if (signature.length !== digits)
    return {
      fault: `a signature of the chain ${chain.name} has ${digits} hexadecimal digits, not ${signature.length}`,
    }
  const isChained = chain.scheme === 'pedersen-bls-chained'
  if (isChained && previous === undefined)
    return { fault: `${of} needs its previous_signature, which it signs` }
  const message = sha256(isChained ? bytesOf(previous ?? '') : new Uint8Array(), numbered(round))
  if (!isSigned(chain, message, signature))
    return { fault: `the signature is not that of ${of}: the key of the chain did not make it` }
  const value = sha256(bytesOf(signature)).toString('hex')
  if (randomness !== undefined && randomness !== value)
    return { fault: `the randomness of ${of} is ${value}, the hash of its signature` }
  return {
    randomness: value,
    evidence: { round, signature, ...(isChained && { previousSignature: previous ?? '' }) },
  }
}

/** Whether the key of the chain has signed a message; bytes that are no point of the curve are no signature. */
function isSigned({ scheme, publicKey }: Chain, message: Uint8Array, signature: string): boolean {
  try {
    if (scheme === 'bls-unchained-g1-rfc9380') {
      const point = bls.shortSignatures.hash(message, onG1)
      return bls.shortSignatures.verify(bytesOf(signature), point, bytesOf(publicKey))
    }
    const point = bls.longSignatures.hash(message, onG2)
    return bls.longSignatures.verify(bytesOf(signature), point, bytesOf(publicKey))
  } catch {
    return false
  }
}

/** The domains under which drand hashes messages to the curve, as RFC 9380 names its suites. */
const onG1 = 'BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_'
const onG2 = 'BLS_SIG_BLS12381G2_XMD:SHA-256_SSWU_RO_NUL_'

const bytesOf = (hex: string): Uint8Array => Uint8Array.from(Buffer.from(hex, 'hex'))

function sha256(...parts: readonly Uint8Array[]): Buffer {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(part)
  return hash.digest()
}

/** The number of a round as drand signs it: eight bytes, the largest first. */
function numbered(round: number): Uint8Array {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64BE(BigInt(round))
  return bytes
}
