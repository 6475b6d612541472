import type { PaymentRow, PaymentsDatabase } from '../tables.ts'

/** What came of looking for a payment on the ledger. */
export type Settled =
  | { readonly status: 'settled'; readonly paid: readonly string[]; readonly balance: string }
  | { readonly status: 'pending' }

/** What a payment that was counted has paid. */
export async function settledBy(db: PaymentsDatabase, payment: PaymentRow): Promise<Settled> {
  const account = await db
    .selectFrom('payments_accounts')
    .select('balance')
    .where('did', '=', payment.did)
    .executeTakeFirst()
  const ids: string[] = JSON.parse(payment.claims)
  const paid = await db
    .selectFrom('payments_claims')
    .select('id')
    .where('did', '=', payment.did)
    .where((eb) =>
      eb.or([
        eb('reference', '=', payment.tx_hash ?? ''),
        eb('method', '=', 'claim').and('id', 'in', ids),
      ]),
    )
    .where('status', '=', 'paid')
    .orderBy('created_at')
    .execute()
  const balance = String(account?.balance ?? 0)
  return { status: 'settled', paid: paid.map(({ id }) => id), balance }
}
