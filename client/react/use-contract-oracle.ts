import type { OracleClient } from '../core/client.ts'
import type { ContractParams, ContractSnapshot } from '../core/contract.ts'
import type { Overrides } from '../core/records.ts'
import { Store } from '../core/store.ts'
import type { Contract } from '../later/contract.ts'
import { useClient } from './provider.ts'
import { useStore } from './use-store.ts'

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

/** What is known of a contract. The code that asks and grants comes when a component looks, or calls. */
class ContractStore extends Store<ContractSnapshot> {
  readonly #open: () => Promise<Contract>

  constructor(client: OracleClient, options: ContractOptions | string) {
    super({
      isContractingOracle: false,
      isPayingClaim: false,
      isInvitingOracle: false,
      isLoadingAgentCard: true,
      isLoadingPricingList: true,
      isLoadingAuthzConfig: true,
      isLoadingOracleInRoom: true,
      error: null,
    })
    this.#open = async () =>
      (await import('../later/contract.ts')).contractOf(client, options, (part) => this.set(part))
  }

  protected mount(): void {
    void this.#call('read')()
  }

  #call =
    (name: keyof Contract) =>
    async (options?: { readonly useAuthz?: boolean }): Promise<void> =>
      (await this.#open())[name](options)

  readonly calls = {
    contractOracle: this.#call('contractOracle'),
    payClaim: this.#call('payClaim'),
    inviteOracle: this.#call('inviteOracle'),
  }
}

/** Contracts an oracle, named by its DID alone or with more, and pays its claims. Nothing is granted or paid unasked. */
export function useContractOracle(options: ContractOptions | string): ContractOracle {
  const client = useClient()
  const store = client.once(
    JSON.stringify(['contract', options]),
    () => new ContractStore(client, options),
  )
  return { ...useStore(store), ...store.calls }
}
