import { randomUUID } from 'node:crypto'
import { RuntimeError } from '#core'
import { Beacons } from '../beacons/beacons.ts'
import {
  parsed,
  prefixOf,
  selectionOf,
  type Drawn,
  type Outcome,
  type SampleDesign,
  type Selection,
} from '../design/record.ts'
import { conflicting, invalid } from '../refusal.ts'
import type { SamplingDatabase, SelectionRow, StoredBeacon } from '../tables.ts'
import {
  beaconOf,
  commitmentOf,
  committedSizes,
  currentOf,
  decide,
  isOutside,
  type Commitment,
  type CommitmentRow,
} from './commitment.ts'
import { Commitments, mostCommitments } from './commitments.ts'
import { drawAll, drawStratum, type Progress } from './draw.ts'
import { External } from './external.ts'
import { type Frame, RepeatedId } from './frame.ts'
import { marked } from './marks.ts'
import * as refused from './refusals.ts'
import type { Beacon, NonAdopters, Reveal } from './request.ts'
import { mustSuffice, sizesOf } from './sizes.ts'
import { StoredFrames } from './stored-frames.ts'

/** What a draw needs from its caller. */
export interface Drawing {
  readonly signal: AbortSignal
  /** Who draws; null for a verifier's draw. */
  readonly maker: string | null
  /** Who sent the request, also where a verifier drew. */
  readonly by: string
  readonly progress?: Progress
}

/** What a commitment is made of. Without a frame the last draw is extended from its own. */
export interface Asked {
  readonly frame: Frame | undefined
  readonly beacon: Beacon | undefined
  readonly marks?: NonAdopters
  readonly by: string
}

/** How often a commitment is decided anew because another server has committed meanwhile. */
const mostTries = 20

/** Stores commitments, and draws samples from committed frames. `now` is the clock for the times of rounds. */
export class Selections {
  readonly #now: () => number
  readonly #frames: StoredFrames
  readonly #commitments: Commitments
  readonly #beacons: Beacons
  readonly #external: External

  constructor(
    db: SamplingDatabase,
    now: () => number = () => Date.now(),
    beacons = new Beacons({ fetch, relays: [], ledger: [], now }),
  ) {
    this.#now = now
    this.#frames = new StoredFrames(db, now)
    this.#commitments = new Commitments(db)
    this.#beacons = beacons
    this.#external = new External(db, this.#frames, this.#commitments, now)
  }

  /** Removes the frames that a crashed server has written incompletely; resolves to their number. */
  sweep(): Promise<number> {
    return this.#frames.sweep()
  }

