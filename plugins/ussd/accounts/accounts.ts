import { generateKeyPairSync, randomInt } from 'node:crypto'
import type { Kysely } from 'kysely'
import { base58btc } from 'multiformats/bases/base58'
import { Locks } from './locks.ts'
import { OwnPhones } from './own-phones.ts'
import type { Pins } from './pins.ts'
import type { Tables } from '../tables.ts'

/** What an account is opened with. */
export interface NewAccount {
  readonly customerId: string
  readonly name: string
  readonly email: string | undefined
  readonly phone: string
  /** The PIN as it was sealed for this customer id. */
  readonly pin: string
}

/** What came of an attempt to log in. */
export type LogIn =
  | { readonly account: { customerId: string; did: string }; readonly name: string }
  | 'wrong'
  /** Too many wrong PINs: until then nobody looks at one. */
  | { readonly lockedUntil: number }

/** A customer id that can be typed on any phone. */
export const newCustomerId = (): string => String(randomInt(100_000_000, 1_000_000_000))

/**
 * A DID for a person who has no wallet. Its private key is thrown away: the oracle speaks for it, and
 * nobody can sign in its name.
 */
export function mintDid(): string {
  const { publicKey } = generateKeyPairSync('ed25519')
  const raw = publicKey.export({ type: 'spki', format: 'der' }).subarray(-32)
  return `did:key:${base58btc.encode(Buffer.concat([Buffer.from([0xed, 0x01]), raw]))}`
}

/** Customers and their PINs. */
export class Accounts {
  readonly #db: Kysely<Tables>
  readonly #pins: Pins
  readonly #locks: Locks
  readonly #ownPhones: OwnPhones

  constructor(db: Kysely<Tables>, pins: Pins) {
    this.#db = db
    this.#pins = pins
    this.#locks = new Locks(db)
    this.#ownPhones = new OwnPhones(db)
  }

  async create({
    customerId,
    name,
    email,
    phone,
    pin,
  }: NewAccount): Promise<{ customerId: string; did: string }> {
    const did = mintDid()
    await this.#db
      .insertInto('ussd_accounts')
      .values({
        customer_id: customerId,
        did,
        name,
        email: email ?? null,
        phone,
        pin,
        created_at: Date.now(),
      })
      .execute()
    return { customerId, did }
  }

  /** The DID of a phone whose owner has not logged in: minted when it is first needed. */
  async guestDid(phone: string, language: string): Promise<string> {
    const { did } = await this.#db
      .insertInto('ussd_phones')
      .values({ phone, language, did: mintDid() })
      .onConflict((conflict) =>
        conflict.column('phone').doUpdateSet((eb) => ({
          did: eb.fn.coalesce('ussd_phones.did', 'excluded.did'),
        })),
      )
      .returning('did')
      .executeTakeFirstOrThrow()
    if (did === null) throw new Error('A phone was stored without a DID.')
    return did
  }

  /**
   * Checks a PIN. A wrong one counts for the pair of account and phone, and from a phone that is not the
   * account's own for the account and for the phone as well: a guesser gets no further by changing either,
   * and strangers never lock an owner out of his own phone. An account that is not there counts and takes
   * as long as one that is, so that nobody learns which there are.
   */
  async logIn(customerId: string, phone: string, pin: string): Promise<LogIn> {
    const found = await this.#db
      .selectFrom('ussd_accounts')
      .selectAll()
      .where('customer_id', '=', customerId)
      .executeTakeFirst()
    const isKnownPhone = await this.#ownPhones.has(customerId, phone)
    const isOwn = found !== undefined && (found.phone === phone || isKnownPhone)
    const subjects = Locks.subjectsOf(customerId, phone, isOwn)
    const lockedUntil = await this.#locks.attempt(subjects)
    if (lockedUntil > 0) return { lockedUntil }
    const { right, resealed } = await this.#look(pin, found, subjects)
    if (found === undefined || !right) return 'wrong'
    const [pair = '', ...beyond] = subjects
    await this.#locks.clear(pair)
    if (beyond.length > 0) await this.#locks.takeBack(beyond)
    if (found.phone !== phone) await this.#ownPhones.add(customerId, phone)
    if (resealed)
      await this.#db
        .updateTable('ussd_accounts')
        .set({ pin: resealed })
        .where('customer_id', '=', customerId)
        .execute()
    return { account: { customerId, did: found.did }, name: found.name }
  }

  /** Looks at a PIN whose attempt is counted. A look that fails has told nobody anything, and counts for nothing. */
  async #look(
    pin: string,
    found: { readonly customer_id: string; readonly pin: string } | undefined,
    subjects: readonly string[],
  ): Promise<{ right: boolean; resealed?: string }> {
    try {
      if (found) return await this.#pins.verify(pin, found.pin, found.customer_id)
      await this.#pins.pretend(pin)
      return { right: false }
    } catch (error) {
      await this.#locks.takeBack(subjects)
      throw error
    }
  }
}
