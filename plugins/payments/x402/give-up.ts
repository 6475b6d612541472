import type { ClaimRow, PaymentsDatabase } from '../tables.ts'

/**
 * Ends the signature that holds a claim, with all claims that it holds, in a transaction that has locked the account: the operator
 * knows that it moved no money. Should it be settled all the same, its money comes into the balance.
 */
export async function giveUpSignature(trx: PaymentsDatabase, { id, did }: ClaimRow): Promise<void> {
  const holding = await trx
    .selectFrom('payments_signatures')
    .innerJoin('payments_offers', 'payments_offers.id', 'payments_signatures.offer_id')
    .select(['payments_signatures.nonce', 'payments_offers.claims'])
    .where('payments_signatures.did', '=', did)
    .where('payments_signatures.status', 'in', ['asking', 'settling', 'unknown'])
    .execute()
  for (const { nonce, claims } of holding) {
    const ids: string[] = JSON.parse(claims)
    if (!ids.includes(id)) continue
    await trx
      .updateTable('payments_signatures')
      .set({ status: 'refused', reason: 'Given up by the operator.' })
      .where('nonce', '=', nonce)
      .execute()
    await trx
      .updateTable('payments_claims')
      .set({ standing: null, standing_until: null })
      .where('id', 'in', ids)
      .where('standing', '=', 'signed')
      .execute()
  }
}
