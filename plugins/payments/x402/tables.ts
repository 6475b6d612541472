import type { Kysely } from 'kysely'

/** What was offered in a 402 header: to pay these claims by a signature. */
export type OfferRow = {
  id: string
  did: string
  claims: string
  amount: number
  /** What the payer's signature has to be for, field by field. */
  requirements: string
  created_at: number
  expires_at: number
}

/** A signature that was sent in. The signature itself is kept nowhere. */
export type SignatureRow = {
  /** The payer's address and the nonce of the signature: each is settled once. */
  nonce: string
  /** SHA-256 of the header, to tell the same signature from another with its nonce. */
  digest: string
  did: string
  offer_id: string
  /**
   * `asking`: the facilitator looks at it, and nothing was moved. `settling`: it was asked to move the money. `unknown`: it was, and
   * nobody knows what it did.
   */
  status: 'asking' | 'settling' | 'unknown' | 'settled' | 'refused'
  reason: string | null
  tx_hash: string | null
  /** Until when the signature can be settled. */
  valid_until: number
  asked_at: number
}

/** The tables of payments by signature. */
export type SignatureTables = {
  payments_offers: OfferRow
  payments_signatures: SignatureRow
}

/** Offers, and the signatures that came for them. */
export async function createOffers(db: Kysely<any>): Promise<void> {
  // any: a migration sees tables that no type knows yet
  let offers = db.schema
    .createTable('payments_offers')
    .addColumn('id', 'varchar(36)', (column) => column.primaryKey())
  for (const name of ['did', 'claims', 'requirements'])
    offers = offers.addColumn(name, 'text', (column) => column.notNull())
  for (const name of ['amount', 'created_at', 'expires_at'])
    offers = offers.addColumn(name, 'bigint', (column) => column.notNull())
  await offers.execute()
  let signatures = db.schema
    .createTable('payments_signatures')
    .addColumn('nonce', 'text', (column) => column.primaryKey())
  for (const name of ['digest', 'did', 'offer_id', 'status'])
    signatures = signatures.addColumn(name, 'text', (column) => column.notNull())
  for (const name of ['valid_until', 'asked_at'])
    signatures = signatures.addColumn(name, 'bigint', (column) => column.notNull())
  for (const name of ['reason', 'tx_hash']) signatures = signatures.addColumn(name, 'text')
  await signatures.execute()
  await db.schema
    .createIndex('payments_offers_of_did')
    .on('payments_offers')
    .columns(['did', 'expires_at'])
    .execute()
}
