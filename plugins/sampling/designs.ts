import { randomUUID } from 'node:crypto'
import { RuntimeError } from '#core'
import { discounted, reliability } from './arithmetic.ts'
import { design } from './design.ts'
import {
  parsed,
  recordOf,
  requestOf,
  type Outcome,
  type SampleDesign,
  type VerificationState,
} from './record.ts'
import { conflicting, invalid } from './refusal.ts'
import type { Recalculation, SamplingRequest, Verification } from './request.ts'
import type { RevisionRow, SamplingDatabase } from './tables.ts'

/** What extends the sample of a revision to new sizes by stratum; undefined where nothing was drawn. */
export type Extend = (
  designId: string,
  revision: number,
  sizes: ReadonlyMap<string, number>,
) => Promise<Outcome['change']['idsToAdd']>

/** Designs and their revisions. */
export function designs(db: SamplingDatabase, extend: Extend) {
  async function rowOf(designId: string, revision?: number): Promise<RevisionRow> {
    const row = await db
      .selectFrom('sampling_revisions')
      .selectAll()
      .where('design_id', '=', designId)
      .where((column) =>
        revision === undefined ? column('newest', '=', 1) : column('revision', '=', revision),
      )
      .executeTakeFirst()
    if (row) return row
    throw new RuntimeError(
      'NOT_FOUND',
      revision === undefined
        ? `There is no sample design ${designId}.`
        : `There is no revision ${revision} of the sample design ${designId}.`,
    )
  }

  async function read(designId: string, revision?: number): Promise<SampleDesign> {
    const row = await rowOf(designId, revision)
    const selection = await db
      .selectFrom('sampling_selections')
      .selectAll()
      .where('design_id', '=', designId)
      .where('revision', '=', row.revision)
      .executeTakeFirst()
    return recordOf(row, selection)
  }

  return {
    rowOf,
    read,

    async create(request: SamplingRequest): Promise<SampleDesign> {
      const figures = design(request)
      const row: RevisionRow = {
        design_id: randomUUID(),
        revision: 1,
        project_id: request.projectId,
        created_at: new Date().toISOString(),
        request: JSON.stringify(request),
        figures: JSON.stringify(figures),
        outcome: null,
        verification: JSON.stringify({ status: 'draft' }),
        version: 1,
        newest: 1,
      }
      await db.insertInto('sampling_revisions').values(row).execute()
      return recordOf(row)
    },

    /** The designs of a project, newest first. */
    async list(projectId: string, limit: number, cursor?: string) {
      const after = cursor === undefined ? undefined : readCursor(cursor)
      let query = db
        .selectFrom('sampling_revisions')
        .selectAll()
        .where('project_id', '=', projectId)
        .where('newest', '=', 1)
        .orderBy('created_at', 'desc')
        .orderBy('design_id', 'desc')
        .limit(limit + 1)
      if (after)
        query = query.where((column) =>
          column.or([
            column('created_at', '<', after.createdAt),
            column.and([
              column('created_at', '=', after.createdAt),
              column('design_id', '<', after.designId),
            ]),
          ]),
        )
      const rows = await query.execute()
      const last = rows.length > limit ? rows[limit - 1] : undefined
      return {
        items: rows.slice(0, limit).map((row) => recordOf(row)),
        ...(last && { nextCursor: writeCursor(last) }),
      }
    },

    /** Every revision of a design, oldest first. */
    async revisions(designId: string): Promise<{ items: SampleDesign[] }> {
      const rows = await db
        .selectFrom('sampling_revisions')
        .selectAll()
        .where('design_id', '=', designId)
        .orderBy('revision')
        .execute()
      if (rows.length === 0)
        throw new RuntimeError('NOT_FOUND', `There is no sample design ${designId}.`)
      return { items: rows.map((row) => recordOf(row)) }
    },

    /** Works the design out anew from what a monitoring period found, as its next revision. */
    async recalculate(designId: string, actual: Recalculation): Promise<SampleDesign> {
      const before = await rowOf(designId)
      const request = withActual(requestOf(before), actual)
      const figures = design(request)
      const previous = parsed<SampleDesign>(before.figures)
      const delta = figures.parameters.adjustedSize - previous.parameters.adjustedSize
      const found = reliabilityOf(request, figures.parameters.population, actual)
      const idsToAdd = await extend(
        designId,
        before.revision,
        new Map(
          figures.stratification?.strata.map(({ name, sampleSize }) => [name, sampleSize]) ?? [
            ['all', figures.parameters.adjustedSize],
          ],
        ),
      )
      const outcome: Outcome = {
        change: {
          previousAdjustedSize: previous.parameters.adjustedSize,
          delta,
          direction: delta > 0 ? 'up' : delta < 0 ? 'down' : 'unchanged',
          ...(idsToAdd && { idsToAdd }),
        },
        ...(found && { reliability: found }),
      }
      const row: RevisionRow = {
        ...before,
        revision: before.revision + 1,
        created_at: new Date().toISOString(),
        request: JSON.stringify(request),
        figures: JSON.stringify({
          ...figures,
          ...(found && {
            working: { ...figures.working, imprecisionDiscount: found.relHalfWidth },
          }),
        }),
        outcome: JSON.stringify(outcome),
        verification: JSON.stringify({ status: 'draft' }),
        version: 1,
        newest: 1,
      }
      await db.transaction().execute(async (trx) => {
        const { numUpdatedRows } = await trx
          .updateTable('sampling_revisions')
          .set({ newest: 0 })
          .where('design_id', '=', designId)
          .where('revision', '=', before.revision)
          .where('newest', '=', 1)
          .executeTakeFirst()
        if (numUpdatedRows !== 1n)
          throw conflicting(
            `The design ${designId} was recalculated meanwhile.`,
            'Read it again, then decide.',
            { field: 'revision', value: before.revision },
          )
        await trx.insertInto('sampling_revisions').values(row).execute()
      })
      return recordOf(row)
    },

    /** Takes a design one step: draft, submitted, approved or rejected. */
    async verify(designId: string, step: Verification): Promise<SampleDesign> {
      const row = await rowOf(designId)
      const state = parsed<VerificationState>(row.verification)
      if (!nextSteps[state.status].includes(step.status))
        throw conflicting(
          `The design is ${state.status}; it cannot become ${step.status}.`,
          state.status === 'draft'
            ? 'Submit it first.'
            : state.status === 'submitted'
              ? 'It waits to be approved or rejected.'
              : 'A recalculation makes a new draft.',
          { field: 'status', value: step.status, present: state.status },
        )
      const timestamp = new Date().toISOString()
      const { status, verifier, notes, projects = state.projects } = step
      const entry = { status, verifier, timestamp, ...(notes !== undefined && { notes }) }
      const verification: VerificationState = {
        ...entry,
        ...(projects && { projects }),
        history: [...(state.history ?? []), entry],
      }
      const { numUpdatedRows } = await db
        .updateTable('sampling_revisions')
        .set({ verification: JSON.stringify(verification), version: row.version + 1 })
        .where('design_id', '=', designId)
        .where('revision', '=', row.revision)
        .where('newest', '=', 1)
        .where('version', '=', row.version)
        .executeTakeFirst()
      if (numUpdatedRows !== 1n)
        throw conflicting(
          `The design ${designId} changed meanwhile.`,
          'Read it again, then decide.',
          { field: 'status', value: status },
        )
      return read(designId)
    },
  }
}
export type Designs = ReturnType<typeof designs>

