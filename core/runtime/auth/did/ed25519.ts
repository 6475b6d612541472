import { createPublicKey, verify, type KeyObject } from 'node:crypto'
import { Signature } from '@ucanto/core'
import type * as API from '@ucanto/interface'
import { Cache } from '../../base/cache.ts'
import { didOf, publicKeyOf } from './did.ts'
import { refuse } from './refusal.ts'

const spkiPrefix = Buffer.from('302a300506032b6570032100', 'hex')
const fieldPrime = 2n ** 255n - 19n
/** The y of every point whose order divides eight. Under such a key one signature fits many messages. */
const smallOrder = new Set([
  0n,
  1n,
  fieldPrime - 1n,
  0x05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826n,
  0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd83d3d706a17c7n,
])

const verifiers = new Cache<API.Verifier<API.DIDKey>>(2048)

/**
 * ucanto's `principal` option: what verifies for a did:key. On node:crypto, which took a sixteenth
 * of the time of the verifier that ucanto brings along. A key that is not sound is refused.
 */
export const principal = {
  parse(did: string): API.Verifier<API.DIDKey> {
    const known = verifiers.get(did)
    if (known) return known
    const publicKey = publicKeyOf(did)
    if (!publicKey) refuse('a DID of an unsupported kind')
    const verifier = verifierOf(publicKey)
    verifiers.set(did, verifier)
    return verifier
  },
} satisfies API.PrincipalParser

function verifierOf(publicKey: Uint8Array): API.Verifier<API.DIDKey> {
  if (!isSound(publicKey)) refuse('a key or signature of small order')
  const key = createPublicKey({
    key: Buffer.concat([spkiPrefix, publicKey]),
    format: 'der',
    type: 'spki',
  })
  const did = didOf(publicKey)
  return named(did, did, key)
}

function named<ID extends API.DID>(id: ID, did: API.DIDKey, key: KeyObject): API.Verifier<ID> {
  return {
    did: () => id,
    toDIDKey: () => did,
    withDID: (other) => named(other, did, key),
    verify: (payload, { code, raw }) =>
      code === Signature.EdDSA &&
      raw.length === 64 &&
      isSound(raw.subarray(0, 32)) &&
      verify(null, payload, key, raw),
  }
}

/** Whether 32 bytes are a point fit for a key or a signature: canonical, and not of small order. */
function isSound(point: Uint8Array): boolean {
  const bytes = Buffer.from(point).reverse()
  bytes[0]! &= 0x7f // the top bit is the sign of x
  const y = BigInt(`0x${bytes.toString('hex')}`)
  return y < fieldPrime && !smallOrder.has(y)
}
