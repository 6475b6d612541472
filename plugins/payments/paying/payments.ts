import { RuntimeError } from '#core'
import { type Books, lockAccount } from '../accounts/account.ts'
import { takeIncome } from '../accounts/claims.ts'
import { type ExecMessage, execMessage } from '../contracts/contract-messages.ts'
import { lookAtStanding, standingClaims } from '../contracts/standing-claims.ts'
import type { Ledger, LedgerTx } from '../ledger/ledger.ts'
import { type Send, types } from '../ledger/messages.ts'
import { demandAddress, mismatch, reused } from './refusals.ts'
import { approvals } from './approvals.ts'
import { arrived } from './arrived.ts'
import { approving, isStanding, mostOpen, openPayment, payableClaims } from './opening.ts'
import { type Settled, settledBy } from './settled.ts'
import type { PaymentRow, PaymentsDatabase } from '../tables.ts'
import { total } from '../terms/money.ts'

/** What payments are made and found with. */
export interface PaymentParts {
  readonly db: PaymentsDatabase
  readonly books: Books
  readonly prefix: string
  /** Where the oracle is paid. */
  address(): Promise<string>
  ledger(): Promise<Ledger>
}

/** A transfer, as a wallet signs it. */
interface SendMessage {
  readonly typeUrl: typeof types.send
  readonly value: Send
}

/** What a wallet is given to sign. */
export interface Prepared {
  readonly paymentId: string
  readonly messages: readonly (SendMessage | ExecMessage)[]
  readonly memo: string
  readonly amount: string
  readonly denom: string
  readonly expiresAt: string
}

/** How many open payments one look of the job reads. */
const perLook = 100
/** How often payments of one account are looked for before a refusal, and how long that may take. */
const look = { everyMs: 5_000, forMs: 2_000 }

/** Payments by transfer: what users sign, and what of it stands on the ledger. Only the ledger's word counts. */
export class Payments {
  readonly #parts: PaymentParts
  /** The last payment that a look of the job has taken. */
  #swept = ''

  constructor(parts: PaymentParts) {
    this.#parts = parts
  }

  /** Makes what a wallet signs to pay claims: those named, or all that are open. The same again gives the same payment. */
  async prepare(did: string, from: string, ids?: readonly string[]): Promise<Prepared> {
    const { db, books, prefix, address } = this.#parts
    demandAddress(prefix, 'address', from)
    const to = await address()
    const { payment, claims } = await db.transaction().execute(async (trx) => {
      await lockAccount(trx, did, books.now())
      const payable = await payableClaims(trx, books, did, ids)
      const payment = await openPayment(trx, books, { did, address: from, claims: payable })
      return { claims: payable, payment }
    })
    const { denom } = books.terms.coin
    const standing = claims.filter(isStanding)
    const rest = total(...claims.filter((one) => !isStanding(one)).map((one) => one.amount))
    const amount = [{ denom, amount: String(rest) }]
    const send = { typeUrl: types.send, value: { fromAddress: from, toAddress: to, amount } }
    const approve = await approvals(db, { did, from, to, denom }, standing)
    return {
      paymentId: payment.id,
      messages: [
        ...(rest > 0 ? [send] : []),
        ...(approve.length > 0 ? [execMessage(from, approve)] : []),
      ],
      memo: payment.memo,
      amount: String(payment.amount),
      denom,
      expiresAt: new Date(payment.expires_at).toISOString(),
    }
  }

