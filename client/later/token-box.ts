/** Whose token it is, and the secret that opens the box. */
export interface Box {
  readonly userId: string
  readonly secret: string
}

const rounds = 100_000
const saltBytes = 16
const ivBytes = 12
const prefix = 'oracle-openid-token '

/** The token that this browser keeps for a user; undefined where there is none, or the secret is another. */
export async function keptToken<T>({ userId, secret }: Box): Promise<T | undefined> {
  try {
    const kept = localStorage.getItem(prefix + userId)
    if (kept === null) return undefined
    const bytes = Uint8Array.from(atob(kept), (letter) => letter.charCodeAt(0))
    const key = await keyOf(secret, bytes.slice(0, saltBytes))
    const iv = bytes.slice(saltBytes, saltBytes + ivBytes)
    const rest = bytes.slice(saltBytes + ivBytes)
    const plain = await crypto.subtle.decrypt({ name: 'AES-GCM', iv }, key, rest)
    return JSON.parse(new TextDecoder().decode(plain))
  } catch {
    return undefined // another secret, or no storage, or no WebCrypto: a token is minted anew
  }
}

/** Keeps a token in this browser, where the secret alone can read it. Without WebCrypto nothing is kept. */
export async function keepToken({ userId, secret }: Box, token: unknown): Promise<void> {
  try {
    const salt = crypto.getRandomValues(new Uint8Array(saltBytes))
    const iv = crypto.getRandomValues(new Uint8Array(ivBytes))
    const plain = new TextEncoder().encode(JSON.stringify(token))
    const key = await keyOf(secret, salt)
    const closed = await crypto.subtle.encrypt({ name: 'AES-GCM', iv }, key, plain)
    const bytes = [...salt, ...iv, ...new Uint8Array(closed)]
    const text = btoa(bytes.map((byte) => String.fromCharCode(byte)).join(''))
    localStorage.setItem(prefix + userId, text)
  } catch {
    // The token is held in memory.
  }
}

/** Forgets the token that this browser keeps for a user. */
export function dropToken(userId: string): void {
  try {
    localStorage.removeItem(prefix + userId)
  } catch {
    // There is no storage, so nothing is kept in it.
  }
}

async function keyOf(secret: string, salt: Uint8Array<ArrayBuffer>): Promise<CryptoKey> {
  const raw = new TextEncoder().encode(secret)
  const material = await crypto.subtle.importKey('raw', raw, 'PBKDF2', false, ['deriveKey'])
  const how = { name: 'PBKDF2', hash: 'SHA-256', iterations: rounds, salt }
  return crypto.subtle.deriveKey(how, material, { name: 'AES-GCM', length: 256 }, false, [
    'encrypt',
    'decrypt',
  ])
}
