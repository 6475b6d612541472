import type { RunAdmission, RunBeginning, RunEnding } from '#core'
import { RuntimeError } from '#core'
import { total, shown } from '../terms/money.ts'
import type { AccountRow, ClaimRow, PaymentsDatabase } from '../tables.ts'
import { availableOf, type Books, dayOf, ensureAccount } from './account.ts'
import { hasFreeTurns } from './addresses.ts'
import { beginCharge, endCharge } from './charges.ts'
import { demandFrom, pendingPayment } from './claims.ts'

/** What the gate asks of the ways to pay. */
export interface Ways {
  /** Looks for payments of the user that may have arrived. It takes two seconds at most, and nothing where it was just done. */
  look(did: string): Promise<void>
  /** The names of the ways to pay. */
  readonly methods: readonly string[]
  /** Payments that come with a request, where the server takes them. */
  readonly signatures?: {
    /** Settles the payment that came with the request. Answers why it was not taken, where one came and was not. */
    take(run: RunAdmission): Promise<{ readonly refused: string } | undefined>
    /** The headers of a 402 by which claims are paid with the next request. */
    header(
      run: RunAdmission,
      claims: readonly ClaimRow[],
      error: string | undefined,
    ): Promise<Record<string, string>>
  }
}

/** Who may begin a turn: whoever has a free turn, or room for the most that a turn may cost. */
export class Gate {
  readonly #db: PaymentsDatabase
  readonly #books: Books
  readonly #ways: () => Promise<Ways>
  readonly #withRoom = new WithRoom()

  constructor(db: PaymentsDatabase, books: Books, ways: () => Promise<Ways>) {
    this.#db = db
    this.#books = books
    this.#ways = ways
  }

  /** Lets a turn pass, or throws the 402 with the claims. */
  async admit(run: RunAdmission): Promise<void> {
    const { did } = run.user
    const address = run.koa?.ip
    // In the transaction of the beginning nobody can read the key of the hashes any more: this reads it before.
    if (address !== undefined && this.#books.terms.freeTurns > 0) await this.#books.hashOf(address)
    const isPaying = run.koa !== undefined && paymentHeaders.some((name) => run.koa?.get(name))
    // Whether there still is room is decided in `begin`. Where there is none, the kernel asks again, and this reads the account.
    if (!isPaying && this.#withRoom.take(did)) return
    const known = await ensureAccount(this.#db, this.#books, did, address)
    const taken = isPaying ? await (await this.#ways()).signatures?.take(run) : undefined
    // What a payment has just changed is read again.
    if (!taken && (await this.#hasRoom(did, address, isPaying ? undefined : known))) return
    const ways = await this.#ways()
    await ways.look(did)
    if (!taken && (await this.#hasRoom(did, address, undefined))) return
    throw await this.#refusal(run, ways, taken?.refused)
  }

  /** Sets the most aside that the turn may cost, in the transaction that records it. */
  async begin({ runId, sessionId, requestId, user, koa }: RunBeginning, trx: PaymentsDatabase) {
    const { did } = user
    const { terms, hashOf } = this.#books
    const address = koa && terms.freeTurns > 0 ? await hashOf(koa.ip) : undefined
    const turn = { runId, sessionId, requestId, did, address }
    const left = await beginCharge(trx, this.#books, turn)
    if (left !== undefined) return this.#withRoom.note(did, left >= terms.maximum)
    throw new RuntimeError(
      'RATE_LIMITED',
      'Other turns of this account took its credit just now.',
      {
        hint: 'Send the message again in a moment.',
        headers: { 'Retry-After': '1' },
      },
    )
  }

  /** Bills a turn that has ended. */
  end(run: RunEnding, trx: PaymentsDatabase): Promise<void> {
    return endCharge(trx, this.#books, run)
  }

  async #hasRoom(
    did: string,
    address: string | undefined,
    known: AccountRow | undefined,
  ): Promise<boolean> {
    const { terms, statements } = this.#books
    const account = known ?? (await statements.account(this.#db, did))
    if (terms.freeTurns > 0 && (await this.#hasFree(account, address))) return true
    return (await availableOf(this.#db, this.#books, did, account)) >= terms.maximum
  }

  async #hasFree(account: AccountRow | undefined, address: string | undefined): Promise<boolean> {
    const { terms, now, hashOf } = this.#books
    const day = dayOf(now())
    if (account?.free_day === day && account.free_used >= terms.freeTurns) return false
    if (address === undefined) return true
    return hasFreeTurns(this.#db, await hashOf(address), day, terms.freeTurns)
  }

  async #refusal(run: RunAdmission, ways: Ways, why: string | undefined): Promise<RuntimeError> {
    const { coin } = this.#books.terms
    const claims = await demandFrom(this.#db, this.#books, run.user.did)
    if (claims.length === 0) return pendingPayment('the oracle waits for what you owe')
    const amount = total(...claims.map((claim) => claim.amount))
    const ids = claims.map(({ id }) => id)
    const count = ids.length === 1 ? '1 claim' : `${ids.length} claims`
    return new RuntimeError(
      'PAYMENT_REQUIRED',
      `Payment needed: ${shown(amount, coin)} for ${count}.`,
      {
        hint: 'Pay the claims, and send the same message again. POST /payments/prepare says what to sign.',
        details: {
          error: 'Payment Required',
          claims: ids,
          outstandingClaims: ids,
          amount: String(amount),
          denom: coin.denom,
          methods: ways.methods,
          ...(why !== undefined && { refused: why }),
        },
        headers: {
          'Cache-Control': 'no-store',
          ...(await ways.signatures?.header(run, claims, why)),
        },
      },
    )
  }
}

/** The headers that a payment comes in. */
const paymentHeaders = ['payment-signature', 'x-payment']

/** So many accounts, the newest, are remembered. */
const mostWithRoom = 5_000

/** The accounts that had room for one more turn when one began here: the next turn need not look before it begins. */
class WithRoom {
  readonly #dids = new Set<string>()

  note(did: string, hasRoom: boolean): void {
    this.#dids.delete(did)
    if (!hasRoom) return
    this.#dids.add(did)
    if (this.#dids.size <= mostWithRoom) return
    for (const oldest of this.#dids) {
      this.#dids.delete(oldest)
      break
    }
  }

  /** Whether the account had room. Each note counts for one turn: a turn that is refused all the same is looked at closely. */
  take(did: string): boolean {
    return this.#dids.delete(did)
  }
}
