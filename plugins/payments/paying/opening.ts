import { randomUUID } from 'node:crypto'
import { RuntimeError } from '#core'
import type { Books } from '../accounts/account.ts'
import {
  found,
  isUnderWay,
  mostClaims,
  openClaims,
  pendingPayment,
  presentDue,
} from '../accounts/claims.ts'
import type { ClaimRow, PaymentRow, PaymentsDatabase } from '../tables.ts'
import { total } from '../terms/money.ts'

/** How long a payment is looked for. */
const openMs = 24 * 3_600_000
/** How many payments of one account may be open at once. */
export const mostOpen = 20
/** What the memo of a payment begins with whose claims all stand on the ledger: there they are approved one by one. */
export const approving = 'Approve claim '

/** Whether a claim stands on the ledger. */
export const isStanding = ({ standing }: ClaimRow): boolean => standing === 'submitted'

/** The claims that a payment is for: the open ones of the user, or those of them that are named. */
export async function payableClaims(
  trx: PaymentsDatabase,
  books: Books,
  did: string,
  ids: readonly string[] | undefined,
): Promise<ClaimRow[]> {
  await presentDue(trx, books, did)
  const free = (claim: ClaimRow) => !isUnderWay(claim, books.now())
  if (ids === undefined) {
    const open = await openClaims(trx, did)
    if (open.some(free)) return open.filter(free)
    if (open.length > 0) throw pendingPayment('the oracle collects what you owe')
    throw new RuntimeError('CONFLICT', 'No claim of yours is open.', {
      hint: 'To pay in advance, ask for an advance claim: POST /payments/claims { "advance": … }.',
    })
  }
  const wanted = [...new Set(ids)].slice(0, mostClaims)
  const rows = await trx
    .selectFrom('payments_claims')
    .selectAll()
    .where('did', '=', did)
    .where('id', 'in', wanted)
    .orderBy('created_at')
    .execute()
  for (const id of wanted)
    found(
      rows.find((claim) => claim.id === id),
      id,
    )
  const closed = rows.find(({ status }) => status !== 'open')
  if (closed)
    throw new RuntimeError('CONFLICT', `Claim ${closed.id} is ${closed.status}.`, {
      hint: 'Only open claims are paid.',
    })
  const taken = rows.find((claim) => !free(claim))
  if (taken) throw pendingPayment(`that of claim ${taken.id}`)
  return rows
}

/** Who pays which claims. */
interface Opening {
  readonly did: string
  readonly address: string
  readonly claims: readonly ClaimRow[]
}

/** The open payment for exactly these claims, or a new one. */
export async function openPayment(
  trx: PaymentsDatabase,
  books: Books,
  { did, address, claims }: Opening,
): Promise<PaymentRow> {
  const amount = total(...claims.map((claim) => claim.amount))
  const ids = JSON.stringify(claims.map(({ id }) => id))
  const now = books.now().getTime()
  const open = await trx
    .selectFrom('payments_payments')
    .selectAll()
    .where('did', '=', did)
    .where('status', '=', 'open')
    .execute()
  const same = open.find(
    (one) =>
      one.claims === ids &&
      one.address === address &&
      one.amount === amount &&
      one.memo.startsWith(approving) === claims.every(isStanding),
  )
  if (same && same.expires_at > now) return same
  if (open.length >= mostOpen)
    throw new RuntimeError('RATE_LIMITED', `${mostOpen} payments of yours are open.`, {
      hint: 'Send one of them, or wait until they end a day after they were made.',
      headers: { 'Retry-After': '3600' },
    })
  const id = randomUUID()
  const [first] = claims
  const allStand = first !== undefined && claims.every(isStanding)
  const payment: PaymentRow = {
    id,
    did,
    address,
    claims: ids,
    amount,
    memo: allStand ? `${approving}${first.id}` : `oracle:${id}`,
    status: 'open',
    tx_hash: null,
    created_at: now,
    expires_at: now + openMs,
  }
  await trx.insertInto('payments_payments').values(payment).execute()
  return payment
}