  /** Looks whether a transaction pays a payment of the user, and counts it. */
  async settle(did: string, hash: string | undefined, paymentId?: string): Promise<Settled> {
    const { db, ledger } = this.#parts
    const known = paymentId === undefined ? undefined : await this.#own(did, paymentId)
    if (known?.status === 'open') await this.#lookAtStanding(known)
    const payment = known && (await this.#own(did, known.id))
    if (payment?.status === 'settled' && (hash === undefined || payment.tx_hash === hash))
      return settledBy(this.#parts.db, payment)
    if (hash === undefined) {
      if (payment) await this.#find(payment)
      const now = payment && (await this.#own(did, payment.id))
      return now?.status === 'settled' ? settledBy(this.#parts.db, now) : { status: 'pending' }
    }
    const tx = await (await ledger()).tx(hash)
    if (!tx) return { status: 'pending' }
    const meant = payment ?? (await this.#byMemo(did, tx.memo))
    if (meant?.memo.startsWith(approving)) return this.#approved(meant, tx)
    if (!meant) throw mismatch('Its memo is that of no payment of yours', { memo: true })
    const used = await db
      .selectFrom('payments_used')
      .select('did')
      .where('reference', '=', hash)
      .executeTakeFirst()
    // Read again: another request may have counted it for this very payment a moment ago.
    if (used && (await this.#own(did, meant.id)).tx_hash !== hash) throw reused()
    if (!used) await this.#count(meant, tx)
    return settledBy(this.#parts.db, await this.#own(did, meant.id))
  }

  /** Looks for payments of an account that may have arrived, unless that was just done. Never fails, and takes two seconds at most. */
  async look(did: string): Promise<void> {
    const { db, books } = this.#parts
    const at = books.now().getTime()
    const { numUpdatedRows } = await db
      .updateTable('payments_accounts')
      .set({ looked_at: at })
      .where('did', '=', did)
      .where((eb) => eb.or([eb('looked_at', '<=', at - look.everyMs), eb('looked_at', '>', at)]))
      .executeTakeFirst()
    if (numUpdatedRows === 0n) return
    const open = await this.#openOf(did)
    const standing = await standingClaims(db, did)
    if (open.length === 0 && standing.length === 0) return
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, look.forMs)))
    const found = Promise.all([
      lookAtStanding(this.#parts, did),
      ...open.map((payment) => this.#find(payment)),
    ]).then(
      () => undefined,
      () => undefined,
    )
    await Promise.race([found, late])
    clearTimeout(timer)
  }

  /**
   * Looks for open payments, and ends those that are too old. Each look takes the next hundred, and a payment that cannot be counted
   * keeps no other from being found. Throws the first fault in the end.
   */
  async sweep(): Promise<void> {
    const { db, books } = this.#parts
    const now = books.now().getTime()
    const faults: unknown[] = []
    await lookAtStanding(this.#parts).catch((error: unknown) => faults.push(error))
    const open = await db
      .selectFrom('payments_payments')
      .selectAll()
      .where('status', '=', 'open')
      .where('id', '>', this.#swept)
      .orderBy('id')
      .limit(perLook)
      .execute()
    for (const payment of open) {
      try {
        if (!(await this.#find(payment)) && payment.expires_at < now) await this.#expire(payment)
      } catch (error) {
        if (error instanceof RuntimeError && error.code === 'LEDGER_UNREACHABLE') throw error
        faults.push(error)
      }
      this.#swept = payment.id
    }
    if (open.length < perLook) this.#swept = ''
    if (faults.length > 0) throw faults[0]
  }

  async #expire({ id }: PaymentRow): Promise<void> {
    await this.#parts.db
      .updateTable('payments_payments')
      .set({ status: 'expired' })
      .where('id', '=', id)
      .where('status', '=', 'open')
      .execute()
  }

  #openOf(did: string): Promise<PaymentRow[]> {
    return this.#parts.db
      .selectFrom('payments_payments')
      .selectAll()
      .where('did', '=', did)
      .where('status', '=', 'open')
      .orderBy('created_at', 'desc')
      .limit(mostOpen)
      .execute()
  }

  /** Finds a payment among the newest transfers to us: those of its sender, then those of all. */
  async #find(payment: PaymentRow): Promise<boolean> {
    if (payment.memo.startsWith(approving)) return this.#lookAtStanding(payment)
    const to = await this.#parts.address()
    const ledger = await this.#parts.ledger()
    for (const sender of [payment.address, undefined]) {
      const sent = await ledger.transfersTo(to, sender)
      for (const tx of sent) {
        if (tx.memo !== payment.memo || tx.code !== 0) continue
        try {
          await this.#count(payment, tx)
          return true
        } catch (error) {
          // Another replica counts the same payment, or the transfer is of another coin.
          if (!(error instanceof RuntimeError) || error.status !== 409) throw error
        }
      }
    }
    return false
  }

  /** Whether all claims of a payment that are to be approved on the ledger are paid there by now. */
  async #lookAtStanding(payment: PaymentRow): Promise<boolean> {
    const { db } = this.#parts
    await lookAtStanding(this.#parts, payment.did)
    if (!payment.memo.startsWith(approving)) return false
    const ids: string[] = JSON.parse(payment.claims)
    const rows = await db
      .selectFrom('payments_claims')
      .select('status')
      .where('id', 'in', ids)
      .execute()
    const isOver = rows.every(({ status }) => status !== 'open' && status !== 'disputed')
    if (!isOver) return false
    await db
      .updateTable('payments_payments')
      .set({ status: 'settled' })
      .where('id', '=', payment.id)
      .where('status', '=', 'open')
      .execute()
    return true
  }

  /** What came of an approval: what the claims on the ledger say, whatever the transaction is. */
  async #approved(payment: PaymentRow, tx: LedgerTx): Promise<Settled> {
    if (tx.code !== 0)
      throw mismatch(`The ledger did not carry it out (code ${tx.code})`, { code: tx.code })
    await this.#lookAtStanding(payment)
    const now = await this.#own(payment.did, payment.id)
    return now.status === 'settled' ? settledBy(this.#parts.db, now) : { status: 'pending' }
  }

  /** Counts a transaction for a payment, once. */
  async #count(payment: PaymentRow, tx: LedgerTx): Promise<void> {
    const { db, books, address } = this.#parts
    const amount = arrived(tx, payment, await address(), books.terms.coin.denom)
    await db.transaction().execute(async (trx) => {
      const { did, id } = payment
      await lockAccount(trx, did, books.now())
      const known = await trx
        .selectFrom('payments_used')
        .select('did')
        .where('reference', '=', tx.hash)
        .executeTakeFirst()
      if (known) {
        const row = await trx
          .selectFrom('payments_payments')
          .select('tx_hash')
          .where('id', '=', id)
          .executeTakeFirst()
        if (row?.tx_hash === tx.hash) return
        throw reused()
      }
      await trx
        .insertInto('payments_used')
        .values({ reference: tx.hash, did, amount, at: books.now().getTime() })
        .execute()
      const claims: string[] = JSON.parse(payment.claims)
      await takeIncome(trx, books, { did, amount, claims, method: 'transfer', reference: tx.hash })
      await trx
        .updateTable('payments_payments')
        .set({ status: 'settled', tx_hash: tx.hash })
        .where('id', '=', id)
        .execute()
    })
  }

  async #own(did: string, id: string): Promise<PaymentRow> {
    const row = await this.#parts.db
      .selectFrom('payments_payments')
      .selectAll()
      .where('id', '=', id)
      .where('did', '=', did)
      .executeTakeFirst()
    if (row) return row
    throw new RuntimeError('NOT_FOUND', `There is no payment ${id} of yours.`, {
      hint: 'POST /payments/prepare makes one.',
    })
  }

  #byMemo(did: string, memo: string): Promise<PaymentRow | undefined> {
    return this.#parts.db
      .selectFrom('payments_payments')
      .selectAll()
      .where('memo', '=', memo)
      .where('did', '=', did)
      .executeTakeFirst()
  }
}
