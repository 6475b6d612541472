import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import { evaluations, writeLedgerClaim } from '../ledger/claim-messages.ts'
import { addressOf, isSignedBy, LedgerKey } from '../ledger/keys.ts'
import { type LedgerCoin, type TypedBytes, types, writeAny, writeCoin } from '../ledger/messages.ts'
import { grpc, type LedgerPort, LedgerStatus } from '../ledger/port.ts'
import { bytes, message, part, ProtoFields, text, uint } from '../ledger/proto.ts'
import { hashOf, type ReadTx, readTx, signDoc, type SignedTx, signTx } from '../ledger/tx.ts'
import { credit, execute, Refused } from './execute.ts'
import type { DevelopmentAccount, DevelopmentOptions } from './options.ts'
import type { LedgerDatabase, LedgerTables, TxRow } from './tables.ts'

/** How many whole coins every DID is given. */
const gift = 1000
const gasOfAll = 100_000
/** The codes of what does not come into a block. */
const refusals = { unauthorized: 4, sequence: 32, cached: 19, invalid: 2 } as const

/**
 * A ledger in the process, in the database of the runtime, for development and tests: it checks signatures, sequences,
 * balances and grants, and speaks the messages of a node. Coins of it are worth nothing.
 */
export class DevelopmentLedger implements LedgerPort {
  readonly #db: LedgerDatabase
  readonly #options: DevelopmentOptions

  constructor(options: DevelopmentOptions) {
    this.#options = options
    this.#db = options.db.withTables<LedgerTables>()
  }

