import { createHash } from 'node:crypto'
import { secp256k1 } from '@noble/curves/secp256k1'
import { toBech32 } from './bech32.ts'

// Loaded when something is signed or checked: turns that are within their credit need none of it.

/** A key of the ledger. The private part never leaves the object. */
export class LedgerKey {
  /** The 33 bytes by which others check signatures. */
  readonly publicKey: Uint8Array
  readonly #secret: Uint8Array

  constructor(secret: Uint8Array) {
    this.#secret = secret
    this.publicKey = secp256k1.getPublicKey(secret, true)
  }

  /** The address of the key. */
  address(prefix: string): string {
    return addressOf(this.publicKey, prefix)
  }

  /** Signs bytes: 64 bytes, the same each time. */
  sign(bytes: Uint8Array): Uint8Array {
    return secp256k1.sign(sha256(bytes), this.#secret, { lowS: true }).toCompactRawBytes()
  }
}

/** The address of a public key. */
export const addressOf = (publicKey: Uint8Array, prefix: string): string =>
  toBech32(prefix, createHash('ripemd160').update(sha256(publicKey)).digest())

/** Whether a signature over bytes is that of a key. */
export function isSignedBy(
  publicKey: Uint8Array,
  bytes: Uint8Array,
  signature: Uint8Array,
): boolean {
  try {
    return secp256k1.verify(signature, sha256(bytes), publicKey, { lowS: true })
  } catch {
    return false
  }
}

/** SHA-256. */
export const sha256 = (bytes: Uint8Array): Buffer => createHash('sha256').update(bytes).digest()
