import { createHash } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { Log, RunAdmission } from '#core'
import { type Books, lockAccount } from '../accounts/account.ts'
import { pendingPayment, takeIncome } from '../accounts/claims.ts'
import type { ClaimRow, PaymentsDatabase } from '../tables.ts'
import type { Facilitator, Question, Verdict } from './facilitator.ts'
import { offerFor, offerMs, type OfferTerms } from './offers.ts'
import { nonceOf, readSigned, type Signed } from './signed.ts'
import type { OfferRow, SignatureRow } from './tables.ts'

/** What payments by signature are made with. */
export interface SignatureParts {
  readonly db: PaymentsDatabase
  readonly books: Books
  readonly log: Log
  readonly terms: OfferTerms
  readonly facilitator: Facilitator
  /** Where clients find the server. */
  url(): string
}

/** How long a request waits for another one with the same signature, and how often it looks. */
const waiting = { forMs: 7_000, everyMs: 100 }
/** After so long a request that asked the facilitator is taken for dead: its process ended. */
const askedMs = 15_000

/** How long a signature may be good for: as long as an offer, and a minute for a clock that is fast. */
const mostValidMs = offerMs + 60_000

/** Why a signature was not taken, as the next 402 says it. */
type Refusal = { readonly refused: string }

/**
 * Payments by a signature that comes with the request. A signature is settled once; while nobody knows what became of it,
 * nobody is asked for its claims again.
 */
export class Signatures {
  readonly #parts: SignatureParts

  constructor(parts: SignatureParts) {
    this.#parts = parts
  }

  /** Settles the payment that came with the request of a turn. Answers why it was not taken, where it was not. */
  async take(run: RunAdmission): Promise<Refusal | undefined> {
    const { koa, user } = run
    const signed = koa && readSigned(koa.headers)
    if (!koa || !signed) return undefined
    const verdict = await this.#settled(user.did, signed)
    if (verdict === undefined) return undefined
    if ('refused' in verdict) return verdict
    const { network } = this.#parts.terms
    const payer = signed.payload.authorization.from
    const told = { success: true, transaction: verdict.tx_hash ?? '', network, payer }
    koa.set('PAYMENT-RESPONSE', toHeader(told))
    return undefined
  }

  /** The header of a 402 by which clients of x402 pay claims; undefined where none of them may be paid so. */
  async header(
    run: RunAdmission,
    claims: readonly ClaimRow[],
    error: string | undefined,
  ): Promise<Record<string, string>> {
    const { db, books, terms, url } = this.#parts
    const payable = claims.filter(({ standing }) => standing === null || standing === 'signed')
    if (!run.koa || payable.length === 0) return {}
    const offer = await offerFor(db, terms, books.now(), { did: run.user.did, claims: payable })
    const required = {
      x402Version: 2,
      ...(error !== undefined && { error }),
      resource: { url: url() + run.koa.path, mimeType: 'application/json' },
      accepts: [JSON.parse(offer.requirements) as unknown],
    }
    return { 'PAYMENT-REQUIRED': toHeader(required) }
  }

  async #settled(did: string, signed: Signed): Promise<SignatureRow | Refusal | undefined> {
    const offer = await this.#offer(did, signed)
    if ('refused' in offer) return offer
    const nonce = nonceOf(signed)
    const digest = digestOf(signed)
    const begun = await this.#begin(did, offer, signed)
    if (begun === 'nothing to pay') return undefined
    if (begun === 'begun') return this.#ask(offer, signed, false)
    const until = performance.now() + waiting.forMs
    for (;;) {
      const row = await this.#row(nonce)
      if (!row) return { refused: 'try_again' }
      if (row.digest !== digest || row.did !== did) return { refused: 'nonce_used' }
      if (row.status === 'settled') return row
      if (row.status === 'refused') return { refused: row.reason ?? 'refused' }
      if (await this.#takeOver(row)) return this.#ask(offer, signed, true)
      if (performance.now() > until) throw pendingPayment('the facilitator has it')
      await pause(waiting.everyMs)
    }
  }

