import { randomUUID } from 'node:crypto'
import type { Books } from '../accounts/account.ts'
import { mostClaims } from '../accounts/claims.ts'
import type { ClaimRow, PaymentsDatabase } from '../tables.ts'
import { total } from '../terms/money.ts'
import type { ContractRow, OutboxRow } from './tables.ts'

/** The oracle collects when a tenth of the contract is owed, or when the oldest bill is an hour old. */
const collecting = { part: 10, ageMs: 3_600_000 }

/** The contract of a user that counts as credit, if there is one. */
export const activeContract = (
  db: PaymentsDatabase,
  did: string,
): Promise<ContractRow | undefined> =>
  db
    .selectFrom('payments_contracts')
    .selectAll()
    .where('did', '=', did)
    .where('status', '=', 'active')
    .orderBy('created_at', 'desc')
    .executeTakeFirst()

/** The claims of an account whose money is on its way by a contract, or that stand on the ledger by it. */
export const claimsUnderWay = (db: PaymentsDatabase, contractId: string): Promise<ClaimRow[]> =>
  db
    .selectFrom('payments_claims')
    .selectAll()
    .where('contract_id', '=', contractId)
    .where('standing', 'in', ['collecting', 'submitting', 'submitted'])
    .where('status', 'in', ['open', 'disputed'])
    .execute()

const amountOf = (claims: readonly ClaimRow[]): number =>
  total(...claims.map(({ amount }) => amount))

/**
 * Writes into the account what its contract leaves, in a transaction that has locked the account. A contract whose quota or
 * amount is used up, or whose time is over, ends here.
 */
export async function refreshGrant(
  trx: PaymentsDatabase,
  { now }: Pick<Books, 'now'>,
  did: string,
): Promise<void> {
  const contract = await activeContract(trx, did)
  const at = now().getTime()
  let granted = 0
  if (contract && contract.expires_at <= at) await endContract(trx, contract, 'expired')
  else if (contract) {
    const underWay = amountOf(await claimsUnderWay(trx, contract.id))
    const free = contract.max_amount - contract.taken - underWay
    const isUsedUp = contract.used >= contract.quota || free <= 0
    if (isUsedUp && underWay === 0) await endContract(trx, contract, 'spent')
    else granted = underWay + (isUsedUp ? 0 : free)
  }
  await trx
    .updateTable('payments_accounts')
    .set({ granted, granted_until: granted === 0 ? 0 : (contract?.expires_at ?? 0) })
    .where('did', '=', did)
    .execute()
}

/** Ends a contract. Its account has to be refreshed after that. */
export async function endContract(
  trx: PaymentsDatabase,
  { id }: Pick<ContractRow, 'id'>,
  status: Exclude<ContractRow['status'], 'pending' | 'active'>,
  reason: string | null = null,
): Promise<void> {
  await trx
    .updateTable('payments_contracts')
    .set({ status, reason })
    .where('id', '=', id)
    .where('status', 'in', ['pending', 'active'])
    .execute()
}

/**
 * Puts what is due into the outbox, where the user's contract covers it and it is time: in a transaction that has locked the
 * account. What is put there is presented, and grows no more.
 */
export async function collectDue(
  trx: PaymentsDatabase,
  books: Books,
  did: string,
  isAsked = false,
): Promise<void> {
  await refreshGrant(trx, books, did)
  const contract = await activeContract(trx, did)
  if (!contract || contract.used >= contract.quota) return
  const due = await claimsDue(trx, did)
  const [oldest] = due
  const at = books.now().getTime()
  if (!oldest) return
  const isTime =
    amountOf(due) * collecting.part >= contract.max_amount ||
    oldest.created_at <= at - collecting.ageMs
  if (!isAsked && !isTime) return
  const underWay = amountOf(await claimsUnderWay(trx, contract.id))
  const covered = coveredBy(contract, due, contract.max_amount - contract.taken - underWay)
  if (covered.length > 0) await putOut(trx, books, contract, covered)
  // What is due is more than the contract leaves: it is of no use any more.
  else if (underWay === 0) await endContract(trx, contract, 'spent')
  await refreshGrant(trx, books, did)
}

/** The oldest claims that fit into what the contract leaves. Of the claims that are submitted each counts against the quota. */
function coveredBy(contract: ContractRow, due: readonly ClaimRow[], left: number): ClaimRow[] {
  const most = contract.form === 'grant' ? mostClaims : contract.quota - contract.used
  const covered: ClaimRow[] = []
  let free = left
  for (const claim of due.slice(0, most)) {
    if (claim.amount > free) break
    covered.push(claim)
    free -= claim.amount
  }
  return covered
}

const claimsDue = (trx: PaymentsDatabase, did: string): Promise<ClaimRow[]> =>
  trx
    .selectFrom('payments_claims')
    .selectAll()
    .where('did', '=', did)
    .where('status', '=', 'open')
    .where('kind', '=', 'usage')
    .where('standing', 'is', null)
    .orderBy('created_at')
    .orderBy('id')
    .limit(mostClaims)
    .execute()

async function putOut(
  trx: PaymentsDatabase,
  books: Books,
  contract: ContractRow,
  claims: readonly ClaimRow[],
): Promise<void> {
  const at = books.now().getTime()
  const entry: OutboxRow = {
    id: randomUUID(),
    contract_id: contract.id,
    did: contract.did,
    claims: JSON.stringify(claims.map(({ id }) => id)),
    amount: amountOf(claims),
    status: 'waiting',
    bytes: null,
    tx_hash: null,
    sequence: null,
    reason: null,
    created_at: at,
    changed_at: at,
  }
  await trx.insertInto('payments_outbox').values(entry).execute()
  for (const { id, presented_at } of claims)
    await trx
      .updateTable('payments_claims')
      .set({
        standing: contract.form === 'grant' ? 'collecting' : 'submitting',
        contract_id: contract.id,
        presented_at: presented_at ?? at,
      })
      .where('id', '=', id)
      .execute()
  await trx
    .updateTable('payments_contracts')
    .set({ used: contract.used + (contract.form === 'grant' ? 1 : claims.length) })
    .where('id', '=', contract.id)
    .execute()
  await books.send(trx, entry.id)
}
