import { OracleError } from '../core/error.ts'
import type { MintFn, TransactionFn } from '../core/records.ts'
import { ask, askAs, readJson, trimmed } from '../core/request.ts'
import { Tokens } from '../core/tokens.ts'

/** The functions by which the user of an account calls the server. */
interface Minting {
  readonly createDelegation: MintFn
  readonly createInvocation: MintFn
}

/** An account on the development ledger of a server, which keeps its key. */
export interface LedgerAccount {
  readonly address: string
  readonly transactSignX: TransactionFn
}

interface Facts {
  readonly did: string
  readonly payments?: { readonly methods?: readonly string[] }
}

/** The account of a user on the development ledger of a server; undefined where the server has no such ledger. */
export async function accountAt(
  baseUrl: string,
  { createDelegation, createInvocation }: Minting,
): Promise<LedgerAccount | undefined> {
  const base = trimmed(baseUrl)
  const { did, payments } = await readJson<Facts>({}, (call) =>
    ask(`${base}/.well-known/oracle.json`, call),
  )
  if (!payments?.methods?.includes('development')) return undefined
  const tokens = new Tokens((kind) => (kind === 'delegation' ? createDelegation : createInvocation))
  const request = <T>(path: string, body?: object) =>
    readJson<T>({ body }, (call) => askAs(tokens, did, `${base}/payments/development${path}`, call))
  const { address } = await request<{ address: string }>('/account')
  return {
    address,
    async transactSignX(messages, memo) {
      const sent = await request<Sent>('/transact', { messages: written(messages), memo })
      if (!sent.code) return sent
      throw new OracleError('payment_failed', `The ledger refused it: ${sent.log ?? sent.code}`)
    },
  }
}

/** What a ledger says of a transaction; a code other than 0 says that it was not carried out. */
interface Sent {
  readonly transactionHash: string
  readonly code?: number
  readonly log?: string
}

/** Messages as JSON has them: bytes become `{ "$bytes": base64 }`. */
function written(value: unknown): unknown {
  if (value instanceof Uint8Array)
    return { $bytes: btoa(Array.from(value, (byte) => String.fromCharCode(byte)).join('')) }
  if (Array.isArray(value)) return value.map(written)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, written(one)]))
}
