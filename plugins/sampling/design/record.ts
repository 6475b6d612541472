import type { Reliability } from '../arithmetic/arithmetic.ts'
import type { Figures } from './design.ts'
import type { SamplingRequest } from '../request.ts'
import type { RevisionRow, SelectionRow } from '../tables.ts'

/** Who has looked at a design, and what they said. */
export interface VerificationState {
  readonly status: 'draft' | 'submitted' | 'approved' | 'rejected'
  readonly verifier?: string
  readonly timestamp?: string
  readonly notes?: string
  readonly projects?: readonly { readonly did: string; readonly status: 'active' | 'planned' }[]
  readonly history?: readonly {
    status: string
    verifier: string
    timestamp: string
    notes?: string
    /** Who brought this: a DID, or `key:` and the name of a key of the service. */
    recordedBy: string
  }[]
}

/** What a recalculation found. */
export interface Outcome {
  readonly change: {
    readonly previousAdjustedSize: number
    readonly delta: number
    readonly direction: 'up' | 'down' | 'unchanged'
    /** Where a sample was drawn: what extends it to the new sizes. */
    readonly idsToAdd?: readonly { readonly name: string; readonly ids: readonly string[] }[]
  }
  readonly reliability?: Reliability & {
    readonly completes: number
    readonly erConservative?: number
  }
}

/** What was drawn, with all that an auditor needs to draw it again. */
export interface Selection {
  readonly designId: string
  readonly revision: number
  readonly frameDigest: string
  readonly committedAt: string
  readonly source: string
  readonly round: string | number
  readonly counts: Readonly<Record<string, number>>
  readonly beaconHex?: string
  readonly selectedAt?: string
  readonly external?: { readonly verifier: string; readonly method: string }
  readonly strata?: readonly {
    readonly name: string
    readonly seed?: string
    readonly ids: readonly string[]
    readonly reserves: readonly string[]
  }[]
}

/** How the random selection is done, for the monitoring design document. */
export const selectionMethod =
  'The frame lists every household of the population, non-adopters and planned projects included. Its ids, sorted bytewise and joined by line feeds, are hashed with SHA-256, and the hash is published together with a public random beacon’s round that is still to come. When the round is out, each stratum is sampled alone with the seed "sampling-v1|designId|stratum|frameDigest|beaconHex": the ticket of an id is the decimal form of SHA-256(hex(SHA-256(seed)) + id), padded to 64 digits and read backwards as a fraction, and the smallest tickets are the sample, the next ones its reserves in order (Rivest, consistent sampling, 2018). Anyone can recompute the sample from the ids and the beacon.'

/** A design as it is answered. */
export interface SampleDesign extends Figures {
  readonly designId: string
  readonly projectId: string
  readonly createdAt: string
  /** The DID of who made it; absent where it was made with the service's key. */
  readonly createdBy?: string
  readonly revision: number
  readonly verification: VerificationState
  readonly final: boolean
  readonly selection?: Pick<
    Selection,
    'frameDigest' | 'committedAt' | 'source' | 'round' | 'selectedAt'
  >
  readonly selectionMethod: string
  readonly change?: Outcome['change']
  readonly reliability?: Outcome['reliability']
}

/** Text from a column, which this plugin alone writes. */
export const parsed = <T>(text: string): T => JSON.parse(text) as T

/** What a record tells of a selection. */
type Commitment = Pick<SelectionRow, 'frame_digest' | 'beacon' | 'committed_at' | 'selected_at'>

/** A design as it is answered, from its row and its commitment. */
export function recordOf(row: RevisionRow, commitment?: Commitment): SampleDesign {
  const figures = parsed<Figures>(row.figures)
  const verification = parsed<VerificationState>(row.verification)
  return {
    designId: row.design_id,
    projectId: row.project_id,
    createdAt: row.created_at,
    ...(row.owner !== null && { createdBy: row.owner }),
    revision: row.revision,
    ...figures,
    ...(row.outcome !== null && parsed<Outcome>(row.outcome)),
    ...(commitment && {
      selection: {
        frameDigest: commitment.frame_digest,
        committedAt: commitment.committed_at,
        ...beaconOf(commitment),
        ...(commitment.selected_at !== null && { selectedAt: commitment.selected_at }),
      },
    }),
    selectionMethod,
    verification,
    final: verification.status === 'approved',
  }
}

const beaconOf = ({ beacon }: Pick<SelectionRow, 'beacon'>) =>
  parsed<{ source: string; round: string | number }>(beacon)

/** A selection as it is answered, from its row. */
export function selectionOf(row: SelectionRow): Selection {
  return {
    designId: row.design_id,
    revision: row.revision,
    frameDigest: row.frame_digest,
    committedAt: row.committed_at,
    ...beaconOf(row),
    counts: parsed(row.frame_counts),
    ...(row.beacon_hex !== null && { beaconHex: row.beacon_hex }),
    ...(row.selected_at !== null && { selectedAt: row.selected_at }),
    ...(row.selected !== null && parsed<Pick<Selection, 'strata' | 'external'>>(row.selected)),
  }
}

/** The request that a revision was worked out from. */
export const requestOf = (row: RevisionRow): SamplingRequest => parsed(row.request)
