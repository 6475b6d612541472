import { createHash, createPrivateKey, createPublicKey, sign } from 'node:crypto'
import { RuntimeError } from '../../../errors.ts'
import { didOf, type Did } from './did.ts'

const pkcs8Prefix = Buffer.from('302e020100300506032b657004220420', 'hex')

/** The key of the oracle. The private part never leaves the closure: nothing here prints it. */
export interface Signer {
  /** The did:key of the signer. */
  readonly did: Did
  readonly publicKey: Uint8Array
  sign(bytes: Uint8Array): Uint8Array
  didDocument(addresses: DocumentAddresses): DidDocument
}

/** Where the oracle answers, and the DIDs it is also known by. */
interface DocumentAddresses {
  readonly apiUrl: string
  readonly wsUrl: string
  readonly alsoKnownAs?: readonly string[]
  /** The DID whose document it is, where that is not the signer's own. */
  readonly id?: string
}

/** A W3C DID document, as far as the oracle has one. */
export interface DidDocument {
  readonly '@context': readonly string[]
  readonly id: string
  readonly alsoKnownAs?: readonly string[]
  readonly verificationMethod: readonly {
    readonly id: string
    readonly type: string
    readonly controller: string
    readonly publicKeyMultibase: string
  }[]
  readonly authentication: readonly string[]
  readonly assertionMethod: readonly string[]
  readonly capabilityInvocation: readonly string[]
  readonly capabilityDelegation: readonly string[]
  readonly service: readonly {
    readonly id: string
    readonly type: string
    readonly serviceEndpoint: string
  }[]
}

/**
 * The signer of a mnemonic: its Ed25519 seed is the SHA-256 of the trimmed words. Existing oracles
 * derive theirs in the same way, so they keep their DID.
 */
export function signerFromMnemonic(mnemonic: string): Signer {
  const words = mnemonic.trim()
  if (words === '')
    throw new RuntimeError('ENV_INVALID', 'ORACLE_MNEMONIC is set to nothing but spaces.', {
      hint: 'Set the words of the mnemonic, or unset the variable.',
    })
  const seed = createHash('sha256').update(words, 'utf8').digest()
  const key = createPrivateKey({
    key: Buffer.concat([pkcs8Prefix, seed]),
    format: 'der',
    type: 'pkcs8',
  })
  const publicKey = new Uint8Array(
    createPublicKey(key).export({ format: 'der', type: 'spki' }).subarray(-32),
  )
  const did = didOf(publicKey)
  return {
    did,
    publicKey,
    sign: (bytes) => new Uint8Array(sign(null, bytes, key)),
    didDocument: (addresses) => documentOf(did, addresses),
  }
}

function documentOf(signer: Did, document: DocumentAddresses): DidDocument {
  const { apiUrl, wsUrl, alsoKnownAs, id: did = signer } = document
  const multibase = signer.slice('did:key:'.length)
  const key = `${did}#${multibase}`
  return {
    '@context': [
      'https://www.w3.org/ns/did/v1',
      'https://w3id.org/security/suites/ed25519-2020/v1',
    ],
    id: did,
    ...(alsoKnownAs?.length ? { alsoKnownAs } : {}),
    verificationMethod: [
      {
        id: key,
        type: 'Ed25519VerificationKey2020',
        controller: did,
        publicKeyMultibase: multibase,
      },
    ],
    authentication: [key],
    assertionMethod: [key],
    capabilityInvocation: [key],
    capabilityDelegation: [key],
    service: [
      { id: `${did}#api`, type: 'oracleService', serviceEndpoint: apiUrl },
      { id: `${did}#ws`, type: 'wsService', serviceEndpoint: wsUrl },
    ],
  }
}
