import { sql } from 'kysely'
import { type RunBeginning, type RunEnding, RuntimeError } from '#core'
import { billOf } from '../terms/bill.ts'
import type { ChargeRow, PaymentsDatabase } from '../tables.ts'
import type { BegunCharges } from './begun-charges.ts'
import { type Books, dayOf } from './account.ts'
import { giveFreeTurn, takeFreeTurn } from './addresses.ts'
import { openClaim } from './claims.ts'

/** What a turn begins with. */
export type Beginning = Pick<RunBeginning, 'runId' | 'sessionId' | 'requestId'> & {
  readonly did: string
  /** The hash of the client's address, for a turn that came over HTTP. */
  readonly address: string | undefined
}

/**
 * Begins the charge of a turn: as a free one while free turns last, else with what it may cost set aside. Resolves to what the
 * user may spend beside it, as far as that was read; undefined: there is no room.
 */
export async function beginCharge(
  trx: PaymentsDatabase,
  books: Books,
  { runId, sessionId, requestId, did, address }: Beginning,
): Promise<number | undefined> {
  const { terms, now, statements, begun } = books
  // The transaction may have run before and been rolled back.
  begun.forget(runId)
  const isFree = await takeFree(trx, books, did, address)
  const taken = isFree ? undefined : await statements.takeHold(trx, did, now().getTime())
  if (!isFree && !taken) return undefined
  await statements.begin(trx, {
    run_id: runId,
    did,
    session_id: sessionId,
    request_id: requestId,
    status: 'held',
    held: isFree ? 0 : terms.maximum,
    amount: 0,
    lines: '[]',
    claim_id: null,
    free_day: isFree ? dayOf(now()) : null,
    free_address: isFree ? (address ?? null) : null,
    created_at: now().getTime(),
    ended_at: null,
  })
  if (!taken) return 0
  const { balance, left } = taken
  const held = { status: 'held', held: terms.maximum, free_day: null, free_address: null } as const
  begun.note(runId, { did, balance, ...held })
  return left
}

/** Takes a free turn of the user and, over HTTP, of the address. */
async function takeFree(
  trx: PaymentsDatabase,
  { terms, now }: Books,
  did: string,
  address: string | undefined,
): Promise<boolean> {
  if (terms.freeTurns === 0) return false
  const day = dayOf(now())
  const { numUpdatedRows } = await trx
    .updateTable('payments_accounts')
    .set({
      free_used: sql<number>`case when free_day = ${day} then free_used + 1 else 1 end`,
      free_day: day,
      touched_at: now().getTime(),
    })
    .where('did', '=', did)
    .where((eb) => eb.or([eb('free_day', '<>', day), eb('free_used', '<', terms.freeTurns)]))
    .executeTakeFirst()
  if (numUpdatedRows === 0n) return false
  if (address === undefined || (await takeFreeTurn(trx, address, day, terms.freeTurns))) return true
  await giveFreeToDid(trx, did, day)
  return false
}

const giveFreeToDid = (trx: PaymentsDatabase, did: string, day: string) =>
  trx
    .updateTable('payments_accounts')
    .set({ free_used: sql<number>`free_used - 1` })
    .where('did', '=', did)
    .where('free_day', '=', day)
    .where('free_used', '>', 0)
    .execute()

/**
 * Ends the charge of a turn: what was set aside is free again, and what the turn costs is taken from the balance, or is due
 * and joins a claim. A charge ends once, whoever tells of the end.
 */
export async function endCharge(
  trx: PaymentsDatabase,
  books: Books,
  run: RunEnding,
): Promise<void> {
  const { statements, terms, begun } = books
  const known = begun.take(run.runId)
  const read = known ? undefined : await statements.open(trx, run.runId)
  const charge = known ?? read
  if (charge?.status !== 'held') return
  const isFree = charge.free_day !== null
  const extras = Number(read?.extras ?? 0) > 0 ? await statements.extras(trx, run.runId) : []
  const bill = isFree ? { amount: 0, lines: [] } : billOf(run, terms, charge.held, extras)
  const from = await settleAccount(trx, books, charge, bill.amount)
  const status = isFree ? 'free' : endedAs[from.place]
  const claim_id = status === 'due' ? await claimWith(trx, books, charge.did, bill.amount) : null
  const isEnded = await statements.end(trx, {
    run_id: run.runId,
    status,
    amount: bill.amount,
    lines: JSON.stringify(bill.lines),
    claim_id,
    ended_at: run.endedAt.getTime(),
    extras: extras.length,
  })
  // Somebody ended the charge, or added to it, since it was read: the account gets back what this took, and it is read again.
  if (!isEnded) throw new Error(`The charge of run ${run.runId} changed elsewhere.`)
  if (isFree && billOf(run, terms, Number.MAX_SAFE_INTEGER).amount === 0)
    await giveBack(trx, charge)
  if (status !== 'due' || from.grantedUntil === 0) return
  const { collectDue } = await import('../contracts/grants.ts')
  await collectDue(trx, books, charge.did)
}

