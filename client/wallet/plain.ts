import { ed25519 } from '@noble/curves/ed25519.js'
import { sha256 } from '@noble/hashes/sha2.js'

// What a page computes that came by plain HTTP from another machine: browsers give such a page no `crypto.subtle`.

/** SHA-256. */
export const hashed = (bytes: Uint8Array): Uint8Array => sha256(bytes)

/** The public half of a seed, and how it signs: the same bytes that `crypto.subtle` makes. */
export const halvesOf = (seed: Uint8Array): PlainKey => ({
  publicKey: ed25519.getPublicKey(seed),
  sign: (payload) => ed25519.sign(payload, seed),
})

/** A key whose secret half lies in the page's memory. */
export interface PlainKey {
  readonly publicKey: Uint8Array
  readonly sign: (payload: Uint8Array) => Uint8Array
}
