import { randomUUID } from 'node:crypto'
import { RuntimeError } from '#core'
import {
  drawsAsMaker,
  maySee,
  mustBeAnother,
  mustDraw,
  mustOwn,
  mustVerify,
  type Who,
} from '../access.ts'
import { discounted, reliability } from '../arithmetic/arithmetic.ts'
import { design } from './design.ts'
import { turns } from './in-turn.ts'
import {
  parsed,
  recordOf,
  requestOf,
  type Outcome,
  type SampleDesign,
  type VerificationState,
} from './record.ts'
import { conflicting, invalid } from '../refusal.ts'
import type { Recalculation, SamplingRequest, Verification } from '../request.ts'
import type { RevisionRow, SamplingDatabase } from '../tables.ts'

/** What extends the sample of a revision to new sizes by stratum; undefined where nothing was drawn. */
export type Extend = (
  designId: string,
  revision: number,
  sizes: ReadonlyMap<string, number>,
) => Promise<Outcome['change']['idsToAdd']>

/** Designs and their revisions. */
export function designs(db: SamplingDatabase, extend: Extend) {
  // A hundred recalculations at once would mostly overtake each other, and start again.
  const inTurn = turns()

  async function rowOf(designId: string, who: Who, revision?: number): Promise<RevisionRow> {
    const row = await db
      .selectFrom('sampling_revisions')
      .selectAll()
      .where('design_id', '=', designId)
      .where((column) =>
        revision === undefined ? column('newest', '=', 1) : column('revision', '=', revision),
      )
      .executeTakeFirst()
    if (row && maySee(row, who)) return row
    throw revision === undefined
      ? noDesign(designId)
      : new RuntimeError(
          'NOT_FOUND',
          `There is no revision ${revision} of the sample design ${designId}.`,
        )
  }

  async function read(designId: string, who: Who, revision?: number): Promise<SampleDesign> {
    return withSelection(await rowOf(designId, who, revision))
  }

  async function withSelection(row: RevisionRow): Promise<SampleDesign> {
    const [record] = await withSelections([row])
    return record!
  }

  /** Records with what was committed for each; what was drawn may be long, and is read by itself. */
  async function withSelections(rows: readonly RevisionRow[]): Promise<SampleDesign[]> {
    if (rows.length === 0) return []
    const found = await db
      .selectFrom('sampling_selections')
      .select(['design_id', 'revision', 'frame_digest', 'beacon', 'committed_at', 'selected_at'])
      .where('design_id', 'in', [...new Set(rows.map((row) => row.design_id))])
      .execute()
    const keyOf = ({ design_id, revision }: { design_id: string; revision: number }) =>
      `${design_id} ${revision}`
    const commitments = new Map(found.map((one) => [keyOf(one), one]))
    return rows.map((row) => recordOf(row, commitments.get(keyOf(row))))
  }

  /** Who worked out a revision of the design, committed its frame or drew from it. */
  async function makersOf(designId: string): Promise<Set<string>> {
    const revisions = await db
      .selectFrom('sampling_revisions')
      .select('made_by')
      .distinct()
      .where('design_id', '=', designId)
      .execute()
    const draws = await db
      .selectFrom('sampling_selections')
      .select(['committed_by', 'drawn_by'])
      .distinct()
      .where('design_id', '=', designId)
      .execute()
    const all = [
      ...revisions.map(({ made_by }) => made_by),
      ...draws.flatMap(({ committed_by, drawn_by }) => [committed_by, drawn_by]),
    ]
    return new Set(all.filter((maker) => maker !== null))
  }

  async function nextOf(
    before: RevisionRow,
    actual: Recalculation,
    who: Who,
  ): Promise<RevisionRow> {
    const request = withActual(requestOf(before), actual)
    const figures = design(request)
    const { adjustedSize, population } = figures.parameters
    const previous = parsed<SampleDesign>(before.figures).parameters.adjustedSize
    const delta = adjustedSize - previous
    const found = reliabilityOf(request, population, actual)
    const idsToAdd = await extend(
      before.design_id,
      before.revision,
      new Map(
        figures.stratification?.strata.map(({ name, sampleSize }) => [name, sampleSize]) ?? [
          ['all', adjustedSize],
        ],
      ),
    )
    const outcome: Outcome = {
      change: {
        previousAdjustedSize: previous,
        delta,
        direction: delta > 0 ? 'up' : delta < 0 ? 'down' : 'unchanged',
        ...(idsToAdd && { idsToAdd }),
      },
      ...(found && { reliability: found }),
    }
    return {
      ...before,
      revision: before.revision + 1,
      created_at: new Date().toISOString(),
      request: JSON.stringify(request),
      figures: JSON.stringify({
        ...figures,
        ...(found && { working: { ...figures.working, imprecisionDiscount: found.relHalfWidth } }),
      }),
      outcome: JSON.stringify(outcome),
      verification: JSON.stringify({ status: 'draft' }),
      version: 1,
      newest: 1,
      made_by: who.caller,
    }
  }

  /** Puts a revision in the place of the one it was worked out from; false when that was replaced meanwhile. */
  const replaces = (before: RevisionRow, next: RevisionRow): Promise<boolean> =>
    db.transaction().execute(async (trx) => {
      const { numUpdatedRows } = await trx
        .updateTable('sampling_revisions')
        .set({ newest: 0 })
        .where('design_id', '=', before.design_id)
        .where('revision', '=', before.revision)
        .where('newest', '=', 1)
        .executeTakeFirst()
      if (numUpdatedRows !== 1n) return false
      await trx.insertInto('sampling_revisions').values(next).execute()
      return true
    })

  return {
    read,

    /** A design for its owner to commit a frame of. */
    async readToCommit(designId: string, who: Who): Promise<SampleDesign> {
      const row = await rowOf(designId, who)
      mustOwn(row, who)
      return withSelection(row)
    },

    /** A design to draw from, or to record what a verifier drew, and who made the draw where a maker did. */
    async readToDraw(
      designId: string,
      who: Who,
      external?: string,
    ): Promise<{ design: SampleDesign; maker: string | null }> {
      const row = await rowOf(designId, who)
      mustDraw(row, who, external)
      const maker = drawsAsMaker(row, who, external) ? who.caller : null
      return { design: await withSelection(row), maker }
    },

    async create(request: SamplingRequest, who: Who): Promise<SampleDesign> {
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
        owner: who.did ?? null,
        verifier: null,
        made_by: who.caller,
      }
      await db.insertInto('sampling_revisions').values(row).execute()
      return recordOf(row)
    },

    /** The designs of a project, newest first: of a caller who does not read all those they made or are to verify. */
    async list(projectId: string, who: Who, limit: number, cursor?: string) {
      const after = cursor === undefined ? undefined : readCursor(cursor)
      let query = db
        .selectFrom('sampling_revisions')
        .selectAll()
        .where('project_id', '=', projectId)
        .where('newest', '=', 1)
        .orderBy('created_at', 'desc')
        .orderBy('design_id', 'desc')
        .limit(limit + 1)
      const { did = '', readsAll } = who
      if (!readsAll)
        query = query.where((column) =>
          column.or([column('owner', '=', did), column('verifier', '=', did)]),
        )
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
        items: await withSelections(rows.slice(0, limit)),
        ...(last && { nextCursor: writeCursor(last) }),
      }
    },

    /** Every revision of a design, oldest first. */
    async revisions(designId: string, who: Who): Promise<{ items: SampleDesign[] }> {
      const rows = await db
        .selectFrom('sampling_revisions')
        .selectAll()
        .where('design_id', '=', designId)
        .orderBy('revision')
        .execute()
      const newest = rows.at(-1)
      if (!newest || !maySee(newest, who)) throw noDesign(designId)
      return { items: await withSelections(rows) }
    },

    /** Works the design out anew from what a monitoring period found, as its next revision. */
    recalculate: (designId: string, actual: Recalculation, who: Who): Promise<SampleDesign> =>
      inTurn(designId, async () => {
        for (;;) {
          const before = await rowOf(designId, who)
          mustOwn(before, who)
          const next = await nextOf(before, actual, who)
          // Another server may have been quicker; what it wrote is where this one goes on from.
          if (await replaces(before, next)) return recordOf(next)
        }
      }),

    /** Takes a design one step: draft, submitted, approved or rejected. */
    async verify(designId: string, step: Verification, who: Who): Promise<SampleDesign> {
      const row = await rowOf(designId, who)
      mustVerify(row, who, step)
      const makers = await makersOf(designId)
      if (makers.has(step.verifier))
        throw invalid(
          'verifier',
          `${step.verifier} made the design, and cannot verify it`,
          'Name an external verifier.',
        )
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
      if (step.status !== 'submitted') mustBeAnother(makers, who)
      const timestamp = new Date().toISOString()
      const { status, verifier, notes, projects = state.projects } = step
      const entry = { status, verifier, timestamp, ...(notes !== undefined && { notes }) }
      const recordedBy = who.caller
      const verification: VerificationState = {
        ...entry,
        ...(projects && { projects }),
        history: [...(state.history ?? []), { ...entry, recordedBy }],
      }
      await db.transaction().execute(async (trx) => {
        // Whom the design is laid before sees all its revisions.
        if (status === 'submitted')
          await trx
            .updateTable('sampling_revisions')
            .set({ verifier })
            .where('design_id', '=', designId)
            .execute()
        const { numUpdatedRows } = await trx
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
      })
      return read(designId, who)
    },
  }
}
export type Designs = ReturnType<typeof designs>

const noDesign = (designId: string) =>
  new RuntimeError('NOT_FOUND', `There is no sample design ${designId}.`)

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
  // Student's t stretches the deviation, by 13 at most.
  if (sd !== undefined && !Number.isFinite(100 * sd))
    throw invalid('actualSD', `the standard deviation ${sd} is too large to be worked with`)
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