const endedAs = { balance: 'paid', credit: 'due', nothing: 'void' } as const

/** Takes a bill from the balance where that covers it, else from the credit. */
async function settleAccount(
  trx: PaymentsDatabase,
  { statements, now }: Books,
  { did, held, balance }: { readonly did: string; readonly held: number; readonly balance: number },
  amount: number,
) {
  // What the account was read with may have changed before this locks it. Then the other place is the right one.
  const places =
    amount === 0
      ? (['nothing'] as const)
      : balance >= amount
        ? (['balance', 'credit'] as const)
        : (['credit', 'balance'] as const)
  const who = { did, at: now().getTime() }
  for (const place of places) {
    const settled = await statements.settle(trx, who, { held, amount, from: place })
    if (settled) return { place, grantedUntil: settled.granted_until }
  }
  throw new Error('The account changed under a transaction that had locked it.')
}

/** Adds a bill to the claim that may still grow, or opens one. */
const claimWith = async (trx: PaymentsDatabase, books: Books, did: string, amount: number) =>
  (await books.statements.grow(trx, did, amount)) ??
  (await openClaim(trx, did, amount, books.now()))

type FreeTurn = Pick<ChargeRow, 'did' | 'free_day' | 'free_address'>

/** A free turn that would have cost nothing, because it failed, is not used up. */
async function giveBack(trx: PaymentsDatabase, charge: FreeTurn): Promise<void> {
  const { did, free_day, free_address } = charge
  if (free_day === null) return
  await giveFreeToDid(trx, did, free_day)
  if (free_address !== null) await giveFreeTurn(trx, free_address, free_day)
}

/** How many extras one turn may have. */
const mostExtras = 100

/** What another plugin adds to the charge of the turn under way. */
export interface ExtraOfTurn {
  /** The same key of a turn counts once, also when its tool runs again after a crash. */
  readonly key: string
  /** A whole number of the smallest unit. */
  readonly amount: number
  readonly reason: string
}

/**
 * Adds to the charge of a turn that is under way. The turn is known by the request that began it; after an approval by another
 * request it is the one of its session. Where the turn costs nothing, or is over, nothing is added.
 */
export async function addExtra(
  { db, begun }: { readonly db: PaymentsDatabase; readonly begun: BegunCharges },
  turn: { readonly did: string; readonly sessionId: string; readonly requestId: string },
  { key, amount, reason }: ExtraOfTurn,
): Promise<void> {
  if (!Number.isSafeInteger(amount) || amount <= 0)
    throw new RuntimeError('INPUT_INVALID', `A charge of ${amount} is no whole number above 0.`)
  const { did, sessionId, requestId } = turn
  // A turn whose tool is still at work may be superseded by a newer one: what the tool adds is never the newer turn's.
  const charge = await db
    .selectFrom('payments_charges')
    .select(['run_id', 'status'])
    .where('did', '=', did)
    .where('session_id', '=', sessionId)
    .where((eb) => eb.or([eb('request_id', '=', requestId), eb('status', '=', 'held')]))
    .orderBy(sql`case when request_id = ${requestId} then 0 else 1 end`)
    .orderBy('created_at', 'desc')
    .executeTakeFirst()
  if (charge?.status !== 'held') return
  const runId = charge.run_id
  begun.forget(runId)
  const { rows } = await sql<{ count: number }>`select count(*) as count from payments_extras
    where run_id = ${runId}`.execute(db)
  if (Number(rows[0]?.count) >= mostExtras) return
  await db
    .insertInto('payments_extras')
    .values({ run_id: runId, key: key.slice(0, 200), did, amount, reason: reason.slice(0, 200) })
    .onConflict((conflict) => conflict.doNothing())
    .execute()
}
