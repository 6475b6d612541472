import { createHash, randomBytes } from 'node:crypto'
import * as CBOR from '@ipld/dag-cbor'
import { delegate, UCAN as ucanto } from '@ucanto/core'
import type * as API from '@ucanto/interface'
import { ed25519, RSA } from '@ucanto/principal'
import { base58btc } from 'multiformats/bases/base58'
import { CID } from 'multiformats/cid'
import * as Digest from 'multiformats/hashes/digest'
import {
  createWallet,
  textOf,
  type Permission,
  type Minted,
  type Wallet,
} from '../../core/testing/wallet.ts'

/** The headers of a request, by the names that the wire has for them. */
export interface TokenHeaders {
  authorization?: string
  'x-auth-type'?: string
  'x-ucan-delegation'?: string
}

/** Headers that must never authenticate, and the reason that belongs in the log. */
export interface Attack {
  readonly name: string
  readonly reason: string
  readonly headers: TokenHeaders
}

/** The headers of an invocation, as the published client sends them. */
export function bearer(invocation: string, delegation?: string): TokenHeaders {
  return {
    authorization: `Bearer ${invocation}`,
    'x-auth-type': 'ucan',
    ...(delegation === undefined ? {} : { 'x-ucan-delegation': delegation }),
  }
}

/** The time now, in seconds since 1970. */
export const seconds = () => Math.floor(Date.now() / 1000)
/** The capability in the published client's tokens. */
export const identityCapability: Permission = { can: '*', with: 'ixo:oracle' }

// Tokens by hand, so that every byte can be wrong.

/** A block of an archive: its CID and its bytes. */
export interface Block {
  readonly cid: CID
  readonly bytes: Uint8Array
}

/** Bytes that stand for themselves inside a map. */
class Raw {
  readonly bytes: Uint8Array
  constructor(...parts: readonly Uint8Array[]) {
    this.bytes = Buffer.concat(parts)
  }
}

/** A CBOR map with its keys in the given order, canonical or not. */
function cborMap(entries: readonly (readonly [string, unknown])[]): Uint8Array {
  const parts = entries.flatMap(([key, value]) => [
    CBOR.encode(key),
    value instanceof Raw ? value.bytes : CBOR.encode(value),
  ])
  return Buffer.concat([Uint8Array.of(0xa0 + entries.length), ...parts])
}

/** The block of some bytes. */
export function blockOf(bytes: Uint8Array, codec = 0x71): Block {
  const digest = createHash('sha256').update(bytes).digest()
  return { cid: CID.create(1, codec, Digest.create(0x12, digest)), bytes: new Uint8Array(bytes) }
}

/** What a token by hand says. */
export interface Claims {
  readonly audience: string
  readonly capabilities?: readonly unknown[]
  readonly expiration?: number | null
  readonly notBefore?: number
  readonly facts?: readonly unknown[]
  readonly nonce?: string
  readonly proofs?: readonly CID[]
}

// ucanto's own model of a token, read here as a plain object.
type Model = Record<string, unknown> & { s: Uint8Array }

/** Signs claims without asking whether they make sense. */
export async function signed(signer: API.UCAN.Signer, claims: Claims): Promise<Model> {
  const view: { model: Model } = await ucanto.issue({
    issuer: signer,
    audience: { did: () => claims.audience },
    capabilities: claims.capabilities ?? [identityCapability],
    expiration: claims.expiration === undefined ? seconds() + 300 : claims.expiration,
    notBefore: claims.notBefore,
    facts: claims.facts ?? [],
    nonce: claims.nonce,
    proofs: claims.proofs ?? [],
  })
  return view.model
}

/** The block of a signed model, in the canonical encoding. */
export function blockOfModel(model: Model): Block {
  return blockOf(ucanto.encode(model))
}

