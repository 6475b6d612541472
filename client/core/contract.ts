import type { OracleError } from './error.ts'
import type { AuthzConfig } from './records.ts'

/** What contracting an oracle is about. */
export interface ContractParams {
  readonly oracleDid: string
  /** The collection whose claims the oracle submits; without it the oracle is granted transfers. */
  readonly userClaimCollectionId?: string
  readonly adminAddress?: string
  /** The claim that `payClaim` pays; without it all that are open. */
  readonly claimId?: string
  /** How often the oracle may claim; 1 without it. */
  readonly agentQuota?: number
  /** How much the oracle may claim, in the smallest unit; without it the most that a turn costs. */
  readonly maxAmount?: { readonly amount: number; readonly denom: string }
}

/** A service of an oracle, on its card. */
export interface AgentCardService {
  readonly id: string
  readonly name: string
  /** In whole coins, for people; `pricingList` has the amount of the ledger. */
  readonly price: { readonly amount: number; readonly currency: string }
  readonly deliverables: string
}

/** The card of an oracle. */
export interface AgentCard {
  readonly oracleDid: string
  /** Another one stands for another card: who shows the card and later relies on it can tell that it has changed. */
  readonly cardProof: string
  readonly card: {
    readonly credentialSubject: {
      readonly id: string
      readonly name: string
      readonly services: readonly AgentCardService[]
    }
  }
}

/** A price of an oracle, in the smallest unit of a coin. */
export interface Pricing {
  readonly title: string
  readonly description: string
  readonly amount: string
  readonly denom: string
}

/** What a page sees of a contract with an oracle. */
export interface ContractSnapshot {
  readonly isContractingOracle: boolean
  readonly isPayingClaim: boolean
  readonly isInvitingOracle: boolean
  /** Null where the oracle has no card. */
  readonly agentCard?: AgentCard | null
  readonly isLoadingAgentCard: boolean
  readonly pricingList?: readonly Pricing[]
  readonly isLoadingPricingList: boolean
  readonly authzConfig?: AuthzConfig
  readonly isLoadingAuthzConfig: boolean
  /** Whether the oracle is in its room on the messaging server; undefined where the wallet has no account there. */
  readonly isOracleInRoom?: boolean
  readonly isLoadingOracleInRoom: boolean
  readonly error: OracleError | null
}
