import type { Evidence, OutsideEvidence } from '../beacons/published.ts'
import type { SelectionRow, StoredBeacon } from '../tables.ts'
import { publishedAt } from './beacon.ts'
import type { NonAdopters } from './request.ts'

/** The columns that tell of a commitment; the drawn ids are left out, because they may be many. */
export const commitmentColumns = [
  'design_id',
  'number',
  'revision',
  'frame_id',
  'frame_digest',
  'frame_counts',
  'beacon',
  'committed_at',
  'beacon_hex',
  'selected_at',
  'extends',
  'sizes',
  'non_adopters',
  'evidence',
] as const satisfies readonly (keyof SelectionRow)[]
/** A row without its drawn ids. */
export type CommitmentRow = Pick<SelectionRow, (typeof commitmentColumns)[number]>

/** One commitment of a design, as the record and the audit list it. */
export interface Commitment {
  readonly number: number
  readonly revision: number
  readonly frameDigest: string
  readonly committedAt: string
  readonly source: string
  readonly round?: string | number
  /** When the beacon publishes the round; only drand's rounds have known times. */
  readonly publishedAt?: string
  /** Whether everybody can check that nobody chose the value of the draw. */
  readonly verifiable: boolean
  /** The number of the commitment that this one extends: the same seed, more ids. */
  readonly extends?: number
  readonly selectedAt?: string
  /** The verifier who drew outside. */
  readonly verifier?: string
  readonly frame: NonAdopters & { readonly counts: Readonly<Record<string, number>> }
}

const json = <T>(text: string): T => JSON.parse(text) as T // only this plugin writes the columns

/** The beacon of a commitment. */
export const beaconOf = ({ beacon }: Pick<SelectionRow, 'beacon'>): StoredBeacon => json(beacon)

/** The sizes by stratum at a commitment. */
export const committedSizes = ({ sizes }: Pick<SelectionRow, 'sizes'>): Map<string, number> =>
  new Map(json<[string, number][]>(sizes))

type DrawnColumns = Pick<SelectionRow, 'beacon' | 'beacon_hex' | 'selected_at' | 'evidence'>

/** Whether a verifier drew the sample outside. */
export const isOutside = ({ beacon_hex, selected_at }: DrawnColumns): boolean =>
  selected_at !== null && beacon_hex === null

/** Whether everybody can check the value of a draw; a draw without evidence took a value on the word of the caller. */
export function isVerifiable(row: DrawnColumns): boolean {
  const { source } = beaconOf(row)
  if (source === 'caller' || source === 'verifier' || isOutside(row)) return false
  return row.selected_at === null || row.evidence !== null
}

/** What proves the value of a draw. */
export const evidenceOf = (row: DrawnColumns): Evidence | undefined =>
  row.evidence === null || isOutside(row) ? undefined : json(row.evidence)

/** Makes the entry of a commitment from its row. */
export function commitmentOf(row: CommitmentRow): Commitment {
  const beacon = beaconOf(row)
  const at = publishedAt(beacon)
  const outside =
    isOutside(row) && row.evidence !== null ? json<OutsideEvidence>(row.evidence) : undefined
  return {
    number: row.number,
    revision: row.revision,
    frameDigest: row.frame_digest,
    committedAt: row.committed_at,
    ...beacon,
    ...(at !== undefined && { publishedAt: new Date(at).toISOString() }),
    verifiable: isVerifiable(row),
    ...(row.extends !== null && { extends: row.extends }),
    ...(row.selected_at !== null && { selectedAt: row.selected_at }),
    ...(outside && { verifier: outside.verifier }),
    frame: {
      ...(row.non_adopters !== null && json<NonAdopters>(row.non_adopters)),
      counts: json(row.frame_counts),
    },
  }
}

/**
 * The commitment that holds for a revision: its own, or an earlier one that is large enough, whose sample or first part
 * of it is then that of the revision. A revision that has grown beyond it has none until the frame is committed again.
 */
export function currentOf<Row extends CommitmentRow>(
  rows: readonly Row[],
  revision: number,
  sizes: ReadonlyMap<string, number>,
): Row | undefined {
  const last = rows.findLast((row) => row.revision <= revision)
  if (!last || last.revision === revision) return last
  const had = committedSizes(last)
  return [...sizes].every(([name, size]) => size <= (had.get(name) ?? 0)) ? last : undefined
}

/** What is to be done with a frame that a design commits again, or for the first time. */
export type Decision =
  | { readonly kind: 'new' }
  | { readonly kind: 'extend'; readonly base: CommitmentRow }
  | { readonly kind: 'refuse'; readonly base: CommitmentRow }

/** One commitment for each digest: a frame that was committed before is extended where the size has grown, else refused. */
export function decide(
  rows: readonly CommitmentRow[],
  frameDigest: string,
  sizes: ReadonlyMap<string, number>,
): Decision {
  const same = rows.filter((row) => row.frame_digest === frameDigest)
  const base = same.at(-1)
  if (!base) return { kind: 'new' }
  const hasGrown = [...sizes].some(([name, size]) =>
    same.every((row) => size > (committedSizes(row).get(name) ?? 0)),
  )
  return { kind: hasGrown ? 'extend' : 'refuse', base }
}
