import { withClaimTables, type ClaimRow } from '../claims/tables.ts'
import type { RegistryDatabase } from '../tables.ts'
import type { Scope } from './expression.ts'

/** How many earlier claims the rules look back at. */
const mostEarlier = 500

/** What rules see of a claim: the claim, its asset as it is now, and earlier claims of the asset under the same protocol. */
export async function scopeOf(
  claim: ClaimRow,
  on: RegistryDatabase,
): Promise<Omit<Scope, 'named'>> {
  const asset = await on
    .selectFrom('registry_entities')
    .select(['did', 'type', 'class', 'status', 'created_at', 'properties'])
    .where('did', '=', claim.subject)
    .executeTakeFirst()
  const earlier = await withClaimTables(on)
    .selectFrom('registry_claims')
    .selectAll()
    .where('subject', '=', claim.subject)
    .where('protocol', '=', claim.protocol)
    .where('ordinal', '<', claim.ordinal)
    .where('status', '!=', 'open')
    .orderBy('ordinal', 'desc')
    .limit(mostEarlier)
    .execute()
  return {
    roots: {
      claim: seenOf(claim),
      asset: asset
        ? {
            ...JSON.parse(asset.properties),
            '@did': asset.did,
            '@type': asset.type,
            '@class': asset.class ?? undefined,
            '@status': asset.status,
            '@created': asset.created_at,
          }
        : {},
    },
    history: earlier.map(seenOf),
  }
}

/** A claim as rules name it: its properties, and what the registry says of it with `@` before. */
const seenOf = (claim: ClaimRow): Record<string, unknown> => ({
  ...JSON.parse(claim.properties),
  '@type': claim.type,
  '@status': claim.status,
  '@submitter': claim.submitter,
  '@submitted': claim.created_at,
  '@evidence': claim.evidence === null ? 0 : (JSON.parse(claim.evidence) as unknown[]).length,
})