/** A number as a varint, in at least so many bytes. */
function varint(value: number, bytes = 1): Uint8Array {
  if (value < 0x80 && bytes === 1) return Uint8Array.of(value)
  if (value < 0x4000 && bytes <= 2) return Uint8Array.of((value & 0x7f) | 0x80, value >> 7)
  return Uint8Array.of((value & 0x7f) | 0x80, ((value >> 7) & 0x7f) | 0x80, value >> 14)
}

/** An archive by hand. Without options it is what ucanto writes. */
export function archiveOf(
  blocks: readonly Block[],
  {
    root = blocks.at(-1)!.cid,
    descriptor = blockOf(CBOR.encode({ 'ucan@0.9.1': root })),
    header = CBOR.encode({ roots: [descriptor.cid], version: 1 }),
    lengthBytes = 1,
    descriptorFirst = false,
  }: {
    root?: CID
    descriptor?: Block
    header?: Uint8Array
    lengthBytes?: number
    descriptorFirst?: boolean
  } = {},
): Buffer {
  const section = ({ cid, bytes }: Block) =>
    Buffer.concat([varint(cid.bytes.length + bytes.length, lengthBytes), cid.bytes, bytes])
  const all = descriptorFirst ? [descriptor, ...blocks] : [...blocks, descriptor]
  return Buffer.concat([varint(header.length), header, ...all.map(section)])
}

/** Bytes as base64. */
export const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64')

/** A token by hand from claims, optionally changed after it was signed. */
export async function token(
  signer: API.UCAN.Signer,
  claims: Claims,
  change: (model: Model) => Model = (model) => model,
): Promise<string> {
  return base64(archiveOf([blockOfModel(change(await signed(signer, claims)))]))
}

/** A token in perfect form that another key has signed. */
export async function forgedInvocation(audience: string): Promise<string> {
  const victim = await ed25519.generate()
  const thief = await ed25519.generate()
  return token(thief.withDID(victim.did()) as API.UCAN.Signer, { audience })
}

/** A token that others can rest on, by any signer. */
export async function minted(
  signer: API.UCAN.Signer,
  {
    audience,
    capabilities,
    proofs = [],
  }: { audience: string; capabilities: readonly Permission[]; proofs?: readonly Minted[] },
): Promise<Minted> {
  const delegation = await delegate({
    issuer: signer as API.Signer,
    audience: { did: () => audience as API.DID },
    capabilities: [...capabilities] as API.Capabilities,
    expiration: seconds() + 300,
    proofs: proofs.map((proof) => proof.delegation),
  })
  return { text: await textOf(delegation), delegation }
}

/** All blocks of a token, proofs first, as ucanto lists them. */
export function blocksOf({ delegation }: Minted): Block[] {
  return [...delegation.iterateIPLDBlocks()].map(({ cid, bytes }) => ({
    cid: CID.parse(cid.toString()),
    bytes: new Uint8Array(bytes),
  }))
}

/** A chain of delegations, each handed on by a new key, with an invocation at its end. */
export async function chain(user: Wallet, audience: string, length: number): Promise<Minted> {
  const call = { can: 'oracle/call', with: user.did }
  let holder = user
  let proofs: Minted[] = []
  for (let made = 1; made < length; made++) {
    const next = await createWallet()
    proofs = [await holder.delegate({ audience: next.did, capabilities: [call], proofs })]
    holder = next
  }
  return holder.invoke({ audience, capability: call, proofs })
}

/** A chain of four that the invocation names directly, and once more two hands further away. */
async function detour(user: Wallet, audience: string): Promise<string> {
  const call = { can: 'oracle/call', with: user.did }
  const [first, second, holder, other] = await Promise.all(
    Array.from({ length: 4 }, () => createWallet()),
  )
  const hand = (from: Wallet, to: Wallet, ...proofs: Minted[]) =>
    from.delegate({ audience: to.did, capabilities: [call], proofs })
  const far = await hand(user, first!)
  const middle = await hand(first!, second!, far)
  const near = await hand(second!, holder!, middle)
  const back = await hand(other!, holder!, await hand(holder!, other!, near))
  return (await holder!.invoke({ audience, capability: call, proofs: [near, back] })).text
}

