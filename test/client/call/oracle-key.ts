import { generateKeyPairSync, sign } from 'node:crypto'

/** A fingerprint, by its first byte, and a description with it. */
export const print = (first: string) => [first, ...Array.from({ length: 31 }, () => '0A')].join(':')
export const sdp = (first: string) =>
  `v=0\r\na=fingerprint:sha-256 ${print(first)}\r\na=setup:actpass\r\n`
const alphabet = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'

/** An oracle's key: its did:key, its public bytes, and what it signs. */
export function keyOf() {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const raw = publicKey.export({ format: 'der', type: 'spki' }).subarray(-32)
  let value = BigInt(`0xed01${raw.toString('hex')}`)
  let text = ''
  for (; value > 0n; value /= 58n) text = (alphabet[Number(value % 58n)] ?? '') + text
  const signed = (words: string) => sign(null, Buffer.from(words), privateKey).toString('base64url')
  return { did: `did:key:z${text}`, multibase: `z${text}`, raw, signed }
}
