import { randomUUID } from 'node:crypto'
import { RuntimeError } from '#core'
import { total } from '../terms/money.ts'
import type { ActionRow, ClaimRow, PaymentsDatabase } from '../tables.ts'
import { type Books, ensureAccount, lockAccount } from './account.ts'
import { giveUpSignature } from '../x402/give-up.ts'
import { change, found, isUnderWay, payFromBalance, pendingPayment } from './claims.ts'

/** Says that a claim is wrong. It counts against the limit until the operator decides. */
export function dispute(
  db: PaymentsDatabase,
  { now }: Books,
  did: string,
  wrong: { readonly id: string; readonly reason: string },
): Promise<ClaimRow> {
  const { id, reason } = wrong
  return db.transaction().execute(async (trx) => {
    await lockAccount(trx, did, now())
    const claim = await readClaim(trx, id, did)
    if (claim.status === 'disputed') return claim
    if (claim.status !== 'open') throw notOpen(claim)
    if (isUnderWay(claim, now())) throw pendingPayment(`that of claim ${id}`)
    const changed = { status: 'disputed' as const, dispute: reason, presented_at: now().getTime() }
    await trx.updateTable('payments_claims').set(changed).where('id', '=', id).execute()
    return { ...claim, ...changed }
  })
}

/** What an operator does with a claim. */
export interface Decision {
  readonly id: string
  readonly action: 'void' | 'reopen' | 'refund'
  readonly reason: string
  readonly who: string
}

/** Carries out an operator's decision: a row remembers it. */
export async function decide(
  db: PaymentsDatabase,
  { now }: Books,
  { id, action, reason, who }: Decision,
): Promise<ClaimRow> {
  const { did } = await readClaim(db, id)
  return db.transaction().execute(async (trx) => {
    await lockAccount(trx, did, now())
    const claim = await readClaim(trx, id)
    const status = statusAfter(claim, action)
    if (action === 'reopen' && claim.standing === 'signed') await giveUpSignature(trx, claim)
    // What the ledger has rejected is asked for again as other claims are.
    const standing = action === 'reopen' ? null : claim.standing
    await trx
      .updateTable('payments_claims')
      .set({ status, standing })
      .where('id', '=', id)
      .execute()
    if (status === 'void' && claim.kind === 'usage') {
      await trx
        .updateTable('payments_charges')
        .set({ status: 'void' })
        .where('claim_id', '=', id)
        .execute()
      // What was paid for the claim comes back into the balance; what was owed is owed no more.
      if (action === 'refund') await change(trx, did, { balance: claim.amount })
      else await change(trx, did, { owed: -claim.amount })
    }
    await act(trx, { at: now(), who, did, claim_id: id, action, amount: claim.amount, reason })
    if (action !== 'void') await payFromBalance(trx, { now }, did)
    return readClaim(trx, id)
  })
}

/** Which status a decision leads to. Throws where the claim does not take the decision. */
function statusAfter(claim: ClaimRow, action: Decision['action']): ClaimRow['status'] {
  const { status, kind, standing } = claim
  if (action === 'void' && (status === 'open' || status === 'disputed')) return 'void'
  if (action === 'reopen' && status === 'disputed') return 'open'
  // The operator has found out that the money of its signature never moved.
  if (action === 'reopen' && status === 'open' && standing === 'signed') return 'open'
  if (action === 'refund' && status === 'paid' && kind === 'usage') return 'void'
  throw new RuntimeError(
    'CONFLICT',
    `Claim ${claim.id} is ${status}: it cannot be changed by ${action}.`,
    {
      hint:
        'void ends open and disputed claims. reopen asks again for disputed ones and for those whose signature moved nothing. ' +
        'refund gives a paid one back into the balance.',
    },
  )
}

/** An operator gives an account money, for a reason. */
export async function giveCredit(
  db: PaymentsDatabase,
  books: Books,
  gift: {
    readonly did: string
    readonly amount: number
    readonly reason: string
    readonly who: string
  },
): Promise<void> {
  const { did, amount, reason, who } = gift
  const { now } = books
  await ensureAccount(db, books, did, undefined)
  await db.transaction().execute(async (trx) => {
    const account = await lockAccount(trx, did, now())
    total(account?.balance ?? 0, amount)
    await change(trx, did, { balance: amount })
    await act(trx, { at: now(), who, did, claim_id: null, action: 'credit', amount, reason })
    await payFromBalance(trx, { now }, did)
  })
}

async function act(
  trx: PaymentsDatabase,
  action: Omit<ActionRow, 'id' | 'at'> & { readonly at: Date },
): Promise<void> {
  const row = { ...action, id: randomUUID(), at: action.at.getTime() }
  await trx.insertInto('payments_actions').values(row).execute()
}

async function readClaim(db: PaymentsDatabase, id: string, did?: string): Promise<ClaimRow> {
  const claim = await db
    .selectFrom('payments_claims')
    .selectAll()
    .where('id', '=', id)
    .$if(did !== undefined, (query) => query.where('did', '=', did ?? ''))
    .executeTakeFirst()
  return found(claim, id)
}

const notOpen = ({ id, status }: ClaimRow): RuntimeError =>
  new RuntimeError('CONFLICT', `Claim ${id} is ${status}.`, {
    hint: 'Only an open claim can be disputed. Ask the operator about a paid one.',
  })
