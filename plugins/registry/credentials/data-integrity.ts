import { hash } from 'node:crypto'
import { base58btc } from 'multiformats/bases/base58'
import { RuntimeError, type Oracle } from '#core'
import { canonicalJson } from './canonical-json.ts'

/** The oracle's key, with which the registry signs. */
export type Key = Pick<NonNullable<Oracle['key']>, 'did' | 'sign'>

/** The oracle's key. Without a key the answer is 503: the caller made no mistake, and the same request works once there is a key. */
export function keyOf({ key }: Oracle): Key {
  if (key) return key
  throw new RuntimeError(
    'CANNOT_SIGN',
    'The oracle has no signing key, so it issues no credentials.',
    {
      status: 503,
      hint: 'Set ORACLE_MNEMONIC and start again; the claim waits meanwhile.',
    },
  )
}

/** A Data Integrity proof by the cryptosuite eddsa-jcs-2022. */
export interface Proof {
  readonly type: 'DataIntegrityProof'
  readonly cryptosuite: 'eddsa-jcs-2022'
  readonly created: string
  readonly verificationMethod: string
  readonly proofPurpose: 'assertionMethod'
  readonly '@context'?: unknown
  readonly proofValue: string
}

/**
 * The document with a proof that the signer asserts it: W3C's cryptosuite eddsa-jcs-2022, which canonicalises JSON
 * as it stands and so needs no context from the network, neither to sign nor to verify.
 */
export function withProof<T extends object>(
  document: T,
  key: Key,
  created: Date,
  verificationMethod = methodOf(key.did),
): T & { readonly proof: Proof } {
  const options = {
    type: 'DataIntegrityProof',
    cryptosuite: 'eddsa-jcs-2022',
    created: wholeSeconds(created),
    verificationMethod,
    proofPurpose: 'assertionMethod',
    ...('@context' in document && { '@context': document['@context'] }),
  } as const
  const proofValue = base58btc.encode(key.sign(proofBytes(document, options)))
  return { ...document, proof: { ...options, proofValue } }
}

/** The bytes that a proof signs: the hash of the proof's options, then the hash of the document, both in canonical form. */
export function proofBytes(document: object, options: object): Uint8Array {
  return proofBytesOf(digest(document), options)
}

/** The bytes that a proof signs, from a document's hash that is computed once even where the document has several proofs. */
export const proofBytesOf = (document: Uint8Array, options: object): Uint8Array =>
  Buffer.concat([digest(options), document])

/** The hash of a document or of options in canonical form. */
export const digest = (value: object): Uint8Array => hash('sha256', canonicalJson(value), 'buffer')

/** A did:key has one key, which is named after itself. */
const methodOf = (did: string) => `${did}#${did.slice('did:key:'.length)}`

/** A date-time of XML Schema without fractions, as proofs carry it. */
export const wholeSeconds = (date: Date): string => date.toISOString().replace(/\.\d+Z$/, 'Z')
