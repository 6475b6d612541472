import { randomUUID } from 'node:crypto'
import { RuntimeError } from '#core'
import { type Books, lockAccount } from '../accounts/account.ts'
import {
  found,
  isUnderWay,
  mostClaims,
  openClaims,
  pendingPayment,
  presentDue,
  takeIncome,
} from '../accounts/claims.ts'
import { type ExecMessage, execMessage } from '../contracts/contract-messages.ts'
import { lookAtStanding, standingClaims } from '../contracts/standing-claims.ts'
import { fromBech32 } from '../ledger/bech32.ts'
import type { Ledger, LedgerTx } from '../ledger/ledger.ts'
import { readExec, readSend, type Send, types } from '../ledger/messages.ts'
import { mismatch, reused } from './refusals.ts'
import { approvals } from './approvals.ts'
import type { ClaimRow, PaymentRow, PaymentsDatabase } from '../tables.ts'
import { toAmount, total } from '../terms/money.ts'

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

/** What came of looking for a payment on the ledger. */
export type Settled =
  | { readonly status: 'settled'; readonly paid: readonly string[]; readonly balance: string }
  | { readonly status: 'pending' }

/** How long a payment is looked for. */
const openMs = 24 * 3_600_000
/** How many payments of one account may be open at once. */
const mostOpen = 20
/** How many open payments one look of the job reads. */
const perLook = 100
/** How often payments of one account are looked for before a refusal, and how long that may take. */
const look = { everyMs: 5_000, forMs: 2_000 }

/** Payments by transfer: what users sign, and what of it stands on the ledger. Only the ledger's word counts. */
export class Payments {
  readonly #parts: PaymentParts

  constructor(parts: PaymentParts) {
    this.#parts = parts
  }