  /** The offer that a signature is for, where it equals the offer field by field and can still be settled. */
  async #offer(did: string, signed: Signed): Promise<OfferRow | Refusal> {
    const { db, books } = this.#parts
    const { accepted, payload } = signed
    const offer = await db
      .selectFrom('payments_offers')
      .selectAll()
      .where('id', '=', accepted.extra.offer)
      .where('did', '=', did)
      .executeTakeFirst()
    if (!offer) return { refused: 'unknown_offer' }
    const asked = JSON.parse(offer.requirements) as { amount: string; payTo: string }
    if (!isDeepStrictEqual(JSON.parse(JSON.stringify(accepted)), asked))
      return { refused: 'not_the_offer' }
    const { to, value, validBefore } = payload.authorization
    if (to.toLowerCase() !== asked.payTo.toLowerCase()) return { refused: 'other_payee' }
    if (value !== asked.amount) return { refused: 'other_amount' }
    const at = books.now().getTime()
    const isKnown = (await this.#row(nonceOf(signed))) !== undefined
    if (!isKnown && (offer.expires_at <= at || Number(validBefore) * 1000 <= at))
      return { refused: 'offer_expired' }
    // A signature that is good for longer would keep its claims under way for as long.
    if (Number(validBefore) * 1000 > at + mostValidMs) return { refused: 'valid_for_too_long' }
    return offer
  }

