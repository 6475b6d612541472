import type { Outcome } from '../design/record.ts'
import type { SamplingDatabase } from '../tables.ts'

/** How many designs of a project are looked at. */
const mostDesigns = 20

/**
 * How far the measured mean of a project may be off, by its newest design that was worked out anew after a period. Only designs
 * of the operator count: anybody can make a design for the project of somebody else.
 */
export async function imprecisionOf(project: string, db: SamplingDatabase) {
  const rows = await db
    .selectFrom('sampling_revisions')
    .select(['design_id', 'revision', 'outcome'])
    .where('project_id', '=', project)
    .where('newest', '=', 1)
    .where('owner', 'is', null)
    .orderBy('created_at', 'desc')
    .limit(mostDesigns)
    .execute()
  for (const { design_id, revision, outcome } of rows) {
    const { reliability }: Partial<Outcome> = outcome === null ? {} : JSON.parse(outcome)
    if (reliability && Number.isFinite(reliability.relHalfWidth))
      return {
        share: reliability.relHalfWidth,
        source: `sample design ${design_id}, revision ${revision}`,
      }
  }
  return undefined
}
