import { generateKeyPairSync, randomInt } from 'node:crypto'
import type { Kysely } from 'kysely'
import { base58btc } from 'multiformats/bases/base58'
import { Locks } from './locks.ts'
import { OwnPhones } from './own-phones.ts'
import type { Pins } from './pins.ts'
import type { Tables } from '../tables.ts'

/** The parts of a new account. */
export interface NewAccount {
  readonly customerId: string
  readonly name: string
  readonly email: string | undefined
  readonly phone: string
  /** The PIN, sealed for this customer id. */
  readonly pin: string
}

/** The outcome of an attempt to log in. */
export type LogIn =
  | { readonly account: { customerId: string; did: string }; readonly name: string }
  | 'wrong'
  /** Too many wrong PINs came: until this time the gateway checks no PIN. */
  | { readonly lockedUntil: number }

/** Makes a customer id of nine digits, which every phone can type. */
export const newCustomerId = (): string => String(randomInt(100_000_000, 1_000_000_000))

/**
 * Makes a DID for a person who has no wallet. The private key is thrown away: the gateway acts for the person, and
 * nobody can sign in the name of the DID.
 */
function mintDid(): string {
  const { publicKey } = generateKeyPairSync('ed25519')
  const raw = publicKey.export({ type: 'spki', format: 'der' }).subarray(-32)
  return `did:key:${base58btc.encode(Buffer.concat([Buffer.from([0xed, 0x01]), raw]))}`
}

/** The accounts of customers: creates them, and checks PINs when customers log in. */
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
    const now = Date.now()
    await this.#db
      .insertInto('ussd_accounts')
      .values({
        customer_id: customerId,
        did,
        name,
        email: email ?? null,
        phone,
        pin,
        created_at: now,
        used_at: now,
      })
      .execute()
    return { customerId, did }
  }

  /** The DID of a phone whose owner has not logged in; the first call for a phone makes its DID. */
  async guestDid(phone: string, language: string): Promise<string> {
    const { did } = await this.#db
      .insertInto('ussd_phones')
      .values({ phone, language, did: mintDid(), used_at: Date.now() })
      .onConflict((conflict) =>
        conflict.column('phone').doUpdateSet((eb) => ({
          did: eb.fn.coalesce('ussd_phones.did', 'excluded.did'),
          used_at: eb.ref('excluded.used_at'),
        })),
      )
      .returning('did')
      .executeTakeFirstOrThrow()
    if (did === null) throw new Error('A phone was stored without a DID.')
    return did
  }

  /**
   * Checks a PIN. A wrong PIN counts for the pair of account and phone. From a phone that is not the account's own, a wrong
   * PIN also counts for the account and for the phone: a guesser who changes the account or the phone gains nothing, and
   * strangers never lock an owner's own phone. An attempt on an unknown account counts and takes the same time, so that
   * nobody learns which accounts exist.
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
    await this.#db
      .updateTable('ussd_accounts')
      .set({ used_at: Date.now(), ...(resealed !== undefined && { pin: resealed }) })
      .where('customer_id', '=', customerId)
      .execute()
    return { account: { customerId, did: found.did }, name: found.name }
  }

  /** Checks a PIN after its attempt was counted. Where the check itself fails, the attempt is not counted: it revealed nothing. */
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