  /** Notes the signature and its claims as under way, where it is new and its claims are still asked for. */
  #begin(
    did: string,
    offer: OfferRow,
    signed: Signed,
  ): Promise<'begun' | 'known' | 'nothing to pay'> {
    const { db, books } = this.#parts
    const at = books.now().getTime()
    const ids: string[] = JSON.parse(offer.claims)
    return db.transaction().execute(async (trx) => {
      await lockAccount(trx, did, books.now())
      if (await this.#row(nonceOf(signed), trx)) return 'known'
      const claims = await trx
        .selectFrom('payments_claims')
        .selectAll()
        .where('id', 'in', ids)
        .where('did', '=', did)
        .execute()
      // What was paid or voided meanwhile is not asked for: then nothing is settled.
      if (claims.length < ids.length || claims.some(({ status }) => status !== 'open'))
        return 'nothing to pay'
      const isUnderWay = ({ standing, standing_until }: ClaimRow) =>
        standing !== null && !(standing === 'signed' && (standing_until ?? 0) <= at)
      if (claims.some(isUnderWay)) throw pendingPayment('another signature for these claims')
      const valid_until = validUntil(signed)
      await trx
        .insertInto('payments_signatures')
        .values({
          nonce: nonceOf(signed),
          digest: digestOf(signed),
          did,
          offer_id: offer.id,
          status: 'asking',
          reason: null,
          tx_hash: null,
          valid_until,
          asked_at: at,
        })
        .execute()
      await trx
        .updateTable('payments_claims')
        .set({ standing: 'signed', standing_until: valid_until })
        .where('id', 'in', ids)
        .execute()
      return 'begun'
    })
  }

  /** Asks the facilitator, and keeps what it says. After an outcome that nobody knows, a no is no answer any more. */
  async #ask(offer: OfferRow, signed: Signed, isAgain: boolean): Promise<SignatureRow | Refusal> {
    const { facilitator, log } = this.#parts
    const question: Question = {
      x402Version: 2,
      paymentPayload: signed,
      paymentRequirements: JSON.parse(offer.requirements),
    }
    // Whoever has moved the money may call its signature used up: the second time only the settlement counts.
    let verdict: Verdict = isAgain
      ? { is: 'good', transaction: '', payer: '' }
      : await facilitator.verify(question)
    if (verdict.is === 'good') verdict = await facilitator.settle(question)
    const nonce = nonceOf(signed)
    if (verdict.is === 'good') return this.#pay(offer, nonce, verdict.transaction)
    if (verdict.is === 'bad' && !isAgain) return this.#refuse(offer, nonce, verdict.reason)
    await this.#set(nonce, { status: 'unknown', reason: verdict.reason.slice(0, 300) })
    log.warn({ nonce, reason: verdict.reason }, 'Nobody knows what became of a signature')
    throw pendingPayment('nobody knows yet what became of its signature')
  }

  async #pay(offer: OfferRow, nonce: string, transaction: string): Promise<SignatureRow> {
    const { db, books } = this.#parts
    const { did, amount } = offer
    const claims: string[] = JSON.parse(offer.claims)
    const reference = `x402:${nonce}`
    await db.transaction().execute(async (trx) => {
      await lockAccount(trx, did, books.now())
      const { numInsertedOrUpdatedRows } = await trx
        .insertInto('payments_used')
        .values({ reference, did, amount, at: books.now().getTime() })
        .onConflict((conflict) => conflict.doNothing())
        .executeTakeFirst()
      if (numInsertedOrUpdatedRows === 0n) return
      await this.#set(nonce, { status: 'settled', tx_hash: transaction, reason: null }, trx)
      await release(trx, claims)
      await takeIncome(trx, books, { did, amount, claims, method: 'x402', reference })
    })
    const row = await this.#row(nonce)
    if (!row) throw new Error('A signature that was just settled is gone.')
    return row
  }

  async #refuse(offer: OfferRow, nonce: string, reason: string): Promise<Refusal> {
    const { db, books } = this.#parts
    await db.transaction().execute(async (trx) => {
      await lockAccount(trx, offer.did, books.now())
      await this.#set(nonce, { status: 'refused', reason: reason.slice(0, 300) }, trx)
      await release(trx, JSON.parse(offer.claims))
    })
    return { refused: reason.slice(0, 300) }
  }

  /** Whether this request asks again, because nobody else does: the outcome is unknown, or who asked has died. */
  async #takeOver({ nonce, asked_at }: SignatureRow): Promise<boolean> {
    const { db, books } = this.#parts
    const at = books.now().getTime()
    const { numUpdatedRows } = await db
      .updateTable('payments_signatures')
      .set({ status: 'asking', asked_at: at })
      .where('nonce', '=', nonce)
      .where('asked_at', '=', asked_at)
      .where((eb) =>
        eb.or([
          eb('status', '=', 'unknown'),
          eb.and([eb('status', '=', 'asking'), eb('asked_at', '<', at - askedMs)]),
        ]),
      )
      .executeTakeFirst()
    return numUpdatedRows > 0n
  }

  #row(nonce: string, db = this.#parts.db): Promise<SignatureRow | undefined> {
    return db
      .selectFrom('payments_signatures')
      .selectAll()
      .where('nonce', '=', nonce)
      .executeTakeFirst()
  }

  async #set(nonce: string, set: Partial<SignatureRow>, db = this.#parts.db): Promise<void> {
    await db.updateTable('payments_signatures').set(set).where('nonce', '=', nonce).execute()
  }
}

/** Nothing is under way any more with claims that a signature was for. */
async function release(trx: PaymentsDatabase, claims: readonly string[]): Promise<void> {
  await trx
    .updateTable('payments_claims')
    .set({ standing: null, standing_until: null })
    .where('id', 'in', claims)
    .where('standing', '=', 'signed')
    .execute()
}

/** Until when a signature can be settled, with a minute for a ledger whose clock is slow. */
const validUntil = ({ payload }: Signed): number =>
  Number(payload.authorization.validBefore) * 1000 + 60_000

const digestOf = (signed: Signed): string =>
  createHash('sha256').update(JSON.stringify(signed.payload)).digest('hex')

const toHeader = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64')
