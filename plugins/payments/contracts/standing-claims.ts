import { type Books, lockAccount } from '../accounts/account.ts'
import { takeIncome } from '../accounts/claims.ts'
import { evaluations, type LedgerClaim, paidOnLedger } from '../ledger/claim-messages.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { ClaimRow, PaymentsDatabase } from '../tables.ts'
import { toAmount } from '../terms/money.ts'
import { refreshGrant } from './grants.ts'

/** What claims that stand on the ledger are looked at with. */
export interface StandingParts {
  readonly db: PaymentsDatabase
  readonly books: Books
  address(): Promise<string>
  ledger(): Promise<Ledger>
}

/** How many claims one look reads. */
const perLook = 100

/** Claims that stand on the ledger: of one user, or the oldest of all. */
export const standingClaims = (db: PaymentsDatabase, did?: string): Promise<ClaimRow[]> =>
  db
    .selectFrom('payments_claims')
    .selectAll()
    .where('standing', '=', 'submitted')
    .where('status', 'in', ['open', 'disputed'])
    .$if(did !== undefined, (query) => query.where('did', '=', did ?? ''))
    .orderBy('created_at')
    .limit(perLook)
    .execute()

/** Reads what became of claims on the ledger: what was approved and paid to us is paid, what was rejected is disputed. */
export async function lookAtStanding(parts: StandingParts, did?: string): Promise<void> {
  const claims = await standingClaims(parts.db, did)
  if (claims.length === 0) return
  const [ledger, address] = await Promise.all([parts.ledger(), parts.address()])
  for (const claim of claims) {
    const told = await ledger.claim(claim.id)
    if (!told || told.agentAddress !== address) continue
    const outcome = outcomeOf(told, parts.books.terms.coin.denom)
    if (outcome === undefined) continue
    if (typeof outcome === 'number') await count(parts, claim, outcome)
    else if (claim.status === 'open') await leaveToOperator(parts, claim, outcome)
  }
}

/** How much the ledger has paid us for a claim, or why nobody can tell; undefined while nothing is decided there. */
export function outcomeOf(
  { evaluation, payment, approved }: LedgerClaim,
  denom: string,
): number | string | undefined {
  if (evaluation === evaluations.rejected) return 'Rejected on the ledger.'
  if (evaluation !== evaluations.approved || payment !== paidOnLedger) return undefined
  // Whoever evaluates names the amount. Without one the ledger pays what the owner of the collection has set there.
  if (approved.length === 0) return 'Approved on the ledger, which does not say for how much.'
  const ours = approved.filter((coin) => coin.denom === denom)
  return toAmount(ours.reduce((sum, { amount }) => sum + BigInt(amount), 0n))
}

async function leaveToOperator(
  { db, books }: StandingParts,
  { id, did }: ClaimRow,
  why: string,
): Promise<void> {
  await db.transaction().execute(async (trx) => {
    await lockAccount(trx, did, books.now())
    await trx
      .updateTable('payments_claims')
      .set({ status: 'disputed', dispute: why })
      .where('id', '=', id)
      .where('standing', '=', 'submitted')
      .where('status', '=', 'open')
      .execute()
    await refreshGrant(trx, books, did)
  })
}

/**
 * Counts what the ledger paid for a claim, once. Where that is less than the claim, it comes into the balance, and the claim is
 * asked for as others are: on the ledger nobody can approve it a second time.
 */
async function count(
  { db, books }: StandingParts,
  { id, did, contract_id }: ClaimRow,
  amount: number,
): Promise<void> {
  await db.transaction().execute(async (trx) => {
    await lockAccount(trx, did, books.now())
    const { numUpdatedRows } = await trx
      .updateTable('payments_claims')
      .set({ standing: null })
      .where('id', '=', id)
      .where('standing', '=', 'submitted')
      .executeTakeFirst()
    if (numUpdatedRows === 0n) return
    if (amount > 0) {
      const reference = `claim:${id}`
      const at = books.now().getTime()
      await trx.insertInto('payments_used').values({ reference, did, amount, at }).execute()
      await takeIncome(trx, books, { did, amount, claims: [id], method: 'claim', reference })
      await trx
        .updateTable('payments_contracts')
        .set((eb) => ({ taken: eb('taken', '+', amount) }))
        .where('id', '=', contract_id)
        .execute()
    }
    await refreshGrant(trx, books, did)
  })
}
