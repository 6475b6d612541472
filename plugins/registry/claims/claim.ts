/** The verdict of an oracle on a claim. */
export interface Evaluation {
  readonly oracle: string
  readonly status: 'approved' | 'rejected'
  readonly timestamp: string
  readonly notes?: string
}

/** A piece of evidence for a claim. The hash lets a reader see whether the evidence at `id` has changed since. */
export interface Evidence {
  readonly id?: string
  readonly type: string
  readonly name?: string
  readonly digestMultibase?: string
}

/** What a submitter says of an asset, with the verdict of an oracle once there is one. */
export interface Claim {
  readonly id: string
  readonly type: string
  /** The DID of the asset that the claim is about. */
  readonly subject: string
  readonly submitter: string
  /** The protocol whose version, the newest at that time, the registry checked the properties against. */
  readonly protocol?: { readonly did: string; readonly version: number }
  readonly properties: Readonly<Record<string, unknown>>
  readonly evidence?: readonly Evidence[]
  readonly status: 'submitted' | 'approved' | 'rejected'
  readonly evaluation?: Evaluation
  /** The id of the credential that an approved claim became. */
  readonly credential?: string
  readonly createdAt: string
  readonly updatedAt: string
}
