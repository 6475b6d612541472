/** What an oracle said of a claim. */
export interface Evaluation {
  readonly oracle: string
  readonly status: 'approved' | 'rejected'
  readonly timestamp: string
  readonly notes?: string
}

/** What stands behind a claim: where it is, and the hash that says it is still the same. */
export interface Evidence {
  readonly id?: string
  readonly type: string
  readonly name?: string
  readonly digestMultibase?: string
}

/** What somebody says of an asset, until an oracle says whether it is so. */
export interface Claim {
  readonly id: string
  readonly type: string
  /** The DID of the asset that it is about. */
  readonly subject: string
  readonly submitter: string
  /** The template that the properties were checked against, in the version of that day. */
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
