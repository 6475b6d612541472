import type { AddressHashes } from './accounts/addresses.ts'
import type { Books } from './accounts/account.ts'
import { BegunCharges } from './accounts/begun-charges.ts'
import type { Gate } from './accounts/gate.ts'
import { Statements } from './accounts/statements.ts'
import type { DevelopmentLedger } from './development/ledger.ts'
import type { Environment } from './environment.ts'
import type { Contracts } from './contracts/contracts.ts'
import type { Parties } from './contracts/contract-messages.ts'
import type { Outbox } from './contracts/outbox.ts'
import type { Signer } from './contracts/signer.ts'
import { fromBech32 } from './ledger/bech32.ts'
import type { Ledger } from './ledger/ledger.ts'
import type { Payments } from './paying/payments.ts'
import { type ClaimRow, type PaymentsDatabase, withPaymentsTables } from './tables.ts'
import { readTerms, type Terms } from './terms/terms.ts'
import type { Signatures } from './x402/signatures.ts'
import { RuntimeError, type Database, type Jobs, type Log, type Oracle } from '#core'
import type { jobInputs } from './upkeep.ts'

/** What the service needs of boot. */
export interface ServiceParts {
  readonly env: Environment
  readonly db: Database
  readonly oracle: Oracle
  readonly log: Log
  readonly fetch: typeof globalThis.fetch
  readonly jobs: Jobs<typeof jobInputs>
  readonly environment: 'development' | 'test' | 'production'
  now(): Date
}

/**
 * Payments of one app. The ledger, its keys and what reads them are imported when something is paid: turns within the credit
 * need none of it. What bills turns is imported where something has a price.
 */
export class PaymentService {
  readonly terms: Terms
  readonly db: PaymentsDatabase
  readonly books: Books
  #gate: Promise<Gate> | undefined
  readonly #parts: ServiceParts
  #hashes: Promise<AddressHashes> | undefined
  #ledger: Promise<Ledger> | undefined
  #development: Promise<DevelopmentLedger> | undefined
  #address: Promise<string> | undefined
  #payments: Promise<Payments> | undefined
  #signer: Promise<Signer> | undefined
  #contracts: Promise<Contracts> | undefined
  #outbox: Promise<Outbox> | undefined
  #signatures: Promise<Signatures> | undefined

  constructor(parts: ServiceParts) {
    this.#parts = parts
    this.terms = readTerms(parts.env)
    this.db = withPaymentsTables(parts.db)
    this.books = {
      terms: this.terms,
      statements: new Statements(this.db, this.terms),
      begun: new BegunCharges(),
      now: () => parts.now(),
      hashOf: async (address) => (await this.#addressHashes()).of(address),
      send: async (trx, entry) => {
        await parts.jobs.within(trx).later('send', { entry }, { key: entry })
      },
    }
    this.#demandWays()
  }

  /** What lets turns in, and bills them. */
  gate(): Promise<Gate> {
    const paying = async () => ({
      look: async (did: string) => (await this.payments()).look(did),
      methods: this.methods,
      ...(this.hasFacilitator && { signatures: await this.signatures() }),
    })
    return (this.#gate ??= import('./accounts/gate.ts').then(
      ({ Gate }) => new Gate(this.db, this.books, paying),
    ))
  }

  /** The names of the ways to pay. */
  get methods(): readonly string[] {
    return [
      ...(this.hasTransfer ? ['transfer'] : []),
      ...(this.hasDevelopment ? ['development'] : []),
      ...(this.hasFacilitator ? ['x402'] : []),
    ]
  }

  /** Whether claims are paid by transfer on a ledger. */
  get hasTransfer(): boolean {
    return this.hasDevelopment || this.#parts.env.PAYMENTS_LEDGER !== undefined
  }

  /** Whether claims are paid by signatures that come with requests. */
  get hasFacilitator(): boolean {
    return this.#parts.env.PAYMENTS_X402_FACILITATOR !== undefined
  }

  /** Where payments by signature go, as anybody may read it. */
  get signatureTerms() {
    const { env } = this.#parts
    return {
      network: env.PAYMENTS_X402_NETWORK,
      asset: env.PAYMENTS_X402_ASSET ?? '',
      assetName: env.PAYMENTS_X402_ASSET_NAME,
      assetVersion: env.PAYMENTS_X402_ASSET_VERSION,
      payTo: env.PAYMENTS_X402_PAY_TO ?? '',
      rate: env.PAYMENTS_X402_RATE,
    }
  }

  /** Whether the ledger is the one in the process. */
  get hasDevelopment(): boolean {
    const { env, environment } = this.#parts
    return environment !== 'production' && env.PAYMENTS_LEDGER === undefined
  }

