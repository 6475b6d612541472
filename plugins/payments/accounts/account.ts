import type { Terms } from '../terms/terms.ts'
import type { AccountRow, PaymentsDatabase } from '../tables.ts'
import { takeNewAccount } from './addresses.ts'
import type { BegunCharges } from './begun-charges.ts'
import type { Statements } from './statements.ts'

/** What a turn reads and writes accounts with. */
export interface Books {
  readonly terms: Terms
  readonly statements: Statements
  readonly begun: BegunCharges
  now(): Date
  /** The keyed hash of an address of a client. */
  hashOf(address: string): Promise<string>
  /** Asks in a transaction that an entry of the outbox be sent once the transaction has committed. */
  send(trx: PaymentsDatabase, entry: string): Promise<void>
}

/** The account of a user, if there is one. */
export const findAccount = (db: PaymentsDatabase, did: string): Promise<AccountRow | undefined> =>
  db.selectFrom('payments_accounts').selectAll().where('did', '=', did).executeTakeFirst()

/**
 * Makes the account of a user where there is none. A new account has the first credit, unless its address has made three
 * accounts today: DIDs cost nothing. Resolves to the account as it was read, where it was there.
 */
export async function ensureAccount(
  db: PaymentsDatabase,
  { now, hashOf, terms, statements }: Books,
  did: string,
  address: string | undefined,
): Promise<AccountRow | undefined> {
  const known = await statements.account(db, did)
  if (known) return known
  const hash = address === undefined ? undefined : await hashOf(address)
  const at = now().getTime()
  await db.transaction().execute(async (trx) => {
    const { numInsertedOrUpdatedRows } = await trx
      .insertInto('payments_accounts')
      .values(newAccount(did, at))
      .onConflict((conflict) => conflict.doNothing())
      .executeTakeFirst()
    if (numInsertedOrUpdatedRows === 0n || terms.firstCredit === 0) return
    if (hash !== undefined && !(await takeNewAccount(trx, hash, dayOf(now())))) return
    await trx
      .updateTable('payments_accounts')
      .set({ has_first: 1 })
      .where('did', '=', did)
      .execute()
  })
  return undefined
}

/** An account without money. */
export const newAccount = (did: string, at: number): AccountRow => ({
  did,
  balance: 0,
  owed: 0,
  held: 0,
  granted: 0,
  granted_until: 0,
  has_paid: 0,
  has_first: 0,
  free_day: '',
  free_used: 0,
  looked_at: 0,
  created_at: at,
  touched_at: at,
})

/** The UTC day of a time, as `2026-05-01`. */
export const dayOf = (time: Date): string => time.toISOString().slice(0, 10)

/**
 * Locks the account of a user in a transaction, and reads it. Whoever changes money of an account locks it first, so such
 * changes of one account follow each other on both databases.
 */
export async function lockAccount(
  trx: PaymentsDatabase,
  did: string,
  now: Date,
): Promise<AccountRow | undefined> {
  return trx
    .updateTable('payments_accounts')
    .set({ touched_at: now.getTime() })
    .where('did', '=', did)
    .returningAll()
    .executeTakeFirst()
}

/** How much an account may owe. */
export const creditOf = ({ has_paid, has_first }: AccountRow, terms: Terms): number =>
  has_paid ? terms.credit : has_first ? terms.firstCredit : 0

/** What the active contract of an account leaves. */
export const grantedOf = ({ granted, granted_until }: AccountRow, now: Date): number =>
  granted_until > now.getTime() ? granted : 0

/** What a user can spend: what was paid, and what may be owed or collected, without what is owed and set aside. */
export async function availableOf(
  db: PaymentsDatabase,
  { terms, now, statements }: Books,
  did: string,
  known?: AccountRow,
): Promise<number> {
  const account = known ?? (await statements.account(db, did))
  if (!account) return terms.firstCredit
  const { balance, owed, held } = account
  return balance + creditOf(account, terms) + grantedOf(account, now()) - owed - held
}
