import { Delegation, UCAN } from '@ucanto/core'
import type * as API from '@ucanto/interface'
import { readArchive, type Block } from './archive.ts'
import { readAudience, readIssuer, type Did } from '../did/did.ts'
import { refuse } from '../did/refusal.ts'

/** The longest token that is read at all. */
export const mostCharacters = 6144
const deepestChain = 5
const mostProofs = 3
const mostCapabilities = 8
const longestNonce = 256

// varint(EdDSA), varint(64), then the 64 bytes. ucanto reads longer forms of the same numbers too.
const signatureStart = Buffer.from('eda10340', 'hex')
const signatureBytes = 68

/** One delegation of a token, read and canonical, its signature not yet verified. */
export interface Link {
  readonly cid: string
  readonly issuer: Did
  readonly audience: Did
  /** Seconds since 1970; Infinity when it never ends. */
  readonly expiration: number
  readonly notBefore: number
  readonly signature: Uint8Array
  readonly ucan: API.UCAN.View
  readonly delegation: API.Delegation
  readonly proofs: readonly Link[]
}

/** A token whose structure is right; its signatures are not yet verified. */
export interface Token {
  readonly root: Link
  /** Every delegation once, the root first. */
  readonly links: readonly Link[]
}

/** What was done for a request, so that tests can count work instead of timing it. */
export interface Tally {
  blocks: number
  signatures: number
}

/**
 * Reads a token strictly. A signature covers the JSON form of a UCAN, not its bytes, so several
 * encodings could carry one signature and escape a revocation by CID: everything that is not the
 * one canonical encoding is refused.
 */
export function readToken(text: string, tally: Tally): Token {
  if (text.length > mostCharacters) refuse('too long')
  const archive = Buffer.from(text, 'base64')
  if (archive.toString('base64') !== text) refuse('not standard padded base64')

  const blocks = readArchive(archive)
  const store = new Map(blocks.map((block) => [block.cid.toString(), block]))
  const order: Link[] = []
  const known = new Map<string, Link>()
  const visit = (block: Block, depth: number): Link => {
    if (depth > deepestChain) refuse('too deep')
    const delegation = viewOf(block, store)
    const ucan = readUcan(delegation, tally)
    const proofs = ucan.proofs.map((proof) => {
      const cid = proof.toString()
      const earlier = known.get(cid)
      if (earlier) {
        if (depth + height(earlier) > deepestChain) refuse('too deep')
        return earlier
      }
      const found = store.get(cid)
      if (!found) refuse('a proof is missing, repeated, out of order or not referenced')
      return visit(found, depth + 1)
    })
    if (new Set(proofs).size !== proofs.length)
      refuse('a proof is missing, repeated, out of order or not referenced')
    const link = linkOf(delegation, ucan, proofs)
    known.set(link.cid, link)
    order.push(link)
    return link
  }
  const root = visit(blocks.at(-1)!, 1)

  // ucanto writes proofs before what they prove, each once. The same walk gives the same order.
  const inOrder = (block: Block, at: number) => block.cid.toString() === order[at]?.cid
  if (order.length !== blocks.length || !blocks.every(inOrder))
    refuse('a proof is missing, repeated, out of order or not referenced')
  return { root, links: order.reverse() }
}

function linkOf(delegation: API.Delegation, ucan: API.UCAN.View, proofs: readonly Link[]): Link {
  const issuer = readIssuer(bytesOf(ucan.model.iss))
  const audience = readAudience(bytesOf(ucan.model.aud))
  if (proofs.some((proof) => proof.audience !== issuer)) refuse('a proof is for another audience')
  return {
    cid: delegation.cid.toString(),
    issuer,
    audience,
    expiration: ucan.expiration,
    notBefore: ucan.notBefore ?? 0,
    signature: ucan.signature.raw,
    ucan,
    delegation,
    proofs,
  }
}

// ucanto's type shows a principal's name only, but the check needs the bytes behind the name.
function bytesOf(principal: API.UCAN.Principal): Uint8Array {
  return principal instanceof Uint8Array ? principal : refuse('a DID of an unsupported kind')
}

// ucanto types a CID by what it links to, which nobody can know of bytes that just arrived.
function viewOf(block: Block, store: Map<string, Block>): API.Delegation {
  return Delegation.create({
    root: block as unknown as API.UCANBlock<API.Capabilities>,
    blocks: store as unknown as Map<string, API.Block>,
  })
}

function height(link: Link): number {
  return 1 + Math.max(0, ...link.proofs.map(height))
}

function readUcan(delegation: API.Delegation, tally: Tally): API.UCAN.View {
  tally.blocks++
  const ucan = decode(delegation)
  if (ucan.proofs.length > mostProofs) refuse('too many proofs')
  if (ucan.capabilities.length > mostCapabilities) refuse('too many capabilities')
  const { model } = ucan
  if (
    model.v !== '0.9.1' ||
    // An empty nonce is left out of what is signed, but not out of the bytes.
    model.nnc === '' ||
    (model.nnc?.length ?? 0) > longestNonce ||
    !(model.exp === null || (Number.isSafeInteger(model.exp) && model.exp > 0)) ||
    !(model.nbf === undefined || (Number.isSafeInteger(model.nbf) && model.nbf > 0)) ||
    ucan.capabilities.length === 0 ||
    !ucan.capabilities.every(isPlainCapability) ||
    !ucan.facts.every((fact) => isPlain(fact, 0))
  )
    refuse('not a canonical UCAN')
  const signature: Uint8Array = model.s
  if (
    signature.length !== signatureBytes ||
    !signatureStart.equals(signature.subarray(0, signatureStart.length))
  )
    refuse('not an Ed25519 signature')
  return ucan
}

/** Decodes and encodes again: unknown keys, other orders, other lengths and JWTs do not survive. */
function decode(delegation: API.Delegation): API.UCAN.View {
  let ucan: API.UCAN.View
  let again: Uint8Array
  try {
    ucan = delegation.data
    again = UCAN.encode(ucan)
  } catch {
    // A codec's error quotes what the codec could not read, so that error must not get any further.
    refuse('not a canonical UCAN')
  }
  if ('jwt' in ucan.model || Buffer.compare(again, delegation.bytes) !== 0)
    refuse('not a canonical UCAN')
  return ucan
}

/** Unknown keys of a capability could be restrictions; ignoring one would widen the grant. */
function isPlainCapability(capability: API.Capability): boolean {
  return (
    Object.keys(capability).every((key) => key === 'can' || key === 'with' || key === 'nb') &&
    isPlain(capability.nb ?? {}, 0)
  )
}

/**
 * Strings, booleans, null, safe integers, lists and maps. Links, bytes and other numbers have twins
 * with the same JSON, which the same signature would cover.
 */
function isPlain(value: unknown, depth: number): boolean {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return true
  if (typeof value === 'number') return Number.isSafeInteger(value) && !Object.is(value, -0)
  if (typeof value !== 'object' || depth > 8) return false
  if (Array.isArray(value)) return value.every((item) => isPlain(item, depth + 1))
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) return false
  return Object.entries(value).every(([key, item]) => key !== '/' && isPlain(item, depth + 1))
}
