import type { OracleClient } from '../core/client.ts'
import { OracleError, toOracleError } from '../core/error.ts'
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

/** How long it is asked what came of a transaction, and how often. */
const counting = { forMs: 60_000, everyMs: 1_000 }

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
  const { paymentId } = prepared
  const settle = async (txHash?: string) => {
    const settled = await post<Settlement | { readonly status: 'pending' }>('/payments/settle', {
      paymentId,
      ...(txHash !== undefined && { txHash }),
    })
    return settled.status === 'settled' ? settled : undefined
  }
  let txHash: string | undefined
  try {
    txHash = await signed(client, prepared)
  } catch (refused) {
    // A wallet may fail after it has sent the transaction, so the ledger is asked before anybody pays again.
    const settled = await settle().catch(() => undefined)
    if (settled) return settled
    throw refused
  }
  return onceCounted({
    ask: () => settle(txHash),
    message: 'The ledger does not have the payment yet.',
    hint: 'Do not pay again. The oracle finds the payment by itself once it is there.',
    details: { paymentId, txHash },
  })
}

/** Something that was signed: how to ask what came of it, and what to say while nobody knows. */
interface Sent<T> {
  ask(): Promise<T | undefined>
  readonly message: string
  readonly hint: string
  readonly details: object
}

/**
 * Asks for a minute what came of what was signed. An oracle that cannot be reached meanwhile says nothing about the
 * transaction, so the outcome stays open: who signed must not sign again.
 */
export async function onceCounted<T>({ ask, message, hint, details }: Sent<T>): Promise<T> {
  let cause: OracleError | undefined
  for (const until = Date.now() + counting.forMs; Date.now() < until;) {
    try {
      const done = await ask()
      if (done !== undefined) return done
    } catch (thrown) {
      cause = toOracleError(thrown)
      const { status } = cause
      if ([400, 404, 409].includes(status)) throw cause
    }
    await new Promise((resolve) => setTimeout(resolve, counting.everyMs))
  }
  throw new OracleError('payment_pending', message, { cause, hint, details })
}

/** Has the wallet sign and send messages; the hash of the transaction, where the wallet tells it. */
export async function signed(
  client: OracleClient,
  { messages, memo }: Pick<Prepared, 'messages' | 'memo'>,
): Promise<string | undefined> {
  try {
    return hashOf(await client.transactSignX(messages.map(revived), memo))
  } catch (cause) {
    // The error of a wallet that has sent the transaction, and waited for it in vain, names the hash.
    const hash = hashOf(cause)
    if (hash !== undefined) return hash
    throw new OracleError(
      'payment_failed',
      `The wallet did not sign: ${cause instanceof Error ? cause.message : String(cause)}`,
      {
        cause,
        hint: 'Nothing was counted. Look at the wallet before you try again: it may have sent the transaction all the same.',
      },
    )
  }
}

/** The hash of a transaction, by the names that wallets have for it; a wallet that tells none is asked for none. */
function hashOf(sent: unknown): string | undefined {
  const { transactionHash, txhash, hash, txId } = Object(sent)
  const found = [sent, transactionHash, txhash, hash, txId].find((one) => typeof one === 'string')
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
