import { sql } from 'kysely'
import { prepared } from '#core'
import type { AccountRow, ChargeRow, PaymentsDatabase } from '../tables.ts'
import type { Terms } from '../terms/terms.ts'
import type { BegunCharge } from './begun-charges.ts'

const big = (amount: number) => sql<number>`cast(${amount} as bigint)`

/** What the end of a turn changes of the account. */
export interface Settlement {
  /** What the turn had set aside. */
  readonly held: number
  readonly amount: number
  /** Whether the bill comes out of the balance, which has to cover it, or is owed, because the balance does not. */
  readonly from: 'balance' | 'credit' | 'nothing'
}

/** A charge that has to end, with the balance of its account, and how often other plugins added to it. */
type Open = BegunCharge & { readonly extras: number }

type ChargeEnd = Pick<
  ChargeRow,
  'run_id' | 'status' | 'amount' | 'lines' | 'claim_id' | 'ended_at'
> & {
  /** How often other plugins added to the charge, as the bill has it. */
  readonly extras: number
}

/** What an account has once a turn has set aside what it may cost. */
interface Held {
  /** What the user may spend beside it. */
  readonly left: number
  readonly balance: number
}

/** The statements that every turn with a price needs. Each is built once: building them would cost more than carrying them out. */
export class Statements {
  readonly #account
  readonly #hold
  readonly #begin
  readonly #open
  readonly #extras
  readonly #settle
  readonly #grow
  readonly #end

  constructor(db: PaymentsDatabase, terms: Terms) {
    this.#account = prepared(db, ({ did }: { did: string }) =>
      db.selectFrom('payments_accounts').selectAll().where('did', '=', did),
    )
    this.#open = openStatement(db)
    this.#extras = prepared(db, ({ id }: { id: string }) =>
      db
        .selectFrom('payments_extras')
        .select(['amount', 'reason'])
        .where('run_id', '=', id)
        .orderBy('key'),
    )
    this.#hold = holdStatement(db, terms)
    this.#begin = beginStatement(db)
    this.#settle = settleStatement(db)
    this.#grow = growStatement(db)
    this.#end = endStatement(db)
  }

  /** The account of a user, if there is one. */
  async account(db: PaymentsDatabase, did: string): Promise<AccountRow | undefined> {
    return (await this.#account({ did }, db)).rows[0]
  }

  /**
   * Sets the most aside that a turn may cost, where there is room for it: one conditional update, so that no two turns take the
   * same room. Undefined where there was no room.
   */
  async takeHold(trx: PaymentsDatabase, did: string, at: number): Promise<Held | undefined> {
    const [row] = (await this.#hold({ did, at }, trx)).rows
    return row && { left: Number(row.left), balance: Number(row.balance) }
  }

  /** Records the charge of a turn. */
  async begin(trx: PaymentsDatabase, charge: ChargeRow): Promise<void> {
    await this.#begin(charge, trx)
  }

  /** The charge of a run, with what its end needs to know. */
  async open(trx: PaymentsDatabase, id: string): Promise<Open | undefined> {
    return (await this.#open({ id }, trx)).rows[0]
  }

  /** What other plugins added to a run. */
  async extras(trx: PaymentsDatabase, id: string) {
    return (await this.#extras({ id }, trx)).rows
  }

  /**
   * Gives free what a turn had set aside and takes what it costs, in one update, which also locks the account. Undefined,
   * and nothing is changed, where the balance covers the bill and should not, or the other way round: it has changed meanwhile.
   */
  async settle(
    trx: PaymentsDatabase,
    { did, at }: { readonly did: string; readonly at: number },
    { held, amount, from }: Settlement,
  ): Promise<Pick<AccountRow, 'granted_until'> | undefined> {
    const most = Number.MAX_SAFE_INTEGER
    const taken = {
      paid: from === 'balance' ? amount : 0,
      owed: from === 'credit' ? amount : 0,
      least: from === 'balance' ? amount : -most,
      most: from === 'credit' ? amount - 1 : most,
    }
    return (await this.#settle({ did, at, held, ...taken }, trx)).rows[0]
  }

  /** Adds a bill to the claim that has not been presented. Undefined where there is none with room for it. */
  async grow(trx: PaymentsDatabase, did: string, amount: number): Promise<string | undefined> {
    return (await this.#grow({ did, amount }, trx)).rows[0]?.id
  }

  /** Writes how the charge of a run ended. False, and nothing is written, where it has ended before, or was added to. */
  async end(trx: PaymentsDatabase, end: ChargeEnd): Promise<boolean> {
    return ((await this.#end(end, trx)).numAffectedRows ?? 0n) > 0n
  }
}

const holdStatement = (db: PaymentsDatabase, { maximum, credit, firstCredit }: Terms) =>
  prepared(db, ({ did, at }: { did: string; at: number }) => {
    const available = sql<number>`balance + case when granted_until > cast(${at} as bigint) then granted
      else 0 end + case when has_paid = 1 then ${big(credit)} when has_first = 1
      then ${big(firstCredit)} else 0 end - owed - held`
    return db
      .updateTable('payments_accounts')
      .set({ held: sql<number>`held + ${big(maximum)}`, touched_at: at })
      .where('did', '=', did)
      .where(sql<boolean>`${available} >= ${big(maximum)}`)
      .returning([available.as('left'), 'balance'])
  })

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

const openStatement = (db: PaymentsDatabase) =>
  prepared(db, ({ id }: { id: string }) => ({
    compile: () =>
      sql<Open>`select charge.did, charge.status, charge.held, charge.free_day, charge.free_address,
          account.balance, (select count(*) from payments_extras where run_id = ${id}) as extras
        from payments_charges as charge join payments_accounts as account
          on account.did = charge.did
        where charge.run_id = ${id}`.compile(db),
  }))

interface SettleParameters {
  readonly did: string
  readonly at: number
  readonly held: number
  readonly paid: number
  readonly owed: number
  /** Between these two is the balance. */
  readonly least: number
  readonly most: number
}

const settleStatement = (db: PaymentsDatabase) =>
  prepared(db, ({ did, at, held, paid, owed, least, most }: SettleParameters) =>
    db
      .updateTable('payments_accounts')
      .set({
        balance: sql<number>`balance - ${big(paid)}`,
        owed: sql<number>`owed + ${big(owed)}`,
        held: sql<number>`held - ${big(held)}`,
        touched_at: at,
      })
      .where('did', '=', did)
      .where(sql<boolean>`balance >= ${big(least)} and balance <= ${big(most)}`)
      .returning('granted_until'),
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
      .where('run_id', '=', end.run_id)
      .where('status', '=', 'held')
      .where(
        sql<boolean>`(select count(*) from payments_extras where run_id = ${end.run_id})
          = cast(${end.extras} as bigint)`,
      ),
  )
