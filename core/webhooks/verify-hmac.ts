import { createHmac } from 'node:crypto'
import { isSame } from './signature.ts'

/** A signature to check, and what it should be of. */
export interface HmacCheck {
  /** The hash that the sender uses. */
  readonly algorithm: 'sha1' | 'sha256' | 'sha384' | 'sha512'
  /** The key that the sender was given: a text as it stands, or bytes. */
  readonly secret: string | Uint8Array
  /** The bytes of the request as they came: JSON that was parsed and written anew has other bytes. */
  readonly body: string | Uint8Array
  /** What the sender's header says; undefined, where there is no such header, is false. */
  readonly signature: string | readonly string[] | undefined
  /** How the signature is written. */
  readonly encoding: 'hex' | 'base64' | 'base64url'
  /** What stands before the signature, such as `sha256=`. */
  readonly prefix?: string
}

const encodings: readonly string[] = ['hex', 'base64', 'base64url']
const algorithms: readonly string[] = ['sha1', 'sha256', 'sha384', 'sha512']

/**
 * Whether a request was signed with the secret. The comparison takes constant time. A signature of any other form is
 * false, and so is every signature where the secret is empty: nothing that a caller sends makes this throw.
 */
export function verifyHmac(check: HmacCheck): boolean {
  const { algorithm, secret, body, signature, encoding, prefix = '' } = check
  if (!algorithms.includes(algorithm) || !encodings.includes(encoding)) return false
  if (!isText(secret) || secret.length === 0 || !isText(body)) return false
  if (typeof signature !== 'string' || !signature.startsWith(prefix)) return false
  const expected = createHmac(algorithm, secret).update(body).digest(encoding)
  return isSame(inOneForm(signature.slice(prefix.length), encoding), inOneForm(expected, encoding))
}

/** Senders write hex in both cases, and base64 with and without padding. */
const inOneForm = (signature: string, encoding: HmacCheck['encoding']): string =>
  encoding === 'hex' ? signature.toLowerCase() : signature.replace(/={1,2}$/, '')

const isText = (value: unknown): value is string | Uint8Array =>
  typeof value === 'string' || value instanceof Uint8Array
