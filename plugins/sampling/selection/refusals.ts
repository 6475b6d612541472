import type { SampleDesign } from '../design/record.ts'
import { conflicting, invalid } from '../refusal.ts'
import type { SelectionRow, StoredBeacon } from '../tables.ts'
import { beaconOf, type CommitmentRow } from './commitment.ts'

const roundOf = (row: Pick<SelectionRow, 'beacon'>): string => {
  const { source, round } = beaconOf(row)
  return round === undefined ? source : `round ${round} of ${source}`
}

/** A commitment after the submission would change what the verifier looks at. */
export function unlessDraft({ verification: { status } }: SampleDesign): void {
  if (status === 'draft') return
  throw conflicting(
    `The design is ${status}; its frame and its beacon stay as they are.`,
    'A recalculation makes a new draft.',
    { field: 'verification.status', value: status },
  )
}

/** A frame has one commitment: with a second one the caller could draw again until a draw suits. */
export const committedAlready = (base: CommitmentRow) =>
  conflicting(
    `The frame ${base.frame_digest} has its commitment already: number ${base.number} of ${base.committed_at}, ${roundOf(base)}.`,
    'A new commitment needs a frame that has changed, or a size that has grown: it then extends the ' +
      'draw. A smaller sample is the first part of it.',
    {
      field: 'frame',
      value: base.frame_digest,
      number: base.number,
      revision: base.revision,
      committedAt: base.committed_at,
    },
  )

/** An extension keeps the beacon and the division of the ids, or it would be another draw. */
export function unlessSame(
  base: CommitmentRow,
  beacon: StoredBeacon | undefined,
  counts: Readonly<Record<string, number>>,
): void {
  const had = beaconOf(base)
  if (beacon && (beacon.source !== had.source || String(beacon.round) !== String(had.round)))
    throw conflicting(
      `The frame was committed with ${roundOf(base)}; the larger sample extends that draw, with the same seed.`,
      'Leave the beacon out, or name the same round.',
      { field: 'beacon.round', value: beacon.round ?? null, present: had.round ?? null },
    )
  const before = JSON.parse(base.frame_counts) as Record<string, number> // only this plugin writes the column
  for (const [name, count] of Object.entries(counts))
    if (before[name] !== count)
      throw conflicting(
        `The frame has the ids of commitment ${base.number}, divided otherwise: ` +
          `${count} of stratum "${name}" instead of ${before[name] ?? 0}.`,
        'Divide the ids as before: households that moved between strata are a change of the frame that its digest does not show.',
        { field: `frame.${name}`, value: count, present: before[name] ?? 0 },
      )
}

/** A first commitment names its beacon. */
export const withoutBeacon = () =>
  invalid(
    'beacon',
    'missing; give { source, round }',
    'Only a frame that was committed before, by a design that has grown since, needs no beacon.',
  )

/** Nothing was committed that could be extended. */
export const nothingToExtend = () =>
  conflicting('The design has no commitment to extend.', 'Commit a frame with a beacon first.', {
    field: 'extend',
    value: true,
  })

/** The record of a design lists all its commitments, so their number has a bound. */
export const tooMany = (most: number) =>
  conflicting(
    `The design has made ${most} commitments.`,
    'Make a new design; the record of this one lists every commitment.',
    { field: 'frame', value: most },
  )

/** The frame changed between the commitment and the draw. */
export const changedFrame = ({ frame_digest, committed_at }: CommitmentRow, now: string) =>
  conflicting(
    `The frame has changed since the commitment of ${committed_at}: ${frame_digest} was committed, and it hashes to ${now} now.`,
    'Draw from the committed frame by leaving frameDigest out, or commit the changed frame with a round that is still to come.',
    { field: 'frameDigest', value: now, committed: frame_digest },
  )

/** The frame was committed for a verifier, who draws outside. */
export const verifierDraws = () =>
  conflicting(
    'The frame was committed for the verifier to draw from.',
    'Record what the verifier drew as "external".',
    { field: 'external', value: null },
  )

/** A commitment is drawn once. */
export const drawnAlready = (row: CommitmentRow, beaconHex: string | undefined) =>
  conflicting(
    `The sample of revision ${row.revision} is drawn already.`,
    'A recalculation makes a new revision; a sample that has grown extends this draw.',
    { field: 'beaconHex', value: beaconHex ?? null, selectedAt: row.selected_at },
  )

/** An extension takes the value of the draw that it extends. */
export const drawnWithAnother = (row: CommitmentRow, base: CommitmentRow, beaconHex: string) =>
  conflicting(
    `Commitment ${row.number} extends number ${base.number}, which was drawn with another value.`,
    'Leave beaconHex out: the same seed draws more ids.',
    { field: 'beaconHex', value: beaconHex, present: base.beacon_hex },
  )

/** Another draw was stored first. */
export const drawnMeanwhile = ({ revision }: CommitmentRow, beaconHex: string | undefined) =>
  conflicting(`The sample of revision ${revision} was drawn meanwhile.`, 'Read the selection.', {
    field: 'beaconHex',
    value: beaconHex ?? null,
  })
