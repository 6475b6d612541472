import { sql } from 'kysely'
import { prepared } from '#core'
import type { AccountRow, ChargeRow, PaymentsDatabase } from '../tables.ts'
import type { Terms } from '../terms/terms.ts'

const big = (amount: number) => sql<number>`cast(${amount} as bigint)`

/** What changes of an account: each number is added to that of its column. */
export interface AccountChange {
  readonly balance?: number
  readonly owed?: number
  readonly held?: number
}

type ChargeEnd = Pick<ChargeRow, 'run_id' | 'status' | 'amount' | 'lines' | 'claim_id' | 'ended_at'>

/** The statements that every turn with a price needs. Each is built once: building them would cost more than carrying them out. */
export class Statements {
  readonly #account
  readonly #lock
  readonly #hold
  readonly #begin
  readonly #charge
  readonly #extras
  readonly #change
  readonly #grow
  readonly #end

  constructor(db: PaymentsDatabase, terms: Terms) {
    this.#account = prepared(db, ({ did }: { did: string }) =>
      db.selectFrom('payments_accounts').selectAll().where('did', '=', did),
    )
    this.#lock = prepared(db, ({ did, at }: { did: string; at: number }) =>
      db
        .updateTable('payments_accounts')
        .set({ touched_at: at })
        .where('did', '=', did)
        .returningAll(),
    )
    this.#charge = prepared(db, ({ id }: { id: string }) =>
      db.selectFrom('payments_charges').selectAll().where('run_id', '=', id),
    )
    this.#extras = prepared(db, ({ id }: { id: string }) =>
      db
        .selectFrom('payments_extras')
        .select(['amount', 'reason'])
        .where('run_id', '=', id)
        .orderBy('key'),
    )
    this.#hold = holdStatement(db, terms)
    this.#begin = beginStatement(db)
    this.#change = changeStatement(db)
    this.#grow = growStatement(db)
    this.#end = endStatement(db)
  }

  /** The account of a user, if there is one. */
  async account(db: PaymentsDatabase, did: string): Promise<AccountRow | undefined> {
    return (await this.#account({ did }, db)).rows[0]
  }

  /** Locks the account of a user in a transaction, and reads it. */
  async lock(trx: PaymentsDatabase, did: string, at: number): Promise<AccountRow | undefined> {
    return (await this.#lock({ did, at }, trx)).rows[0]
  }

  /**
   * Sets the most aside that a turn may cost, where there is room for it: one conditional update, so that no two turns take the
   * same room.
   */
  async takeHold(trx: PaymentsDatabase, did: string, at: number): Promise<boolean> {
    return ((await this.#hold({ did, at }, trx)).numAffectedRows ?? 0n) > 0n
  }

  /** Records the charge of a turn. */
  async begin(trx: PaymentsDatabase, charge: ChargeRow): Promise<void> {
    await this.#begin(charge, trx)
  }

  /** The charge of a run. */
  async charge(trx: PaymentsDatabase, id: string): Promise<ChargeRow | undefined> {
    return (await this.#charge({ id }, trx)).rows[0]
  }

  /** What other plugins added to a run. */
  async extras(trx: PaymentsDatabase, id: string) {
    return (await this.#extras({ id }, trx)).rows
  }

  /** Adds to the numbers of an account, which its transaction has locked. */
  async change(trx: PaymentsDatabase, did: string, by: AccountChange): Promise<void> {
    await this.#change({ did, balance: 0, owed: 0, held: 0, ...by }, trx)
  }

  /** Adds a bill to the claim that has not been presented. Undefined where there is none with room for it. */
  async grow(trx: PaymentsDatabase, did: string, amount: number): Promise<string | undefined> {
    return (await this.#grow({ did, amount }, trx)).rows[0]?.id
  }

  /** Writes how the charge of a run ended. */
  async end(trx: PaymentsDatabase, end: ChargeEnd): Promise<void> {
    await this.#end(end, trx)
  }
}

const holdStatement = (db: PaymentsDatabase, { maximum, credit, firstCredit }: Terms) =>
  prepared(db, ({ did, at }: { did: string; at: number }) =>
    db
      .updateTable('payments_accounts')
      .set({ held: sql<number>`held + ${big(maximum)}`, touched_at: at })
      .where('did', '=', did)
      .where(
        sql<boolean>`balance + case when granted_until > cast(${at} as bigint) then granted
            else 0 end + case when has_paid = 1 then ${big(credit)} when has_first = 1
            then ${big(firstCredit)} else 0 end - owed - held >= ${big(maximum)}`,
      ),
  )

const beginStatement = (db: PaymentsDatabase) =>
  prepared(db, (row: ChargeRow) =>
    db.insertInto('payments_charges').values({
      run_id: row.run_id,
      did: row.did,
      session_id: row.session_id,
      request_id: row.request_id,
      status: row.status,
      held: row.held,
      amount: row.amount,
      lines: row.lines,
      claim_id: row.claim_id,
      free_day: row.free_day,
      free_address: row.free_address,
      created_at: row.created_at,
      ended_at: row.ended_at,
    }),
  )

const changeStatement = (db: PaymentsDatabase) =>
  prepared(db, ({ did, balance, owed, held }: Required<AccountChange> & { did: string }) =>
    db
      .updateTable('payments_accounts')
      .set({
        balance: sql<number>`balance + ${big(balance)}`,
        owed: sql<number>`owed + ${big(owed)}`,
        held: sql<number>`held + ${big(held)}`,
      })
      .where('did', '=', did),
  )

const growStatement = (db: PaymentsDatabase) =>
  prepared(db, ({ did, amount }: { did: string; amount: number }) =>
    db
      .updateTable('payments_claims')
      .set({ amount: sql<number>`amount + ${big(amount)}` })
      .where('id', '=', (eb) =>
        eb
          .selectFrom('payments_claims')
          .select('id')
          .where('did', '=', did)
          .where('status', '=', 'open')
          .where('kind', '=', 'usage')
          .where('presented_at', 'is', null)
          .orderBy('created_at')
          .limit(1),
      )
      // A claim that would be larger than what can be counted stays as it is, and another one is opened.
      .where(
        sql<boolean>`amount <= cast(${sql.lit(Number.MAX_SAFE_INTEGER)} as bigint)
          - ${big(amount)}`,
      )
      .returning('id'),
  )

const endStatement = (db: PaymentsDatabase) =>
  prepared(db, (end: ChargeEnd) =>
    db
      .updateTable('payments_charges')
      .set({
        status: end.status,
        amount: end.amount,
        lines: end.lines,
        claim_id: end.claim_id,
        ended_at: end.ended_at,
      })
      .where('run_id', '=', end.run_id),
  )
