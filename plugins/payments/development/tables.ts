import type { CreateTableBuilder, Kysely } from 'kysely'

// The tables of the development ledger, which stands in for a chain outside production.

/** The chain: its one row is locked by every transaction. */
export type ChainRow = { id: number; height: number; accounts: number }
/** A key that the server keeps for a DID, so that a page can sign. Outside production only. */
export type KeyRow = { did: string; secret: string; address: string; collection_id: string }
export type LedgerAccountRow = { address: string; number: number; sequence: number }
export type LedgerBalanceRow = { address: string; denom: string; amount: number }
export type TxRow = {
  hash: string
  height: number
  code: number
  log: string
  bytes: string
  sender: string
}
/** Who was paid by a transaction, for the look by recipient. */
export type TransferRow = { hash: string; recipient: string; height: number }
export type GrantRow = {
  granter: string
  grantee: string
  type_url: string
  denom: string
  left_over: number
  allow_list: string
  expires: number
}
export type CollectionRow = { id: string; owner: string }
export type AuthorizationRow = {
  collection_id: string
  grantee: string
  quota: number
  max_amount: number
  denom: string
  expires: number
}
export type LedgerClaimRow = {
  id: string
  collection_id: string
  agent_address: string
  admin_address: string
  amount: number
  denom: string
  evaluation: number
  payment: number
}

/** The tables of the development ledger. */
export type LedgerTables = {
  payments_dev_chain: ChainRow
  payments_dev_keys: KeyRow
  payments_dev_accounts: LedgerAccountRow
  payments_dev_balances: LedgerBalanceRow
  payments_dev_txs: TxRow
  payments_dev_transfers: TransferRow
  payments_dev_grants: GrantRow
  payments_dev_collections: CollectionRow
  payments_dev_authorizations: AuthorizationRow
  payments_dev_claims: LedgerClaimRow
}
export type LedgerDatabase = Kysely<LedgerTables>

type Columns = readonly (readonly [name: string, type: 'text' | 'bigint'])[]

const text = (...names: string[]): Columns => names.map((name) => [name, 'text'] as const)
const numbers = (...names: string[]): Columns => names.map((name) => [name, 'bigint'] as const)

const tables: Readonly<Record<string, { columns: Columns; key: readonly string[] }>> = {
  chain: { columns: numbers('id', 'height', 'accounts'), key: ['id'] },
  keys: { columns: text('did', 'secret', 'address', 'collection_id'), key: ['did'] },
  accounts: { columns: [...text('address'), ...numbers('number', 'sequence')], key: ['address'] },
  balances: {
    columns: [...text('address', 'denom'), ...numbers('amount')],
    key: ['address', 'denom'],
  },
  txs: {
    columns: [...text('hash', 'log', 'bytes', 'sender'), ...numbers('height', 'code')],
    key: ['hash'],
  },
  transfers: {
    columns: [...text('hash', 'recipient'), ...numbers('height')],
    key: ['recipient', 'hash'],
  },
  grants: {
    columns: [
      ...text('granter', 'grantee', 'type_url', 'denom', 'allow_list'),
      ...numbers('left_over', 'expires'),
    ],
    key: ['granter', 'grantee', 'type_url'],
  },
  collections: { columns: text('id', 'owner'), key: ['id'] },
  authorizations: {
    columns: [
      ...text('collection_id', 'grantee', 'denom'),
      ...numbers('quota', 'max_amount', 'expires'),
    ],
    key: ['collection_id', 'grantee'],
  },
  claims: {
    columns: [
      ...text('id', 'collection_id', 'agent_address', 'admin_address', 'denom'),
      ...numbers('amount', 'evaluation', 'payment'),
    ],
    key: ['id'],
  },
}

/** The tables of the development ledger. Without it they stay empty. */
export async function createLedger(db: Kysely<any>): Promise<void> {
  // any: a migration sees tables that no type knows yet
  for (const [name, { columns, key }] of Object.entries(tables)) {
    let table: CreateTableBuilder<string, string> = db.schema.createTable(`payments_dev_${name}`)
    for (const [column, type] of columns)
      table = table.addColumn(column, type, (made) => made.notNull())
    await table.addPrimaryKeyConstraint(`payments_dev_${name}_pk`, [...key]).execute()
  }
}
