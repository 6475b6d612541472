import type { PaymentsDatabase } from '../tables.ts'

const day = 24 * 3_600_000
/** How long an account is kept that nothing was ever paid or billed for, with its claims that nobody paid. */
const strangerMs = 30 * day
/** How many of them go at once. */
const perRound = 1000

/** Forgets what was counted for addresses before yesterday. */
export async function forgetAddresses(db: PaymentsDatabase, now: Date): Promise<void> {
  const before = new Date(now.getTime() - day).toISOString().slice(0, 10)
  await db.deleteFrom('payments_addresses').where('day', '<', before).execute()
}

/** How long free and void charges are kept, and what was asked for and nobody paid. Bills that were paid or are due stay. */
const unpaidMs = 90 * day

/** Forgets advance claims and payments that ran out, and charges that cost nothing. */
export async function forgetUnpaid(db: PaymentsDatabase, now: Date): Promise<void> {
  const before = now.getTime() - unpaidMs
  await db
    .deleteFrom('payments_claims')
    .where('status', '=', 'expired')
    .where('created_at', '<', before)
    .execute()
  await db
    .deleteFrom('payments_payments')
    .where('status', '=', 'expired')
    .where('created_at', '<', before)
    .execute()
  await db
    .deleteFrom('payments_charges')
    .where('status', 'in', ['free', 'void'])
    .where('claim_id', 'is', null)
    .where('created_at', '<', before)
    .execute()
}

/** How long a contract waits for its transaction, and an offer is kept after it has run out. */
const waitingMs = day

const unsettled = ['settling', 'unknown'] as const

/** Forgets contracts that nobody signed, what the outbox has sent, and offers with their signatures. */
export async function forgetSent(db: PaymentsDatabase, now: Date): Promise<void> {
  const at = now.getTime()
  await db
    .deleteFrom('payments_contracts')
    .where('status', '=', 'pending')
    .where('created_at', '<', at - waitingMs)
    .execute()
  await db
    .deleteFrom('payments_outbox')
    .where('status', 'in', ['done', 'refused'])
    .where('changed_at', '<', at - unpaidMs)
    .execute()
  // A signature of which nobody knows what became of it stays, with what it was for.
  await db
    .deleteFrom('payments_offers')
    .where('expires_at', '<', at - waitingMs)
    .where('id', 'not in', (eb) =>
      eb.selectFrom('payments_signatures').select('offer_id').where('status', 'in', unsettled),
    )
    .execute()
  await db
    .deleteFrom('payments_signatures')
    .where('valid_until', '<', at - unpaidMs)
    .where('status', 'not in', unsettled)
    .execute()
}

/** Forgets accounts that never had any money in them: DIDs cost nothing, so there may be many. */
export async function forgetStrangers(db: PaymentsDatabase, now: Date): Promise<void> {
  const strangers = await db
    .selectFrom('payments_accounts')
    .select('did')
    .where('touched_at', '<', now.getTime() - strangerMs)
    .where('has_paid', '=', 0)
    .where('balance', '=', 0)
    .where('owed', '=', 0)
    .where('held', '=', 0)
    .where((eb) =>
      eb.not(
        eb.exists(
          eb
            .selectFrom('payments_charges')
            .select('run_id')
            .whereRef('payments_charges.did', '=', 'payments_accounts.did'),
        ),
      ),
    )
    .limit(perRound)
    .execute()
  if (strangers.length === 0) return
  const dids = strangers.map(({ did }) => did)
  await db.transaction().execute(async (trx) => {
    await trx
      .deleteFrom('payments_claims')
      .where('did', 'in', dids)
      .where('status', 'in', ['expired', 'void'])
      .execute()
    await trx
      .deleteFrom('payments_accounts')
      .where('did', 'in', dids)
      .where('balance', '=', 0)
      .where('held', '=', 0)
      .execute()
  })
}
