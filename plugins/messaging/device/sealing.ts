import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from 'node:crypto'

/** Keys that MATRIX_STORE_KEY gives, one for each purpose. */
export class Seal {
  readonly #key: Buffer

  constructor(storeKey: string) {
    this.#key = Buffer.from(storeKey, 'hex')
  }

  /** The 32 bytes with which the encryption seals its own stores. */
  get storeKey(): Uint8Array {
    return this.#derive('store')
  }

  /** A name that nobody makes who has no key, such as that of a guest. */
  mac(purpose: string, text: string): string {
    return createHmac('sha256', this.#derive(purpose)).update(text).digest('hex')
  }

  seal(text: string): string {
    const nonce = randomBytes(12)
    const cipher = createCipheriv('aes-256-gcm', this.#derive('account'), nonce)
    const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
    return Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString('base64')
  }

  /** What was sealed; undefined when it was sealed with another key. */
  open(sealed: string): string | undefined {
    const bytes = Buffer.from(sealed, 'base64')
    const decipher = createDecipheriv('aes-256-gcm', this.#derive('account'), bytes.subarray(0, 12))
    decipher.setAuthTag(bytes.subarray(12, 28))
    try {
      return Buffer.concat([decipher.update(bytes.subarray(28)), decipher.final()]).toString('utf8')
    } catch {
      // The key is another one, which is all that there is to say.
      return undefined
    }
  }

  #derive(purpose: string): Buffer {
    return Buffer.from(hkdfSync('sha256', this.#key, '', `messaging ${purpose}`, 32))
  }
}