  /** Makes what a wallet signs to pay claims: those named, or all that are open. The same again gives the same payment. */
  async prepare(did: string, from: string, ids?: readonly string[]): Promise<Prepared> {
    const { db, books, prefix, address } = this.#parts
    if (!fromBech32(prefix, from))
      throw new RuntimeError('INVALID_INPUT', `"${from.slice(0, 100)}" is no address here.`, {
        hint: `An address begins with ${prefix}1 and has a checksum.`,
        details: {
          faults: [{ path: 'address', message: `an address that begins with ${prefix}1` }],
        },
      })
    const to = await address()
    const { payment, claims } = await db.transaction().execute(async (trx) => {
      await lockAccount(trx, did, books.now())
      const payable = await this.#payable(trx, did, ids)
      return { claims: payable, payment: await this.#open(trx, did, from, payable) }
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
      return this.#settled(payment)
    if (hash === undefined) {
      if (payment) await this.#find(payment)
      const now = payment && (await this.#own(did, payment.id))
      return now?.status === 'settled' ? this.#settled(now) : { status: 'pending' }
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
    return this.#settled(await this.#own(did, meant.id))
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

  /** Looks for all open payments, the oldest first, and ends those that are too old. Returns how many were found. */
  async sweep(): Promise<number> {
    const { db, books } = this.#parts
    const now = books.now().getTime()
    await lookAtStanding(this.#parts)
    const open = await db
      .selectFrom('payments_payments')
      .selectAll()
      .where('status', '=', 'open')
      .orderBy('created_at')
      .limit(perLook)
      .execute()
    let found = 0
    for (const payment of open) {
      if (await this.#find(payment)) found++
      else if (payment.expires_at < now)
        await db
          .updateTable('payments_payments')
          .set({ status: 'expired' })
          .where('id', '=', payment.id)
          .where('status', '=', 'open')
          .execute()
    }
    return found
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
    return now.status === 'settled' ? this.#settled(now) : { status: 'pending' }
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

  async #settled(payment: PaymentRow): Promise<Settled> {
    const { db } = this.#parts
    const account = await db
      .selectFrom('payments_accounts')
      .select('balance')
      .where('did', '=', payment.did)
      .executeTakeFirst()
    const ids: string[] = JSON.parse(payment.claims)
    const paid = await db
      .selectFrom('payments_claims')
      .select('id')
      .where('did', '=', payment.did)
      .where((eb) =>
        eb.or([
          eb('reference', '=', payment.tx_hash ?? ''),
          eb('method', '=', 'claim').and('id', 'in', ids),
        ]),
      )
      .where('status', '=', 'paid')
      .orderBy('created_at')
      .execute()
    const balance = String(account?.balance ?? 0)
    return { status: 'settled', paid: paid.map(({ id }) => id), balance }
  }

  /** The claims that a payment is for: open ones of the user. */
  async #payable(
    trx: PaymentsDatabase,
    did: string,
    ids: readonly string[] | undefined,
  ): Promise<ClaimRow[]> {
    await presentDue(trx, this.#parts.books, did)
    const { books } = this.#parts
    const free = (claim: ClaimRow) => !isUnderWay(claim, books.now())
    if (ids === undefined) {
      const open = await openClaims(trx, did)
      if (open.some(free)) return open.filter(free)
      if (open.length > 0) throw pendingPayment('the oracle collects what you owe')
      throw new RuntimeError('CONFLICT', 'No claim of yours is open.', {
        hint: 'To pay in advance, ask for an advance claim: POST /payments/claims { "advance": … }.',
      })
    }
    const wanted = [...new Set(ids)].slice(0, mostClaims)
    const rows = await trx
      .selectFrom('payments_claims')
      .selectAll()
      .where('did', '=', did)
      .where('id', 'in', wanted)
      .orderBy('created_at')
      .execute()
    for (const id of wanted)
      found(
        rows.find((claim) => claim.id === id),
        id,
      )
    const closed = rows.find(({ status }) => status !== 'open')
    if (closed)
      throw new RuntimeError('CONFLICT', `Claim ${closed.id} is ${closed.status}.`, {
        hint: 'Only open claims are paid.',
      })
    const taken = rows.find((claim) => !free(claim))
    if (taken) throw pendingPayment(`that of claim ${taken.id}`)
    return rows
  }

  /** The open payment for exactly these claims, or a new one. */
  async #open(
    trx: PaymentsDatabase,
    did: string,
    address: string,
    claims: readonly ClaimRow[],
  ): Promise<PaymentRow> {
    const amount = total(...claims.map((claim) => claim.amount))
    const ids = JSON.stringify(claims.map(({ id }) => id))
    const now = this.#parts.books.now().getTime()
    const open = await trx
      .selectFrom('payments_payments')
      .selectAll()
      .where('did', '=', did)
      .where('status', '=', 'open')
      .execute()
    const same = open.find(
      (one) =>
        one.claims === ids &&
        one.address === address &&
        one.amount === amount &&
        one.memo.startsWith(approving) === claims.every(isStanding),
    )
    if (same && same.expires_at > now) return same
    if (open.length >= mostOpen)
      throw new RuntimeError('RATE_LIMITED', `${mostOpen} payments of yours are open.`, {
        hint: 'Send one of them, or wait until they end a day after they were made.',
        headers: { 'Retry-After': '3600' },
      })
    const id = randomUUID()
    const [first] = claims
    const allStand = first !== undefined && claims.every(isStanding)
    const payment: PaymentRow = {
      id,
      did,
      address,
      claims: ids,
      amount,
      memo: allStand ? `${approving}${first.id}` : `oracle:${id}`,
      status: 'open',
      tx_hash: null,
      created_at: now,
      expires_at: now + openMs,
    }
    await trx.insertInto('payments_payments').values(payment).execute()
    return payment
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

/** What the memo of a payment begins with whose claims all stand on the ledger: there they are approved one by one. */
const approving = 'Approve claim '

const isStanding = ({ standing }: ClaimRow): boolean => standing === 'submitted'

/** What a transaction brought for a payment. Throws what differs. */
function arrived(tx: LedgerTx, payment: PaymentRow, to: string, denom: string): number {
  if (tx.code !== 0)
    throw mismatch(`The ledger did not carry it out (code ${tx.code})`, { code: tx.code })
  if (tx.memo !== payment.memo)
    throw mismatch('Its memo is not that of this payment', { memo: true })
  const sends = tx.messages.flatMap(({ typeUrl, value }) => {
    if (typeUrl === types.send) return [readSend(value)]
    if (typeUrl !== types.exec) return []
    return readExec(value).msgs.flatMap((inner) =>
      inner.typeUrl === types.send ? [readSend(inner.value)] : [],
    )
  })
  const ours = sends.filter(({ toAddress }) => toAddress === to)
  if (ours.length === 0) throw mismatch(`It pays nothing to ${to}`, { address: to })
  const coins = ours.flatMap(({ amount }) => amount).filter((coin) => coin.denom === denom)
  const sum = coins.reduce((all, { amount }) => all + BigInt(amount), 0n)
  if (sum <= 0n) throw mismatch(`It pays no ${denom}`, { denom })
  return toAmount(sum)
}