/**
 * Proofs that fan out at every level, each with many capabilities that all match: a validator that
 * tries every path hardly comes to an end. All signatures hold, and the owner signed none of them.
 */
export async function fan(
  audience: string,
  { levels, width, grants }: { levels: number; width: number; grants: number },
): Promise<Minted> {
  const owner = (await createWallet()).did
  const keys = await Promise.all(Array.from({ length: levels }, () => createWallet()))
  const capabilities = Array.from({ length: grants }, () => ({ can: '*', with: 'ucan:*' }))
  let proofs: Minted[] = []
  for (let level = 0; level < levels; level++) {
    const holder = keys[level]!
    const next = keys[level + 1]
    if (!next)
      return holder.invoke({ audience, capability: { can: 'oracle/call', with: owner }, proofs })
    proofs = await Promise.all(
      Array.from({ length: width }, (_, i) =>
        holder.delegate({ audience: next.did, capabilities, proofs, nonce: `${i}` }),
      ),
    )
  }
  throw new Error('a fan has at least one level')
}

// Everything that must not get in.

const groupOrder = 2n ** 252n + 27742317777372353535851937790883648493n

const numberOf = (bytes: Uint8Array) => BigInt(`0x${Buffer.from(bytes).reverse().toString('hex')}`)
const bytesOf = (value: bigint) =>
  Buffer.from(value.toString(16).padStart(64, '0'), 'hex').reverse()

/** A signer that is nothing but a DID and a fixed signature. */
export function puppet(did: string, raw: Uint8Array, code = 0xd0ed): API.UCAN.Signer {
  const bytes = Buffer.concat([varint(code), Uint8Array.of(raw.length), raw])
  // ucanto stores whatever bytes a signer returns, so a forger can give any.
  return {
    did: () => did,
    signatureAlgorithm: 'EdDSA',
    signatureCode: code,
    sign: async () => new Uint8Array(bytes),
  } as unknown as API.UCAN.Signer
}

/**
 * A signer with a real key that uses the neutral point where a random one belongs. The equation of
 * Ed25519 holds for it, and the verifier that ucanto brings along finds nothing wrong.
 */
async function careless(): Promise<API.UCAN.Signer> {
  const seed = randomBytes(32)
  const did = (await ed25519.derive(new Uint8Array(seed))).did()
  const half = createHash('sha512').update(seed).digest().subarray(0, 32)
  half[0]! &= 248
  half[31] = (half[31]! & 63) | 64
  const neutral = smallOrder.key
  const key = base58btc.decode(did.slice('did:key:'.length)).slice(2)
  const sign = (payload: Uint8Array) => {
    const challenge = createHash('sha512').update(neutral).update(key).update(payload).digest()
    const scalar = (numberOf(challenge) * numberOf(half)) % groupOrder
    return Buffer.concat([varint(0xd0ed), Uint8Array.of(64), neutral, bytesOf(scalar)])
  }
  return { ...puppet(did, smallOrder.signature), sign: async (payload) => sign(payload) as never }
}

/** The did:key of raw bytes, with the tag of any kind of key. */
export const keyDid = (raw: Uint8Array, tag = [0xed, 0x01]) =>
  `did:key:${base58btc.encode(Uint8Array.from([...tag, ...raw]))}`

/** A point of order one as key: the signature (same point, zero) fits every message. */
export const smallOrder = {
  key: Uint8Array.of(1, ...new Array<number>(31).fill(0)),
  signature: Uint8Array.of(1, ...new Array<number>(63).fill(0)),
}

