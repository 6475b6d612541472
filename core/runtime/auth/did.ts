import { DID } from '@ucanto/core'
import type * as API from '@ucanto/interface'
import { base58btc } from 'multiformats/bases/base58'
import { refuse } from './refusal.ts'

/** A DID, as ucanto's types write it. */
export type Did = API.DID

const KEY = /^did:key:z[1-9A-HJ-NP-Za-km-z]{44,52}$/
const IXO = /^did:ixo:[A-Za-z0-9._-]+(:[A-Za-z0-9._-]+){0,3}$/
const MAX_LENGTH = 128
const ED25519_TAG = [0xed, 0x01]

/** Whether callers may be known by this DID: did:key with an Ed25519 key, or did:ixo. */
export function isCallerDid(did: string): did is Did {
  if (did.length > MAX_LENGTH) return false
  return IXO.test(did) || publicKeyOf(did) !== undefined
}

/** The 32 bytes of an Ed25519 did:key; undefined for every other DID, other key types included. */
export function publicKeyOf(did: string): Uint8Array | undefined {
  if (!KEY.test(did)) return undefined
  const tagged = base58btc.decode(did.slice('did:key:'.length))
  if (tagged.length !== 34 || tagged[0] !== ED25519_TAG[0] || tagged[1] !== ED25519_TAG[1])
    return undefined
  return tagged.slice(2)
}

/** The did:key of 32 bytes of public key. */
export function didOf(publicKey: Uint8Array): API.DIDKey {
  return `did:key:${base58btc.encode(Uint8Array.from([...ED25519_TAG, ...publicKey]))}`
}

/** The DID in the bytes of a principal, refused unless these bytes are its one canonical form. */
export function readPrincipal(principal: Uint8Array & { did(): string }): Did {
  const did = principal.did()
  if (!isCallerDid(did)) refuse('a DID of an unsupported kind')
  if (Buffer.compare(DID.parse(did), principal) !== 0) refuse('not a canonical UCAN')
  return did
}
