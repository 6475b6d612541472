import { createHash } from 'node:crypto'
import { RuntimeError } from '#core'
import type { OutsideEvidence } from '../beacons/published.ts'
import type { Drawn, SampleDesign, Selection } from '../design/record.ts'
import { insufficient, invalid } from '../refusal.ts'
import type { AuditFileRow, SamplingDatabase, SelectionRow } from '../tables.ts'
import { isOutside, type CommitmentRow } from './commitment.ts'
import type { AuditFile, Commitments } from './commitments.ts'
import { drawnAlready, drawnMeanwhile } from './refusals.ts'
import type { Reveal } from './request.ts'
import { sizesOf } from './sizes.ts'
import type { StoredFrames } from './stored-frames.ts'

type Outside = NonNullable<Reveal['external']>

/** The samples that verifiers draw outside, each with the file that shows how. */
export class External {
  readonly #db: SamplingDatabase
  readonly #frames: StoredFrames
  readonly #commitments: Commitments
  readonly #now: () => number

  constructor(
    db: SamplingDatabase,
    frames: StoredFrames,
    commitments: Commitments,
    now: () => number,
  ) {
    this.#db = db
    this.#frames = frames
    this.#commitments = commitments
    this.#now = now
  }

  /**
   * Stores what a verifier drew. A commitment that was drawn by its beacon stays as it is, and the verifier's draw is
   * listed after it.
   */
  async record(
    design: SampleDesign,
    rows: readonly CommitmentRow[],
    current: CommitmentRow,
    external: Outside,
    by: string,
  ): Promise<void> {
    if (isOutside(current)) throw drawnAlready(current, undefined)
    const strata = await this.#checked(design, current.frame_id, external)
    const { verifier, method } = external
    const file = external.auditFile && fileOf(external.auditFile)
    const drawn: Drawn = {
      external: {
        verifier,
        method,
        recordedBy: by,
        ...(file && {
          auditFile: {
            name: file.name,
            mediaType: file.media_type,
            sha256: file.sha256,
            bytes: file.bytes,
          },
        }),
      },
      strata,
    }
    const evidence: OutsideEvidence = { verifier, recordedBy: by }
    const columns = {
      beacon_hex: null,
      selected_at: new Date(this.#now()).toISOString(),
      selected: JSON.stringify(drawn),
      drawn_by: null,
      evidence: JSON.stringify(evidence),
    }
    const isOpen = current.selected_at === null && current.revision === design.revision
    const after = isOpen ? undefined : (rows.at(-1)?.number ?? 0) + 1
    const isKept =
      after === undefined
        ? await this.#commitments.keepDraw(current, columns, file)
        : await this.#commitments.insert(
            await this.#following(design, current, after, columns),
            file,
          )
    if (!isKept) throw drawnMeanwhile(current, undefined)
  }

  /** The audit file of a draw outside. */
  async auditFile({ design_id, number }: CommitmentRow): Promise<AuditFileRow> {
    const file = await this.#db
      .selectFrom('sampling_audit_files')
      .selectAll()
      .where('design_id', '=', design_id)
      .where('number', '=', number)
      .executeTakeFirst()
    if (file) return file
    throw new RuntimeError('NOT_FOUND', 'No audit file came with the selection.', {
      hint: 'A verifier who draws outside sends it as "external.auditFile".',
    })
  }

  async #following(
    design: SampleDesign,
    current: CommitmentRow,
    number: number,
    drawn: Pick<SelectionRow, 'beacon_hex' | 'selected_at' | 'selected' | 'drawn_by' | 'evidence'>,
  ): Promise<SelectionRow> {
    return {
      ...(await this.#commitments.whole(current)),
      number,
      revision: design.revision,
      beacon: JSON.stringify({ source: 'verifier' }),
      committed_at: new Date(this.#now()).toISOString(),
      committed_by: null,
      extends: null,
      sizes: JSON.stringify([...sizesOf(design)]),
      ...drawn,
    }
  }

  /** Checks the ids that a verifier drew: they must come from the frame, be different, and be as many as the design requires. */
  async #checked(
    design: SampleDesign,
    frameId: string,
    external: Outside,
  ): Promise<NonNullable<Selection['strata']>> {
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
      for await (const part of this.#frames.ids(frameId, name))
        for (const id of part) missing.delete(id)
      const [foreign] = missing
      if (foreign !== undefined)
        throw invalid(
          `external.strata.${name}`,
          `the id "${foreign}" is not in the committed frame of this stratum`,
        )
      strata.push({ name, ids, reserves: [] })
    }
    return strata
  }
}

/** The columns of an audit file, from its text or its base64. */
function fileOf(file: NonNullable<Outside['auditFile']>): AuditFile {
  const bytes = Buffer.from(file.content, file.encoding)
  if (file.encoding === 'base64' && !/^[A-Za-z0-9+/]+={0,2}$/.test(file.content))
    throw invalid('external.auditFile.content', 'it is not base64')
  return {
    name: file.name,
    media_type: file.mediaType,
    sha256: createHash('sha256').update(bytes).digest('hex'),
    bytes: bytes.length,
    content: bytes.toString('base64'),
  }
}
