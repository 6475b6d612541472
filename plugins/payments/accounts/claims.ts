import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { RuntimeError } from '#core'
import { total } from '../terms/money.ts'
import type { AccountRow, ClaimRow, PaymentsDatabase } from '../tables.ts'
import { type Books, lockAccount, newAccount } from './account.ts'

/** How many claims are named at most, to a caller or in a payment. */
export const mostClaims = 100
/** How long an unpaid advance claim stays open. */
export const advanceMs = 7 * 24 * 3_600_000

/** The open claims of a user, oldest first. */
export function openClaims(db: PaymentsDatabase, did: string): Promise<ClaimRow[]> {
  return db
    .selectFrom('payments_claims')
    .selectAll()
    .where('did', '=', did)
    .where('status', '=', 'open')
    .orderBy('created_at')
    .orderBy('id')
    .limit(mostClaims)
    .execute()
}

/** The claim, or the 404 of one that is not the user's: claims of others are not told from those that do not exist. */
export function found(claim: ClaimRow | undefined, id: string): ClaimRow {
  if (claim) return claim
  throw new RuntimeError('NOT_FOUND', `There is no claim ${id} of yours.`, {
    hint: 'GET /payments/claims lists them.',
  })
}

/** Opens a claim with the bill of a turn. */
export async function openClaim(
  trx: PaymentsDatabase,
  did: string,
  amount: number,
  now: Date,
): Promise<string> {
  const claim = newClaim(did, 'usage', amount, now)
  await trx.insertInto('payments_claims').values(claim).execute()
  return claim.id
}

const newClaim = (did: string, kind: ClaimRow['kind'], amount: number, now: Date): ClaimRow => ({
  id: randomUUID(),
  did,
  kind,
  status: 'open',
  amount,
  created_at: now.getTime(),
  presented_at: kind === 'advance' ? now.getTime() : null,
  paid_at: null,
  method: null,
  reference: null,
  dispute: null,
  standing: null,
  standing_until: null,
  contract_id: null,
})

/** Presents what is due, so that its ids can go out: none of these claims grows any more. Oldest first. */
export async function presentDue(
  trx: PaymentsDatabase,
  { now }: Pick<Books, 'now'>,
  did: string,
): Promise<ClaimRow[]> {
  await trx
    .updateTable('payments_claims')
    .set({ presented_at: now().getTime() })
    .where('did', '=', did)
    .where('status', '=', 'open')
    .where('presented_at', 'is', null)
    .execute()
  return (await openClaims(trx, did)).filter(({ kind }) => kind === 'usage')
}

/** The advance claim that asks for so much: the open one, or a new one in place of one that asks for something else. */
export async function presentAdvance(
  trx: PaymentsDatabase,
  { now }: Pick<Books, 'now'>,
  did: string,
  amount: number,
): Promise<ClaimRow> {
  await expireAdvances(trx, now(), did)
  const open = await trx
    .selectFrom('payments_claims')
    .selectAll()
    .where('did', '=', did)
    .where('status', '=', 'open')
    .where('kind', '=', 'advance')
    .executeTakeFirst()
  if (open?.amount === amount) return open
  // Whoever were asked for another advance meanwhile would pay twice.
  if (open && isUnderWay(open, now())) throw pendingPayment(`that of claim ${open.id}`)
  // A payment of the old one may be on its way: the money then comes into the balance all the same.
  if (open)
    await trx
      .updateTable('payments_claims')
      .set({ status: 'expired' })
      .where('id', '=', open.id)
      .execute()
  const claim = newClaim(did, 'advance', amount, now())
  await trx.insertInto('payments_claims').values(claim).execute()
  return claim
}

/** Ends advance claims that nobody has paid for seven days. */
export async function expireAdvances(db: PaymentsDatabase, now: Date, did?: string): Promise<void> {
  await db
    .updateTable('payments_claims')
    .set({ status: 'expired' })
    .where('kind', '=', 'advance')
    .where('status', '=', 'open')
    .where('created_at', '<', now.getTime() - advanceMs)
    .where((eb) => eb.or([eb('standing', 'is', null), eb('standing_until', '<=', now.getTime())]))
    .$if(did !== undefined, (query) => query.where('did', '=', did ?? ''))
    .execute()
}

/** What a user is asked for before the next turn: what is due, or an advance where nothing is. Empty where money for all is on its way. */
export function demandFrom(
  db: PaymentsDatabase,
  books: Books,
  did: string,
): Promise<readonly ClaimRow[]> {
  return db.transaction().execute(async (trx) => {
    await lockAccount(trx, did, books.now())
    const due = await presentDue(trx, books, did)
    const advance = () => presentAdvance(trx, books, did, books.terms.advance)
    const asked = due.length > 0 ? due : [await advance()]
    return asked.filter((claim) => !isUnderWay(claim, books.now()))
  })
}

/** Whether money for a claim is on its way, so that nobody may be asked for it again. */
export const isUnderWay = ({ standing, standing_until }: ClaimRow, now: Date): boolean =>
  standing === 'collecting' ||
  standing === 'submitting' ||
  (standing === 'signed' && (standing_until === null || standing_until > now.getTime()))

/** Money for all that is asked for is on its way: whoever paid again would pay twice. */
export const pendingPayment = (what: string): RuntimeError =>
  new RuntimeError('PAYMENT_PENDING', `A payment of yours is under way: ${what}.`, {
    status: 503,
    hint: 'Do not pay again. Send the same message again in a moment.',
    headers: { 'Retry-After': '5', 'Cache-Control': 'no-store' },
  })

