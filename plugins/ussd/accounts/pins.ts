import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createHmac,
  hkdfSync,
  randomBytes,
  scrypt,
  timingSafeEqual,
} from 'node:crypto'
import { RuntimeError } from '#core'

/** Reads a key: 64 hex digits, base64 of 32 bytes, or a passphrase of 32 and more characters. */
export function readKey(text: string): Buffer {
  if (/^[0-9a-f]{64}$/i.test(text)) return Buffer.from(text, 'hex')
  if (/^[A-Za-z0-9+/]{43}=$/.test(text)) return Buffer.from(text, 'base64')
  return Buffer.from(hkdfSync('sha256', text, '', 'ussd pin key v1', 32))
}

const saltBytes = 16
const hashBytes = 32
const cost = { N: 16_384, r: 8, p: 1 }
const atOnce = 2
/** Twenty seconds of work: whoever would wait longer is told at once that there is too much to do. */
const mostWaiting = 1000

/** Keeps PINs as scrypt verifiers, sealed so that the database alone is worth nothing. */
export class Pins {
  readonly #keys: ReadonlyMap<string, Buffer>
  readonly #current: string
  readonly #markKeys: ReadonlyMap<string, Buffer>
  readonly #queue: (() => void)[] = []
  #running = 0

  constructor(key: Buffer, previous?: Buffer) {
    this.#current = keyId(key)
    this.#keys = new Map([
      ...(previous ? [[keyId(previous), previous] as const] : []),
      [this.#current, key],
    ])
    this.#markKeys = new Map(
      [...this.#keys].map(([id, each]) => [
        id,
        Buffer.from(hkdfSync('sha256', each, '', 'ussd text mark v1', 32)),
      ]),
    )
  }

  /** Tells texts apart without telling them: they may hold a PIN. */
  mark(sessionId: string, text: string): string {
    return text === '' ? '' : this.#markWith(this.#current, sessionId, text)
  }

  /**
   * Whether a mark is that of a text. One that was made with a key that is not loaded, by a server that has
   * the next one already, is taken for it: the length is what is left to tell texts apart.
   */
  isMarkOf(mark: string, sessionId: string, text: string): boolean {
    if (mark === '' || text === '') return mark === text
    const id = mark.slice(0, mark.indexOf('.'))
    return !this.#markKeys.has(id) || this.#markWith(id, sessionId, text) === mark
  }

  #markWith(id: string, sessionId: string, text: string): string {
    const hmac = createHmac('sha256', this.#markKeys.get(id)!).update(`${sessionId}\u0000${text}`)
    return `${id}.${hmac.digest('base64url').slice(0, 22)}`
  }

  /** Seals a PIN for its owner. Twice the same PIN never looks the same. */
  async seal(pin: string, owner: string): Promise<string> {
    const salt = randomBytes(saltBytes)
    return this.#sealVerifier(Buffer.concat([salt, await this.#hash(pin, salt)]), owner)
  }

  /** Whether this is the PIN, and the same anew where it was sealed with the previous key. */
  async verify(
    pin: string,
    sealed: string,
    owner: string,
  ): Promise<{ right: boolean; resealed?: string }> {
    const { verifier, id } = this.#open(sealed, owner)
    const hash = await this.#hash(pin, verifier.subarray(0, saltBytes))
    const right = timingSafeEqual(hash, verifier.subarray(saltBytes))
    if (!right || id === this.#current) return { right }
    return { right, resealed: this.#sealVerifier(verifier, owner) }
  }

  /** As long as a check takes: an unknown customer answers no faster than a wrong PIN. */
  async pretend(pin: string): Promise<void> {
    await this.#hash(pin, randomBytes(saltBytes))
  }

  #sealVerifier(verifier: Buffer, owner: string): string {
    const nonce = randomBytes(12)
    const cipher = createCipheriv('aes-256-gcm', this.#keys.get(this.#current)!, nonce)
    cipher.setAAD(aad(this.#current, owner))
    const sealed = Buffer.concat([cipher.update(verifier), cipher.final(), cipher.getAuthTag()])
    return ['v1', this.#current, nonce.toString('base64url'), sealed.toString('base64url')].join(
      '.',
    )
  }

  #open(text: string, owner: string): { verifier: Buffer; id: string } {
    const [version, id = '', nonce = '', body = ''] = text.split('.')
    const key = this.#keys.get(id)
    if (version !== 'v1' || key === undefined)
      throw new RuntimeError(
        'INTERNAL',
        `A PIN is sealed with the key ${id}, which is not loaded.`,
        {
          hint: 'Give the former key as PIN_ENCRYPTION_KEY_PREVIOUS.',
        },
      )
    const bytes = Buffer.from(body, 'base64url')
    const decipher = createDecipheriv('aes-256-gcm', key, Buffer.from(nonce, 'base64url'), {
      authTagLength: 16,
    })
    decipher.setAAD(aad(id, owner)).setAuthTag(bytes.subarray(-16))
    return {
      verifier: Buffer.concat([decipher.update(bytes.subarray(0, -16)), decipher.final()]),
      id,
    }
  }

  /** scrypt takes 16 MiB and a thread of the pool: two at a time leave room for everything else. */
  async #hash(pin: string, salt: Buffer): Promise<Buffer> {
    if (this.#queue.length >= mostWaiting)
      throw new RuntimeError('UNAVAILABLE', `${mostWaiting} PINs wait to be checked.`)
    if (this.#running >= atOnce) await new Promise<void>((resolve) => this.#queue.push(resolve))
    else this.#running++
    try {
      return await new Promise((resolve, reject) =>
        scrypt(pin, salt, hashBytes, cost, (error, hash) =>
          error ? reject(error) : resolve(hash),
        ),
      )
    } finally {
      const next = this.#queue.shift()
      if (next) next()
      else this.#running--
    }
  }
}

const keyId = (key: Buffer) =>
  createHash('sha256').update('ussd key id').update(key).digest('hex').slice(0, 8)
const aad = (id: string, owner: string) => Buffer.from(`ussd-pin:v1:${id}:${owner}`)

/** Why a PIN of five digits is too easy to guess; undefined when it is not. */
export function weakness(
  pin: string,
  phoneNumber: string,
): 'pinSame' | 'pinRow' | 'pinPhone' | undefined {
  if (/^(\d)\1*$/.test(pin)) return 'pinSame'
  if ('01234567890'.includes(pin) || '09876543210'.includes(pin)) return 'pinRow'
  if (phoneNumber.endsWith(pin)) return 'pinPhone'
  return undefined
}
