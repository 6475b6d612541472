import { randomUUID } from 'node:crypto'
import type { ClaimRow, PaymentsDatabase } from '../tables.ts'
import { total } from '../terms/money.ts'
import type { OfferRow } from './tables.ts'

/** Where and in what payments by signature come. */
export interface OfferTerms {
  readonly network: string
  readonly asset: string
  readonly assetName: string
  readonly assetVersion: string
  readonly payTo: string
  /** Units of the asset for one of ours, as digits with or without a fraction. */
  readonly rate: string
}

/** How long an offer stands. */
export const offerMs = 5 * 60_000

/** The offer for claims that stands already, or a new one. */
export async function offerFor(
  db: PaymentsDatabase,
  terms: OfferTerms,
  now: Date,
  { did, claims }: { readonly did: string; readonly claims: readonly ClaimRow[] },
): Promise<OfferRow> {
  const at = now.getTime()
  const ids = JSON.stringify(claims.map(({ id }) => id))
  const amount = total(...claims.map((claim) => claim.amount))
  const known = await db
    .selectFrom('payments_offers')
    .selectAll()
    .where('did', '=', did)
    .where('claims', '=', ids)
    .where('amount', '=', amount)
    .where('expires_at', '>', at + offerMs / 5)
    .orderBy('created_at', 'desc')
    .executeTakeFirst()
  if (known) return known
  const id = randomUUID()
  const requirements = JSON.stringify({
    scheme: 'exact',
    network: terms.network,
    asset: terms.asset,
    amount: String(inAsset(amount, terms.rate)),
    payTo: terms.payTo,
    maxTimeoutSeconds: offerMs / 1000,
    extra: { name: terms.assetName, version: terms.assetVersion, offer: id },
  })
  const offer: OfferRow = {
    id,
    did,
    claims: ids,
    amount,
    requirements,
    created_at: at,
    expires_at: at + offerMs,
  }
  await db.insertInto('payments_offers').values(offer).execute()
  return offer
}

/** An amount in units of the asset, rounded up. */
export function inAsset(amount: number, rate: string): bigint {
  const [whole = '0', fraction = ''] = rate.split('.')
  const scale = 10n ** BigInt(fraction.length)
  const scaled = BigInt(amount) * BigInt(whole + fraction)
  return (scaled + scale - 1n) / scale
}
