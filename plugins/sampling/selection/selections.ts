import { randomUUID } from 'node:crypto'
import { giveWay, RuntimeError } from '#core'
import { mustBePublished, mustLieAhead } from './beacon.ts'
import type { Extend } from '../design/designs.ts'
import { type Frame, RepeatedId } from './frame.ts'
import { parsed, selectionOf, type SampleDesign, type Selection } from '../design/record.ts'
import { conflicting, insufficient, invalid } from '../refusal.ts'
import type { Beacon, Reveal } from '../request.ts'
import { sampler, seedOf } from './sampler.ts'
import type { FrameRow, SamplingDatabase, SelectionRow } from '../tables.ts'

/** Told of how many ids of how many have been looked at. */
export type Progress = (done: number, total: number) => void

/** A commit is a sync of the disk: about a megabyte of ids goes in each. */
const partsAtOnce = 16

/** A megabyte takes no server this long. */
const givenUpMs = 600_000

/** Which revision of which design. */
export interface Revision {
  readonly designId: string
  readonly revision: number
}

/** Commitments and what is drawn from them. `now` is the clock that rounds are held against. */
export function selections(db: SamplingDatabase, now: () => number = Date.now) {
  const find = ({ designId, revision }: Revision) =>
    db
      .selectFrom('sampling_selections')
      .selectAll()
      .where('design_id', '=', designId)
      .where('revision', '=', revision)
      .executeTakeFirst()

  async function committed(of: Revision): Promise<SelectionRow> {
    const row = await find(of)
    if (row) return row
    throw new RuntimeError(
      'NOT_FOUND',
      `Nothing is committed for revision ${of.revision} of the design ${of.designId}.`,
      { hint: 'Commit the frame and a round of a beacon first.' },
    )
  }

  /** The ids of a stratum, part by part, so that a frame of any size fits. */
  async function* idsOf(frameId: string, stratum: string) {
    for (let part = 0; ; part++) {
      const row = await db
        .selectFrom('sampling_frames')
        .select('ids')
        .where('frame_id', '=', frameId)
        .where('stratum', '=', stratum)
        .where('part', '=', part)
        .executeTakeFirst()
      if (!row) return
      yield row.ids.split('\n')
    }
  }

  async function draw(
    frameId: string,
    stratum: string,
    seed: string,
    take: number,
    signal: AbortSignal | undefined,
    looked: (count: number) => void,
  ): Promise<string[]> {
    const drawing = sampler(seed, take)
    for await (const ids of idsOf(frameId, stratum)) {
      signal?.throwIfAborted()
      for (const id of ids) drawing.offer(id)
      looked(ids.length)
      // A large frame is many milliseconds of hashing: others get their turn in between.
      await new Promise((resolve) => setImmediate(resolve))
    }
    return drawing.drawn()
  }

  /** Writes a frame a megabyte at a time, and says before each that somebody still does. */
  async function write(frameId: string, frame: Frame): Promise<void> {
    const touch = () => new Date(now()).toISOString()
    await db
      .insertInto('sampling_uploads')
      .values({ frame_id: frameId, touched_at: touch() })
      .execute()
    let batch: FrameRow[] = []
    const store = async () => {
      await db.insertInto('sampling_frames').values(batch).execute()
      batch = []
    }
    for (const part of frame.parts()) {
      await giveWay()
      if (batch.push({ frame_id: frameId, ...part }) < partsAtOnce) continue
      await store()
      await db
        .updateTable('sampling_uploads')
        .set({ touched_at: touch() })
        .where('frame_id', '=', frameId)
        .execute()
    }
    if (batch.length > 0) await store()
  }

  async function remove(frameId: string): Promise<void> {
    await db.deleteFrom('sampling_frames').where('frame_id', '=', frameId).execute()
    await db.deleteFrom('sampling_uploads').where('frame_id', '=', frameId).execute()
  }

  const extend: Extend = async (designId, revision, sizes) => {
    const row = await find({ designId, revision })
    if (!row?.selected || row.beacon_hex === null) return undefined
    const { strata = [] } = selectionOf(row)
    const added = []
    for (const { name, seed, ids } of strata) {
      const size = sizes.get(name) ?? ids.length
      if (seed === undefined || size <= ids.length) continue
      const larger = await draw(row.frame_id, name, seed, size, undefined, () => {})
      added.push({ name, ids: larger.slice(ids.length) })
    }
    return added
  }

  return {
    extend,

    /** Removes what a server that died has left of the frames that it was writing. */
    async sweep(): Promise<number> {
      const left = await db
        .selectFrom('sampling_uploads')
        .select('frame_id')
        .where('touched_at', '<', new Date(now() - givenUpMs).toISOString())
        .execute()
      for (const { frame_id } of left) await remove(frame_id)
      return left.length
    },

    async read(of: Revision): Promise<Selection> {
      return selectionOf(await committed(of))
    },

    /** Freezes the frame and names the round: from here on nobody can choose the sample. */
    async commit(design: SampleDesign, frame: Frame, beacon: Beacon, by: string) {
      const { designId, revision } = design
      mustLieAhead(beacon, now())
      const sizes = sizesOf(design)
      for (const name of frame.counts.keys())
        if (!sizes.has(name))
          throw invalid(
            'frame',
            `the design has no stratum "${name}"`,
            `Its strata: ${[...sizes.keys()].join(', ')}.`,
          )
      for (const [name, required] of sizes) {
        const available = frame.counts.get(name) ?? 0
        if (available < required)
          throw insufficient(
            `The frame lists ${available} ids of stratum "${name}", and ${required} are to be drawn.`,
            'List every household of the stratum, non-adopters included.',
            { field: `frame.${name}`, value: available, required, available },
          )
      }
      if (await find(design)) throw committedAlready(design)

      const counts = Object.fromEntries(frame.counts)
      const frameId = randomUUID()
      try {
        await write(frameId, frame)
        const frameDigest = frame.digest()
        mustLieAhead(beacon, now())
        const committedAt = new Date(now()).toISOString()
        await db.transaction().execute(async (trx) => {
          const inserted = await trx
            .insertInto('sampling_selections')
            .values({
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
            .onConflict((conflict) => conflict.doNothing())
            .executeTakeFirst()
          if (inserted.numInsertedOrUpdatedRows !== 1n) throw committedAlready(design)
          await trx.deleteFrom('sampling_uploads').where('frame_id', '=', frameId).execute()
        })
        return { designId, revision, frameDigest, counts, committedAt, ...beacon }
      } catch (error) {
        await remove(frameId)
        throw error instanceof RepeatedId
          ? invalid('frame', `the id "${error.id}" stands in it twice`, 'List every id once.')
          : error
      }
    },

    /** Draws with the value of the committed round, or keeps what a verifier has drawn. `maker` is who drew, unless the verifier did. */
    async reveal(
      design: SampleDesign,
      { beaconHex, reserves, external }: Reveal,
      {
        signal,
        maker,
        progress,
      }: { signal: AbortSignal; maker: string | null; progress?: Progress },
    ): Promise<Selection> {
      const row = await committed(design)
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
      if (external) selected = await checkExternal(design, row.frame_id, external)
      else {
        const value = beaconHex ?? ''
        mustBePublished(parsed<Beacon>(row.beacon), value, now())
        selected = { strata: await drawAll(design, row, value, reserves, signal, progress) }
      }
      const { numUpdatedRows } = await db
        .updateTable('sampling_selections')
        .set({
          beacon_hex: beaconHex ?? null,
          selected_at: new Date(now()).toISOString(),
          selected: JSON.stringify(selected),
          drawn_by: maker,
        })
        .where('design_id', '=', row.design_id)
        .where('revision', '=', row.revision)
        .where('selected', 'is', null)
        .executeTakeFirst()
      if (numUpdatedRows !== 1n)
        throw conflicting(
          `The sample of revision ${row.revision} was drawn meanwhile.`,
          'Read the selection.',
          { field: 'beaconHex', value: beaconHex ?? null },
        )
      return selectionOf(await committed(design))
    },
  }

  async function drawAll(
    design: SampleDesign,
    row: SelectionRow,
    beaconHex: string,
    reserves: number | undefined,
    signal: AbortSignal,
    progress: Progress | undefined,
  ): Promise<NonNullable<Selection['strata']>> {
    const { designId } = design
    const counts = parsed<Record<string, number>>(row.frame_counts)
    const total = Object.values(counts).reduce((sum, count) => sum + count, 0)
    let done = 0
    const looked = (count: number) => progress?.((done += count), total)
    const strata = []
    for (const [name, size] of sizesOf(design)) {
      const seed = seedOf({ designId, stratum: name, frameDigest: row.frame_digest, beaconHex })
      const take = size + (reserves ?? Math.ceil(size / 10))
      const drawn = await draw(row.frame_id, name, seed, take, signal, looked)
      strata.push({ name, seed, ids: drawn.slice(0, size), reserves: drawn.slice(size) })
    }
    return strata
  }

  /** What a verifier drew must come from the frame, once each, and suffice. */
  async function checkExternal(
    design: SampleDesign,
    frameId: string,
    external: NonNullable<Reveal['external']>,
  ) {
    const sizes = sizesOf(design)
    const strata = []
    for (const name of Object.keys(external.strata))
      if (!sizes.has(name)) throw invalid('external.strata', `the design has no stratum "${name}"`)
    for (const [name, required] of sizes) {
      const ids = external.strata[name] ?? []
      const missing = new Set(ids)
      if (missing.size !== ids.length)
        throw invalid(`external.strata.${name}`, 'an id stands in it twice')
      if (ids.length < required)
        throw insufficient(
          `The selection has ${ids.length} ids of stratum "${name}", and ${required} are required.`,
          'Select as many as the design requires.',
          { field: `external.strata.${name}`, value: ids.length, required, available: ids.length },
        )
      for await (const part of idsOf(frameId, name)) for (const id of part) missing.delete(id)
      const [foreign] = missing
      if (foreign !== undefined)
        throw invalid(
          `external.strata.${name}`,
          `the id "${foreign}" is not in the committed frame of this stratum`,
        )
      strata.push({ name, ids, reserves: [] })
    }
    return { external: { verifier: external.verifier, method: external.method }, strata }
  }
}
export type Selections = ReturnType<typeof selections>

const committedAlready = ({ revision }: Revision) =>
  conflicting(
    `Revision ${revision} of the design has its commitment already.`,
    'There is one commitment for each revision; a recalculation makes a new one.',
    { field: 'frame', value: revision },
  )

/** How many each stratum gives; a design without strata has the one stratum "all". */
function sizesOf({ stratification, parameters }: SampleDesign): Map<string, number> {
  return new Map(
    stratification?.strata.map(({ name, sampleSize }) => [name, sampleSize]) ?? [
      ['all', parameters.adjustedSize],
    ],
  )
}
