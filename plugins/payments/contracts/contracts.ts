import { randomUUID } from 'node:crypto'
import { RuntimeError } from '#core'
import { type Books, ensureAccount, lockAccount } from '../accounts/account.ts'
import { addressOf } from '../ledger/keys.ts'
import type { Ledger, LedgerTx } from '../ledger/ledger.ts'
import { types } from '../ledger/messages.ts'
import { demandAddress, mismatch, reused } from '../paying/refusals.ts'
import type { PaymentsDatabase } from '../tables.ts'
import {
  differenceOf,
  type ExecMessage,
  execMessage,
  grantingMessage,
  type Parties,
  revokingMessage,
} from './contract-messages.ts'
import { activeContract, endContract, refreshGrant } from './grants.ts'
import type { ContractRow } from './tables.ts'

/** What contracts are made with. */
export interface ContractParts {
  readonly db: PaymentsDatabase
  readonly books: Books
  readonly prefix: string
  ledger(): Promise<Ledger>
  /** The oracle's side. Rejects where the oracle has no key, and so makes no contracts. */
  parties(): Promise<Parties>
}

/** What a user asks for: so much, so often, for so long. */
export interface ContractTerms {
  readonly address: string
  readonly maxAmount: number
  readonly agentQuota: number
  readonly days: number
  readonly collectionId?: string
  readonly adminAddress?: string
}

/** What a wallet is given to sign. */
export interface ToSign {
  readonly messages: readonly ExecMessage[]
  readonly memo: string
}

const dayMs = 24 * 3_600_000
/** Whoever grants an amount has at least this part of it, which is also what the oracle collects at once. */
const leastPart = 10n
/** How many contracts of one account may wait for their transaction, and how many are listed. */
const most = { pending: 10, listed: 100 }

/** Contracts of users with the oracle. Only what the ledger says makes one active. */
export class Contracts {
  readonly #parts: ContractParts

  constructor(parts: ContractParts) {
    this.#parts = parts
  }

  /** Makes a contract that waits for the user's transaction, and what the user signs for it. */
  async offer(did: string, terms: ContractTerms): Promise<ContractView & ToSign> {
    const { db, books, parties, prefix } = this.#parts
    demandAddress(prefix, 'address', terms.address)
    if (terms.adminAddress !== undefined) demandAddress(prefix, 'adminAddress', terms.adminAddress)
    const oracle = await parties()
    const at = books.now().getTime()
    const id = randomUUID()
    const contract: ContractRow = {
      id,
      did,
      address: terms.address,
      form: terms.collectionId === undefined ? 'grant' : 'claims',
      status: 'pending',
      max_amount: terms.maxAmount,
      taken: 0,
      quota: terms.agentQuota,
      used: 0,
      collection_id: terms.collectionId ?? null,
      admin_address: terms.adminAddress ?? null,
      memo: `contract:${id}`,
      tx_hash: null,
      reason: null,
      created_at: at,
      expires_at: at + terms.days * dayMs,
    }
    await ensureAccount(db, books, did, undefined)
    await db.transaction().execute(async (trx) => {
      await lockAccount(trx, did, books.now())
      const pending = await trx
        .selectFrom('payments_contracts')
        .select('id')
        .where('did', '=', did)
        .where('status', '=', 'pending')
        .execute()
      if (pending.length >= most.pending)
        throw new RuntimeError('RATE_LIMITED', `${most.pending} contracts of yours wait.`, {
          hint: 'Sign one of them, or DELETE it. They end by themselves after a day.',
          headers: { 'Retry-After': '3600' },
        })
      await trx.insertInto('payments_contracts').values(contract).execute()
    })
    const messages = [execMessage(contract.address, [grantingMessage(contract, oracle)])]
    return { ...contractView(contract), messages, memo: contract.memo }
  }

