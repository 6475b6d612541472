import type { Kysely } from 'kysely'

/** What a user has granted the oracle on the ledger: it may claim so often, and so much in all. */
export type ContractRow = {
  id: string
  did: string
  address: string
  /** A grant to send coins, or the right to submit claims to a collection of the user. */
  form: 'grant' | 'claims'
  status: 'pending' | 'active' | 'spent' | 'expired' | 'revoked' | 'failed'
  max_amount: number
  /** What the oracle has collected. */
  taken: number
  quota: number
  /** How often the oracle has collected, or how many claims it has submitted. */
  used: number
  collection_id: string | null
  admin_address: string | null
  memo: string
  tx_hash: string | null
  /** Why the contract failed, in the ledger's words. */
  reason: string | null
  created_at: number
  expires_at: number
}

/** A transaction of the oracle, from the decision to make it until its end on the ledger. */
export type OutboxRow = {
  id: string
  contract_id: string
  did: string
  claims: string
  amount: number
  /** `signed`: its bytes are kept, and no others are ever sent for it. */
  status: 'waiting' | 'signed' | 'done' | 'refused'
  bytes: string | null
  tx_hash: string | null
  sequence: number | null
  reason: string | null
  created_at: number
  changed_at: number
}

/** Which process sends: one at a time. */
export type LeaseRow = { name: string; holder: string; until: number }

/** The tables of contracts. */
export type ContractTables = {
  payments_contracts: ContractRow
  payments_outbox: OutboxRow
  payments_leases: LeaseRow
}

/** Contracts, what the oracle sends for them, and what stands on the ledger. */
export async function createContracts(db: Kysely<any>): Promise<void> {
  // any: a migration sees tables that no type knows yet
  for (const name of ['granted', 'granted_until'])
    await db.schema
      .alterTable('payments_accounts')
      .addColumn(name, 'bigint', (column) => column.notNull().defaultTo(0))
      .execute()
  await db.schema.alterTable('payments_claims').addColumn('standing', 'text').execute()
  await db.schema.alterTable('payments_claims').addColumn('standing_until', 'bigint').execute()
  await db.schema.alterTable('payments_claims').addColumn('contract_id', 'varchar(36)').execute()
  let contracts = db.schema
    .createTable('payments_contracts')
    .addColumn('id', 'varchar(36)', (column) => column.primaryKey())
  for (const name of ['did', 'address', 'form', 'status', 'memo'])
    contracts = contracts.addColumn(name, 'text', (column) => column.notNull())
  for (const name of ['max_amount', 'taken', 'quota', 'used', 'created_at', 'expires_at'])
    contracts = contracts.addColumn(name, 'bigint', (column) => column.notNull())
  for (const name of ['collection_id', 'admin_address', 'tx_hash', 'reason'])
    contracts = contracts.addColumn(name, 'text')
  await contracts.execute()
  let outbox = db.schema
    .createTable('payments_outbox')
    .addColumn('id', 'varchar(36)', (column) => column.primaryKey())
    .addColumn('contract_id', 'varchar(36)', (column) => column.notNull())
  for (const name of ['did', 'claims', 'status'])
    outbox = outbox.addColumn(name, 'text', (column) => column.notNull())
  for (const name of ['amount', 'created_at', 'changed_at'])
    outbox = outbox.addColumn(name, 'bigint', (column) => column.notNull())
  for (const name of ['bytes', 'tx_hash', 'reason']) outbox = outbox.addColumn(name, 'text')
  await outbox.addColumn('sequence', 'bigint').execute()
  await db.schema
    .createTable('payments_leases')
    .addColumn('name', 'text', (column) => column.primaryKey())
    .addColumn('holder', 'text', (column) => column.notNull())
    .addColumn('until', 'bigint', (column) => column.notNull())
    .execute()
  for (const [table, name, columns] of [
    ['payments_contracts', 'of_did', ['did', 'status', 'created_at']],
    ['payments_contracts', 'of_status', ['status', 'created_at']],
    ['payments_outbox', 'of_status', ['status', 'created_at']],
    ['payments_claims', 'of_standing', ['standing', 'created_at']],
  ] as const)
    await db.schema
      .createIndex(`${table}_${name}`)
      .on(table)
      .columns([...columns])
      .execute()
}
