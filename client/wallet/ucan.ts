import { sha256 } from '../core/sha256.ts'

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
  if (!isSecure()) return plainKeyOf(seed)
  const secret = joined(pkcs8, seed)
  const key = await crypto.subtle.importKey('pkcs8', secret, 'Ed25519', true, ['sign'])
  const { x = '' } = await crypto.subtle.exportKey('jwk', key)
  const publicKey = fromBase64(x.replaceAll('-', '+').replaceAll('_', '/'))
  return {
    did: `did:key:z${base58(joined(ed25519Key, publicKey))}`,
    sign: async (payload) =>
      new Uint8Array(await crypto.subtle.sign('Ed25519', key, joined(payload))),
  }
}

/** Whether the browser has `crypto.subtle` for this page, which it has not where the page came by plain HTTP. */
function isSecure(): boolean {
  const { subtle }: { readonly subtle?: SubtleCrypto } = crypto
  return subtle !== undefined
}

/** The same key on a page that came by plain HTTP, by code that is fetched then. */
async function plainKeyOf(seed: Uint8Array): Promise<Key> {
  const { publicKeyOf, signBy } = await import('../later/plain-crypto.ts')
  return {
    did: `did:key:z${base58(joined(ed25519Key, publicKeyOf(seed)))}`,
    sign: async (payload) => signBy(seed, payload),
  }
}

/** A UCAN of one link, as the header of a request carries it: its archive in base64. `exp` is in seconds. */
export async function mint(
  key: Key,
  aud: string,
  att: readonly Grant[],
  exp: number,
): Promise<string> {
  const header = base64Url(json({ alg: 'EdDSA', typ: 'JWT', ucv: version }))
  // Keys stand in their canonical order here and below: the signature covers exactly these bytes.
  const grants = att.map(({ can, with: resource }) => ({ can, with: resource }))
  const payload = base64Url(json({ att: grants, aud, exp, iss: key.did, prf: [] }))
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
    prf: cborList([]),
  })
  const link = await cidOf(token)
  const descriptor = cborMap({ [`ucan@${version}`]: cborLink(link) })
  const root = await cidOf(descriptor)
  const archive = joined(
    block(cborMap({ roots: cborList([cborLink(root)]), version: cborHead(0, 1) })),
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
  return joined([0x01, 0x71, 0x12, 32], await sha256(data))
}

/** A block of an archive: its length, then itself. */
const block = (data: Uint8Array) => joined(varint(data.length), data)

function varint(value: number): number[] {
  return value < 128 ? [value] : [(value & 127) | 128, ...varint(value >>> 7)]
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
