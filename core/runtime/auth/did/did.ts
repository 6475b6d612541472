import type * as API from '@ucanto/interface'
import { base58btc } from 'multiformats/bases/base58'
import { Cache } from '../../base/cache.ts'
import { refuse } from './refusal.ts'

/** A DID, as ucanto's types write it. */
export type Did = API.DID

const keyGrammar = /^did:key:z[1-9A-HJ-NP-Za-km-z]{44,52}$/
const ixoGrammar = /^did:ixo:[A-Za-z0-9._-]+(:[A-Za-z0-9._-]+){0,3}$/
const webGrammar = /^did:web:[A-Za-z0-9.-]+(%3A\d{1,5})?(:[A-Za-z0-9._-]+){0,3}$/
const longestDid = 128
// The multicodec tags of an Ed25519 public key and of a DID that is no did:key, as UCANs have them.
const ed25519Prefix = Buffer.from('ed01', 'hex')
const otherPrefix = Buffer.from('9d1a', 'hex')

// Base 58 is slow, and the same few keys come again and again.
const dids = new Cache<API.DIDKey>(4096)

/** Whether callers may be known by this DID: did:key with an Ed25519 key, or did:ixo. */
export function isCallerDid(did: string): did is Did {
  if (did.length > longestDid) return false
  return ixoGrammar.test(did) || publicKeyOf(did) !== undefined
}

/** The 32 bytes of an Ed25519 did:key; undefined for every other DID, other key types included. */
export function publicKeyOf(did: string): Uint8Array | undefined {
  if (!keyGrammar.test(did)) return undefined
  const tagged = base58btc.decode(did.slice('did:key:'.length))
  return tagged.length === 34 && ed25519Prefix.equals(tagged.subarray(0, 2))
    ? tagged.slice(2)
    : undefined
}

/** The did:key of 32 bytes of public key. */
export function didOf(publicKey: Uint8Array): API.DIDKey {
  const tagged = Buffer.concat([ed25519Prefix, publicKey])
  const bytes = tagged.toString('latin1')
  let did = dids.get(bytes)
  if (did === undefined) {
    did = `did:key:${base58btc.encode(tagged)}`
    dids.set(bytes, did)
  }
  return did
}

/** The DID in the bytes of who acts. Only the one canonical form of each is read. */
export const readIssuer = (principal: Uint8Array): Did => readPrincipal(principal, [ixoGrammar])

/** The DID in the bytes of whom a token is for: an oracle may go by a did:web, by which nobody acts. */
export const readAudience = (principal: Uint8Array): Did =>
  readPrincipal(principal, [ixoGrammar, webGrammar])

function readPrincipal(principal: Uint8Array, grammars: readonly RegExp[]): Did {
  const tag = principal.subarray(0, 2)
  const rest = principal.subarray(2)
  if (ed25519Prefix.equals(tag) && rest.length === 32) return didOf(rest)
  const did = `did:${Buffer.from(rest).toString('latin1')}`
  const isKnown = did.length <= longestDid && grammars.some((grammar) => grammar.test(did))
  if (!otherPrefix.equals(tag) || !isKnown) refuse('a DID of an unsupported kind')
  return did as Did // the pattern has checked it
}