/** Tokens that are right in every respect but the one they are named for. */
export async function attacks(oracleDid: string, user: Wallet): Promise<Attack[]> {
  const audience = oracleDid
  const signer = user.signer as API.UCAN.Signer
  const stranger = await createWallet()
  const good = await user.invoke({ audience })
  const goodBlock = blocksOf(good)[0]!
  const model = await signed(signer, { audience })
  const call = { can: 'oracle/call', with: user.did }
  const session = await createWallet()
  const proof = await user.delegate({ audience: session.did, capabilities: [call] })
  const chained = await session.invoke({ audience, capability: call, proofs: [proof] })
  const [proofBlock, chainedBlock] = blocksOf(chained) as [Block, Block]

  const list: Attack[] = []
  const header = (name: string, reason: string, headers: TokenHeaders) =>
    list.push({ name, reason, headers })
  const refused = (name: string, reason: string, text: string) => header(name, reason, bearer(text))
  const claiming = async (name: string, reason: string, claims: Partial<Claims>) =>
    refused(name, reason, await token(signer, { audience, ...claims }))
  const archived = (name: string, reason: string, archive: Uint8Array) =>
    refused(name, reason, base64(archive))

  // Headers
  header('no header', 'no credential', {})
  header('a wrong scheme', 'not a bearer token', {
    authorization: `Basic ${good.text}`,
    'x-auth-type': 'ucan',
  })
  header('a bearer token without X-Auth-Type', 'no credential', {
    authorization: `Bearer ${good.text}`,
  })
  header('a bearer token of another X-Auth-Type', 'no credential', {
    authorization: `Bearer ${good.text}`,
    'x-auth-type': 'openid',
  })
  header('a bearer without a token', 'not a bearer token', {
    authorization: 'Bearer ',
    'x-auth-type': 'ucan',
  })
  header('a token without a scheme', 'not a bearer token', {
    authorization: good.text,
    'x-auth-type': 'ucan',
  })
  header('two tokens in one header', 'not standard padded base64', {
    authorization: `Bearer ${good.text}, Bearer ${good.text}`,
    'x-auth-type': 'ucan',
  })
  const delegation = await user.delegate({ audience })
  header('a bad invocation beside a good delegation', 'not standard padded base64', {
    ...bearer('garbage', delegation.text),
  })
  header(
    "another user's delegation beside a good invocation",
    'of another user',
    bearer(good.text, (await stranger.delegate({ audience })).text),
  )
  header(
    'a forged delegation beside a good invocation',
    'a signature does not hold',
    bearer(
      good.text,
      await token(inTheNameOf(stranger, user.did), { audience, expiration: seconds() + 900 }),
    ),
  )
  header('garbage as a delegation beside a good invocation', 'not standard padded base64', {
    ...bearer(good.text, 'garbage!'),
  })
  header('a delegation alone that does not grant calling', 'does not grant calling', {
    'x-ucan-delegation': (
      await user.delegate({ audience, capabilities: [{ can: 'registry/read', with: user.did }] })
    ).text,
  })
  header('a delegation alone for another oracle', 'for another audience', {
    'x-ucan-delegation': (await user.delegate({ audience: stranger.did })).text,
  })
  header('a delegation alone that never expires', 'never expires', {
    'x-ucan-delegation': await token(signer, { audience, expiration: null }),
  })

  // Texts
  refused('garbage', 'not a canonical archive', base64(Buffer.from('not a token at all')))
  refused('a truncated token', 'not a canonical archive', good.text.slice(0, 200))
  await claiming('an oversized token', 'too long', {
    facts: [{ padding: 'x'.repeat(6000) }],
  })
  refused('a JWT with alg none', 'not standard padded base64', jwt('none', user.did, audience))
  refused('a UCAN in its JWT form', 'not standard padded base64', ucanto.format(model) as string)

  // Claims
  await claiming('a wrong audience', 'for another audience', { audience: stranger.did })
  await claiming('an expired token', 'expired', { expiration: seconds() - 1 })
  await claiming('a token that is not valid yet', 'not valid yet', { notBefore: seconds() + 60 })
  await claiming('too long a life', 'lives too long', { expiration: seconds() + 905 })
  await claiming('milliseconds in place of seconds', 'lives too long', {
    expiration: Date.now() + 300_000,
  })
  await claiming('no expiry', 'never expires', { expiration: null })
  await claiming('a wrong resource', 'does not grant calling', {
    capabilities: [{ can: '*', with: 'ixo:other' }],
  })
  await claiming('a wrong ability', 'does not grant calling', {
    capabilities: [{ can: 'oracle/read', with: user.did }],
  })
  await claiming('an ability of everything on the own DID', 'does not grant calling', {
    capabilities: [{ can: '*', with: user.did }],
  })
  await claiming('two capabilities at once', 'does not grant calling', {
    capabilities: [identityCapability, call],
  })
  await claiming('an identity with caveats', 'does not grant calling', {
    capabilities: [{ ...identityCapability, nb: { only: 'weather' } }],
  })
  await claiming('a capability with an unknown restriction', 'not a canonical UCAN', {
    capabilities: [{ ...identityCapability, if: 'monday' }],
  })
  await claiming('nine capabilities', 'too many capabilities', {
    capabilities: new Array(9).fill(identityCapability),
  })
  await claiming('calling for another user without a proof', 'does not grant calling', {
    capabilities: [{ can: 'oracle/call', with: stranger.did }],
  })

  // Signatures and keys
  refused('a wrong signer', 'a signature does not hold', await forgedInvocation(audience))
  refused(
    'a flipped bit in the signature',
    'a signature does not hold',
    await token(signer, { audience }, (made) => {
      made.s[20]! ^= 1
      return made
    }),
  )
  refused(
    'a signature over other claims',
    'a signature does not hold',
    await token(signer, { audience }, (made) => ({ ...made, exp: Number(made['exp']) + 60 })),
  )
  refused(
    'a signature with a scalar beyond the group order',
    'a signature does not hold',
    await token(signer, { audience }, (made) => {
      made.s.set(bytesOf(numberOf(made.s.slice(36)) + groupOrder), 36)
      return made
    }),
  )
  const small = puppet(keyDid(smallOrder.key), smallOrder.signature)
  refused(
    'a key of small order',
    'a key or signature of small order',
    await token(small, { audience }),
  )
  const beyond = bytesOf(2n ** 255n - 19n + 1n)
  refused(
    'a key that is not canonical',
    'a key or signature of small order',
    await token(puppet(keyDid(beyond), smallOrder.signature), { audience }),
  )
  refused(
    'a signature of small order',
    'a signature does not hold',
    await token(puppet(user.did, smallOrder.signature), { audience }),
  )
  refused(
    'a signature that its key made with a nonce of small order',
    'a signature does not hold',
    await token(await careless(), { audience }),
  )
  refused(
    'a did:key with a byte too many',
    'a DID of an unsupported kind',
    await token(puppet(keyDid(new Uint8Array(33).fill(9)), smallOrder.signature), { audience }),
  )
  refused(
    'a DID without end',
    'a DID of an unsupported kind',
    await token(puppet(`did:ixo:${'x'.repeat(200)}`, smallOrder.signature), { audience }),
  )
  refused(
    'another version of UCAN',
    'not a canonical UCAN',
    await token(signer, { audience }, (made) => ({ ...made, v: '0.9.2' })),
  )
  await claiming('a fraction among the facts', 'not a canonical UCAN', { facts: [{ n: 1.5 }] })
  await claiming('bytes among the facts', 'not a canonical UCAN', {
    facts: [{ see: Uint8Array.of(1, 2) }],
  })
  const rsa = await RSA.generate()
  refused(
    'an RSA key',
    'not an Ed25519 signature',
    await token(rsa as unknown as API.UCAN.Signer, { audience }),
  )
  refused(
    'an RSA key with an Ed25519 signature',
    'a DID of an unsupported kind',
    await token(puppet(rsa.did(), smallOrder.signature), { audience }),
  )
  refused(
    'a P-256 key',
    'a DID of an unsupported kind',
    await token(puppet(keyDid(new Uint8Array(33).fill(2), [0x80, 0x24]), smallOrder.signature), {
      audience,
    }),
  )
  refused(
    'a DID of another method',
    'a DID of an unsupported kind',
    await token(inTheNameOf(user, 'did:web:example.com'), { audience }),
  )
  refused(
    'a did:ixo that nobody knows',
    'the keys of the issuer cannot be resolved',
    await token(puppet('did:ixo:ixo1nobody', smallOrder.signature), { audience }),
  )

  // Proofs
  refused(
    'an identity with a proof',
    'does not grant calling',
    (await session.invoke({ audience, proofs: [proof] })).text,
  )
  archived(
    'a proof that is not there',
    'a proof is missing, repeated, out of order or not referenced',
    archiveOf([chainedBlock]),
  )
  const forgedProof = blockOfModel(
    await signed(inTheNameOf(stranger, user.did), { audience: session.did, capabilities: [call] }),
  )
  const onForged = blockOfModel(
    await signed(session.signer as API.UCAN.Signer, {
      audience,
      capabilities: [call],
      proofs: [forgedProof.cid],
    }),
  )
  archived('a forged proof', 'a signature does not hold', archiveOf([forgedProof, onForged]))
  archived(
    'a forged block under a genuine CID',
    'a block does not match its hash',
    archiveOf([{ cid: proofBlock.cid, bytes: forgedProof.bytes }, chainedBlock]),
  )
  const thief = await createWallet()
  const onProof = async (name: string, reason: string, wallet: Wallet, basis: Minted) =>
    refused(
      name,
      reason,
      (await wallet.invoke({ audience, capability: call, proofs: [basis] })).text,
    )
  await onProof("another key's proof", 'a proof is for another audience', thief, proof)
  await onProof(
    'a proof of another ability',
    'does not grant calling',
    session,
    await user.delegate({
      audience: session.did,
      capabilities: [{ can: 'registry/*', with: user.did }],
    }),
  )
  await onProof(
    'a proof by somebody who does not own the resource',
    'does not grant calling',
    session,
    await stranger.delegate({ audience: session.did, capabilities: [call] }),
  )
  await onProof(
    'an expired proof',
    'expired',
    session,
    await user.delegate({ audience: session.did, capabilities: [call], lifetime: -1 }),
  )
  refused('a chain of six', 'too deep', (await chain(user, audience, 6)).text)
  refused('a chain of twelve', 'too many blocks', (await chain(user, audience, 12)).text)
  refused(
    'a proof DAG of 10 kB',
    'too long',
    (await fan(audience, { levels: 6, width: 3, grants: 8 })).text,
  )
  refused('a chain that is too deep on its longer way', 'too deep', await detour(user, audience))
  const twofold = await signed(session.signer as API.UCAN.Signer, {
    audience,
    capabilities: [call],
    proofs: [proofBlock.cid, proofBlock.cid],
  })
  archived(
    'a proof that is named twice',
    'a proof is missing, repeated, out of order or not referenced',
    archiveOf([proofBlock, blockOfModel(twofold)]),
  )
  const empty = archiveOf([goodBlock])
  archived(
    'an archive without a block',
    'not a canonical archive',
    empty.subarray(0, 1 + empty[0]!),
  )
  refused(
    'four proofs',
    'too many proofs',
    (await fan(audience, { levels: 2, width: 4, grants: 1 })).text,
  )
  refused(
    'a proof DAG that fits the bounds and leads nowhere',
    'does not grant calling',
    (await fan(audience, { levels: 4, width: 2, grants: 8 })).text,
  )
  const ants = await Promise.all(
    Array.from({ length: 13 }, (_, i) =>
      signed(signer, { audience, capabilities: [{ can: 'a/b', with: 'a:b' }], nonce: `${i}` }),
    ),
  )
  archived('thirteen blocks', 'too many blocks', archiveOf(ants.map(blockOfModel)))

  // One signature, many encodings
  const again = (name: string, text: string, reason = 'not standard padded base64') =>
    refused(`re-encoded: ${name}`, reason, text)
  const urlSafe = await textWith(/[+/]/, () => token(signer, { audience, nonce: randomNonce() }))
  again('base64url', urlSafe.replaceAll('+', '-').replaceAll('/', '_'))
  const padded = await textWith(/=$/, (i) => token(signer, { audience, nonce: 'n'.repeat(i + 1) }))
  again('without padding', padded.replace(/=+$/, ''))
  again('with a line break', `${good.text.slice(0, 76)}\n${good.text.slice(76)}`)
  again('with other spare bits', withOtherSpareBits(padded))
  const canonical = 'not a canonical archive'
  const twice = (name: string, archive: Uint8Array, reason = canonical) =>
    archived(`re-encoded: ${name}`, reason, archive)
  twice('lengths of two bytes', archiveOf([goodBlock], { lengthBytes: 2 }))
  twice('lengths of three bytes', archiveOf([goodBlock], { lengthBytes: 3 }))
  twice('a byte behind', Buffer.concat([archiveOf([goodBlock]), Uint8Array.of(0)]))
  twice('the descriptor first', archiveOf([goodBlock], { descriptorFirst: true }))
  const references = 'a proof is missing, repeated, out of order or not referenced'
  twice('a block twice', archiveOf([goodBlock, goodBlock]), references)
  twice('a block that nothing names', archiveOf([blockOfModel(ants[0]!), goodBlock]), references)
  const second = await user.delegate({ audience: session.did, capabilities: [call], nonce: '2' })
  const both = await session.invoke({ audience, capability: call, proofs: [proof, second] })
  const [one, two, root] = blocksOf(both) as [Block, Block, Block]
  twice('proofs in another order', archiveOf([two, one, root]), references)
  const descriptor = blockOf(CBOR.encode({ 'ucan@0.9.1': goodBlock.cid }))
  twice(
    'two roots',
    archiveOf([goodBlock], {
      header: CBOR.encode({ roots: [descriptor.cid, goodBlock.cid], version: 1 }),
    }),
  )
  twice('an undeclared root', archiveOf([goodBlock], { header: CBOR.encode({ version: 1 }) }))
  twice(
    'another descriptor',
    archiveOf([goodBlock], {
      descriptor: blockOf(CBOR.encode({ 'ucan@0.9.1': goodBlock.cid, note: 'x' })),
    }),
  )
  twice('the raw codec', archiveOf([blockOf(goodBlock.bytes, 0x55)]))
  twice(
    'an identity hash',
    archiveOf([
      {
        cid: CID.create(1, 0x71, Digest.create(0, goodBlock.bytes.slice(0, 32))),
        bytes: goodBlock.bytes,
      },
    ]),
  )
  twice(
    'a JWT in a block',
    archiveOf([blockOf(Buffer.from(ucanto.format(model) as string))]),
    'not a canonical UCAN',
  )

  const entries = Object.entries(CBOR.decode(goodBlock.bytes) as Record<string, unknown>)
  const cbor = (name: string, bytes: Uint8Array) =>
    twice(name, archiveOf([blockOf(bytes)]), 'not a canonical UCAN')
  const replaced = (key: string, value: unknown) =>
    cborMap(entries.map(([name, old]) => [name, name === key ? value : old]))
  cbor('keys in another order', cborMap(entries.toReversed()))
  cbor('an unknown key', CBOR.encode({ ...Object.fromEntries(entries), zz: 1 }))
  cbor('a key twice', cborMap([...entries, entries[0]!]))
  cbor('an empty list of facts', CBOR.encode({ ...Object.fromEntries(entries), fct: [] }))
  cbor('an empty nonce', CBOR.encode({ ...Object.fromEntries(entries), nnc: '' }))
  cbor('a start at zero', CBOR.encode({ ...Object.fromEntries(entries), nbf: 0 }))
  const exp = Buffer.alloc(8)
  exp.writeBigUInt64BE(BigInt(Object.fromEntries(entries)['exp'] as number))
  cbor('a longer number', replaced('exp', new Raw(Uint8Array.of(0x1b), exp)))
  const float = Buffer.alloc(8)
  float.writeDoubleBE(Object.fromEntries(entries)['exp'] as number)
  cbor('a float for a number', replaced('exp', new Raw(Uint8Array.of(0xfb), float)))
  const registry = await signed(session.signer as API.UCAN.Signer, {
    audience,
    capabilities: [call],
    proofs: [proof.delegation.cid as unknown as CID],
  })
  const shouting = CBOR.encode({
    ...(CBOR.decode(ucanto.encode(registry)) as object),
    att: [{ ...call, can: 'ORACLE/CALL' }],
  })
  twice(
    'an ability in capitals',
    archiveOf([proofBlock, blockOf(shouting)]),
    'not a canonical UCAN',
  )
  const longSignature = Buffer.concat([
    Buffer.from('eda103', 'hex'),
    Uint8Array.of(0xc0, 0x00),
    model.s.slice(4),
  ])
  twice(
    'a longer signature length',
    archiveOf([blockOf(CBOR.encode({ ...Object.fromEntries(entries), s: longSignature }))]),
    'not an Ed25519 signature',
  )
  twice(
    'bytes behind the signature',
    archiveOf([
      blockOf(
        CBOR.encode({
          ...Object.fromEntries(entries),
          s: Buffer.concat([model.s, Uint8Array.of(0)]),
        }),
      ),
    ]),
    'not an Ed25519 signature',
  )
  const withLink = await signed(signer, { audience, facts: [{ see: goodBlock.cid }] })
  twice('a link among the facts', archiveOf([blockOfModel(withLink)]), 'not a canonical UCAN')
  twice(
    'the JSON twin of a link among the facts',
    archiveOf([blockOfModel({ ...withLink, fct: [{ see: { '/': goodBlock.cid.toString() } }] })]),
    'not a canonical UCAN',
  )
  cbor('nested a thousand deep', nested(1000))
  const proto = cborMap([['__proto__', Object.fromEntries(entries)]])
  cbor('everything inherited', proto)
  return list
}

