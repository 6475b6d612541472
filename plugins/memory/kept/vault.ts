import { createCipheriv, createDecipheriv, createHash, createHmac, randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import { RuntimeError } from '#core'
import type { MemoryDatabase } from '../tables.ts'

/** What a sealed text begins with, before the name of its key. */
const mark = 'sealed:1:'
/** What a text begins with that is not sealed, though it looks as if it were: a person may write the mark, too. */
const open = 'open:'
/** Every column that is sealed. */
const sealedColumns = [
  ['memory_memories', 'text'],
  ['memory_sources', 'quote'],
  ['memory_passages', 'words'],
  ['memory_vectors', 'vector'],
] as const

/** A key, and the name under which what it sealed is known. */
interface NamedKey {
  readonly key: Buffer
  readonly name: string
}

function named(hex: string | undefined): NamedKey | undefined {
  if (hex === undefined) return undefined
  const key = Buffer.from(hex, 'hex')
  const name = createHash('sha256').update('memory key ').update(key).digest('hex').slice(0, 8)
  return { key, name }
}

/** Seals what is remembered, where the operator set MEMORY_KEY, and makes hashes that nobody without the key can try. */
export class Vault {
  readonly #key: NamedKey | undefined
  readonly #previous: NamedKey | undefined
  #hashKeys: readonly Buffer[] = []

  constructor(key?: string, previous?: string) {
    this.#key = named(key)
    this.#previous = named(previous)
  }

  /** Whether what is written is sealed. */
  get seals(): boolean {
    return this.#key !== undefined
  }

  /** What every text begins with that the key of now has sealed; undefined where nothing is sealed. */
  get ownMark(): string | undefined {
    return this.#key && `${mark}${this.#key.name}:`
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
    const keys = [this.#key, this.#previous].filter((one) => one !== undefined)
    this.#hashKeys = [...keys.map(({ key }) => key), Buffer.from(row.value, 'hex')]
    for (const [table, column] of sealedColumns) {
      const isOpened = keys.map(
        ({ name }) => sql`and ${sql.ref(column)} not like ${`${mark}${name}:%`}`,
      )
      const { rows } = await sql`select 1 from ${sql.table(table)}
        where ${sql.ref(column)} like ${`${mark}%`} ${sql.join(isOpened, sql` `)} limit 1`.execute(
        db,
      )
      if (rows.length > 0) throw sealedElsewhere()
    }
  }

  /** A text as it is written beside the id of its row and the DID whose it is. */
  write(text: string, id: string, did: string): string {
    if (!this.#key) return text.startsWith(mark) || text.startsWith(open) ? open + text : text
    const iv = randomBytes(12)
    const cipher = createCipheriv('aes-256-gcm', this.#key.key, iv)
    cipher.setAAD(Buffer.from(`${id} ${did}`))
    const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
    const bytes = Buffer.concat([iv, cipher.getAuthTag(), sealed])
    return `${mark}${this.#key.name}:${bytes.toString('base64')}`
  }

  /** A written text again. */
  read(text: string, id: string, did: string): string {
    if (text.startsWith(open)) return text.slice(open.length)
    if (!text.startsWith(mark)) return text
    const [name, sealed = ''] = text.slice(mark.length).split(':')
    const bytes = Buffer.from(sealed, 'base64')
    for (const one of [this.#key, this.#previous]) {
      if (!one || one.name !== name) continue
      try {
        const decipher = createDecipheriv('aes-256-gcm', one.key, bytes.subarray(0, 12))
        decipher.setAAD(Buffer.from(`${id} ${did}`))
        decipher.setAuthTag(bytes.subarray(12, 28))
        return Buffer.concat([decipher.update(bytes.subarray(28)), decipher.final()]).toString(
          'utf8',
        )
      } catch {
        // Somebody moved it here from another row, or changed it.
      }
    }
    throw sealedElsewhere()
  }

  /** A hash that only this oracle can make. */
  hash(text: string): string {
    const [hash] = this.hashes(text)
    if (hash === undefined) throw new Error('The vault is not open.')
    return hash
  }

  /** The same, by the key of now and by those before it. */
  hashes(text: string): string[] {
    return this.#hashKeys.map((key) => createHmac('sha256', key).update(text).digest('base64url'))
  }
}

const sealedElsewhere = () =>
  new RuntimeError('MEMORY_SEALED', 'What is remembered was sealed with another MEMORY_KEY.', {
    status: 503,
    hint: 'Set MEMORY_KEY to the key that sealed it, or MEMORY_KEY_PREVIOUS beside a new key.',
  })
