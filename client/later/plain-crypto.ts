import { ed25519 } from '@noble/curves/ed25519'
import { sha256 as hash } from '@noble/hashes/sha2'

/** The two things that a page needs of `crypto.subtle`, for pages that came by plain HTTP and have none. */
export const publicKeyOf = (seed: Uint8Array): Uint8Array => ed25519.getPublicKey(seed)

/** An Ed25519 signature, equal to the one that `crypto.subtle` makes. */
export const signBy = (seed: Uint8Array, payload: Uint8Array): Uint8Array =>
  ed25519.sign(payload, seed)

/** SHA-256. */
export const sha256 = (bytes: Uint8Array): Uint8Array => hash(bytes)
