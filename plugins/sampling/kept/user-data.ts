import type { Database, ErasedData, KeptData, UserDataItem } from '#core'
import { sql } from 'kysely'
import { type SamplingDatabase, withSamplingTables } from '../tables.ts'

const designsPerPage = 100

const parsed = (text: string | null): unknown => (text === null ? undefined : JSON.parse(text)) // this plugin wrote the column

/** The designs of a user after one of them, in the order of their ids. */
async function designsAfter(db: SamplingDatabase, did: string, last: string): Promise<string[]> {
  const rows = await db
    .selectFrom('sampling_revisions')
    .select('design_id')
    .distinct()
    .where('owner', '=', did)
    .where('design_id', '>', last)
    .orderBy('design_id')
    .limit(designsPerPage)
    .execute()
  return rows.map(({ design_id }) => design_id)
}

/** The designs of a user, with every revision, and the samples that were drawn. */
export async function* exportSamples(
  did: string,
  database: Database,
): AsyncGenerator<UserDataItem> {
  const db = withSamplingTables(database)
  for (let last = ''; ;) {
    const page = await designsAfter(db, did, last)
    for (const designId of page) {
      const revisions = await db
        .selectFrom('sampling_revisions')
        .selectAll()
        .where('design_id', '=', designId)
        .orderBy('revision')
        .execute()
      for (const row of revisions) {
        const { revision, project_id, created_at, request, figures, verification } = row
        yield {
          ...{ kind: 'design', designId, revision, projectId: project_id, createdAt: created_at },
          request: parsed(request),
          figures: parsed(figures),
          verification: parsed(verification),
        }
      }
      const samples = await db
        .selectFrom('sampling_selections')
        .selectAll()
        .where('design_id', '=', designId)
        .orderBy('number')
        .execute()
      for (const row of samples) {
        const { number, committed_at, selected_at, selected } = row
        const times = { committedAt: committed_at, selectedAt: selected_at }
        yield { kind: 'sample', designId, number, ...times, selected: parsed(selected) }
      }
    }
    last = page.at(-1) ?? ''
    if (page.length < designsPerPage) return
  }
}

/**
 * Deletes the designs of a user with their frames and samples. A design that a verifier has approved stays without its owner:
 * others rely on the approval.
 */
export async function eraseSamples(did: string, database: Database): Promise<ErasedData> {
  const db = withSamplingTables(database)
  const erased = { design: 0, sample: 0 }
  let approved = 0
  for (let last = ''; ;) {
    const page = await designsAfter(db, did, last)
    for (const designId of page) {
      const samples = await eraseDesign(db, designId)
      if (samples === undefined) approved++
      else {
        erased.design++
        erased.sample += samples
      }
    }
    last = page.at(-1) ?? ''
    if (page.length < designsPerPage) break
  }
  const kept = await named(db, did)
  const why =
    'A verifier has approved it, and others rely on that. Nothing in it names its owner as such.'
  if (approved > 0) kept.push({ what: `${approved} approved designs`, why })
  return { erased, ...(kept.length > 0 && { kept }) }
}

/** Deletes a design, and resolves to how many samples it had; one that is approved loses its owner instead. */
function eraseDesign(db: SamplingDatabase, designId: string): Promise<number | undefined> {
  return db.transaction().execute(async (trx) => {
    const newest = await trx
      .selectFrom('sampling_revisions')
      .select('verification')
      .where('design_id', '=', designId)
      .where('newest', '=', 1)
      .executeTakeFirst()
    const verification = parsed(newest?.verification ?? null)
    if (typeof verification === 'object' && verification !== null && 'status' in verification)
      if (verification.status === 'approved') {
        await trx
          .updateTable('sampling_revisions')
          .set({ owner: null })
          .where('design_id', '=', designId)
          .execute()
        return undefined
      }
    await trx
      .deleteFrom('sampling_frames')
      .where('frame_id', 'in', (eb) =>
        eb.selectFrom('sampling_selections').select('frame_id').where('design_id', '=', designId),
      )
      .execute()
    const { numDeletedRows } = await trx
      .deleteFrom('sampling_selections')
      .where('design_id', '=', designId)
      .executeTakeFirstOrThrow()
    for (const table of ['sampling_audit_files', 'sampling_revisions'] as const)
      await trx.deleteFrom(table).where('design_id', '=', designId).execute()
    return Number(numDeletedRows)
  })
}

/** What still names the user: designs of others that the user verified or worked on, and approved ones of his own. */
async function named(db: SamplingDatabase, did: string): Promise<KeptData[]> {
  const quoted = `%"${did}"%`
  const { rows } = await sql<{ count: number }>`select count(distinct design_id) as count
    from sampling_revisions where verifier = ${did} or made_by = ${did}
      or verification like ${quoted}`.execute(db)
  const count = Number(rows[0]?.count ?? 0)
  if (count === 0) return []
  const why = 'Who worked out or verified a design of somebody else belongs to its proof.'
  return [{ what: `the DID in ${count} designs`, why }]
}
