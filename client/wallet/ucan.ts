/** What a token lets its holder do: an ability, on a resource. */
export interface Grant {
  readonly can: string
  readonly with: string
}

/** A user's Ed25519 key. */
export interface Key {
  readonly did: string
  sign(payload: Uint8Array): Promise<Uint8Array>
}

type Bytes = Uint8Array<ArrayBuffer>

const utf8 = new TextEncoder()
/** The beginning of a PKCS #8 document that holds an Ed25519 seed. */
const pkcs8 = fromHex('302e020100300506032b657004220420')
const ed25519Key = [0xed, 0x01]
const namedDid = [0x9d, 0x1a]
const edDsa = [0xed, 0xa1, 0x03, 64]
const version = '0.9.1'

/** The key that a seed of 32 bytes stands for. */
export async function keyOf(seed: Uint8Array): Promise<Key> {
  if (!hasSubtle()) {
    const { publicKey, sign } = (await import('./plain.ts')).halvesOf(seed)
    return { did: didOf(publicKey), sign: async (payload) => sign(payload) }
  }
  const secret = joined(pkcs8, seed)
  const key = await crypto.subtle.importKey('pkcs8', secret, 'Ed25519', true, ['sign'])
  const { x = '' } = await crypto.subtle.exportKey('jwk', key)
  const publicKey = fromBase64(x.replaceAll('-', '+').replaceAll('_', '/'))
  return {
    did: didOf(publicKey),
    sign: async (payload) =>
      new Uint8Array(await crypto.subtle.sign('Ed25519', key, joined(payload))),
  }
}

/** What `crypto.subtle` signs with, in browsers and in Node. */
type Half = Parameters<typeof crypto.subtle.sign>[1]
interface Pair {
  readonly publicKey: Half
  readonly privateKey: Half
}

/** Whether the browser computes for the page: it does not for one that came by plain HTTP from another machine. */
const hasSubtle = () => typeof crypto.subtle === 'object'

/** The key of a pair whose private half may be locked in the browser. */
export async function keyOfPair({ publicKey, privateKey }: Pair): Promise<Key> {
  const raw = new Uint8Array(await crypto.subtle.exportKey('raw', publicKey))
  return {
    did: didOf(raw),
    sign: async (payload) =>
      new Uint8Array(await crypto.subtle.sign('Ed25519', privateKey, joined(payload))),
  }
}

const didOf = (publicKey: Uint8Array) => `did:key:z${base58(joined(ed25519Key, publicKey))}`

/** A token that others rest on: what they name it by, and its blocks with those of its own proofs, as an archive has them. */
export interface Proof {
  readonly link: Uint8Array
  readonly blocks: readonly Uint8Array[]
}

/** A link is 36 bytes: CIDv1, dag-cbor, sha2-256. */
const linkBytes = 36
/** An oracle reads no archive with more blocks. */
const mostBlocks = 12

/** Reads a token so that others can rest on it. */
export function proofOf(text: string): Proof {
  const archive = fromBase64(text)
  const blocks: Bytes[] = []
  for (let at = 0; at < archive.length;) {
    const [length, bytes] = readVarint(archive, at)
    const end = at + bytes + length
    if (end > archive.length || blocks.length > mostBlocks) throw new Error('This is no token.')
    blocks.push(archive.slice(at + bytes, end))
    at = end
  }
  // The first is the archive's header, the last names the token, which stands before it.
  const tokens = blocks.slice(1, -1)
  const last = tokens.at(-1)
  if (last === undefined || tokens.some(({ length }) => length <= linkBytes))
    throw new Error('This is no token.')
  return { link: last.slice(0, linkBytes), blocks: tokens }
}

/** A UCAN, as the header of a request carries it: its archive in base64. `exp` is in seconds. */
export async function mint(
  key: Key,
  aud: string,
  att: readonly Grant[],
  exp: number,
  proofs: readonly Proof[] = [],
): Promise<string> {
  const header = base64Url(json({ alg: 'EdDSA', typ: 'JWT', ucv: version }))
  // Keys stand in their canonical order here and below: the signature covers exactly these bytes.
  const grants = att.map(({ can, with: resource }) => ({ can, with: resource }))
  const payload = base64Url(
    json({
      att: grants,
      aud,
      exp,
      iss: key.did,
      prf: proofs.map(({ link }) => `b${base32(link)}`),
    }),
  )
  const signature = await key.sign(utf8.encode(`${header}.${payload}`))
  const token = cborMap({
    s: cborBytes(joined(edDsa, signature)),
    v: cborText(version),
    att: cborList(
      grants.map((grant) => cborMap({ can: cborText(grant.can), with: cborText(grant.with) })),
    ),
    aud: cborBytes(didBytes(aud)),
    exp: cborHead(0, exp),
    iss: cborBytes(didBytes(key.did)),
    prf: cborList(proofs.map((proof) => cborLink(proof.link))),
  })
  const link = await cidOf(token)
  const descriptor = cborMap({ [`ucan@${version}`]: cborLink(link) })
  const root = await cidOf(descriptor)
  const archive = joined(
    block(cborMap({ roots: cborList([cborLink(root)]), version: cborHead(0, 1) })),
    ...proofs.flatMap(({ blocks }) => blocks.map(block)),
    block(joined(link, token)),
    block(joined(root, descriptor)),
  )
  return toBase64(archive)
}

