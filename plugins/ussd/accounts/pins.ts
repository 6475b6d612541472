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
/** How many PINs may wait to be checked, which is about twenty seconds of work; a further PIN is refused at once. */
const mostWaiting = 1000

/** Seals and checks PINs. The database holds encrypted scrypt verifiers, so a stolen database alone reveals no PIN. */
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

  /** The mark of a text, by which the gateway compares texts without storing them, because texts may contain a PIN. */
  mark(sessionId: string, text: string): string {
    return text === '' ? '' : this.#markWith(this.#current, sessionId, text)
  }

  /**
   * Whether a mark belongs to a text. A mark under an unknown key comes from a server that has the next key already; such a
   * mark counts as matching, and only the length of the text is left to compare.
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

  /** Seals a PIN for its owner. The random salt and nonce make two seals of the same PIN different. */
  async seal(pin: string, owner: string): Promise<string> {
    const salt = randomBytes(saltBytes)
    return this.#sealVerifier(Buffer.concat([salt, await this.#hash(pin, salt)]), owner)
  }

  /** Whether the PIN is right. A right PIN that was sealed with the previous key comes back sealed with the current one. */
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

  /** Takes as long as a check, so that an unknown customer id is answered no faster than a wrong PIN. */
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

  /** Hashes a PIN with scrypt, at most two at a time, because each takes 16 MiB and a thread of the pool. */
  async #hash(pin: string, salt: Buffer): Promise<Buffer> {
    if (this.#queue.length >= mostWaiting)
      throw new RuntimeError('UNAVAILABLE', `${mostWaiting} PINs wait to be checked already.`)
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
