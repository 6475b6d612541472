import type { Figures } from './design.ts'
import type { PeriodReliability } from './reliability.ts'
import type { SamplingRequest } from '../request.ts'
import type { Evidence } from '../beacons/published.ts'
import {
  commitmentOf,
  currentOf,
  evidenceOf,
  type Commitment,
  type CommitmentRow,
} from '../selection/commitment.ts'
import type { Elsewhere } from '../selection/commitments.ts'
import { sizesOf } from '../selection/sizes.ts'
import type { RevisionRow, SelectionRow } from '../tables.ts'

/** The state of the verification of a design, with the steps that led to it. */
export interface VerificationState {
  readonly status: 'draft' | 'submitted' | 'approved' | 'rejected'
  readonly verifier?: string
  readonly timestamp?: string
  readonly notes?: string
  readonly projects?: readonly { readonly did: string; readonly status: 'active' | 'planned' }[]
  /** Whether the sample is the verifier's to draw. */
  readonly verifierDraws?: boolean
  /** The number of the commitment with which the design was submitted. */
  readonly commitment?: number
  readonly history?: readonly {
    status: string
    verifier: string
    timestamp: string
    notes?: string
    /** Who sent this step: a DID, or `key:` and the name of an API key. */
    recordedBy: string
  }[]
}

/** The outcome of a recalculation. */
export interface Outcome {
  readonly change: {
    readonly previousAdjustedSize: number
    readonly delta: number
    readonly direction: 'up' | 'down' | 'unchanged'
    /** The ids that extend the sample to the new sizes, where a sample was drawn. */
    readonly idsToAdd?: readonly { readonly name: string; readonly ids: readonly string[] }[]
  }
  readonly reliability?: PeriodReliability
}

/** A drawn sample, with everything that an auditor needs to draw it again. */
export interface Selection extends Commitment {
  readonly designId: string
  readonly counts: Readonly<Record<string, number>>
  readonly beaconHex?: string
  /** What proves the value of the beacon: the signature of a drand round, or the block of a ledger. */
  readonly evidence?: Evidence
  readonly external?: {
    readonly verifier: string
    readonly method: string
    readonly recordedBy?: string
    readonly auditFile?: {
      readonly name: string
      readonly mediaType: string
      readonly sha256: string
      readonly bytes: number
    }
  }
  readonly strata?: readonly {
    readonly name: string
    readonly seed?: string
    readonly ids: readonly string[]
    readonly reserves: readonly string[]
  }[]
  /** Every commitment that the design ever made, oldest first. */
  readonly commitments?: readonly Commitment[]
  /** Other designs that have committed the same ids. */
  readonly sameFrame?: readonly Elsewhere[]
}

/** How the random selection is done, for the monitoring design document. */
export const selectionMethod =
  'The frame lists every household of the population, non-adopters and planned projects included. ' +
  'Its ids, sorted bytewise and joined by line feeds, are hashed with SHA-256, and the hash is ' +
  'published together with a public random beacon’s round that is still to come. When the round is ' +
  'out, its signature is verified and each stratum is sampled alone with the seed ' +
  '"sampling-v1|designId|stratum|frameDigest|beaconHex": the ticket of an id is the decimal form ' +
  'of SHA-256(hex(SHA-256(seed)) + id), padded to 64 digits and read backwards as a fraction, and ' +
  'the smallest tickets are the sample, the next ones its reserves in order (Rivest, consistent ' +
  'sampling, 2018). A frame has one commitment; a sample that grows keeps the seed and every id. ' +
  'Anyone can recompute the sample from the ids and the beacon.'

/** A design as answers have it. */
export interface SampleDesign extends Figures {
  readonly designId: string
  readonly projectId: string
  readonly createdAt: string
  /** The DID of the user who made the design; absent where an API key made it. */
  readonly createdBy?: string
  readonly revision: number
  readonly verification: VerificationState
  readonly final: boolean
  /** The commitment that holds for this revision. */
  readonly selection?: Commitment
  /** Every commitment that the design ever made, oldest first. */
  readonly commitments?: readonly Commitment[]
  readonly selectionMethod: string
  readonly change?: Outcome['change']
  readonly reliability?: Outcome['reliability']
}

/** The JSON of a column, which needs no check because only this plugin writes the column. */
export const parsed = <T>(text: string): T => JSON.parse(text) as T

/** Makes the answer for a design from its row and the commitments of the design, oldest first. */
export function recordOf(row: RevisionRow, rows: readonly CommitmentRow[] = []): SampleDesign {
  const figures = parsed<Figures>(row.figures)
  const verification = parsed<VerificationState>(row.verification)
  const current = currentOf(rows, row.revision, sizesOf(figures))
  return {
    designId: row.design_id,
    projectId: row.project_id,
    createdAt: row.created_at,
    ...(row.owner !== null && { createdBy: row.owner }),
    revision: row.revision,
    ...figures,
    ...(row.outcome !== null && parsed<Outcome>(row.outcome)),
    ...(current && { selection: commitmentOf(current) }),
    ...(rows.length > 0 && { commitments: rows.map(commitmentOf) }),
    selectionMethod,
    verification,
    final: verification.status === 'approved',
  }
}

/** What a draw stores: the ids by stratum, and how a verifier drew outside. */
export type Drawn = Pick<Selection, 'strata' | 'external'>

/** Makes the answer for a selection from its row. */
export function selectionOf(row: SelectionRow): Selection {
  const evidence = evidenceOf(row)
  const drawn = row.selected === null ? {} : parsed<Drawn>(row.selected)
  return {
    designId: row.design_id,
    ...commitmentOf(row),
    counts: parsed(row.frame_counts),
    ...(row.beacon_hex !== null && { beaconHex: row.beacon_hex }),
    ...(evidence && { evidence }),
    ...drawn,
  }
}

/** The selection of a smaller revision: the first ids of each stratum are its sample, the others the first reserves. */
export function prefixOf(selection: Selection, sizes: ReadonlyMap<string, number>): Selection {
  const { strata, external } = selection
  if (!strata || external) return selection
  return {
    ...selection,
    strata: strata.map(({ name, ids, reserves, ...rest }) => {
      const size = sizes.get(name) ?? ids.length
      return {
        ...rest,
        name,
        ids: ids.slice(0, size),
        reserves: [...ids.slice(size), ...reserves],
      }
    }),
  }
}

/** The request from which a revision was worked out. */
export const requestOf = (row: RevisionRow): SamplingRequest => parsed(row.request)
