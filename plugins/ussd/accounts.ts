import { generateKeyPairSync, randomInt } from 'node:crypto'
import type { Kysely } from 'kysely'
import { base58btc } from 'multiformats/bases/base58'
import type { Pins } from './pins.ts'
import type { Tables } from './tables.ts'

export const mostFailures = 5
export const lockMs = 15 * 60_000

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
  | 'locked'

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

  constructor(db: Kysely<Tables>, pins: Pins) {
    this.#db = db
    this.#pins = pins
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
   * Checks a PIN. Five wrong ones within a quarter of an hour lock the phone, whichever account it
   * tried, and the account for every phone but its owner's: a stranger can neither go on guessing with
   * more phones nor lock a customer out. An attempt is counted before it is checked, so that guesses
   * at the same moment cannot slip by.
   */
  async logIn(customerId: string, phone: string, pin: string): Promise<LogIn> {
    const found = await this.#db
      .selectFrom('ussd_accounts')
      .selectAll()
      .where('customer_id', '=', customerId)
      .executeTakeFirst()
    if (!(await this.#attempt(`phone:${phone}`))) return 'locked'
    const subject = `account:${customerId}`
    const counted = found !== undefined && (await this.#attempt(subject))
    if (found && !counted && found.phone !== phone) return 'locked'
    if (found === undefined) {
      await this.#pins.pretend(pin)
      return 'wrong'
    }
    const { right, resealed } = await this.#pins.verify(pin, found.pin, customerId)
    if (!right) return 'wrong'
    await this.#db.deleteFrom('ussd_attempts').where('subject', '=', `phone:${phone}`).execute()
    if (counted) await this.#takeBack(subject)
    if (resealed)
      await this.#db
        .updateTable('ussd_accounts')
        .set({ pin: resealed })
        .where('customer_id', '=', customerId)
        .execute()
    return { account: { customerId, did: found.did }, name: found.name }
  }

  /** Counts an attempt. False when there were too many. */
  async #attempt(subject: string): Promise<boolean> {
    const now = Date.now()
    const { failures, locked_until: until } = await this.#db
      .insertInto('ussd_attempts')
      .values({ subject, failures: 1, failed_at: now, locked_until: 0 })
      .onConflict((conflict) =>
        conflict.column('subject').doUpdateSet((eb) => ({
          failures: eb
            .case()
            .when('ussd_attempts.failed_at', '<=', now - lockMs)
            .then(1)
            .when('ussd_attempts.locked_until', '>', now)
            .then(eb.ref('ussd_attempts.failures'))
            .else(eb('ussd_attempts.failures', '+', 1))
            .end(),
          // While it is locked nothing is counted, so that knocking does not lengthen the lock.
          failed_at: eb
            .case()
            .when('ussd_attempts.locked_until', '>', now)
            .then(eb.ref('ussd_attempts.failed_at'))
            .else(now)
            .end(),
        })),
      )
      .returning(['failures', 'locked_until'])
      .executeTakeFirstOrThrow()
    if (until > now) return false
    if (failures >= mostFailures)
      await this.#db
        .updateTable('ussd_attempts')
        .set({ locked_until: now + lockMs })
        .where('subject', '=', subject)
        .execute()
    return failures <= mostFailures
  }

  /** A right PIN was no failure. */
  async #takeBack(subject: string): Promise<void> {
    await this.#db
      .updateTable('ussd_attempts')
      .set((eb) => ({ failures: eb('failures', '-', 1), locked_until: 0 }))
      .where('subject', '=', subject)
      .where('failures', '>', 0)
      .execute()
  }
}
