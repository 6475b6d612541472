/** The verdict of an oracle on a claim. */
export interface Evaluation {
  readonly oracle: string
  readonly status: 'approved' | 'rejected'
  readonly timestamp: string
  readonly notes?: string
  /** How the verdict came about, where no person gave it: by rules, or by a turn of the agent. */
  readonly by?: 'rules' | 'agent'
  /** Which rule decided, from 1. */
  readonly rule?: number
  /** The values that the rules named on the way. */
  readonly values?: Readonly<Record<string, string | number | boolean>>
  /** The run of the agent, as the operator finds it. */
  readonly run?: string
  /** Who stands behind the rules or the agent: the name of the key that declared them. */
  readonly declaredBy?: string
}

/** What an evaluation without a hand rests on. */
export type Basis = Pick<Evaluation, 'by' | 'rule' | 'values' | 'run' | 'declaredBy'>

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
  /** Who claims it; an open claim has nobody yet. */
  readonly submitter?: string
  /** The protocol whose version, the newest at that time, the registry checked the properties against. */
  readonly protocol?: { readonly did: string; readonly version: number }
  readonly properties: Readonly<Record<string, unknown>>
  readonly evidence?: readonly Evidence[]
  /** `open`: it waits for its properties, such as a question of a survey. */
  readonly status: 'open' | 'submitted' | 'approved' | 'rejected'
  readonly evaluation?: Evaluation
  /** The id of the credential that an approved claim became. */
  readonly credential?: string
  /** While nobody has decided: whether the evaluation is still to come, or a person is asked, and why. */
  readonly review?: { readonly state: 'pending' | 'asked'; readonly reason?: string }
  /** The credit that the approved claim became. */
  readonly credit?: string
  /** Why an approved claim became no credit. */
  readonly creditFault?: string
  readonly createdAt: string
  readonly updatedAt: string
}
