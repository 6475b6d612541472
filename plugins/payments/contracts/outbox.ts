import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { RuntimeError, type Log } from '#core'
import { type Books, lockAccount } from '../accounts/account.ts'
import { takeIncome } from '../accounts/claims.ts'
import { broadcastCodes, type Ledger, type LedgerTx } from '../ledger/ledger.ts'
import { grpc, LedgerStatus } from '../ledger/port.ts'
import { keepable } from '../keepable.ts'
import type { PaymentsDatabase } from '../tables.ts'
import { collectingMessages, type Parties } from './contract-messages.ts'
import { endContract, refreshGrant } from './grants.ts'
import type { Signer } from './signer.ts'
import type { ContractRow, OutboxRow } from './tables.ts'

/** What the outbox sends with. */
export interface OutboxParts {
  readonly db: PaymentsDatabase
  readonly books: Books
  readonly log: Log
  ledger(): Promise<Ledger>
  signer(): Promise<Signer>
  parties(): Promise<Parties>
}

/**
 * How long a process may send before another one does, and how many entries one look takes. The lease spares work and no more:
 * two processes that send one entry send the same bytes.
 */
const lease = { name: 'outbox', ms: 5_000, entries: 50 }
/** How long a transaction is waited for after it was sent, before the next look. */
const waiting = { forMs: 6_000, everyMs: 250 }
/** How long after its sequence was used up a transaction may still turn up, for a node whose index is late. */
const lateMs = 10 * 60_000
/** Refusals of a node that pass: it is full, or the oracle has no coins for the fee. */
const passing: readonly number[] = [broadcastCodes.noFunds, broadcastCodes.noAccount, 20]
/** Statuses by which a node says that a transaction would be refused, when it is tried. */
const doomed: readonly number[] = [2, grpc.invalid]

/**
 * What the oracle sends. The bytes of a transaction are kept before they are sent, and only these bytes are ever sent for
 * an entry; after a crash the ledger is first asked whether it has them. So each entry is carried out once. Entries follow
 * each other, because each uses up a sequence of the one account.
 */
export class Outbox {
  readonly #parts: OutboxParts
  readonly #holder = randomUUID()
  #draining: Promise<boolean> | undefined
  #next: Promise<boolean> | undefined

  constructor(parts: OutboxParts) {
    this.#parts = parts
  }

  /**
   * Sends what waits. True once nothing does. Whoever asks while it sends is answered by the look after this one, which they
   * share: what they put there may have come after the last look of this one.
   */
  drain(signal: AbortSignal): Promise<boolean> {
    if (!this.#draining) {
      this.#draining = this.#drainAndRelease(signal).finally(() => (this.#draining = undefined))
      return this.#draining
    }
    const again = (): Promise<boolean> => {
      this.#next = undefined
      return this.drain(signal)
    }
    this.#next ??= this.#draining.then(again, again)
    return this.#next
  }

  async #drainAndRelease(signal: AbortSignal): Promise<boolean> {
    try {
      return await this.#drainAll(signal)
    } finally {
      await this.#parts.db
        .updateTable('payments_leases')
        .set({ until: 0 })
        .where('name', '=', lease.name)
        .where('holder', '=', this.#holder)
        .execute()
    }
  }

