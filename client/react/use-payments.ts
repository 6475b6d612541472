import { useState } from 'react'
import type { OracleClient } from '../core/client.ts'
import { OracleError, toOracleError } from '../core/error.ts'
import type { OracleConfig, Overrides } from '../core/records.ts'
import { Resource } from '../core/resource.ts'
import type { Settlement } from '../later/paying.ts'
import { useClient } from './provider.ts'
import { useStore } from './use-store.ts'

/** What turns cost. Amounts are digits of the smallest unit. */
export interface PaymentTerms {
  readonly prices: {
    readonly turn: string
    readonly input: string
    readonly output: string
    readonly tokens: readonly {
      readonly model: string
      readonly input: string
      readonly output: string
    }[]
    readonly tools: readonly { readonly name: string; readonly price: string }[]
  }
  readonly maximum: string
  readonly free: number
  readonly denom: string
  readonly symbol: string
  readonly decimals: number
  readonly methods: readonly { readonly name: string; readonly address: string }[]
}

/** What the user has paid in advance, owes, and may still spend. */
export interface PaymentAccount {
  readonly did: string
  readonly denom: string
  readonly balance: string
  readonly owed: string
  readonly held: string
  readonly credit: string
  readonly available: string
  readonly free: { readonly left: number; readonly resetsAt: string }
  readonly claims: readonly string[]
}

/** What one turn cost. */
export interface PaymentCharge {
  readonly runId: string
  readonly sessionId: string
  readonly requestId: string
  readonly amount: string
  readonly lines: readonly { readonly what: string; readonly amount: string }[]
  readonly status: 'held' | 'free' | 'paid' | 'due' | 'void'
  readonly endedAt?: string
}

/** What the user is asked for. */
export interface PaymentClaim {
  readonly id: string
  readonly kind: 'usage' | 'advance'
  readonly status: 'open' | 'paid' | 'disputed' | 'expired' | 'void'
  readonly amount: string
  readonly denom: string
  readonly charges: readonly PaymentCharge[]
}

/** What `usePayments` returns. */
export interface PaymentsResult {
  readonly terms: PaymentTerms | undefined
  readonly account: PaymentAccount | undefined
  /** The newest claims. */
  readonly claims: readonly PaymentClaim[]
  /** What the newest turns cost. */
  readonly charges: readonly PaymentCharge[]
  /** Pays claims, by default all that are open. The wallet asks its user; nothing else pays. */
  readonly pay: (claimIds?: readonly string[]) => Promise<Settlement>
  /** Asks for an advance and pays it. */
  readonly advance: (amount: string) => Promise<Settlement>
  readonly dispute: (claimId: string, reason: string) => Promise<void>
  readonly isPaying: boolean
  readonly isLoading: boolean
  readonly error: OracleError | null
  readonly refetch: () => Promise<void>
}

interface Known {
  readonly terms: PaymentTerms
  readonly account: PaymentAccount
  readonly claims: readonly PaymentClaim[]
  readonly charges: readonly PaymentCharge[]
}

const none: readonly never[] = []

/** What an oracle's turns cost the user, and the ways to pay. */
export function usePayments(
  oracleDid: string,
  { overrides }: { readonly overrides?: Overrides } = {},
): PaymentsResult {
  const client = useClient()
  const known = client.once(
    JSON.stringify(['payments', oracleDid, overrides]),
    () => new Resource(() => read(client, oracleDid, overrides)),
  )
  const { data, isLoading, error } = useStore(known)
  const [paying, setPaying] = useState(0)
  const [fault, setFault] = useState<OracleError | null>(null)
  const refetch = async () => void (await known.refetch())
  const carry = async <T>(work: () => Promise<T>): Promise<T> => {
    setPaying((count) => count + 1)
    setFault(null)
    try {
      const done = await work()
      await refetch().catch(() => undefined)
      return done
    } catch (thrown) {
      const failed = toOracleError(thrown)
      setFault(failed)
      throw failed
    } finally {
      setPaying((count) => count - 1)
    }
  }
  const post = <T>(path: string, body: object) =>
    client.request<T>(oracleDid, path, { body }, overrides)
  const pay = async (ids?: readonly string[]) =>
    (await import('../later/paying.ts')).payClaims(client, oracleDid, ids, overrides)
  return {
    terms: data?.terms,
    account: data?.account,
    claims: data?.claims ?? none,
    charges: data?.charges ?? none,
    pay: (ids) => carry(() => pay(ids)),
    advance: (amount) =>
      carry(async () => {
        const { claim } = await post<{ claim: PaymentClaim }>('/payments/claims', {
          advance: amount,
        })
        return pay([claim.id])
      }),
    dispute: (id, reason) =>
      carry(async () => void (await post(`/payments/claims/${id}/dispute`, { reason }))),
    isPaying: paying > 0,
    isLoading,
    error: fault ?? error,
    refetch,
  }
}

async function read(
  client: OracleClient,
  oracleDid: string,
  overrides: Overrides | undefined,
): Promise<Known> {
  const get = <T>(path: string) => client.request<T>(oracleDid, path, {}, overrides)
  const facts = await get<OracleConfig & { payments?: unknown }>('/.well-known/oracle.json')
  if (facts.payments === undefined)
    throw new OracleError(
      'plugin_not_available',
      'Payments need the "payments" plugin, which is not available.',
    )
  const [terms, account, { claims }, { charges }] = await Promise.all([
    get<PaymentTerms>('/payments/terms'),
    get<PaymentAccount>('/payments/account'),
    get<{ claims: PaymentClaim[] }>('/payments/claims'),
    get<{ charges: PaymentCharge[] }>('/payments/charges'),
  ])
  return { terms, account, claims, charges }
}