  /** Reads the transaction that is to make a contract active. Undefined while the ledger does not have it. */
  async confirm(did: string, id: string, hash: string): Promise<ContractView | undefined> {
    const { db, books, parties, ledger } = this.#parts
    const contract = await this.#own(did, id)
    if (contract.status !== 'pending') {
      if (contract.tx_hash === hash) return contractView(contract)
      throw new RuntimeError('CONFLICT', `Contract ${id} is ${contract.status}.`, {
        hint: 'Only a pending contract is confirmed. POST /payments/contracts makes another.',
      })
    }
    const oracle = await parties()
    const tx = await (await ledger()).tx(hash)
    if (!tx) return undefined
    this.#demandTheirs(tx, contract)
    const difference = differenceOf(tx, contract, oracle)
    if (difference !== undefined) throw mismatch(difference, { contract: id })
    await this.#demandStanding(contract, oracle)
    await db.transaction().execute(async (trx) => {
      await lockAccount(trx, did, books.now())
      const { numInsertedOrUpdatedRows } = await trx
        .insertInto('payments_used')
        .values({ reference: hash, did, amount: 0, at: books.now().getTime() })
        .onConflict((conflict) => conflict.doNothing())
        .executeTakeFirst()
      if (numInsertedOrUpdatedRows === 0n) {
        if ((await this.#own(did, id, trx)).tx_hash === hash) return
        throw reused()
      }
      const before = await activeContract(trx, did)
      if (before) await endContract(trx, before, 'revoked', 'Another contract took its place.')
      await trx
        .updateTable('payments_contracts')
        .set({ status: 'active', tx_hash: hash })
        .where('id', '=', id)
        .where('status', '=', 'pending')
        .execute()
      await refreshGrant(trx, books, did)
    })
    return contractView(await this.#own(did, id))
  }

  /** The contracts of a user, the newest first. */
  async list(did: string): Promise<ContractView[]> {
    const rows = await this.#parts.db
      .selectFrom('payments_contracts')
      .selectAll()
      .where('did', '=', did)
      .orderBy('created_at', 'desc')
      .limit(most.listed)
      .execute()
    return rows.map(contractView)
  }

  /** Ends a contract here, and answers what the user signs to end it on the ledger as well. */
  async revoke(did: string, id: string): Promise<ContractView & ToSign> {
    const { db, books, parties } = this.#parts
    const contract = await this.#own(did, id)
    const oracle = await parties()
    await db.transaction().execute(async (trx) => {
      await lockAccount(trx, did, books.now())
      await endContract(trx, contract, 'revoked')
      await refreshGrant(trx, books, did)
    })
    const view = contractView(await this.#own(did, id))
    const messages = [execMessage(contract.address, [revokingMessage(contract, oracle)])]
    return { ...view, messages, memo: `revoke:${id}` }
  }

  /** Whether the transaction is the user's: nobody spends what somebody else granted. */
  #demandTheirs(tx: LedgerTx, { address, did, memo }: ContractRow): void {
    if (tx.code !== 0)
      throw mismatch(`The ledger did not carry it out (code ${tx.code})`, { code: tx.code })
    const { prefix } = this.#parts
    if (tx.publicKey.length === 0 || addressOf(tx.publicKey, prefix) !== address)
      throw mismatch(`${address} did not sign it`, { address })
    if (tx.memo !== memo && did !== `did:ixo:${address}`)
      throw mismatch('Its memo is not that of this contract', { memo: true })
  }

  /**
   * Whether a grant that was given still stands, for the transaction may be old, and whether there is money behind it: what a
   * contract leaves counts as credit, and a promise from an empty purse would be credit without an end.
   */
  async #demandStanding(contract: ContractRow, { oracle, denom }: Parties): Promise<void> {
    const { form, address, max_amount } = contract
    const ledger = await this.#parts.ledger()
    if ((await ledger.balance(address, denom)) * leastPart < BigInt(max_amount))
      throw mismatch(`${address} has less than a tenth of ${max_amount} ${denom}`, { address })
    if (form !== 'grant') return
    if ((await ledger.grants(address, oracle, types.send)) === 0)
      throw mismatch('Its grant does not stand on the ledger any more', { address })
  }

  async #own(did: string, id: string, db = this.#parts.db): Promise<ContractRow> {
    const row = await db
      .selectFrom('payments_contracts')
      .selectAll()
      .where('id', '=', id)
      .where('did', '=', did)
      .executeTakeFirst()
    if (row) return row
    throw new RuntimeError('NOT_FOUND', `There is no contract ${id} of yours.`, {
      hint: 'GET /payments/contracts lists them.',
    })
  }
}

/** A contract, as its user sees it. */
export type ContractView = ReturnType<typeof contractView>

/** A contract, as its user sees it. */
export const contractView = (row: ContractRow) => ({
  id: row.id,
  status: row.status,
  form: row.form,
  address: row.address,
  maxAmount: String(row.max_amount),
  taken: String(row.taken),
  agentQuota: row.quota,
  used: row.used,
  ...(row.collection_id !== null && { collectionId: row.collection_id }),
  ...(row.admin_address !== null && { adminAddress: row.admin_address }),
  ...(row.tx_hash !== null && { txHash: row.tx_hash }),
  ...(row.reason !== null && { reason: row.reason }),
  createdAt: new Date(row.created_at).toISOString(),
  expiresAt: new Date(row.expires_at).toISOString(),
})