  /** Whether the oracle can sign, so that it makes contracts. */
  get hasKey(): boolean {
    return (
      this.hasTransfer && (this.hasDevelopment || this.#parts.env.PAYMENTS_MNEMONIC !== undefined)
    )
  }

  get chainId(): string {
    return this.#parts.env.PAYMENTS_CHAIN_ID
  }

  get oracle(): Oracle {
    return this.#parts.oracle
  }

  /** Presents the oldest claim of what is due, or asks for an advance. */
  async present(did: string, advance: number | undefined): Promise<ClaimRow | undefined> {
    const { ensureAccount, lockAccount } = await import('./accounts/account.ts')
    const { presentAdvance, presentDue } = await import('./accounts/claims.ts')
    await ensureAccount(this.db, this.books, did, undefined)
    return this.db.transaction().execute(async (trx) => {
      await lockAccount(trx, did, this.books.now())
      if (advance !== undefined) return presentAdvance(trx, this.books, did, advance)
      return (await presentDue(trx, this.books, did))[0]
    })
  }

  /** Payments by transfer. */
  payments(): Promise<Payments> {
    return (this.#payments ??= import('./paying/payments.ts').then(
      ({ Payments }) =>
        new Payments({
          db: this.db,
          books: this.books,
          prefix: this.#parts.env.PAYMENTS_ADDRESS_PREFIX,
          address: () => this.address(),
          ledger: () => this.ledger(),
        }),
    ))
  }

