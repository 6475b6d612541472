import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto'
import { RuntimeError } from '#core'
import type { MemoryDatabase } from '../tables.ts'

const mark = 'sealed:1:'

/** Seals what is remembered, where the operator set MEMORY_KEY, and makes hashes that nobody without the key can try. */
export class Vault {
  readonly #key: Buffer | undefined
  readonly #previous: Buffer | undefined
  #hashKey: Buffer | undefined

  constructor(key?: string, previous?: string) {
    this.#key = key === undefined ? undefined : Buffer.from(key, 'hex')
    this.#previous = previous === undefined ? undefined : Buffer.from(previous, 'hex')
  }

  /** Whether what is written is sealed. */
  get seals(): boolean {
    return this.#key !== undefined
  }

  /** Reads the key of hashes, or makes it, and finds out whether the memories that are there can be opened. */
  async open(db: MemoryDatabase): Promise<void> {
    await db
      .insertInto('memory_keys')
      .values({ name: 'hash', value: randomBytes(32).toString('hex') })
      .onConflict((conflict) => conflict.doNothing())
      .execute()
    const row = await db
      .selectFrom('memory_keys')
      .select('value')
      .where('name', '=', 'hash')
      .executeTakeFirstOrThrow()
    this.#hashKey = this.#key ?? Buffer.from(row.value, 'hex')
    const some = await db
      .selectFrom('memory_memories')
      .select(['id', 'did', 'text'])
      .limit(1)
      .execute()
    for (const { id, did, text } of some) this.read(text, id, did)
  }

  /** A text as it is written beside the id of its row and the DID whose it is. */
  write(text: string, id: string, did: string): string {
    if (!this.#key) return text
    const iv = randomBytes(12)
    const cipher = createCipheriv('aes-256-gcm', this.#key, iv)
    cipher.setAAD(Buffer.from(`${id} ${did}`))
    const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
    return mark + Buffer.concat([iv, cipher.getAuthTag(), sealed]).toString('base64')
  }

  /** A written text again. */
  read(text: string, id: string, did: string): string {
    if (!text.startsWith(mark)) return text
    const bytes = Buffer.from(text.slice(mark.length), 'base64')
    for (const key of [this.#key, this.#previous]) {
      if (!key) continue
      try {
        const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, 12))
        decipher.setAAD(Buffer.from(`${id} ${did}`))
        decipher.setAuthTag(bytes.subarray(12, 28))
        return Buffer.concat([decipher.update(bytes.subarray(28)), decipher.final()]).toString(
          'utf8',
        )
      } catch {
        // Another key sealed it.
      }
    }
    throw new RuntimeError(
      'MEMORY_SEALED',
      'What is remembered was sealed with another MEMORY_KEY.',
      {
        status: 503,
        hint: 'Set MEMORY_KEY to the key that sealed it, or MEMORY_KEY_PREVIOUS beside a new key.',
      },
    )
  }

  /** A hash that only this oracle can make. */
  hash(text: string): string {
    if (!this.#hashKey) throw new Error('The vault is not open.')
    return createHmac('sha256', this.#hashKey).update(text).digest('base64url')
  }
}
