import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  hkdfSync,
  pbkdf2,
  randomBytes,
  timingSafeEqual,
} from 'node:crypto'
import { promisify } from 'node:util'

/** What stands in the account's data beside a key of its secret storage. */
export interface KeyInfo {
  readonly algorithm: string
  readonly iv?: string
  readonly mac?: string
  readonly passphrase?: {
    readonly salt: string
    readonly iterations: number
    readonly bits?: number
  }
}

/** A secret as it stands in the account's data. */
export interface SealedSecret {
  readonly iv: string
  readonly ciphertext: string
  readonly mac: string
}

export const storageAlgorithm = 'm.secret_storage.v1.aes-hmac-sha2'
const signs = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'
/** What a recovery key begins with, as bytes. */
const prefix = [0x8b, 0x01]
const keyBytes = 32
const passphraseIterations = 500_000
/** More would let a server keep this process at work for as long as it likes. */
const mostIterations = 5_000_000
const derive = promisify(pbkdf2)

/** A recovery key as people keep it: `EsT…`, in groups of four. */
export function recoveryKeyOf(key: Uint8Array): string {
  const bytes = [...prefix, ...key]
  const whole = [...bytes, bytes.reduce((parity, byte) => parity ^ byte, 0)]
  let number = BigInt(`0x${Buffer.from(whole).toString('hex')}`)
  let text = ''
  for (; number > 0n; number /= 58n) text = signs.charAt(Number(number % 58n)) + text
  return text.replace(/.{4}(?=.)/g, '$& ')
}

/** The bytes of a recovery key; undefined where the text is none. */
export function bytesOfRecoveryKey(text: string): Uint8Array | undefined {
  let number = 0n
  for (const sign of text.replace(/\s/g, '')) {
    const at = signs.indexOf(sign)
    if (at < 0) return undefined
    number = number * 58n + BigInt(at)
  }
  const length = prefix.length + keyBytes + 1
  const hex = number.toString(16).padStart(length * 2, '0')
  if (hex.length !== length * 2) return undefined
  const bytes = Buffer.from(hex, 'hex')
  const isWhole = bytes.reduce((parity, byte) => parity ^ byte, 0) === 0
  const isOurs = prefix.every((byte, n) => bytes[n] === byte)
  return isWhole && isOurs ? bytes.subarray(prefix.length, -1) : undefined
}

/** The key that a recovery key or a passphrase stands for; undefined where it is not the key that the account knows. */
export async function keyFor(info: KeyInfo, phrase: string): Promise<Uint8Array | undefined> {
  if (info.algorithm !== storageAlgorithm) return undefined
  const given = bytesOfRecoveryKey(phrase)
  if (given && isKeyOf(info, given)) return given
  const { passphrase } = info
  if (!passphrase) return undefined
  const { salt, iterations, bits = keyBytes * 8 } = passphrase
  const isSound = Number.isInteger(iterations) && iterations > 0 && iterations <= mostIterations
  if (!isSound || bits !== keyBytes * 8) return undefined
  const key = await derive(phrase.normalize('NFC'), String(salt), iterations, keyBytes, 'sha512')
  return isKeyOf(info, key) ? key : undefined
}

/** A new key for a phrase that is a recovery key or a passphrase, or a key at random, with what the account has to know of it. */
export async function newKey(phrase?: string): Promise<{ key: Uint8Array; info: KeyInfo }> {
  const given = phrase === undefined ? randomBytes(keyBytes) : bytesOfRecoveryKey(phrase)
  const known = { algorithm: storageAlgorithm }
  if (given) return { key: given, info: { ...known, ...proofOf(given) } }
  const salt = randomBytes(24).toString('base64url')
  const iterations = passphraseIterations
  const words = (phrase ?? '').normalize('NFC')
  const key = await derive(words, salt, iterations, keyBytes, 'sha512')
  const passphrase = { algorithm: 'm.pbkdf2', salt, iterations, bits: keyBytes * 8 }
  return { key, info: { ...known, passphrase, ...proofOf(key) } }
}

/** A secret under a key of the secret storage; its name is part of what seals it. */
export function sealSecret(key: Uint8Array, name: string, text: string): SealedSecret {
  const iv = randomBytes(16)
  // As other clients do, whose counters have 64 bits.
  iv[8] = (iv[8] ?? 0) & 0x7f
  return sealedWith(key, name, text, iv)
}

/** The secret again; undefined when another key or another name sealed it. */
export function openSecret(
  key: Uint8Array,
  name: string,
  sealed: SealedSecret,
): string | undefined {
  const { aes, mac } = keysFor(key, name)
  const ciphertext = Buffer.from(sealed.ciphertext, 'base64')
  const sum = createHmac('sha256', mac).update(ciphertext).digest()
  const told = Buffer.from(sealed.mac, 'base64')
  if (told.length !== sum.length || !timingSafeEqual(told, sum)) return undefined
  const decipher = createDecipheriv('aes-256-ctr', aes, Buffer.from(sealed.iv, 'base64'))
  return Buffer.concat([decipher.update(ciphertext), decipher.final()]).toString('utf8')
}

const zeros = '\0'.repeat(keyBytes)

const proofOf = (key: Uint8Array) => {
  const { iv, mac } = sealSecret(key, '', zeros)
  return { iv, mac }
}

function isKeyOf({ iv, mac }: KeyInfo, key: Uint8Array): boolean {
  if (typeof iv !== 'string' || typeof mac !== 'string') return false
  const bytes = Buffer.from(iv, 'base64')
  return bytes.length === 16 && unpadded(sealedWith(key, '', zeros, bytes).mac) === unpadded(mac)
}

const unpadded = (text: string) => text.replace(/=+$/, '')

function sealedWith(key: Uint8Array, name: string, text: string, iv: Buffer): SealedSecret {
  const { aes, mac } = keysFor(key, name)
  const cipher = createCipheriv('aes-256-ctr', aes, iv)
  const ciphertext = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
  return {
    iv: iv.toString('base64'),
    ciphertext: ciphertext.toString('base64'),
    mac: createHmac('sha256', mac).update(ciphertext).digest('base64'),
  }
}

function keysFor(key: Uint8Array, name: string): { aes: Buffer; mac: Buffer } {
  const both = Buffer.from(hkdfSync('sha256', key, Buffer.alloc(32), name, 64))
  return { aes: both.subarray(0, 32), mac: both.subarray(32) }
}
