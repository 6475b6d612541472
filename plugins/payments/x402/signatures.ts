import { setTimeout as pause } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { type Log, type RunAdmission, RuntimeError } from '#core'
import { type Books, lockAccount } from '../accounts/account.ts'
import { isUnderWay, pendingPayment, takeIncome } from '../accounts/claims.ts'
import type { ClaimRow, PaymentsDatabase } from '../tables.ts'
import { keepable } from '../keepable.ts'
import type { Facilitator, Question } from './facilitator.ts'
import { offerFor, offerMs, type OfferTerms } from './offers.ts'
import { digestOf, nonceOf, readSigned, type Signed, validUntil } from './signed.ts'
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
/** How often and how soon this process asks again by itself what became of a signature, and of how many at once. */
const again = { firstMs: 5_000, mostMs: 60_000, tries: 9, atOnce: 1_000 }
/** How a facilitator says that a signature has been used up. After this server asked to settle it, that is the settlement. */
const usedUp =
  /(nonce|authorization).*used|used.*nonce|already.?(used|settled|processed)|duplicate.?settlement/i

/** Why a signature was not taken, as the next 402 says it. */
type Refusal = { readonly refused: string }

/**
 * Payments by a signature that comes with the request. A signature is settled once. From the moment at which the facilitator is
 * asked to move the money until somebody knows what came of it, nobody is asked for its claims again, however long that takes.
 */
export class Signatures {
  readonly #parts: SignatureParts
  readonly #closing = new AbortController()
  /** The signatures that this process asks about by itself. */
  readonly #asked = new Map<string, Promise<void>>()

  constructor(parts: SignatureParts) {
    this.#parts = parts
  }

  /** Stops asking about signatures. */
  async close(): Promise<void> {
    this.#closing.abort()
    await Promise.all(this.#asked.values())
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
    if (begun === 'begun') return this.#ask(offer, signed)
    const until = performance.now() + waiting.forMs
    for (;;) {
      const row = await this.#row(nonce)
      if (!row) return { refused: 'try_again' }
      if (row.digest !== digest || row.did !== did) return { refused: 'nonce_used' }
      if (row.status === 'settled') return row
      if (row.status === 'refused') return { refused: row.reason ?? 'refused' }
      if (await this.#takeOver(row)) return this.#askAgain(offer, signed, row)
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
      const isTaken = (claim: ClaimRow) =>
        claim.standing === 'submitted' || isUnderWay(claim, books.now())
      if (claims.some(isTaken)) throw pendingPayment('another signature for these claims')
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

  /** Goes on with a signature where the last request left it. */
  #askAgain(offer: OfferRow, signed: Signed, row: SignatureRow) {
    // Nothing was moved as long as the facilitator has only looked at it.
    return row.status === 'asking' ? this.#ask(offer, signed) : this.#settle(offer, signed, row)
  }

  /** Has the facilitator look at a signature and then settle it, and keeps what it says. */
  async #ask(offer: OfferRow, signed: Signed): Promise<SignatureRow | Refusal | undefined> {
    const nonce = nonceOf(signed)
    const verdict = await this.#parts.facilitator.verify(questionOf(offer, signed))
    if (verdict.is === 'bad') return this.#refuse(offer, signed, verdict.reason, false)
    if (verdict.is === 'good') {
      if (await this.#commit(offer, signed)) return this.#settle(offer, signed)
      await this.#refuse(offer, signed, 'not_asked_for_any_more', false)
      return undefined
    }
    await this.#set(nonce, ['asking'], { reason: keepable(verdict.reason), asked_at: 0 })
    this.#parts.log.warn({ nonce, reason: verdict.reason }, 'The facilitator cannot be asked')
    throw pendingPayment('the facilitator cannot be asked about its signature just now')
  }

  /** Notes that the money may move from now on: its claims are under way without an end until somebody knows. */
  #commit(offer: OfferRow, signed: Signed): Promise<boolean> {
    const { db, books } = this.#parts
    const ids: string[] = JSON.parse(offer.claims)
    return db.transaction().execute(async (trx) => {
      await lockAccount(trx, offer.did, books.now())
      const held = await trx
        .selectFrom('payments_claims')
        .select('id')
        .where('id', 'in', ids)
        .where('status', '=', 'open')
        .where('standing', '=', 'signed')
        .where('standing_until', '=', validUntil(signed))
        .execute()
      if (held.length < ids.length) return false
      await trx
        .updateTable('payments_claims')
        .set({ standing_until: null })
        .where('id', 'in', ids)
        .execute()
      await this.#set(nonceOf(signed), ['asking'], { status: 'settling', reason: null }, trx)
      return true
    })
  }

  /**
   * Has the facilitator move the money. After an outcome that nobody knows, only a settlement is an answer. That the signature
   * is used up is one, unless it was the first answer of all: then the money came by a question that was sent twice on its way,
   * or the payer has spent the nonce on somebody else. Nobody is asked to pay again, and nothing is counted.
   */
  async #settle(offer: OfferRow, signed: Signed, before?: SignatureRow) {
    const { facilitator, log } = this.#parts
    const nonce = nonceOf(signed)
    const verdict = await facilitator.settle(questionOf(offer, signed))
    if (verdict.is === 'good') return this.#pay(offer, nonce, verdict.transaction)
    const { reason } = verdict
    const wasUsed = usedUp.test(before?.reason ?? '')
    const isUsed = verdict.is === 'bad' && usedUp.test(reason)
    if (verdict.is === 'bad' && !before && !isUsed) return this.#refuse(offer, signed, reason, true)
    if (isUsed && before && !wasUsed) {
      log.warn({ nonce, reason }, 'A signature is used up that was sent to be settled: it counts')
      return this.#pay(offer, nonce, '')
    }
    // What the first answer was is kept: by it a later one is judged.
    const told = wasUsed ? before?.reason : keepable(reason)
    const unknown = { status: 'unknown' as const, reason: told ?? null }
    await this.#set(nonce, ['settling', 'unknown'], unknown)
    log.warn({ nonce, reason }, 'Nobody knows what became of a signature')
    this.#askOn(offer, signed)
    throw pendingPayment('nobody knows yet what became of its signature')
  }

  /** Asks again by itself: whoever sent the signature may never come back. The signature is kept in memory alone. */
  #askOn(offer: OfferRow, signed: Signed): void {
    const nonce = nonceOf(signed)
    if (this.#asked.has(nonce) || this.#asked.size >= again.atOnce) return
    const asking = this.#askUntilKnown(offer, signed)
      .catch((error: unknown) => {
        this.#parts.log.warn({ err: error, nonce }, 'A signature could not be asked about')
      })
      .finally(() => this.#asked.delete(nonce))
    this.#asked.set(nonce, asking)
  }

  async #askUntilKnown(offer: OfferRow, signed: Signed): Promise<void> {
    const { signal } = this.#closing
    for (let tries = 0; tries < again.tries; tries++) {
      const ms = Math.min(again.firstMs * 2 ** tries, again.mostMs)
      await pause(ms, undefined, { signal, ref: false }).catch(() => undefined)
      if (signal.aborted) return
      const row = await this.#row(nonceOf(signed))
      if (row?.status !== 'unknown' && row?.status !== 'settling') return
      if (!(await this.#takeOver(row))) continue
      try {
        await this.#askAgain(offer, signed, row)
        return
      } catch (error) {
        if (!(error instanceof RuntimeError) || error.code !== 'PAYMENT_PENDING') throw error
      }
    }
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
      const settled = { status: 'settled' as const, tx_hash: transaction, reason: null }
      await this.#set(nonce, ['asking', 'settling', 'unknown', 'refused'], settled, trx)
      await release(trx, claims, null)
      await takeIncome(trx, books, { did, amount, claims, method: 'x402', reference })
    })
    const row = await this.#row(nonce)
    if (!row) throw new Error('A signature that was just settled is gone.')
    return row
  }

  async #refuse(
    offer: OfferRow,
    signed: Signed,
    reason: string,
    isCommitted: boolean,
  ): Promise<Refusal> {
    const { db, books } = this.#parts
    const why = keepable(reason)
    await db.transaction().execute(async (trx) => {
      await lockAccount(trx, offer.did, books.now())
      const from = isCommitted ? ('settling' as const) : ('asking' as const)
      await this.#set(nonceOf(signed), [from], { status: 'refused', reason: why }, trx)
      await release(trx, JSON.parse(offer.claims), isCommitted ? null : validUntil(signed))
    })
    return { refused: why }
  }

