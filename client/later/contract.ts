import type { OracleClient } from '../core/client.ts'
import type {
  AgentCard,
  AgentCardService,
  ContractParams,
  ContractSnapshot,
  Pricing,
} from '../core/contract.ts'
import { OracleError, toOracleError } from '../core/error.ts'
import type { AuthzConfig, LedgerMessage, Overrides } from '../core/records.ts'
import { ask, readJson } from '../core/request.ts'
import { onceCounted, payClaims, signed } from './paying.ts'
import { OracleRoom } from './oracle-room.ts'

/** The contract of a user with an oracle: what it offers, and how it is granted and paid. */
export interface Contract {
  /** Reads what the oracle offers. */
  read(): Promise<void>
  contractOracle(options?: { readonly useAuthz?: boolean }): Promise<void>
  payClaim(): Promise<void>
  inviteOracle(): Promise<void>
}

/** A contract, and where a page sees it. */
interface ContractPage {
  readonly params: ContractParams
  readonly overrides?: Overrides
}

type Show = (part: Partial<ContractSnapshot>) => void

/** What of the terms a contract is made from. */
interface Terms {
  readonly maximum: string
  readonly denom: string
}

interface Made {
  readonly id: string
  readonly status: string
  readonly messages: readonly LedgerMessage[]
  readonly memo: string
}

/** How long a grant lasts where the oracle says nothing of it. */
const usualDays = 30

/** The contract of a client's user with an oracle. `show` has what a page should see. */
export const contractOf = (
  client: OracleClient,
  page: ContractPage | string,
  show: Show,
): Contract =>
  new OracleContract(
    client,
    typeof page === 'string' ? { params: { oracleDid: page } } : page,
    show,
  )

class OracleContract implements Contract {
  readonly #client: OracleClient
  readonly #page: ContractPage
  readonly #show: Show
  readonly #room: OracleRoom

  constructor(client: OracleClient, page: ContractPage, show: Show) {
    this.#client = client
    this.#page = page
    this.#show = show
    this.#room = new OracleRoom(client.wallet, page.params.oracleDid)
  }