/** Signs with a wallet's key in another name. */
export function inTheNameOf(wallet: Wallet, did: string): API.UCAN.Signer {
  return (wallet.signer as API.Signer).withDID(did as API.DID) as API.UCAN.Signer
}

function jwt(alg: string, issuer: string, audience: string): string {
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const claims = {
    iss: issuer,
    aud: audience,
    att: [identityCapability],
    exp: seconds() + 300,
    prf: [],
  }
  return `${part({ alg, ucv: '0.9.1', typ: 'JWT' })}.${part(claims)}.`
}

let nonces = 0
const randomNonce = () => `nonce ${nonces++}`

/** Makes texts until one has what the attack needs. */
async function textWith(pattern: RegExp, make: (attempt: number) => Promise<string>) {
  for (let attempt = 0; attempt < 50; attempt++) {
    const text = await make(attempt)
    if (pattern.test(text)) return text
  }
  throw new Error(`no text with ${pattern} in fifty attempts`)
}

/** The same bytes in base64 whose last character carries bits that no byte needs. */
function withOtherSpareBits(text: string): string {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
  const last = text.replace(/=+$/, '').length - 1
  return text.slice(0, last) + alphabet[alphabet.indexOf(text[last]!) + 1] + text.slice(last + 1)
}

function nested(depth: number): Uint8Array {
  return Buffer.concat([Buffer.alloc(depth, 0x81), Uint8Array.of(0x80)])
}
