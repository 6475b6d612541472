import { type Books, lockAccount } from '../accounts/account.ts'
import { takeIncome } from '../accounts/claims.ts'
import { evaluations, type LedgerClaim, paidOnLedger } from '../ledger/claim-messages.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { ClaimRow, PaymentsDatabase } from '../tables.ts'
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
    if (told && told.agentAddress === address) await note(parts, claim, told)
  }
}

async function note({ db, books }: StandingParts, claim: ClaimRow, told: LedgerClaim) {
  const { id, did, amount, contract_id } = claim
  const isPaid = told.evaluation === evaluations.approved && told.payment === paidOnLedger
  const isRejected = told.evaluation === evaluations.rejected && claim.status === 'open'
  if (!isPaid && !isRejected) return
  await db.transaction().execute(async (trx) => {
    await lockAccount(trx, did, books.now())
    const { numUpdatedRows } = await trx
      .updateTable('payments_claims')
      .set(isPaid ? { standing: null } : { status: 'disputed', dispute: 'Rejected on the ledger.' })
      .where('id', '=', id)
      .where('standing', '=', 'submitted')
      .where('status', '=', claim.status)
      .executeTakeFirst()
    if (numUpdatedRows === 0n) return
    if (isPaid) {
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