const json = (value: unknown) => utf8.encode(JSON.stringify(value))

function didBytes(did: string): Bytes {
  if (did.startsWith('did:key:z')) return fromBase58(did.slice('did:key:z'.length))
  return joined(namedDid, utf8.encode(did.slice('did:'.length)))
}

/** CIDv1, dag-cbor, sha2-256. */
async function cidOf(data: Bytes): Promise<Bytes> {
  const hash = hasSubtle()
    ? new Uint8Array(await crypto.subtle.digest('SHA-256', data))
    : (await import('./plain.ts')).hashed(data)
  return joined([0x01, 0x71, 0x12, 32], hash)
}

/** A block of an archive: its length, then itself. */
const block = (data: Uint8Array) => joined(varint(data.length), data)

function varint(value: number): number[] {
  return value < 128 ? [value] : [(value & 127) | 128, ...varint(value >>> 7)]
}

function readVarint(bytes: Uint8Array, at: number): [value: number, length: number] {
  let value = 0
  // Three groups of seven bits: more than any token has bytes.
  for (let length = 1; length <= 3; length++) {
    const byte = bytes[at + length - 1] ?? 0
    value |= (byte & 127) << (7 * (length - 1))
    if (byte < 128) return [value, length]
  }
  throw new Error('This is no token.')
}

// The part of CBOR that a token needs; numbers, lengths and tags in their shortest form, as dag-cbor demands.

function cborHead(major: number, value: number): Bytes {
  const kind = major << 5
  if (value < 24) return joined([kind | value])
  if (value < 0x100) return joined([kind | 24, value])
  if (value < 0x10000) return joined([kind | 25, value >> 8, value & 255])
  if (value < 0x100000000)
    return joined([kind | 26, value >>> 24, (value >> 16) & 255, (value >> 8) & 255, value & 255])
  const bytes = new DataView(new ArrayBuffer(8))
  bytes.setBigUint64(0, BigInt(value))
  return joined([kind | 27], new Uint8Array(bytes.buffer))
}

const cborBytes = (data: Uint8Array) => joined(cborHead(2, data.length), data)
const cborList = (items: readonly Uint8Array[]) => joined(cborHead(4, items.length), ...items)
const cborLink = (cid: Uint8Array) => joined([0xd8, 42], cborBytes(joined([0], cid)))

function cborText(text: string): Bytes {
  const data = utf8.encode(text)
  return joined(cborHead(3, data.length), data)
}

function cborMap(entries: Readonly<Record<string, Uint8Array>>): Bytes {
  const all = Object.entries(entries)
  return joined(cborHead(5, all.length), ...all.flatMap(([name, value]) => [cborText(name), value]))
}

// Bytes and the texts that stand for them.

function joined(...parts: (Uint8Array | readonly number[])[]): Bytes {
  const all = new Uint8Array(parts.reduce((length, part) => length + part.length, 0))
  let at = 0
  for (const part of parts) {
    all.set(part, at)
    at += part.length
  }
  return all
}

function fromHex(hex: string): Bytes {
  return joined(Array.from(hex.matchAll(/../g), ([byte]) => parseInt(byte, 16)))
}

/** Bytes as base64. */
export const toBase64 = (bytes: Uint8Array) =>
  btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''))
/** The bytes of a text in base64. */
export const fromBase64 = (text: string): Bytes =>
  joined(Array.from(atob(text), (character) => character.charCodeAt(0)))
const base64Url = (bytes: Uint8Array) =>
  toBase64(bytes).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')

/** Bytes in the base32 of CIDs. */
function base32(bytes: Uint8Array): string {
  const bits = Array.from(bytes, (byte) => byte.toString(2).padStart(8, '0')).join('')
  const groups = bits.match(/.{1,5}/g) ?? []
  return groups
    .map((group) => 'abcdefghijklmnopqrstuvwxyz234567'[parseInt(group.padEnd(5, '0'), 2)])
    .join('')
}

const digits = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'

/** Bytes as base58btc. The first byte must not be zero; before a key stands its kind, which is never zero. */
function base58(bytes: Uint8Array): string {
  let value = bytes.reduce((sum, byte) => sum * 256n + BigInt(byte), 0n)
  let text = ''
  for (; value > 0n; value /= 58n) text = digits[Number(value % 58n)] + text
  return text
}

function fromBase58(text: string): Bytes {
  let value = 0n
  for (const digit of text) value = value * 58n + BigInt(digits.indexOf(digit))
  const bytes: number[] = []
  for (; value > 0n; value >>= 8n) bytes.unshift(Number(value & 255n))
  return joined(bytes)
}
