import type { ContractParams, ContractSnapshot } from '../core/contract.ts'
import type { Overrides } from '../core/records.ts'
import { useLate } from './use-late.ts'

/** The options of `useContractOracle`. */
export interface ContractOptions {
  readonly params: ContractParams
  readonly overrides?: Overrides
}

/** What `useContractOracle` returns. */
export interface ContractOracle extends ContractSnapshot {
  /** Has the wallet grant the oracle what it may claim; with `useAuthz: false` nothing is granted. */
  readonly contractOracle: (options?: { readonly useAuthz?: boolean }) => Promise<void>
  readonly payClaim: () => Promise<void>
  /** Invites the oracle into its room on the messaging server. */
  readonly inviteOracle: () => Promise<void>
}

const unknown: ContractSnapshot = {
  isContractingOracle: false,
  isPayingClaim: false,
  isInvitingOracle: false,
  isLoadingAgentCard: true,
  isLoadingPricingList: true,
  isLoadingAuthzConfig: true,
  isLoadingOracleInRoom: true,
  error: null,
}

/** Contracts an oracle, named by its DID alone or with more, and pays its claims. Nothing is granted or paid unasked. */
export const useContractOracle = (options: ContractOptions | string): ContractOracle =>
  useLate(
    options,
    unknown,
    ['read', 'contractOracle', 'payClaim', 'inviteOracle'],
    () => import('../later/contract.ts'),
  )