  async #drainAll(signal: AbortSignal): Promise<boolean> {
    while (!signal.aborted) {
      const entries = await this.#waiting()
      if (entries.length === 0) return true
      for (const entry of entries) {
        // Whoever holds the lease sends what this process found, too.
        if (signal.aborted || !(await this.#takeLease())) return false
        if (!(await this.#advance(entry, signal))) return false
      }
    }
    return false
  }

  #waiting(): Promise<OutboxRow[]> {
    return this.#parts.db
      .selectFrom('payments_outbox')
      .selectAll()
      .where('status', 'in', ['waiting', 'signed'])
      .orderBy('status', 'asc') // what is signed goes first: its sequence is the next one
      .orderBy('created_at')
      .orderBy('id')
      .limit(lease.entries)
      .execute()
  }

  async #takeLease(): Promise<boolean> {
    const { db, books } = this.#parts
    const at = books.now().getTime()
    const { name } = lease
    const row = { holder: this.#holder, until: at + lease.ms }
    await db
      .insertInto('payments_leases')
      .values({ name, holder: '', until: 0 })
      .onConflict((conflict) => conflict.doNothing())
      .execute()
    const { numUpdatedRows } = await db
      .updateTable('payments_leases')
      .set(row)
      .where('name', '=', name)
      .where((eb) => eb.or([eb('holder', '=', this.#holder), eb('until', '<', at)]))
      .executeTakeFirst()
    return numUpdatedRows > 0n
  }

  /** Brings an entry one look further. False where it is not at its end yet. */
  async #advance(found: OutboxRow, signal: AbortSignal): Promise<boolean> {
    const { ledger: open } = this.#parts
    const ledger = await open()
    if (found.bytes !== null && found.tx_hash !== null) {
      const known = await ledger.tx(found.tx_hash)
      if (known) return this.#finish(found, known)
    }
    const entry = found.bytes === null ? await this.#sign(found, ledger) : found
    if (!entry) return false
    if (entry.status === 'refused') return true
    const { bytes, tx_hash: hash } = entry
    if (bytes === null || hash === null) return false
    const { code, log } = await ledger.broadcast(Buffer.from(bytes, 'base64'))
    if (code === broadcastCodes.sequence) {
      if (!(await this.#isLost(entry, ledger))) return false
      return this.#refuse(entry, 'Its sequence was used by a transaction that is not ours.')
    }
    if (passing.includes(code)) {
      this.#parts.log.warn({ code, reason: log }, 'The ledger does not take transactions just now')
      return false
    }
    if (code !== 0 && code !== broadcastCodes.cached) return this.#refuse(entry, log, code)
    const until = performance.now() + waiting.forMs
    while (performance.now() < until && !signal.aborted) {
      const tx = await ledger.tx(hash)
      if (tx) return this.#finish(entry, tx)
      await pause(waiting.everyMs, undefined, { signal }).catch(() => undefined)
    }
    return false
  }

  /** Signs an entry and keeps its bytes. Of two processes the first one's bytes are kept. */
  async #sign(entry: OutboxRow, ledger: Ledger): Promise<OutboxRow | undefined> {
    const { db, books, log, signer, parties } = this.#parts
    const ids: string[] = JSON.parse(entry.claims)
    const claims = await db
      .selectFrom('payments_claims')
      .selectAll()
      .where('id', 'in', ids)
      .orderBy('created_at')
      .orderBy('id')
      .execute()
    const contract = await this.#contract(entry)
    const messages = collectingMessages(contract, claims, await parties())
    let tx
    try {
      tx = await (await signer()).sign(ledger, messages, `collect:${entry.id}`)
    } catch (error) {
      const cause = error instanceof RuntimeError ? error.cause : undefined
      if (!(cause instanceof LedgerStatus) || !doomed.includes(cause.status)) throw error
      await this.#refuse(entry, cause.message)
      return { ...entry, status: 'refused' }
    }
    if (!tx) {
      log.warn('The ledger does not know the account of the oracle; send it coins for fees')
      return undefined
    }
    await db
      .updateTable('payments_outbox')
      .set({
        status: 'signed',
        bytes: Buffer.from(tx.bytes).toString('base64'),
        tx_hash: tx.hash,
        sequence: tx.sequence,
        changed_at: books.now().getTime(),
      })
      .where('id', '=', entry.id)
      .where('status', '=', 'waiting')
      .execute()
    return db
      .selectFrom('payments_outbox')
      .selectAll()
      .where('id', '=', entry.id)
      .executeTakeFirstOrThrow()
  }

  /** Whether the bytes of an entry can never be carried out any more, because another transaction took their sequence. */
  async #isLost({ sequence, changed_at }: OutboxRow, ledger: Ledger): Promise<boolean> {
    const { address } = await this.#parts.signer()
    const account = await ledger.account(address)
    if (!account || account.sequence <= (sequence ?? 0)) return false
    return this.#parts.books.now().getTime() - changed_at > lateMs
  }

  async #finish(entry: OutboxRow, tx: LedgerTx): Promise<boolean> {
    if (tx.code !== 0) return this.#refuse(entry, `code ${tx.code}`, tx.code)
    const { db, books } = this.#parts
    const { id, did, amount } = entry
    const contract = await this.#contract(entry)
    const claims: string[] = JSON.parse(entry.claims)
    await db.transaction().execute(async (trx) => {
      await lockAccount(trx, did, books.now())
      if (!(await this.#close(trx, id, 'done'))) return
      if (contract.form === 'claims') {
        await trx
          .updateTable('payments_claims')
          .set({ standing: 'submitted' })
          .where('id', 'in', claims)
          .execute()
      } else {
        await trx
          .insertInto('payments_used')
          .values({ reference: tx.hash, did, amount, at: books.now().getTime() })
          .execute()
        const income = { did, amount, claims, method: 'contract', reference: tx.hash }
        await takeIncome(trx, books, income)
        await trx
          .updateTable('payments_contracts')
          .set((eb) => ({ taken: eb('taken', '+', amount) }))
          .where('id', '=', contract.id)
          .execute()
      }
      await refreshGrant(trx, books, did)
    })
    return true
  }

  /** The ledger does not carry an entry out: its contract is over, and its claims are asked for as others are. */
  async #refuse(entry: OutboxRow, reason: string, code?: number): Promise<boolean> {
    const { db, books, log } = this.#parts
    const claims: string[] = JSON.parse(entry.claims)
    const why = keepable(reason)
    await db.transaction().execute(async (trx) => {
      await lockAccount(trx, entry.did, books.now())
      if (!(await this.#close(trx, entry.id, 'refused', why))) return
      await trx
        .updateTable('payments_claims')
        .set({ standing: null })
        .where('id', 'in', claims)
        .where('standing', 'in', ['collecting', 'submitting'])
        .execute()
      await endContract(trx, { id: entry.contract_id }, 'failed', why)
      await refreshGrant(trx, books, entry.did)
    })
    log.warn({ code, reason: why, entry: entry.id }, 'The ledger refused to collect by a contract')
    return true
  }

  async #close(trx: PaymentsDatabase, id: string, status: 'done' | 'refused', reason?: string) {
    const { numUpdatedRows } = await trx
      .updateTable('payments_outbox')
      .set({ status, reason: reason ?? null, changed_at: this.#parts.books.now().getTime() })
      .where('id', '=', id)
      .where('status', 'in', ['waiting', 'signed'])
      .executeTakeFirst()
    return numUpdatedRows > 0n
  }

  #contract({ contract_id }: OutboxRow): Promise<ContractRow> {
    return this.#parts.db
      .selectFrom('payments_contracts')
      .selectAll()
      .where('id', '=', contract_id)
      .executeTakeFirstOrThrow()
  }
}