  /** Answers a call as a node does. */
  async unary(path: string, request: Uint8Array): Promise<Uint8Array> {
    const fields = new ProtoFields(request)
    switch (path) {
      case 'cosmos.base.tendermint.v1beta1.Service/GetNodeInfo':
        return part(1, text(4, this.#options.chainId))
      case 'cosmos.auth.v1beta1.Query/Account':
        return this.#account(fields.text(1))
      case 'cosmos.bank.v1beta1.Query/Balance':
        return this.#balance(fields.text(1), fields.text(2))
      case 'cosmos.tx.v1beta1.Service/GetTx':
        return this.#tx(fields.text(1))
      case 'cosmos.tx.v1beta1.Service/GetTxsEvent':
        return this.#txs(fields)
      case 'cosmos.tx.v1beta1.Service/Simulate':
        return part(1, message(uint(1, gasOfAll), uint(2, gasOfAll)))
      case 'cosmos.tx.v1beta1.Service/BroadcastTx':
        return this.#broadcast(fields.bytes(1))
      case 'cosmos.authz.v1beta1.Query/Grants':
        return this.#grants(fields)
      case 'ixo.claims.v1beta1.Query/Claim':
        return this.#claim(fields.text(1))
      default:
        throw new LedgerStatus(grpc.unimplemented, `unknown method ${path}`)
    }
  }

  /** Nothing is open. */
  async close(): Promise<void> {}

  /** The account of a DID, with a thousand coins and a collection from its beginning. */
  async accountOf(did: string): Promise<DevelopmentAccount> {
    const { address, collection_id: collectionId } = await this.#keyOf(did)
    return { address, collectionId }
  }

  /** The key of a DID, for the oracle of this server. */
  async keyOf(did: string): Promise<LedgerKey> {
    const { secret } = await this.#keyOf(did)
    return new LedgerKey(Buffer.from(secret, 'hex'))
  }

  /** Makes an account without coins where there is none. */
  async open(address: string): Promise<void> {
    if (await this.#rowOf(address)) return
    await this.#db.transaction().execute(async (trx) => {
      await this.#next(trx)
      await this.#open(trx, address)
    })
  }

  /** Gives a DID another thousand coins. */
  async faucet(did: string): Promise<void> {
    const { address } = await this.#keyOf(did)
    await this.#db.transaction().execute((trx) => this.#give(trx, address))
  }

  /** Signs and sends a transaction of a DID. */
  async transact(
    did: string,
    messages: readonly TypedBytes[],
    memo: string,
  ): Promise<{ readonly hash: string; readonly code: number; readonly log: string }> {
    const { secret, address } = await this.#keyOf(did)
    const key = new LedgerKey(Buffer.from(secret, 'hex'))
    for (let tries = 1; ; tries++) {
      const signed = await this.sign(key, address, messages, memo)
      const sent = await this.#deliver(signed.bytes)
      if (sent.code !== refusals.sequence || tries === 5) return sent
    }
  }

  /** Signs a transaction with a key, by the sequence that the ledger has now. */
  async sign(
    key: LedgerKey,
    address: string,
    messages: readonly TypedBytes[],
    memo: string,
  ): Promise<SignedTx> {
    const row = await this.#rowOf(address)
    return signTx(
      {
        messages,
        memo,
        fee: [],
        gas: gasOfAll,
        chainId: this.#options.chainId,
        accountNumber: row?.number ?? 0,
        sequence: row?.sequence ?? 0,
      },
      key,
    )
  }

  async #keyOf(did: string) {
    const find = () =>
      this.#db.selectFrom('payments_dev_keys').selectAll().where('did', '=', did).executeTakeFirst()
    const known = await find()
    if (known) return known
    const secret = randomBytes(32)
    secret[0] = 1 // below the order of the curve
    const address = new LedgerKey(secret).address(this.#options.prefix)
    const collection_id = randomBytes(6).readUIntBE(0, 6).toString()
    await this.#db.transaction().execute(async (trx) => {
      const { numInsertedOrUpdatedRows } = await trx
        .insertInto('payments_dev_keys')
        .values({ did, secret: secret.toString('hex'), address, collection_id })
        .onConflict((conflict) => conflict.doNothing())
        .executeTakeFirst()
      if (numInsertedOrUpdatedRows === 0n) return
      await trx
        .insertInto('payments_dev_collections')
        .values({ id: collection_id, owner: address })
        .execute()
      await this.#give(trx, address)
    })
    const made = await find()
    if (!made) throw new Error('The key of a DID was not kept.')
    return made
  }

  async #give(trx: LedgerDatabase, address: string): Promise<void> {
    const { denom, decimals } = this.#options
    await this.#next(trx)
    await this.#open(trx, address)
    await credit(trx, address, denom, gift * 10 ** decimals)
  }

  /** Begins a block. Every change of the ledger begins with it, so changes follow each other on both databases. */
  async #next(trx: LedgerDatabase): Promise<{ readonly height: number }> {
    const { rows } = await sql<{ height: number }>`
      insert into payments_dev_chain (id, height, accounts) values (1, 1, 0)
      on conflict (id) do update set height = payments_dev_chain.height + 1
      returning height`.execute(trx)
    return { height: Number(rows[0]?.height) }
  }

  async #open(trx: LedgerDatabase, address: string): Promise<void> {
    const known = await trx
      .selectFrom('payments_dev_accounts')
      .select('number')
      .where('address', '=', address)
      .executeTakeFirst()
    if (known) return
    const { rows } = await sql<{ accounts: number }>`update payments_dev_chain
      set accounts = accounts + 1 returning accounts`.execute(trx)
    await trx
      .insertInto('payments_dev_accounts')
      .values({ address, number: Number(rows[0]?.accounts), sequence: 0 })
      .execute()
  }

  #rowOf(address: string, db = this.#db) {
    return db
      .selectFrom('payments_dev_accounts')
      .selectAll()
      .where('address', '=', address)
      .executeTakeFirst()
  }

  async #account(address: string): Promise<Uint8Array> {
    const row = await this.#rowOf(address)
    if (!row) throw new LedgerStatus(grpc.notFound, `account ${address} not found`)
    const value = message(text(1, address), uint(3, row.number), uint(4, row.sequence))
    return part(1, writeAny({ typeUrl: types.baseAccount, value }))
  }

  async #balance(address: string, denom: string): Promise<Uint8Array> {
    const row = await this.#db
      .selectFrom('payments_dev_balances')
      .select('amount')
      .where('address', '=', address)
      .where('denom', '=', denom)
      .executeTakeFirst()
    return part(1, writeCoin({ denom, amount: String(row?.amount ?? 0) }))
  }

  async #tx(hash: string): Promise<Uint8Array> {
    const row = await this.#db
      .selectFrom('payments_dev_txs')
      .selectAll()
      .where('hash', '=', hash.toUpperCase())
      .executeTakeFirst()
    if (!row) throw new LedgerStatus(grpc.notFound, `tx not found: ${hash}`)
    return message(part(1, Buffer.from(row.bytes, 'base64')), part(2, answerOf(row)))
  }

  async #txs(fields: ProtoFields): Promise<Uint8Array> {
    const asked = [...fields.texts(1), ...fields.text(6).split(' AND ')]
    const find = (name: string) =>
      asked.find((one) => one.startsWith(`${name}='`))?.slice(name.length + 2, -1)
    const recipient = find('transfer.recipient') ?? ''
    const sender = find('message.sender')
    const rows = await this.#db
      .selectFrom('payments_dev_transfers')
      .innerJoin('payments_dev_txs', 'payments_dev_txs.hash', 'payments_dev_transfers.hash')
      .selectAll('payments_dev_txs')
      .where('payments_dev_transfers.recipient', '=', recipient)
      .$if(sender !== undefined, (query) =>
        query.where('payments_dev_txs.sender', '=', sender ?? ''),
      )
      .orderBy('payments_dev_transfers.height', 'desc')
      .limit(Math.min(Number(fields.uint(5)) || 100, 100))
      .execute()
    return message(...rows.map((row) => part(2, answerOf(row))), uint(4, rows.length))
  }

  async #broadcast(tx: Uint8Array): Promise<Uint8Array> {
    const { hash, code, log } = await this.#deliver(tx)
    return part(1, message(text(2, hash), uint(4, code), text(6, log)))
  }

  /** Checks a transaction and carries it out: what passes the checks stands on the ledger, also where a message is refused. */
  async #deliver(bytes: Uint8Array) {
    const hash = hashOf(bytes)
    const told = (code: number, log: string) => ({ hash, code, log })
    let tx: ReadTx
    try {
      tx = readTx(bytes)
    } catch {
      return told(refusals.invalid, 'tx parse error')
    }
    const sender = addressOf(tx.publicKey, this.#options.prefix)
    try {
      return await this.#db
        .transaction()
        .execute((trx) => this.#carry(trx, { tx, bytes, hash, sender }))
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      // What the messages changed is rolled back; the transaction stands on the ledger as a failed one.
      return this.#db.transaction().execute(async (trx) => {
        const { height } = await this.#next(trx)
        const fault = await this.#check(trx, { tx, hash, sender })
        if (fault) return told(fault.code, fault.log)
        await this.#record(trx, { tx, bytes, hash, sender }, height, error)
        return told(0, '')
      })
    }
  }

  async #carry(trx: LedgerDatabase, sent: Sent) {
    const { height } = await this.#next(trx)
    const fault = await this.#check(trx, sent)
    if (fault) return { hash: sent.hash, ...fault }
    const recipients = new Set<string>()
    const run = {
      trx,
      signer: sent.sender,
      time: Math.floor(this.#options.now().getTime() / 1000),
      paid: (recipient: string) => void recipients.add(recipient),
    }
    for (const one of sent.tx.messages) await execute(run, one)
    for (const recipient of recipients) {
      await this.#open(trx, recipient)
      await trx
        .insertInto('payments_dev_transfers')
        .values({ hash: sent.hash, recipient, height })
        .execute()
    }
    await this.#record(trx, sent, height)
    return { hash: sent.hash, code: 0, log: '' }
  }

  /** What a node checks before it takes a transaction in. */
  async #check(trx: LedgerDatabase, { tx, hash, sender }: Omit<Sent, 'bytes'>) {
    const known = await trx
      .selectFrom('payments_dev_txs')
      .select('hash')
      .where('hash', '=', hash)
      .executeTakeFirst()
    if (known) return { code: refusals.cached, log: 'tx already exists in cache' }
    const row = await this.#rowOf(sender, trx)
    const [signature] = tx.signatures
    if (!row || !signature) return { code: refusals.unauthorized, log: 'unknown signer' }
    if (row.sequence !== tx.sequence)
      return {
        code: refusals.sequence,
        log: `account sequence mismatch, expected ${row.sequence}, got ${tx.sequence}`,
      }
    const signed = signDoc(tx.body, tx.auth, this.#options.chainId, row.number)
    return isSignedBy(tx.publicKey, signed, signature)
      ? undefined
      : { code: refusals.unauthorized, log: 'signature verification failed' }
  }

  async #record(trx: LedgerDatabase, sent: Sent, height: number, refused?: Refused): Promise<void> {
    const { bytes, hash, sender } = sent
    await trx
      .updateTable('payments_dev_accounts')
      .set({ sequence: sql<number>`sequence + 1` })
      .where('address', '=', sender)
      .execute()
    await trx
      .insertInto('payments_dev_txs')
      .values({
        hash,
        height,
        code: refused?.code ?? 0,
        log: refused?.message ?? '',
        bytes: Buffer.from(bytes).toString('base64'),
        sender,
      })
      .execute()
  }

  async #grants(fields: ProtoFields): Promise<Uint8Array> {
    const rows = await this.#db
      .selectFrom('payments_dev_grants')
      .selectAll()
      .where('granter', '=', fields.text(1))
      .where('grantee', '=', fields.text(2))
      .where('type_url', '=', fields.text(3))
      .execute()
    if (rows.length === 0) throw new LedgerStatus(grpc.notFound, 'authorization not found')
    const limit = ({ denom, left_over }: (typeof rows)[number]): LedgerCoin => ({
      denom,
      amount: String(left_over),
    })
    return message(
      ...rows.map((row) => {
        const value = part(1, writeCoin(limit(row)))
        const authorization = writeAny({ typeUrl: types.sendAuthorization, value })
        return part(1, message(part(1, authorization), part(2, uint(1, row.expires))))
      }),
    )
  }

  async #claim(id: string): Promise<Uint8Array> {
    const row = await this.#db
      .selectFrom('payments_dev_claims')
      .selectAll()
      .where('id', '=', id)
      .executeTakeFirst()
    if (!row) throw new LedgerStatus(grpc.notFound, `claim ${id} not found`)
    const { collection_id, agent_address, evaluation, payment, denom, amount } = row
    const coins = [{ denom, amount: String(amount) }]
    const claim = writeLedgerClaim({
      collectionId: collection_id,
      agentAddress: agent_address,
      claimId: id,
      evaluation,
      payment,
      approved: evaluation === evaluations.approved ? coins : [],
      amount: coins,
    })
    return part(1, claim)
  }
}

interface Sent {
  readonly tx: ReadTx
  readonly bytes: Uint8Array
  readonly hash: string
  readonly sender: string
}

const answerOf = ({ hash, height, code, log, bytes: tx }: TxRow): Uint8Array =>
  message(
    uint(1, height),
    text(2, hash),
    uint(4, code),
    text(6, log),
    part(11, message(text(1, '/cosmos.tx.v1beta1.Tx'), bytes(2, Buffer.from(tx, 'base64')))),
  )
