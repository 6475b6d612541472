import { randomUUID } from 'node:crypto'
import { RuntimeError } from '#core'
import {
  parsed,
  selectionOf,
  type Outcome,
  type SampleDesign,
  type Selection,
} from '../design/record.ts'
import { conflicting, invalid } from '../refusal.ts'
import type { Beacon, Reveal } from '../request.ts'
import type { SamplingDatabase, SelectionRow } from '../tables.ts'
import { mustBePublished, mustLieAhead } from './beacon.ts'
import { drawAll, drawStratum, type Progress } from './draw.ts'
import { checkExternal } from './external.ts'
import { type Frame, RepeatedId } from './frame.ts'
import { mustSuffice } from './sizes.ts'
import { StoredFrames } from './stored-frames.ts'

/** Which revision of which design. */
export interface Revision {
  readonly designId: string
  readonly revision: number
}

/** What the caller of a draw brings along. */
export interface Drawing {
  readonly signal: AbortSignal
  /** Who draws, unless the verifier does. */
  readonly maker: string | null
  readonly progress?: Progress
}

/** Commitments and what is drawn from them. `now` is the clock that rounds are held against. */
export class Selections {
  readonly #db: SamplingDatabase
  readonly #now: () => number
  readonly #frames: StoredFrames

  constructor(db: SamplingDatabase, now: () => number = Date.now) {
    this.#db = db
    this.#now = now
    this.#frames = new StoredFrames(db, now)
  }

  /** Removes what a server that died has left of the frames that it was writing; answers how many. */
  sweep(): Promise<number> {
    return this.#frames.sweep()
  }

  /** The commitment of a revision, and what was drawn from it. */
  async read(of: Revision): Promise<Selection> {
    return selectionOf(await this.#committed(of))
  }

  /** What extends the sample of a revision to new sizes by stratum; undefined where nothing was drawn. */
  async extend(
    of: Revision,
    sizes: ReadonlyMap<string, number>,
  ): Promise<Outcome['change']['idsToAdd']> {
    const row = await this.#find(of)
    if (!row?.selected || row.beacon_hex === null) return undefined
    const { strata = [] } = selectionOf(row)
    const added = []
    for (const { name, seed, ids } of strata) {
      const take = sizes.get(name) ?? ids.length
      if (seed === undefined || take <= ids.length) continue
      const larger = await drawStratum(this.#frames, { frameId: row.frame_id, name, seed, take })
      added.push({ name, ids: larger.slice(ids.length) })
    }
    return added
  }

  /** Freezes the frame and names the round: from here on nobody can choose the sample. */
  async commit(design: SampleDesign, frame: Frame, beacon: Beacon, by: string) {
    const { designId, revision } = design
    mustLieAhead(beacon, this.#now())
    mustSuffice(frame, design)
    if (await this.#find(design)) throw committedAlready(design)
    const counts = Object.fromEntries(frame.counts)
    const frameId = randomUUID()
    try {
      await this.#frames.write(frameId, frame)
      const frameDigest = frame.digest()
      // Writing took its time, in which the round may have been published.
      mustLieAhead(beacon, this.#now())
      const committedAt = new Date(this.#now()).toISOString()
      await this.#insert({
        design_id: designId,
        revision,
        frame_id: frameId,
        frame_digest: frameDigest,
        frame_counts: JSON.stringify(counts),
        beacon: JSON.stringify(beacon),
        committed_at: committedAt,
        beacon_hex: null,
        selected_at: null,
        selected: null,
        committed_by: by,
        drawn_by: null,
      })
      return { designId, revision, frameDigest, counts, committedAt, ...beacon }
    } catch (error) {
      await this.#frames.remove(frameId)
      throw error instanceof RepeatedId
        ? invalid('frame', `the id "${error.id}" stands in it twice`, 'List every id once.')
        : error
    }
  }

  /** Draws with the value of the committed round, or keeps what a verifier has drawn. */
  async reveal(
    design: SampleDesign,
    { beaconHex, reserves, external }: Reveal,
    { signal, maker, progress }: Drawing,
  ): Promise<Selection> {
    const row = await this.#committed(design)
    if (row.selected !== null) {
      if (beaconHex !== undefined && row.beacon_hex === beaconHex) return selectionOf(row)
      throw conflicting(
        `The sample of revision ${row.revision} is drawn already.`,
        'A recalculation makes a new revision, with a commitment of its own.',
        { field: 'beaconHex', value: beaconHex ?? null, selectedAt: row.selected_at },
      )
    }
    if ((beaconHex === undefined) === (external === undefined))
      throw invalid('beaconHex', 'give either the value of the beacon or "external"')
    let selected: Pick<Selection, 'strata' | 'external'>
    if (external) selected = await checkExternal(this.#frames, design, row.frame_id, external)
    else {
      const value = { beaconHex: beaconHex ?? '', reserves }
      mustBePublished(parsed<Beacon>(row.beacon), value.beaconHex, this.#now())
      const watching = { signal, ...(progress && { progress }) }
      selected = { strata: await drawAll(this.#frames, design, row, value, watching) }
    }
    await this.#keepDraw(row, beaconHex, selected, maker)
    return selectionOf(await this.#committed(design))
  }

  #find({ designId, revision }: Revision): Promise<SelectionRow | undefined> {
    return this.#db
      .selectFrom('sampling_selections')
      .selectAll()
      .where('design_id', '=', designId)
      .where('revision', '=', revision)
      .executeTakeFirst()
  }

  async #committed(of: Revision): Promise<SelectionRow> {
    const row = await this.#find(of)
    if (row) return row
    throw new RuntimeError(
      'NOT_FOUND',
      `Nothing is committed for revision ${of.revision} of the design ${of.designId}.`,
      { hint: 'Commit the frame and a round of a beacon first.' },
    )
  }

  /** Keeps a commitment, unless another one of the same revision was quicker. */
  async #insert(row: SelectionRow): Promise<void> {
    await this.#db.transaction().execute(async (trx) => {
      const inserted = await trx
        .insertInto('sampling_selections')
        .values(row)
        .onConflict((conflict) => conflict.doNothing())
        .executeTakeFirst()
      if (inserted.numInsertedOrUpdatedRows !== 1n)
        throw committedAlready({ designId: row.design_id, revision: row.revision })
      await trx.deleteFrom('sampling_uploads').where('frame_id', '=', row.frame_id).execute()
    })
  }

  /** Keeps what was drawn, unless another draw from the same commitment was quicker. */
  async #keepDraw(
    { design_id, revision }: SelectionRow,
    beaconHex: string | undefined,
    selected: Pick<Selection, 'strata' | 'external'>,
    maker: string | null,
  ): Promise<void> {
    const { numUpdatedRows } = await this.#db
      .updateTable('sampling_selections')
      .set({
        beacon_hex: beaconHex ?? null,
        selected_at: new Date(this.#now()).toISOString(),
        selected: JSON.stringify(selected),
        drawn_by: maker,
      })
      .where('design_id', '=', design_id)
      .where('revision', '=', revision)
      .where('selected', 'is', null)
      .executeTakeFirst()
    if (numUpdatedRows !== 1n)
      throw conflicting(
        `The sample of revision ${revision} was drawn meanwhile.`,
        'Read the selection.',
        { field: 'beaconHex', value: beaconHex ?? null },
      )
  }
}

const committedAlready = ({ revision }: Revision) =>
  conflicting(
    `Revision ${revision} of the design has its commitment already.`,
    'There is one commitment for each revision; a recalculation makes a new one.',
    { field: 'frame', value: revision },
  )