/** Where money came from. */
export interface Payer {
  readonly method: string
  readonly reference: string
}

/** Money that came in for an account. */
export interface Income extends Payer {
  readonly did: string
  readonly amount: number
  /** The claims that it was sent for. */
  readonly claims: readonly string[]
}

/**
 * Counts money that came in: claims that it was sent for and covers are paid, the rest comes into the balance, which then
 * pays whole claims, oldest first. Returns the claims that are paid by it.
 */
export async function takeIncome(
  trx: PaymentsDatabase,
  { now }: Pick<Books, 'now'>,
  income: Income,
): Promise<string[]> {
  const { did, amount } = income
  const paid: string[] = []
  const known = await lockAccount(trx, did, now())
  // The account was forgotten or erased while the money was on its way: money is never lost for that.
  if (!known)
    await trx
      .insertInto('payments_accounts')
      .values(newAccount(did, now().getTime()))
      .onConflict((conflict) => conflict.doNothing())
      .execute()
  const account = known ?? (await lockAccount(trx, did, now()))
  total(account?.balance ?? 0, amount) // more than an account can hold stays uncounted, for the operator to see
  await change(trx, did, { balance: amount, paid: true })
  const named = await namedClaims(trx, did, income.claims)
  const asked = total(...named.map((claim) => claim.amount))
  if (asked <= amount) {
    await payClaims(trx, did, named, income, now())
    paid.push(...named.map(({ id }) => id))
  }
  paid.push(...(await payFromBalance(trx, { now }, did, income)))
  return paid
}

/** The claims of a payment that can be paid: an advance that ran out meanwhile is only money. */
async function namedClaims(trx: PaymentsDatabase, did: string, ids: readonly string[]) {
  if (ids.length === 0) return []
  return (
    trx
      .selectFrom('payments_claims')
      .selectAll()
      .where('did', '=', did)
      .where('id', 'in', ids)
      .where('status', 'in', ['open', 'disputed'])
      // The ledger pays what stands there, once it is approved.
      .where((eb) => eb.or([eb('standing', 'is', null), eb('standing', '<>', 'submitted')]))
      .orderBy('created_at')
      .execute()
  )
}

/** Pays whole usage claims from the balance, oldest first, until it does not cover the next one. */
export async function payFromBalance(
  trx: PaymentsDatabase,
  { now }: Pick<Books, 'now'>,
  did: string,
  payer: Payer = { method: 'balance', reference: '' },
): Promise<string[]> {
  const account = await lockAccount(trx, did, now())
  let left = account?.balance ?? 0
  const paid: string[] = []
  for (let rest = left > 0; rest;) {
    const claims = await payableByBalance(trx, did, now())
    const affordable: ClaimRow[] = []
    for (const claim of claims) {
      if (claim.amount > left) break
      left -= claim.amount
      affordable.push(claim)
    }
    await payClaims(trx, did, affordable, payer, now())
    paid.push(...affordable.map(({ id }) => id))
    rest = affordable.length === mostClaims
  }
  return paid
}

/** The oldest claims that a balance may pay. What is collected, submitted or signed already would be paid twice. */
const payableByBalance = (trx: PaymentsDatabase, did: string, now: Date): Promise<ClaimRow[]> =>
  trx
    .selectFrom('payments_claims')
    .selectAll()
    .where('did', '=', did)
    .where('status', '=', 'open')
    .where('kind', '=', 'usage')
    .where((eb) =>
      eb.or([
        eb('standing', 'is', null),
        eb.and([eb('standing', '=', 'signed'), eb('standing_until', '<=', now.getTime())]),
      ]),
    )
    .orderBy('created_at')
    .orderBy('id')
    .limit(mostClaims)
    .execute()

/** Marks claims as paid. Of usage claims the money leaves the balance; that of an advance stays in it. */
async function payClaims(
  trx: PaymentsDatabase,
  did: string,
  claims: readonly ClaimRow[],
  { method, reference }: Payer,
  now: Date,
): Promise<void> {
  if (claims.length === 0) return
  await trx
    .updateTable('payments_claims')
    .set({ status: 'paid', paid_at: now.getTime(), method, reference, standing: null })
    .where(
      'id',
      'in',
      claims.map(({ id }) => id),
    )
    .execute()
  const usage = claims.filter(({ kind }) => kind === 'usage')
  if (usage.length === 0) return
  await trx
    .updateTable('payments_charges')
    .set({ status: 'paid' })
    .where(
      'claim_id',
      'in',
      usage.map(({ id }) => id),
    )
    .execute()
  const amount = total(...usage.map((claim) => claim.amount))
  await change(trx, did, { balance: -amount, owed: -amount })
}

/** Adds to the numbers of an account, which its transaction has locked. */
export async function change(
  trx: PaymentsDatabase,
  did: string,
  by: Partial<Pick<AccountRow, 'balance' | 'owed' | 'held'>> & { readonly paid?: boolean },
): Promise<void> {
  const add = (column: 'balance' | 'owed' | 'held') =>
    sql<number>`${sql.ref(column)} + cast(${by[column] ?? 0} as bigint)`
  await trx
    .updateTable('payments_accounts')
    .set({
      balance: add('balance'),
      owed: add('owed'),
      held: add('held'),
      ...(by.paid && { has_paid: 1 }),
    })
    .where('did', '=', did)
    .execute()
}