  /** The commitment that holds for a revision, with its drawn sample, and every commitment of the design. */
  async read(design: SampleDesign): Promise<Selection> {
    const rows = await this.#commitments.of(design.designId)
    const current = holding(rows, design)
    const selection = selectionOf(await this.#commitments.whole(current))
    const isOwn = current.revision === design.revision
    return {
      ...(isOwn ? selection : prefixOf(selection, sizesOf(design))),
      commitments: rows.map(commitmentOf),
      sameFrame: await this.#commitments.elsewhere(design.designId, current.frame_digest),
    }
  }

  /** The file by which a verifier showed how the sample of a revision was drawn. */
  async auditFile(design: SampleDesign) {
    const rows = await this.#commitments.of(design.designId)
    return this.#external.auditFile(holding(rows, design))
  }

  /** The ids that extend the drawn sample of a revision to new sizes by stratum; undefined where no sample was drawn. */
  async extend(
    of: { readonly designId: string; readonly revision: number },
    was: ReadonlyMap<string, number>,
    sizes: ReadonlyMap<string, number>,
  ): Promise<Outcome['change']['idsToAdd']> {
    const rows = await this.#commitments.of(of.designId)
    const current = currentOf(rows, of.revision, was)
    if (!current?.selected_at || isOutside(current)) return undefined
    const { strata = [] } = selectionOf(await this.#commitments.whole(current))
    const added = []
    for (const { name, seed, ids } of strata) {
      const had = Math.min(was.get(name) ?? ids.length, ids.length)
      const take = sizes.get(name) ?? had
      if (seed === undefined || take <= had) continue
      const larger = await drawStratum(this.#frames, {
        frameId: current.frame_id,
        name,
        seed,
        take,
      })
      added.push({ name, ids: larger.slice(had) })
    }
    return added
  }

  /**
   * Stores the frame and the future round of a beacon. After the commitment nobody can influence the sample: a frame that
   * the design has committed before is refused, or extended with the same seed where the size has grown.
   */
  async commit(design: SampleDesign, asked: Asked, signal: AbortSignal) {
    refused.unlessDraft(design)
    const rows = await this.#commitments.of(design.designId)
    if (rows.length >= mostCommitments) throw refused.tooMany(mostCommitments)
    const beacon = asked.beacon && this.#beacons.stored(asked.beacon)
    if (!beacon && rows.length === 0) throw refused.withoutBeacon()
    const { frame } = asked
    if (!frame) {
      const last = this.#lastFrame(rows)
      return (await this.#insert(design, last, { ...asked, beacon }, signal)).committed
    }
    // The round of a commitment that is extended has been published long ago; `#insert` compares the two.
    if (beacon && !rows.some((row) => isSame(beacon, beaconOf(row))))
      await this.#beacons.mustLieAhead(beacon, signal)
    mustSuffice(frame, design)
    marked(asked.marks, frame.counts)
    const frameId = randomUUID()
    try {
      await this.#frames.write(frameId, frame)
      const digest = frame.digest()
      const counts = Object.fromEntries(frame.counts)
      const made = await this.#insert(
        design,
        { frameId, digest, counts },
        { ...asked, beacon },
        signal,
      )
      // A commitment of before keeps its stored frame, and the one that was sent again is not needed.
      if (made.isStoredBefore) await this.#frames.remove(frameId)
      return made.committed
    } catch (error) {
      await this.#frames.remove(frameId)
      throw error instanceof RepeatedId
        ? invalid('frame', `the id "${error.id}" stands in it twice`, 'List every id once.')
        : error
    }
  }

  /** Draws the sample with the value of the committed round, or stores the ids that a verifier drew elsewhere. */
  async reveal(design: SampleDesign, asked: Reveal, drawing: Drawing): Promise<Selection> {
    const rows = await this.#commitments.of(design.designId)
    const current = holding(rows, design)
    if (asked.frameDigest !== undefined && asked.frameDigest !== current.frame_digest)
      throw refused.changedFrame(current, asked.frameDigest)
    if (asked.external) {
      if (asked.beaconHex !== undefined || asked.published)
        throw invalid('beaconHex', 'give either the value of the beacon or "external"')
      await this.#external.record(design, rows, current, asked.external, drawing.by)
      return this.read(design)
    }
    if (current.selected_at !== null) return this.#drawnAlready(design, current, asked, drawing)
    if (beaconOf(current).source === 'verifier') throw refused.verifierDraws()
    const base = baseOf(rows, current)
    const value = base
      ? { beaconHex: base.beacon_hex ?? '', evidence: base.evidence }
      : await this.#value(current, asked, drawing.signal)
    if (base && asked.beaconHex !== undefined && asked.beaconHex !== value.beaconHex)
      throw refused.drawnWithAnother(current, base, asked.beaconHex)
    const strata = await drawAll(
      this.#frames,
      design.designId,
      current,
      { beaconHex: value.beaconHex, reserves: asked.reserves },
      drawing,
    )
    const drawn: Drawn = { strata }
    const isKept = await this.#commitments.keepDraw(current, {
      beacon_hex: value.beaconHex,
      selected_at: new Date(this.#now()).toISOString(),
      selected: JSON.stringify(drawn),
      drawn_by: drawing.maker,
      evidence: value.evidence,
    })
    if (!isKept) throw refused.drawnMeanwhile(current, value.beaconHex)
    return this.read(design)
  }

