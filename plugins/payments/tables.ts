import { type Kysely, sql } from 'kysely'
import { type Database, rebuildWithoutRowids } from '#core'
import type { ContractTables } from './contracts/tables.ts'
import type { SignatureTables } from './x402/tables.ts'

// Rows are types, not interfaces: Kysely wants an index signature, which only a type has. Amounts are whole numbers of the
// smallest unit, times are milliseconds, columns with JSON are text. No row holds words of a conversation.

/** A user. */
export type AccountRow = {
  did: string
  /** What was paid in advance and is not spent. */
  balance: number
  /** The sum of the usage claims that are open or disputed. */
  owed: number
  /** The sum of what running turns have set aside. */
  held: number
  /** What the active contract leaves, which counts as credit until `granted_until`. */
  granted: number
  granted_until: number
  /** 1 once anything was paid: from then on PAYMENTS_CREDIT holds. */
  has_paid: number
  /** 1 where the account was given the first credit. */
  has_first: number
  /** The UTC day of `free_used`. */
  free_day: string
  free_used: number
  /** When payments that may have arrived were last looked for. */
  looked_at: number
  created_at: number
  /** When anything of the account last changed. */
  touched_at: number
}

/** What one turn cost: one row for each run, whatever resumed it or took it over. */
export type ChargeRow = {
  run_id: string
  did: string
  session_id: string
  request_id: string
  status: 'held' | 'free' | 'paid' | 'due' | 'void'
  /** What the turn has set aside, and the most that it is billed. */
  held: number
  amount: number
  lines: string
  claim_id: string | null
  /** For a free turn: the day, and the hash of the address it counts for. */
  free_day: string | null
  free_address: string | null
  created_at: number
  ended_at: number | null
}

/** What another plugin adds to the charge of a run, once a key. */
export type ExtraRow = { run_id: string; key: string; did: string; amount: number; reason: string }

/** What is asked for. */
export type ClaimRow = {
  id: string
  did: string
  kind: 'usage' | 'advance'
  status: 'open' | 'paid' | 'disputed' | 'expired' | 'void'
  amount: number
  created_at: number
  /** When the id first went out. A presented claim never grows. */
  presented_at: number | null
  paid_at: number | null
  method: string | null
  reference: string | null
  dispute: string | null
  /** What is under way with the claim: nobody is asked for it again meanwhile, except where it stands on the ledger. */
  standing: 'collecting' | 'submitting' | 'submitted' | 'signed' | null
  /** Until when a signature holds the claim. Null once the facilitator was asked to move the money: then until somebody knows. */
  standing_until: number | null
  /** The contract by which the claim is collected, or was submitted. */
  contract_id: string | null
}

/** A payment that the user was given to sign. Its id is the memo, which is all that the ledger sees of it. */
export type PaymentRow = {
  id: string
  did: string
  address: string
  claims: string
  amount: number
  memo: string
  status: 'open' | 'settled' | 'expired'
  tx_hash: string | null
  created_at: number
  expires_at: number
}

/** A transaction or a signature that was counted: each once, for one account. */
export type UsedRow = { reference: string; did: string; amount: number; at: number }

/** Free turns and new DIDs of one address on one day, by a keyed hash of the address. */
export type AddressRow = { address: string; day: string; turns: number; accounts: number }

/** A row for each action of an operator. */
export type ActionRow = {
  id: string
  at: number
  who: string
  did: string
  claim_id: string | null
  action: string
  amount: number
  reason: string
}

/** Secrets that the plugin makes for itself, such as the key of the hashes of addresses. */
export type SecretRow = { name: string; value: string }

/** The tables of payments. */
export type Tables = ContractTables &
  SignatureTables & {
    payments_accounts: AccountRow
    payments_charges: ChargeRow
    payments_extras: ExtraRow
    payments_claims: ClaimRow
    payments_payments: PaymentRow
    payments_used: UsedRow
    payments_addresses: AddressRow
    payments_actions: ActionRow
    payments_secrets: SecretRow
  }
/** The database, or a transaction in it, with the tables of payments. */
export type PaymentsDatabase = Kysely<Tables>

/** The database with the tables of payments. */
export const withPaymentsTables = (db: Database): PaymentsDatabase => db.withTables<Tables>()

/** Accounts, charges and claims. */
export async function createAccounts(db: Kysely<any>): Promise<void> {
  // any: a migration sees tables that no type knows yet
  let accounts = db.schema
    .createTable('payments_accounts')
    .addColumn('did', 'text', (column) => column.primaryKey())
    .addColumn('free_day', 'text', (column) => column.notNull())
  const numbers = ['balance', 'owed', 'held', 'has_paid', 'has_first', 'free_used', 'looked_at']
  for (const name of [...numbers, 'created_at', 'touched_at'])
    accounts = accounts.addColumn(name, 'bigint', (column) => column.notNull())
  await accounts.execute()
  await db.schema
    .createTable('payments_charges')
    .addColumn('run_id', 'varchar(36)', (column) => column.primaryKey())
    .addColumn('did', 'text', (column) => column.notNull())
    .addColumn('session_id', 'text', (column) => column.notNull())
    .addColumn('request_id', 'text', (column) => column.notNull())
    .addColumn('status', 'text', (column) => column.notNull())
    .addColumn('held', 'bigint', (column) => column.notNull())
    .addColumn('amount', 'bigint', (column) => column.notNull())
    .addColumn('lines', 'text', (column) => column.notNull())
    .addColumn('claim_id', 'varchar(36)')
    .addColumn('free_day', 'text')
    .addColumn('free_address', 'text')
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .addColumn('ended_at', 'bigint')
    .execute()
  await index(db, 'payments_charges', 'of_did', ['did', 'created_at'])
  await index(db, 'payments_charges', 'of_claim', ['claim_id'])
  await db.schema
    .createTable('payments_extras')
    .addColumn('run_id', 'varchar(36)', (column) => column.notNull())
    .addColumn('key', 'text', (column) => column.notNull())
    .addColumn('did', 'text', (column) => column.notNull())
    .addColumn('amount', 'bigint', (column) => column.notNull())
    .addColumn('reason', 'text', (column) => column.notNull())
    .addPrimaryKeyConstraint('payments_extras_pk', ['run_id', 'key'])
    .execute()
  await createClaims(db)
  await createActions(db)
}

