/** A key that sender and receiver share: `whsec_` and base64, any other text as it stands, or bytes. */
export type Secret = string | Uint8Array

const prefix = 'whsec_'
const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/

/** The bytes of a secret; undefined for an empty secret and for malformed base64, because anybody can sign with an empty key. */
export function keyOf(secret: Secret): Uint8Array | undefined {
  const key = typeof secret === 'string' ? textKey(secret) : secret
  return key instanceof Uint8Array && key.length > 0 ? key : undefined
}

function textKey(secret: string): Uint8Array | undefined {
  if (!secret.startsWith(prefix)) return Buffer.from(secret)
  const rest = secret.slice(prefix.length)
  return base64.test(rest) ? Buffer.from(rest, 'base64') : undefined
}
