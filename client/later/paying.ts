import type { OracleClient } from '../core/client.ts'
import { OracleError } from '../core/error.ts'
import type { LedgerMessage, Overrides } from '../core/records.ts'

/** What came of a payment. */
export interface Settlement {
  readonly status: 'settled'
  /** The claims that it paid. */
  readonly paid: readonly string[]
  readonly balance: string
}

interface Prepared {
  readonly paymentId: string
  readonly messages: readonly LedgerMessage[]
  readonly memo: string
}

/** How long a payment is asked for, and how often. */
const settling = { forMs: 60_000, everyMs: 1_000 }

/** Pays claims, those named or all that are open: prepares the payment, has the wallet sign it, and waits until it is counted. */
export async function payClaims(
  client: OracleClient,
  oracleDid: string,
  claims: readonly string[] | undefined,
  overrides?: Overrides,
): Promise<Settlement> {
  const post = <T>(path: string, body: object) =>
    client.request<T>(oracleDid, path, { body }, overrides)
  const { address } = client.wallet
  const prepared = await post<Prepared>('/payments/prepare', { address, ...(claims && { claims }) })
  const { paymentId, messages, memo } = prepared
  let txHash: string | undefined
  try {
    txHash = hashOf(await client.transactSignX(messages.map(revived), memo))
  } catch (cause) {
    throw new OracleError(
      'payment_failed',
      `The wallet did not pay: ${cause instanceof Error ? cause.message : String(cause)}`,
      {
        cause,
        hint: 'Nothing was counted. Try again, or look at the wallet.',
      },
    )
  }
  const until = Date.now() + settling.forMs
  while (Date.now() < until) {
    const settled = await post<Settlement | { readonly status: 'pending' }>('/payments/settle', {
      paymentId,
      ...(txHash !== undefined && { txHash }),
    })
    if (settled.status === 'settled') return settled
    await new Promise((resolve) => setTimeout(resolve, settling.everyMs))
  }
  throw new OracleError('payment_pending', 'The ledger does not have the payment yet.', {
    hint: 'Do not pay again. The oracle finds the payment by itself once it is there.',
    details: { paymentId, txHash },
  })
}

/** The hash of a transaction, by the names that wallets have for it; a wallet that tells none is asked for none. */
function hashOf(sent: unknown): string | undefined {
  const { transactionHash, txhash, hash } = Object(sent)
  const found = [sent, transactionHash, txhash, hash].find((one) => typeof one === 'string')
  return found && /^[0-9a-f]{64}$/i.test(found) ? found.toUpperCase() : undefined
}

/** Bytes travel as `{ "$bytes": base64 }`, and the wallet gets them as bytes. */
function revived<T>(value: T): T {
  const { $bytes } = Object(value)
  if (typeof $bytes === 'string')
    return Uint8Array.from(atob($bytes), (letter) => letter.charCodeAt(0)) as T
  if (Array.isArray(value)) return value.map(revived) as T
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, revived(one)])) as T
}