async function createClaims(db: Kysely<any>): Promise<void> {
  // any: a migration sees tables that no type knows yet
  let claims = db.schema
    .createTable('payments_claims')
    .addColumn('id', 'varchar(36)', (column) => column.primaryKey())
  for (const name of ['did', 'kind', 'status'])
    claims = claims.addColumn(name, 'text', (column) => column.notNull())
  for (const name of ['amount', 'created_at'])
    claims = claims.addColumn(name, 'bigint', (column) => column.notNull())
  for (const name of ['presented_at', 'paid_at']) claims = claims.addColumn(name, 'bigint')
  for (const name of ['method', 'reference', 'dispute']) claims = claims.addColumn(name, 'text')
  await claims.execute()
  await index(db, 'payments_claims', 'of_did', ['did', 'status', 'created_at'])
  await index(db, 'payments_claims', 'of_status', ['status', 'created_at'])
}

async function createActions(db: Kysely<any>): Promise<void> {
  // any: a migration sees tables that no type knows yet
  await db.schema
    .createTable('payments_used')
    .addColumn('reference', 'text', (column) => column.primaryKey())
    .addColumn('did', 'text', (column) => column.notNull())
    .addColumn('amount', 'bigint', (column) => column.notNull())
    .addColumn('at', 'bigint', (column) => column.notNull())
    .execute()
  await db.schema
    .createTable('payments_addresses')
    .addColumn('address', 'text', (column) => column.notNull())
    .addColumn('day', 'text', (column) => column.notNull())
    .addColumn('turns', 'integer', (column) => column.notNull())
    .addColumn('accounts', 'integer', (column) => column.notNull())
    .addPrimaryKeyConstraint('payments_addresses_pk', ['address', 'day'])
    .execute()
  let actions = db.schema
    .createTable('payments_actions')
    .addColumn('id', 'varchar(36)', (column) => column.primaryKey())
    .addColumn('claim_id', 'varchar(36)')
  for (const name of ['at', 'amount'])
    actions = actions.addColumn(name, 'bigint', (column) => column.notNull())
  for (const name of ['who', 'did', 'action', 'reason'])
    actions = actions.addColumn(name, 'text', (column) => column.notNull())
  await actions.execute()
  await db.schema
    .createTable('payments_secrets')
    .addColumn('name', 'text', (column) => column.primaryKey())
    .addColumn('value', 'text', (column) => column.notNull())
    .execute()
}

/** What users were given to sign. */
export async function createPayments(db: Kysely<any>): Promise<void> {
  // any: a migration sees tables that no type knows yet
  let payments = db.schema
    .createTable('payments_payments')
    .addColumn('id', 'varchar(36)', (column) => column.primaryKey())
    .addColumn('tx_hash', 'text')
  for (const name of ['did', 'address', 'claims', 'memo', 'status'])
    payments = payments.addColumn(name, 'text', (column) => column.notNull())
  for (const name of ['amount', 'created_at', 'expires_at'])
    payments = payments.addColumn(name, 'bigint', (column) => column.notNull())
  await payments.execute()
  await index(db, 'payments_payments', 'of_did', ['did', 'status', 'created_at'])
  await index(db, 'payments_payments', 'of_status', ['status', 'created_at'])
}

/** Has a turn with a price write fewer pages: charges of which nothing is due have no place in the index of claims. */
export async function writeFewerPages(db: Kysely<any>): Promise<void> {
  // any: a migration sees tables that no type knows yet
  await db.schema.dropIndex('payments_charges_of_claim').execute()
  await sql`create index payments_charges_of_claim on payments_charges (claim_id)
    where claim_id is not null`.execute(db)
  const kept = (table: string, ...names: string[]) => names.map((name) => `${table}_of_${name}`)
  for (const [table, key, ...indexes] of [
    ['payments_accounts', 'did'],
    ['payments_charges', 'run_id', 'did', 'claim'],
    ['payments_claims', 'id', 'did', 'status', 'standing'],
  ] as const)
    await rebuildWithoutRowids(db, { table, key: [key], kept: kept(table, ...indexes) })
}

const index = (db: Kysely<any>, table: string, name: string, columns: string[]) =>
  // any: a migration sees tables that no type knows yet
  db.schema.createIndex(`${table}_${name}`).on(table).columns(columns).execute()