const nextSteps: Readonly<Record<VerificationState['status'], readonly string[]>> = {
  draft: ['submitted'],
  submitted: ['approved', 'rejected'],
  approved: [],
  rejected: [],
}

/** The request with what was found in place of what was expected. */
function withActual(request: SamplingRequest, actual: Recalculation): SamplingRequest {
  const proportion = request.estimator === 'proportion'
  if (!proportion && actual.actualSD === undefined)
    throw invalid('actualSD', 'missing; give a number of at least 0')
  if (proportion && actual.actualMean > 1)
    throw invalid('actualMean', `give a proportion above 0 and at most 1, not ${actual.actualMean}`)
  const found = new Map(actual.strata?.map((stratum) => [stratum.name, stratum]))
  const strata = request.stratification?.strata?.map((stratum) => {
    const { actualMean, actualSD, actualDropoutRate } = found.get(stratum.name) ?? {}
    found.delete(stratum.name)
    return {
      ...stratum,
      ...(actualMean !== undefined && { mean: actualMean }),
      ...(actualSD !== undefined && { sd: actualSD }),
      ...(actualDropoutRate !== undefined && { dropoutRate: actualDropoutRate }),
    }
  })
  const [unknown] = found.keys()
  if (unknown !== undefined) throw invalid('strata', `the design has no stratum "${unknown}"`)
  return {
    ...request,
    expectedMean: actual.actualMean,
    expectedSD: actual.actualSD ?? request.expectedSD,
    dropoutRate: actual.actualDropoutRate,
    ...(request.stratification && {
      stratification: { ...request.stratification, ...(strata && { strata }) },
    }),
  }
}

function reliabilityOf(
  { confidence, precision, estimator }: SamplingRequest,
  population: number,
  { actualMean: mean, actualSD: sd, completes, er }: Recalculation,
): Outcome['reliability'] {
  if (completes === undefined) return undefined
  if (completes > population)
    throw invalid('completes', `${completes} are more than the population of ${population}`)
  const found = reliability({ confidence, precision, population, estimator, mean, sd, completes })
  return {
    completes,
    ...found,
    ...(er !== undefined && { erConservative: discounted(er, found.relHalfWidth) }),
  }
}

const writeCursor = ({ created_at, design_id }: RevisionRow): string =>
  Buffer.from(`${created_at} ${design_id}`).toString('base64url')

function readCursor(cursor: string): { createdAt: string; designId: string } {
  const [createdAt = '', designId] = Buffer.from(cursor, 'base64url').toString().split(' ')
  if (designId === undefined) throw invalid('cursor', 'give the nextCursor of a list')
  return { createdAt, designId }
}
