import type { Kysely } from 'kysely'
import type { Tables } from '../tables.ts'

const dayMs = 24 * 60 * 60_000
/** How long a phone stays an account's own after its last login; after that its number may belong to somebody else. */
const keptMs = 365 * dayMs
/** How many own phones an account has beside the phone that created the account; the most recently used ones stay. */
const mostPhones = 5
const forgottenAtOnce = 20

/**
 * The phones that are an account's own, because somebody typed the right PIN on them. The phone that created the account
 * is one too, but the row of the account holds that phone. A person who has to guess the PIN has no own phone.
 */
export class OwnPhones {
  readonly #db: Kysely<Tables>

  constructor(db: Kysely<Tables>) {
    this.#db = db
  }

  async has(customerId: string, phone: string): Promise<boolean> {
    const row = await this.#db
      .selectFrom('ussd_own_phones')
      .select('used_at')
      .where('customer_id', '=', customerId)
      .where('phone', '=', phone)
      .executeTakeFirst()
    return row !== undefined && row.used_at > Date.now() - keptMs
  }

  /** Makes a phone the account's own, after somebody typed the right PIN on this phone. */
  async add(customerId: string, phone: string): Promise<void> {
    const now = Date.now()
    await this.#db
      .insertInto('ussd_own_phones')
      .values({ customer_id: customerId, phone, used_at: now })
      .onConflict((conflict) =>
        conflict.columns(['customer_id', 'phone']).doUpdateSet({ used_at: now }),
      )
      .execute()
    const phones = this.#db.selectFrom('ussd_own_phones').select(['customer_id', 'phone'])
    const mine = await phones
      .where('customer_id', '=', customerId)
      .orderBy('used_at', 'desc')
      .limit(mostPhones + forgottenAtOnce)
      .execute()
    const unused = await phones
      .where('used_at', '<=', now - keptMs)
      .limit(forgottenAtOnce)
      .execute()
    for (const row of [...mine.slice(mostPhones), ...unused])
      await this.#db
        .deleteFrom('ussd_own_phones')
        .where('customer_id', '=', row.customer_id)
        .where('phone', '=', row.phone)
        .execute()
  }
}
