import type { OracleClient } from '../core/client.ts'
import { OracleError } from '../core/error.ts'
import type { CallSecurity } from '../core/calls.ts'
import { trimmed } from '../core/request.ts'

/** What shows who the other end is. */
export interface Proof {
  readonly did: string
  readonly key: string
  readonly signature: string
}

/** What is proven: that these two ends are in this call. */
export interface Proven {
  readonly callId: string
  readonly sessionId: string
  /** The descriptions of this end and of the other. */
  readonly offer: string
  readonly answer: string
  readonly proof: Proof | undefined
}

/** Which oracle the page means, and how its key can be found. */
export interface Meant {
  readonly client: OracleClient
  readonly oracleDid: string
  readonly apiUrl: string
}

/** Checks that the oracle signed who the two ends are. Throws `call_not_verified`: then nothing may be sent. */
export async function verified(proven: Proven, meant: Meant): Promise<CallSecurity> {
  const { callId, sessionId, offer, answer, proof } = proven
  const fingerprint = fingerprintOf(answer)
  if (!proof || typeof proof.key !== 'string' || typeof proof.signature !== 'string')
    throw refused('there is no proof')
  const key = keyOf(proof.key)
  if (!key) throw refused('the proof names no key')
  const lines = [
    'oracle-call-v1',
    callId,
    sessionId,
    fingerprintOf(offer).toUpperCase(),
    fingerprint,
  ]
  if (!(await isSigned(key, lines.join('\n'), proof.signature)))
    throw refused('the proof is of another call')
  return { verifiedBy: await ownerOf(key, proof.key, meant), fingerprint }
}

/** The one SHA-256 fingerprint of a description. */
export function fingerprintOf(sdp: string): string {
  const told = [...sdp.matchAll(/^a=fingerprint:(\S+) (\S+)/gm)]
  const one = new Set(told.map(([, kind, print]) => `${kind?.toLowerCase()} ${print}`))
  const [first = ''] = one
  if (one.size !== 1 || !first.startsWith('sha-256 ')) throw refused('its certificate is unclear')
  return first.slice('sha-256 '.length)
}

async function isSigned(key: Uint8Array, text: string, signature: string): Promise<boolean> {
  const { subtle } = globalThis.crypto ?? {}
  if (!subtle) throw refused('that needs https')
  try {
    const made = await subtle.importKey('raw', Uint8Array.from(key), 'Ed25519', false, ['verify'])
    const signed = fromBase64(signature)
    return await subtle.verify('Ed25519', made, signed, new TextEncoder().encode(text))
  } catch (cause) {
    throw refused('this browser cannot check', cause)
  }
}

/** By what the key is the oracle's: its DID, the DID's document, or the word of the server that the page asks. */
async function ownerOf(
  key: Uint8Array,
  did: string,
  { client, oracleDid, apiUrl }: Meant,
): Promise<CallSecurity['verifiedBy']> {
  if (oracleDid.startsWith('did:key:')) {
    if (did === oracleDid) return 'did'
    throw refused('another key signed')
  }
  const { documentAddress } = await import('../later/resolve.ts')
  const address = documentAddress(oracleDid, client.options.resolverUrl)
  const found = await documentAt(address ?? `${trimmed(apiUrl)}/.well-known/did.json`)
  const names = [found.id, ...(found.alsoKnownAs ?? [])]
  if (address ? found.id === oracleDid : names.includes(oracleDid))
    if (signersOf(found).some((one) => same(one, key))) return address ? 'document' : 'origin'
  throw refused('another key signed')
}

interface Method {
  readonly id?: string
  readonly publicKeyMultibase?: string
  readonly publicKeyJwk?: { readonly crv?: string; readonly x?: string }
}

interface DidDocument {
  readonly id?: string
  readonly alsoKnownAs?: readonly string[]
  readonly verificationMethod?: readonly Method[]
  readonly assertionMethod?: readonly (string | Method)[]
  readonly authentication?: readonly (string | Method)[]
}

async function documentAt(address: string): Promise<DidDocument> {
  try {
    const headers = { accept: 'application/did-resolution, application/json' }
    const response = await fetch(address, { headers, signal: AbortSignal.timeout(10_000) })
    const answer: { didDocument?: DidDocument } & DidDocument = await response.json()
    if (!response.ok) throw new Error(String(response.status))
    return answer.didDocument ?? answer
  } catch (cause) {
    throw refused('its DID document cannot be read', cause)
  }
}

/** The Ed25519 keys that sign for a DID, by its document. A key for encryption alone signs nothing. */
function signersOf(document: DidDocument): Uint8Array[] {
  const { verificationMethod = [], assertionMethod = [], authentication = [] } = document
  const signing = [...assertionMethod, ...authentication]
  const ids = signing.map((one) => absolute(document, typeof one === 'string' ? one : ''))
  const methods = [
    ...signing.filter((one) => typeof one !== 'string'),
    ...verificationMethod.filter(({ id = '' }) => ids.includes(absolute(document, id))),
  ]
  return methods.flatMap(({ publicKeyMultibase = '', publicKeyJwk }) => {
    const jwk = publicKeyJwk?.crv === 'Ed25519' ? publicKeyJwk.x : undefined
    return keyOf(`did:key:${publicKeyMultibase}`) ?? (jwk === undefined ? [] : fromBase64(jwk))
  })
}

const absolute = ({ id = '' }: DidDocument, name: string) =>
  name.startsWith('#') ? id + name : name
const same = (a: Uint8Array, b: Uint8Array) =>
  a.length === b.length && a.every((x, i) => x === b[i])
const fromBase64 = (text: string) =>
  Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (sign) =>
    sign.charCodeAt(0),
  )

const alphabet = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'

/** The 32 bytes of an Ed25519 did:key; undefined for any other. */
function keyOf(did: string): Uint8Array | undefined {
  const text = did.startsWith('did:key:z') ? did.slice('did:key:z'.length) : ''
  if (text.length < 40 || text.length > 60) return undefined
  let value = 0n
  for (const sign of text) {
    const digit = alphabet.indexOf(sign)
    if (digit < 0) return undefined
    value = value * 58n + BigInt(digit)
  }
  const hex = value.toString(16)
  // The kind of an Ed25519 key, then its 32 bytes.
  if (hex.length !== 68 || !hex.startsWith('ed01')) return undefined
  return Uint8Array.from(hex.slice(4).match(/../g) ?? [], (pair) => Number.parseInt(pair, 16))
}

const refused = (why: string, cause?: unknown) =>
  new OracleError(
    'call_not_verified',
    `It cannot be shown that the oracle is the other end: ${why}. Nothing was sent.`,
    { cause },
  )