  /** Whether this request asks again, because nobody else does: the outcome is unknown, or who asked has died. */
  async #takeOver({ nonce, asked_at, status }: SignatureRow): Promise<boolean> {
    const { db, books } = this.#parts
    const at = books.now().getTime()
    const { numUpdatedRows } = await db
      .updateTable('payments_signatures')
      .set({ status: status === 'asking' ? 'asking' : 'settling', asked_at: at })
      .where('nonce', '=', nonce)
      .where('status', '=', status)
      .where('asked_at', '=', asked_at)
      .where((eb) =>
        eb.or([
          eb('status', '=', 'unknown'),
          eb.and([eb('status', 'in', ['asking', 'settling']), eb('asked_at', '<', at - askedMs)]),
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

  /** Changes the row of a signature, where it stands as expected: a process that was frozen knows less than the row. */
  async #set(
    nonce: string,
    from: readonly SignatureRow['status'][],
    set: Partial<SignatureRow>,
    db = this.#parts.db,
  ): Promise<void> {
    await db
      .updateTable('payments_signatures')
      .set(set)
      .where('nonce', '=', nonce)
      .where('status', 'in', from)
      .execute()
  }
}

/** Nothing is under way any more with claims that a signature held: until a time, or without an end once it was to be settled. */
async function release(
  trx: PaymentsDatabase,
  claims: readonly string[],
  until: number | null,
): Promise<void> {
  await trx
    .updateTable('payments_claims')
    .set({ standing: null, standing_until: null })
    .where('id', 'in', claims)
    .where('standing', '=', 'signed')
    .where('standing_until', until === null ? 'is' : '=', until)
    .execute()
}

const questionOf = (offer: OfferRow, signed: Signed): Question => ({
  x402Version: 2,
  paymentPayload: signed,
  paymentRequirements: JSON.parse(offer.requirements),
})

const toHeader = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64')