  /** Contracts of users with the oracle. */
  contracts(): Promise<Contracts> {
    return (this.#contracts ??= import('./contracts/contracts.ts').then(
      ({ Contracts }) =>
        new Contracts({
          db: this.db,
          books: this.books,
          prefix: this.#parts.env.PAYMENTS_ADDRESS_PREFIX,
          ledger: () => this.ledger(),
          parties: () => this.parties(),
        }),
    ))
  }

  /** Payments by signature. */
  signatures(): Promise<Signatures> {
    return (this.#signatures ??= this.#openSignatures())
  }

  /** What the oracle sends for contracts. */
  outbox(): Promise<Outbox> {
    return (this.#outbox ??= import('./contracts/outbox.ts').then(
      ({ Outbox }) =>
        new Outbox({
          db: this.db,
          books: this.books,
          log: this.#parts.log,
          ledger: () => this.ledger(),
          signer: () => this.signer(),
          parties: () => this.parties(),
        }),
    ))
  }

  /** The oracle's side of contracts. */
  async parties(): Promise<Parties> {
    const { address } = await this.signer()
    return { oracle: address, oracleDid: this.oracle.did, denom: this.terms.coin.denom }
  }

  /** What signs for the oracle. Rejects where the oracle has no key. */
  signer(): Promise<Signer> {
    if (!this.hasKey)
      throw new RuntimeError('CONFLICT', 'This oracle makes no contracts: it has no key.', {
        hint: 'The operator sets PAYMENTS_MNEMONIC for contracts. Claims are paid by transfer.',
      })
    this.#signer ??= this.#openSigner().catch((error: unknown) => {
      this.#signer = undefined // the database was away; the next one asks again
      throw error
    })
    return this.#signer
  }

  /** Where the oracle is paid. */
  address(): Promise<string> {
    this.#address ??= (async () => {
      const { PAYMENTS_ADDRESS, PAYMENTS_MNEMONIC } = this.#parts.env
      if (PAYMENTS_ADDRESS !== undefined) return PAYMENTS_ADDRESS
      if (PAYMENTS_MNEMONIC !== undefined) return (await this.signer()).address
      return (await (await this.development()).accountOf(this.oracle.did)).address
    })().catch((error: unknown) => {
      this.#address = undefined // the database was away; the next one asks again
      throw error
    })
    return this.#address
  }

  /** The ledger. */
  ledger(): Promise<Ledger> {
    return (this.#ledger ??= this.#openLedger())
  }

  /** The ledger in the process. Throws 404 where there is none. */
  development(): Promise<DevelopmentLedger> {
    if (!this.hasDevelopment)
      throw new RuntimeError('NOT_FOUND', 'This server has no development ledger.', {
        hint: 'It is there outside production where PAYMENTS_LEDGER is unset.',
      })
    return (this.#development ??= this.#openDevelopment())
  }

  /** Throws a sentence where a ledger is set and does not answer. */
  async demandLedger(): Promise<void> {
    if (this.terms.isPriced && this.hasTransfer && !this.hasDevelopment)
      await (await this.ledger()).check()
  }

  /** Ends the connection to the ledger, and what asks about signatures. */
  async close(): Promise<void> {
    await (await this.#signatures)?.close()
    await (await this.#ledger)?.close()
  }

  async #openSignatures(): Promise<Signatures> {
    const { env, fetch, log, oracle } = this.#parts
    const { Facilitator } = await import('./x402/facilitator.ts')
    const { Signatures } = await import('./x402/signatures.ts')
    const url = env.PAYMENTS_X402_FACILITATOR ?? ''
    return new Signatures({
      db: this.db,
      books: this.books,
      log,
      terms: this.signatureTerms,
      facilitator: new Facilitator(url, env.PAYMENTS_X402_AUTH, fetch),
      url: oracle.url,
    })
  }

  async #openSigner(): Promise<Signer> {
    const { env } = this.#parts
    const mnemonic = env.PAYMENTS_MNEMONIC
    const { Signer } = await import('./contracts/signer.ts')
    const made = async () => {
      if (mnemonic === undefined) return (await this.development()).keyOf(this.oracle.did)
      return (await import('./ledger/mnemonic.ts')).keyOfMnemonic(mnemonic)
    }
    const key = await made()
    const address = key.address(env.PAYMENTS_ADDRESS_PREFIX)
    if (env.PAYMENTS_ADDRESS !== undefined && env.PAYMENTS_ADDRESS !== address)
      throw new RuntimeError(
        'ENV_INVALID',
        `PAYMENTS_ADDRESS is ${env.PAYMENTS_ADDRESS}, and the account of PAYMENTS_MNEMONIC is ${address}.`,
        { hint: 'Look for a wrong word in PAYMENTS_MNEMONIC, or unset one of the two.' },
      )
    if (this.hasDevelopment) await (await this.development()).open(address)
    return new Signer({
      key,
      address,
      chainId: this.chainId,
      denom: env.PAYMENTS_DENOM,
      gasPrice: env.PAYMENTS_GAS_PRICE,
    })
  }

  async #openLedger(): Promise<Ledger> {
    const { PAYMENTS_LEDGER, PAYMENTS_LEDGER_TLS, PAYMENTS_CHAIN_ID } = this.#parts.env
    const { Ledger } = await import('./ledger/ledger.ts')
    if (PAYMENTS_LEDGER === undefined)
      return new Ledger(await this.development(), PAYMENTS_CHAIN_ID)
    const { GrpcPort } = await import('./ledger/grpc.ts')
    return new Ledger(new GrpcPort(PAYMENTS_LEDGER, PAYMENTS_LEDGER_TLS), PAYMENTS_CHAIN_ID)
  }

  async #openDevelopment(): Promise<DevelopmentLedger> {
    const { env, db, now } = this.#parts
    const { DevelopmentLedger } = await import('./development/ledger.ts')
    return new DevelopmentLedger({
      db,
      chainId: env.PAYMENTS_CHAIN_ID,
      prefix: env.PAYMENTS_ADDRESS_PREFIX,
      denom: env.PAYMENTS_DENOM,
      decimals: env.PAYMENTS_DECIMALS,
      now,
    })
  }

  #addressHashes(): Promise<AddressHashes> {
    this.#hashes ??= import('./accounts/addresses.ts').then(
      ({ AddressHashes }) => new AddressHashes(this.db),
    )
    return this.#hashes
  }

  /** A price that nobody can pay stops the boot: without this plugin every turn would be free. */
  #demandWays(): void {
    const { env, environment } = this.#parts
    const { PAYMENTS_ADDRESS: address, PAYMENTS_ADDRESS_PREFIX: prefix } = env
    const missing = (message: string, hint: string) =>
      new RuntimeError('ENV_MISSING', message, { hint, details: { stopsBoot: true } })
    if (this.terms.isPriced && environment === 'production' && this.methods.length === 0)
      throw missing(
        'Turns have a price, and there is no way to pay: PAYMENTS_LEDGER is unset, and so is PAYMENTS_X402_FACILITATOR.',
        'Set PAYMENTS_LEDGER to the gRPC address of a node, or PAYMENTS_X402_FACILITATOR, or take the price away.',
      )
    for (const name of ['PAYMENTS_X402_PAY_TO', 'PAYMENTS_X402_ASSET'] as const)
      if (this.hasFacilitator && env[name] === undefined)
        throw missing(
          `PAYMENTS_X402_FACILITATOR is set, and ${name} is not.`,
          `Set ${name} to an address on ${env.PAYMENTS_X402_NETWORK}.`,
        )
    const isNobody = address === undefined && env.PAYMENTS_MNEMONIC === undefined
    if (env.PAYMENTS_LEDGER !== undefined && isNobody)
      throw missing(
        'PAYMENTS_LEDGER is set, and nobody is paid there: PAYMENTS_ADDRESS is unset.',
        'Set PAYMENTS_ADDRESS to the account of the oracle on the ledger, or PAYMENTS_MNEMONIC to its key.',
      )
    if (address !== undefined && !fromBech32(prefix, address))
      throw new RuntimeError(
        'ENV_INVALID',
        `PAYMENTS_ADDRESS is "${address}", which is no address.`,
        {
          hint: `It begins with PAYMENTS_ADDRESS_PREFIX, which is ${prefix}, and has a checksum.`,
        },
      )
  }
}
