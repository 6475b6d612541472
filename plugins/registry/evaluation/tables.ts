import type { Kysely } from 'kysely'

/** What a claim keeps of its evaluation and of what it became, beside its verdict. */
export type ReviewColumns = {
  /** `pending` while nobody has looked, `asked` when a person is to decide; null where nothing evaluates by itself. */
  review: 'pending' | 'asked' | null
  /** Why a person is asked. */
  review_reason: string | null
  /** The credit that the claim became. */
  credit: string | null
  /** JSON of how its quantity came about. */
  credit_working: string | null
  /** Why no credit could be made. */
  credit_fault: string | null
}

/** Those columns of a claim that nobody has looked at yet. */
export const unreviewed = {
  review: null,
  review_reason: null,
  credit: null,
  credit_working: null,
  credit_fault: null,
} as const

/** Adds the columns of evaluations to the claims. */
export async function createReviews(db: Kysely<any>) {
  // any: a migration sees tables that no type knows yet
  for (const column of Object.keys(unreviewed))
    await db.schema.alterTable('registry_claims').addColumn(column, 'text').execute()
  await db.schema
    .createIndex('registry_claims_by_review')
    .on('registry_claims')
    .columns(['review', 'ordinal'])
    .execute()
  await db.schema
    .createIndex('registry_claims_by_protocol')
    .on('registry_claims')
    .columns(['protocol', 'ordinal'])
    .execute()
}