  async #value(current: CommitmentRow, asked: Reveal, signal: AbortSignal) {
    const { beaconHex, evidence } = await this.#beacons.valueOf(beaconOf(current), asked, signal)
    return { beaconHex, evidence: evidence ? JSON.stringify(evidence) : null }
  }

  /** Answers a draw that is repeated, and takes the signature for a draw of earlier versions, which stored none. */
  async #drawnAlready(
    design: SampleDesign,
    current: CommitmentRow,
    asked: Reveal,
    { signal }: Drawing,
  ): Promise<Selection> {
    const { beaconHex, published } = asked
    const value = beaconHex ?? published?.randomness
    const isNamed = value !== undefined || published !== undefined
    if (isOutside(current) || (value !== undefined && value !== current.beacon_hex) || !isNamed)
      throw refused.drawnAlready(current, value)
    if (published && current.evidence === null && beaconOf(current).source !== 'caller') {
      const found = await this.#value(current, asked, signal)
      if (found.beaconHex !== current.beacon_hex)
        throw refused.drawnAlready(current, found.beaconHex)
      if (found.evidence !== null) await this.#commitments.prove(current, found.evidence)
    }
    return this.read(design)
  }

  /** The frame of the last commitment, for a design that extends it without sending it again. */
  #lastFrame(rows: readonly CommitmentRow[]): SentFrame {
    const last = rows.at(-1)
    if (!last) throw refused.nothingToExtend()
    return {
      frameId: last.frame_id,
      digest: last.frame_digest,
      counts: parsed(last.frame_counts),
    }
  }

  /** Decides what a frame is to the design, and stores the commitment; decides anew where another one came first. */
  async #insert(
    design: SampleDesign,
    { frameId, digest, counts }: SentFrame,
    { beacon, marks, by }: Omit<Asked, 'beacon'> & { readonly beacon: StoredBeacon | undefined },
    signal: AbortSignal,
  ): Promise<{ readonly committed: Committed; readonly isStoredBefore: boolean }> {
    const { designId, revision } = design
    const sizes = sizesOf(design)
    for (let tries = 0; tries < mostTries; tries++) {
      const rows = await this.#commitments.of(designId)
      if (rows.length >= mostCommitments) throw refused.tooMany(mostCommitments)
      const decision = decide(rows, digest, sizes)
      const mark = marked(marks, new Map(Object.entries(counts)))
      if (decision.kind === 'refuse') {
        const { base } = decision
        // A commitment that says nothing of its non-adopters may be marked later: the draw stays what it is.
        if (!mark || base.non_adopters !== null || (beacon && !isSame(beacon, beaconOf(base))))
          throw refused.committedAlready(base)
        refused.unlessSame(base, beacon, counts)
        const row = { ...base, non_adopters: JSON.stringify(mark) }
        await this.#commitments.mark(row)
        return { committed: { designId, ...commitmentOf(row), counts }, isStoredBefore: true }
      }
      const base = decision.kind === 'extend' ? decision.base : undefined
      if (base) refused.unlessSame(base, beacon, counts)
      else {
        if (!beacon) throw refused.withoutBeacon()
        // The beacon may have published the round while the frame was stored.
        await this.#beacons.mustLieAhead(beacon, signal)
      }
      const kept = base && (isOutside(base) ? { source: 'verifier' } : beaconOf(base))
      const row: SelectionRow = {
        design_id: designId,
        number: (rows.at(-1)?.number ?? 0) + 1,
        revision,
        frame_id: base?.frame_id ?? frameId,
        frame_digest: digest,
        frame_counts: JSON.stringify(counts),
        beacon: JSON.stringify(kept ?? beacon),
        committed_at: new Date(this.#now()).toISOString(),
        beacon_hex: null,
        selected_at: null,
        selected: null,
        committed_by: by,
        drawn_by: null,
        extends: base?.number ?? null,
        sizes: JSON.stringify([...largest(sizes, base)]),
        non_adopters: mark ? JSON.stringify(mark) : (base?.non_adopters ?? null),
        evidence: null,
      }
      if (await this.#commitments.insert(row))
        return {
          committed: { designId, ...commitmentOf(row), counts },
          isStoredBefore: base !== undefined,
        }
    }
    throw conflicting('Other commitments of the design came first again and again.', 'Try again.', {
      field: 'frame',
      value: digest,
    })
  }
}

/** The answer to a commitment. */
export interface Committed extends Commitment {
  readonly designId: string
  readonly counts: Readonly<Record<string, number>>
}

interface SentFrame {
  readonly frameId: string
  readonly digest: string
  readonly counts: Readonly<Record<string, number>>
}

/** The sizes of an extension: of a stratum that became smaller the size that was drawn stays, so that nothing is drawn anew. */
function largest(sizes: ReadonlyMap<string, number>, base: CommitmentRow | undefined) {
  const had = base ? committedSizes(base) : new Map<string, number>()
  return new Map([...sizes].map(([name, size]) => [name, Math.max(size, had.get(name) ?? 0)]))
}

const isSame = (a: StoredBeacon, b: StoredBeacon): boolean =>
  a.source === b.source && String(a.round) === String(b.round)

/** The drawn commitment whose value an extension takes over. */
const baseOf = (rows: readonly CommitmentRow[], current: CommitmentRow) =>
  current.extends === null
    ? undefined
    : rows.findLast(
        (row) =>
          row.number < current.number &&
          row.frame_id === current.frame_id &&
          row.beacon_hex !== null &&
          isSame(beaconOf(row), beaconOf(current)),
      )

/** The commitment that holds for a revision, or why none does. */
function holding(rows: readonly CommitmentRow[], design: SampleDesign): CommitmentRow {
  const current = currentOf(rows, design.revision, sizesOf(design))
  if (current) return current
  const before = rows.findLast((row) => row.revision <= design.revision)
  throw new RuntimeError(
    'NOT_FOUND',
    before
      ? `Nothing is committed for revision ${design.revision} of the design ${design.designId}: ` +
          `its size has grown beyond commitment ${before.number}.`
      : `Nothing is committed for revision ${design.revision} of the design ${design.designId}.`,
    {
      hint: before
        ? 'Commit the same frame again: the draw is extended, and keeps every id.'
        : 'Commit the frame and a round of a beacon first.',
    },
  )
}