  async read(): Promise<void> {
    try {
      await this.#demandPlugin()
      const [authz, card, terms] = await Promise.all([
        this.#offered<AuthzConfig>('/payments/authz.json'),
        this.#card(),
        this.#offered<Terms>('/payments/terms'),
      ])
      const services = card?.card.credentialSubject.services ?? []
      this.#show({
        agentCard: card,
        pricingList: terms ? pricesOf(services, terms) : [],
        authzConfig: authz,
        error: null,
        isOracleInRoom: await this.#room.hasOracle(authz?.granteeAddress),
      })
    } catch (thrown) {
      this.#show({ error: toOracleError(thrown) })
    }
    this.#show({
      isLoadingAgentCard: false,
      isLoadingPricingList: false,
      isLoadingAuthzConfig: false,
      isLoadingOracleInRoom: false,
    })
  }

  contractOracle({ useAuthz = true }: { readonly useAuthz?: boolean } = {}): Promise<void> {
    return this.#carry('isContractingOracle', async () => {
      await this.#demandPlugin()
      await this.#openRoom(useAuthz)
      if (!useAuthz) return
      const { address } = this.#client.wallet
      const made = await this.#post<Made>('/payments/contracts', {
        address,
        ...(await this.#asked()),
      })
      const txHash = await signed(this.#client, made)
      const details = { contractId: made.id, txHash }
      if (txHash === undefined)
        throw new OracleError('payment_pending', 'The wallet told no hash of the grant.', {
          hint: 'Do not grant again. Confirm this contract with the hash of the transaction.',
          details,
        })
      await onceCounted({
        ask: async () => {
          const path = `/payments/contracts/${made.id}/confirm`
          const { status } = await this.#post<Made>(path, { txHash })
          if (status === 'pending') return undefined
          if (status === 'active') return status
          throw new OracleError('payment_failed', `The contract is ${status}.`, { status: 409 })
        },
        message: 'The ledger does not have the grant yet.',
        hint: 'Do not grant again. Confirm this contract once the ledger has the transaction.',
        details,
      })
    })
  }

  payClaim(): Promise<void> {
    return this.#carry('isPayingClaim', async () => {
      const { params, overrides } = this.#page
      await this.#demandPlugin()
      const claims = params.claimId ? [params.claimId] : undefined
      await payClaims(this.#client, params.oracleDid, claims, overrides)
    })
  }

  inviteOracle(): Promise<void> {
    return this.#carry('isInvitingOracle', async () => {
      const authz = await this.#offered<AuthzConfig>('/payments/authz.json')
      await this.#room.invite(authz?.granteeAddress)
      this.#show({ isOracleInRoom: await this.#room.hasOracle(authz?.granteeAddress) })
    })
  }

  /** Opens the room of the user and the oracle. Whoever grants nothing asks for nothing but that room. */
  async #openRoom(useAuthz: boolean): Promise<void> {
    if (useAuthz && !this.#room.hasAccount) return
    const authz = await this.#offered<AuthzConfig>('/payments/authz.json')
    await this.#room.open(authz?.granteeAddress)
    this.#show({ isOracleInRoom: await this.#room.hasOracle(authz?.granteeAddress) })
  }

  /** What the contract asks the user to grant. */
  async #asked() {
    const { userClaimCollectionId, adminAddress, agentQuota = 1, maxAmount } = this.#page.params
    const { maximum, denom } = await this.#get<Terms>('/payments/terms')
    if (maxAmount && maxAmount.denom !== denom)
      throw new OracleError(
        'invalid_request',
        `The oracle is paid in ${denom}, and maxAmount is in ${maxAmount.denom}.`,
      )
    const most = maxAmount ? String(maxAmount.amount) : maximum
    if (most === '0')
      throw new OracleError('invalid_request', 'A contract needs a maxAmount above 0.', {
        hint: 'The turns of this oracle have no price from which one could follow.',
      })
    const authz = await this.#offered<AuthzConfig>('/payments/authz.json')
    return {
      maxAmount: most,
      agentQuota,
      days: authz?.expirationDays ?? usualDays,
      ...(userClaimCollectionId && { collectionId: userClaimCollectionId, adminAddress }),
    }
  }

  async #carry(what: keyof ContractSnapshot, work: () => Promise<void>): Promise<void> {
    this.#show({ [what]: true, error: null })
    try {
      await work()
      this.#show({ [what]: false })
    } catch (thrown) {
      const error = toOracleError(thrown)
      this.#show({ [what]: false, error })
      throw error
    }
  }

  async #demandPlugin(): Promise<void> {
    const facts = await this.#get<{ payments?: unknown }>('/.well-known/oracle.json')
    if (facts.payments === undefined)
      throw new OracleError(
        'plugin_not_available',
        'Contracting an oracle needs the "payments" plugin, which is not available.',
      )
  }

  /** The card of the oracle, with the revision that its server names. */
  async #card(): Promise<AgentCard | null> {
    const { oracleDid } = this.#page.params
    let cardProof = ''
    const card = await this.#offered<AgentCard['card']>('/payments/card', ({ headers }) => {
      cardProof = (headers.get('etag') ?? '').replace(/^W\/|"/g, '')
    })
    return card ? { oracleDid, card, cardProof } : null
  }

  /** What the oracle tells everybody. */
  async #get<T>(path: string, look?: (answer: Response) => void): Promise<T> {
    const { params, overrides } = this.#page
    const { apiUrl } = await this.#client.config(params.oracleDid, overrides).read()
    return readJson<T>({}, async (call) => {
      const answer = await ask(apiUrl + path, call)
      look?.(answer)
      return answer
    })
  }

  /** The same, undefined where the oracle has no such thing. */
  async #offered<T>(path: string, look?: (answer: Response) => void): Promise<T | undefined> {
    try {
      return await this.#get<T>(path, look)
    } catch (error) {
      if (error instanceof OracleError && error.status === 404) return undefined
      throw error
    }
  }

  #post<T>(path: string, body: object): Promise<T> {
    const { params, overrides } = this.#page
    return this.#client.request<T>(params.oracleDid, path, { body }, overrides)
  }
}

/** The prices of the services on a card, in the smallest unit: each costs the most that a turn may cost. */
const pricesOf = (
  services: readonly AgentCardService[],
  { maximum, denom }: Terms,
): readonly Pricing[] =>
  maximum === '0'
    ? []
    : services.map(({ name, deliverables }) => ({
        title: name,
        description: deliverables,
        amount: maximum,
        denom,
      }))
