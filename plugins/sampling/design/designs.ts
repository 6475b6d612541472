import { randomUUID } from 'node:crypto'
import { RuntimeError } from '#core'
import { drawsAsMaker, maySee, mustDraw, mustOwn, mustVerify, type Who } from '../access.ts'
import { conflicting } from '../refusal.ts'
import type { Recalculation, SamplingRequest, Verification } from '../request.ts'
import type { RevisionRow, SamplingDatabase } from '../tables.ts'
import { readCursor, writeCursor } from './cursor.ts'
import { design } from './design.ts'
import { Turns } from './in-turn.ts'
import { nextRevision, type Extend } from './recalculation.ts'
import { recordOf, type SampleDesign } from './record.ts'
import { nextState } from './verification.ts'

/** Designs and their revisions. */
export class Designs {
  readonly #db: SamplingDatabase
  readonly #extend: Extend
  /** A hundred recalculations at once would mostly overtake each other, and start again. */
  readonly #recalculations = new Turns()

  constructor(db: SamplingDatabase, extend: Extend) {
    this.#db = db
    this.#extend = extend
  }

  /** A design, or an earlier revision of it. */
  async read(designId: string, who: Who, revision?: number): Promise<SampleDesign> {
    return this.#withSelection(await this.#row(designId, who, revision))
  }

  /** A design for its owner to commit a frame of. */
  async readToCommit(designId: string, who: Who): Promise<SampleDesign> {
    const row = await this.#row(designId, who)
    mustOwn(row, who)
    return this.#withSelection(row)
  }

  /** A design to draw from, or to record what a verifier drew, and who made the draw where a maker did. */
  async readToDraw(
    designId: string,
    who: Who,
    external?: string,
  ): Promise<{ design: SampleDesign; maker: string | null }> {
    const row = await this.#row(designId, who)
    mustDraw(row, who, external)
    const maker = drawsAsMaker(row, who, external) ? who.caller : null
    return { design: await this.#withSelection(row), maker }
  }

  /** Works a design out and keeps it. */
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
    await this.#db.insertInto('sampling_revisions').values(row).execute()
    return recordOf(row)
  }

  /** The designs of a project, newest first: of a caller who does not read all those they made or are to verify. */
  async list(projectId: string, who: Who, limit: number, cursor?: string) {
    const after = cursor === undefined ? undefined : readCursor(cursor)
    let query = this.#db
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
      items: await this.#withSelections(rows.slice(0, limit)),
      ...(last && { nextCursor: writeCursor(last) }),
    }
  }

  /** Every revision of a design, oldest first. */
  async revisions(designId: string, who: Who): Promise<{ items: SampleDesign[] }> {
    const rows = await this.#db
      .selectFrom('sampling_revisions')
      .selectAll()
      .where('design_id', '=', designId)
      .orderBy('revision')
      .execute()
    const newest = rows.at(-1)
    if (!newest || !maySee(newest, who)) throw noDesign(designId)
    return { items: await this.#withSelections(rows) }
  }

  /** Works the design out anew from what a monitoring period found, as its next revision. */
  recalculate(designId: string, actual: Recalculation, who: Who): Promise<SampleDesign> {
    return this.#recalculations.take(designId, async () => {
      for (;;) {
        const before = await this.#row(designId, who)
        mustOwn(before, who)
        const next = await nextRevision(before, actual, who, this.#extend)
        // Another server may have been quicker; this one then goes on from the revision that the other wrote.
        if (await this.#replace(before, next)) return recordOf(next)
      }
    })
  }

  /** Takes a design one step: draft, submitted, approved or rejected. */
  async verify(designId: string, step: Verification, who: Who): Promise<SampleDesign> {
    const row = await this.#row(designId, who)
    mustVerify(row, who, step)
    const verification = nextState(row, step, await this.#makers(designId), who)
    const { status, verifier } = step
    await this.#db.transaction().execute(async (trx) => {
      // The verifier to whom the design is submitted sees all its revisions.
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
    return this.read(designId, who)
  }

  async #row(designId: string, who: Who, revision?: number): Promise<RevisionRow> {
    const row = await this.#db
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

  async #withSelection(row: RevisionRow): Promise<SampleDesign> {
    const [commitment] = await this.#commitments([row])
    return recordOf(row, commitment)
  }

  /** Records with what was committed for each; what was drawn may be long, and is read by itself. */
  async #withSelections(rows: readonly RevisionRow[]): Promise<SampleDesign[]> {
    const commitments = await this.#commitments(rows)
    return rows.map((row, at) => recordOf(row, commitments[at]))
  }

  /** The commitment of each revision, in their order; undefined where there is none. */
  async #commitments(rows: readonly RevisionRow[]) {
    if (rows.length === 0) return []
    const found = await this.#db
      .selectFrom('sampling_selections')
      .select(['design_id', 'revision', 'frame_digest', 'beacon', 'committed_at', 'selected_at'])
      .where('design_id', 'in', [...new Set(rows.map((row) => row.design_id))])
      .execute()
    const keyOf = ({ design_id, revision }: { design_id: string; revision: number }) =>
      `${design_id} ${revision}`
    const byKey = new Map(found.map((one) => [keyOf(one), one]))
    return rows.map((row) => byKey.get(keyOf(row)))
  }

  /** Who worked out a revision of the design, committed its frame or drew from it. */
  async #makers(designId: string): Promise<Set<string>> {
    const revisions = await this.#db
      .selectFrom('sampling_revisions')
      .select('made_by')
      .distinct()
      .where('design_id', '=', designId)
      .execute()
    const draws = await this.#db
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

  /** Puts a revision in the place of the one it was worked out from; false when another replaced that one meanwhile. */
  #replace(before: RevisionRow, next: RevisionRow): Promise<boolean> {
    return this.#db.transaction().execute(async (trx) => {
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
  }
}

const noDesign = (designId: string) =>
  new RuntimeError('NOT_FOUND', `There is no sample design ${designId}.`)
