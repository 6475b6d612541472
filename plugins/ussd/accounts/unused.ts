import { setImmediate as nextTick } from 'node:timers/promises'
import type { Kysely } from 'kysely'
import type { Tables } from '../tables.ts'

const dayMs = 24 * 60 * 60_000
/** An account that nobody logged in to for so long leaves, with the name, the address and the number in it. */
const accountKeptMs = 2 * 365 * dayMs
/** A number that nobody dialled from for so long may be somebody else's by now: its language and its DID leave. */
const phoneKeptMs = 365 * dayMs
/** A dial notes no more than once in so long that its phone is in use: the note is a write. */
export const notedEveryMs = dayMs
const forgottenAtOnce = 500

/** Removes the accounts and the phones that nobody has used for long, in slices, so that calls get in between. */
export async function forgetUnused(db: Kysely<Tables>, now: number): Promise<void> {
  await inSlices(() => forgetAccounts(db, now - accountKeptMs))
  await inSlices(() => forgetPhones(db, now - phoneKeptMs))
}

async function inSlices(forget: () => Promise<{ numDeletedRows: bigint }>): Promise<void> {
  while ((await forget()).numDeletedRows >= forgottenAtOnce) await nextTick()
}

// Each statement asks for the time twice: a row that is used while the statement waits for the row stays.

const forgetAccounts = (db: Kysely<Tables>, before: number) =>
  db
    .deleteFrom('ussd_accounts')
    .where('used_at', '<=', before)
    .where('customer_id', 'in', (eb) =>
      eb
        .selectFrom('ussd_accounts')
        .select('customer_id')
        .where('used_at', '<=', before)
        .limit(forgottenAtOnce),
    )
    .executeTakeFirstOrThrow()

const forgetPhones = (db: Kysely<Tables>, before: number) =>
  db
    .deleteFrom('ussd_phones')
    .where('used_at', '<=', before)
    .where('phone', 'in', (eb) =>
      eb
        .selectFrom('ussd_phones')
        .select('phone')
        .where('used_at', '<=', before)
        .limit(forgottenAtOnce),
    )
    .executeTakeFirstOrThrow()
