import { randomUUID } from 'node:crypto'
import { RuntimeError } from '#core'
import { drawsAsMaker, maySee, mustDraw, mustOwn, mustVerify, type Who } from '../access.ts'
import { conflicting } from '../refusal.ts'
import {
  recalculationSchema,
  requestSchema,
  type Recalculation,
  type SamplingRequest,
  type Verification,
} from '../request.ts'
import { commitmentColumns, type CommitmentRow } from '../selection/commitment.ts'
import type { RevisionRow, SamplingDatabase } from '../tables.ts'
import { readCursor, writeCursor } from './cursor.ts'
import { design } from './design.ts'
import { Turns } from './in-turn.ts'
import { nextRevision, type Extend } from './recalculation.ts'
import { recordOf, type SampleDesign } from './record.ts'
import { unreadFields } from './unread.ts'
import { nextState } from '../verification/verification.ts'

/** Designs and their revisions. */
export class Designs {
  readonly #db: SamplingDatabase
  readonly #extend: Extend
  /** Recalculations of one design run one after the other: parallel ones would mostly overtake each other and start again. */
  readonly #recalculations = new Turns()

  constructor(db: SamplingDatabase, extend: Extend) {
    this.#db = db
    this.#extend = extend
  }

  /** A design, or an earlier revision of it. */
  async read(designId: string, who: Who, revision?: number): Promise<SampleDesign> {
    return this.#withSelection(await this.#row(designId, who, revision))
  }

  /** A design for which its owner is about to commit a frame. */
  async readToCommit(designId: string, who: Who): Promise<SampleDesign> {
    const row = await this.#row(designId, who)
    mustOwn(row, who)
    return this.#withSelection(row)
  }

  /** A design from which the caller is about to draw; `maker` is the caller where the draw makes the caller a maker of the design. */
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

  /** Works out a design and stores it. `sent` is the body of the request: what was not read of it is warned of. */
  async create(request: SamplingRequest, who: Who, sent?: Uint8Array): Promise<SampleDesign> {
    const figures = await design(request, unreadFields(requestSchema, sent))
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

  /** The designs of a project, newest first. A caller without `readsAll` sees those that the caller owns or verifies. */
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

  /** Works out a design again from the results of a monitoring period, as its next revision. `sent` is as in `create`. */
  recalculate(
    designId: string,
    actual: Recalculation,
    who: Who,
    sent?: Uint8Array,
  ): Promise<SampleDesign> {
    const unread = unreadFields(recalculationSchema, sent)
    return this.#recalculations.take(designId, async () => {
      for (;;) {
        const before = await this.#row(designId, who)
        mustOwn(before, who)
        const next = await nextRevision(before, { actual, unread }, who, this.#extend)
        // `#replace` fails where another server has just written a revision; the next round starts from that revision.
        if (await this.#replace(before, next)) return this.#withSelection(next)
      }
    })
  }

  /** Takes a design to its next state: submitted, then approved or rejected. */
  async verify(designId: string, step: Verification, who: Who): Promise<SampleDesign> {
    const row = await this.#row(designId, who)
    mustVerify(row, who, step)
    const design = await this.#withSelection(row)
    const verification = nextState(row, design, step, await this.#makers(designId), who)
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
    return recordOf(row, (await this.#commitments([row])).get(row.design_id))
  }

  /** The designs of some rows with their commitments, but without their drawn ids, because these lists may be long. */
  async #withSelections(rows: readonly RevisionRow[]): Promise<SampleDesign[]> {
    const commitments = await this.#commitments(rows)
    return rows.map((row) => recordOf(row, commitments.get(row.design_id)))
  }

  /** The commitments of the designs of some rows, by design, oldest first. */
  async #commitments(rows: readonly RevisionRow[]): Promise<Map<string, CommitmentRow[]>> {
    const byDesign = new Map<string, CommitmentRow[]>()
    if (rows.length === 0) return byDesign
    const found = await this.#db
      .selectFrom('sampling_selections')
      .select(commitmentColumns)
      .where('design_id', 'in', [...new Set(rows.map((row) => row.design_id))])
      .orderBy('number')
      .execute()
    for (const one of found) {
      const of = byDesign.get(one.design_id)
      if (of) of.push(one)
      else byDesign.set(one.design_id, [one])
    }
    return byDesign
  }

  /** The makers of a design: who worked out one of its revisions, committed its frame or drew from the frame. */
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

  /** Makes `next` the newest revision instead of `before`; false when `before` is not the newest any more. */
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
