import type { Kysely } from 'kysely'
import type { ReviewColumns } from '../evaluation/tables.ts'
import type { RegistryDatabase } from '../tables.ts'

/** A claim, with its evaluation once there is one. */
export type ClaimRow = ReviewColumns & {
  id: string
  /** The number of the change that submitted the claim: lists are in this order. */
  ordinal: number
  type: string
  subject: string
  submitter: string
  protocol: string | null
  protocol_version: number | null
  properties: string
  evidence: string | null
  status: 'open' | 'submitted' | 'approved' | 'rejected'
  /** The oracle that evaluated the claim. */
  oracle: string | null
  evaluation: string | null
  credential: string | null
  created_at: string
  updated_at: string
}

/** A credential as the oracle signed it. The document never changes; a revocation sets `revoked_at` and `reason`. */
export type CredentialRow = {
  id: string
  ordinal: number
  claim: string
  subject: string
  oracle: string
  document: string
  /** The number of the credential's bit, counted through all status lists. */
  status_index: number
  revoked_at: string | null
  reason: string | null
}

type Tables = { registry_claims: ClaimRow; registry_credentials: CredentialRow }

/** The database with the tables of claims and credentials. */
export const withClaimTables = (db: RegistryDatabase) => db.withTables<Tables>()
/** The database, or a transaction in it, with the tables of claims and credentials. */
export type ClaimsDatabase = ReturnType<typeof withClaimTables>

/** Makes the tables of claims and credentials. */
export async function createClaims(db: Kysely<any>) {
  // any: a migration sees tables that no type knows yet
  await db.schema
    .createTable('registry_claims')
    .addColumn('id', 'varchar(36)', (column) => column.primaryKey())
    .addColumn('ordinal', 'bigint', (column) => column.notNull())
    .addColumn('type', 'text', (column) => column.notNull())
    .addColumn('subject', 'text', (column) => column.notNull())
    .addColumn('submitter', 'text', (column) => column.notNull())
    .addColumn('protocol', 'text')
    .addColumn('protocol_version', 'integer')
    .addColumn('properties', 'text', (column) => column.notNull())
    .addColumn('evidence', 'text')
    .addColumn('status', 'text', (column) => column.notNull())
    .addColumn('oracle', 'text')
    .addColumn('evaluation', 'text')
    .addColumn('credential', 'varchar(36)')
    .addColumn('created_at', 'text', (column) => column.notNull())
    .addColumn('updated_at', 'text', (column) => column.notNull())
    .execute()
  await db.schema
    .createTable('registry_credentials')
    .addColumn('id', 'varchar(36)', (column) => column.primaryKey())
    .addColumn('ordinal', 'bigint', (column) => column.notNull())
    .addColumn('claim', 'varchar(36)', (column) => column.notNull().unique())
    .addColumn('subject', 'text', (column) => column.notNull())
    .addColumn('oracle', 'text', (column) => column.notNull())
    .addColumn('document', 'text', (column) => column.notNull())
    .addColumn('status_index', 'integer', (column) => column.notNull().unique())
    .addColumn('revoked_at', 'text')
    .addColumn('reason', 'text')
    .execute()
  for (const [table, columns] of [
    ['registry_claims', ['ordinal']],
    ['registry_claims', ['subject', 'ordinal']],
    ['registry_claims', ['status', 'ordinal']],
    ['registry_claims', ['oracle', 'ordinal']],
    ['registry_credentials', ['ordinal']],
    ['registry_credentials', ['subject', 'ordinal']],
  ] as const)
    await db.schema
      .createIndex(`${table}_by_${columns[0]}`)
      .on(table)
      .columns([...columns])
      .execute()
  // Issuers revoke few credentials, but verifiers read the list of the revoked ones often.
  await db.schema
    .createIndex('registry_credentials_revoked')
    .on('registry_credentials')
    .columns(['status_index', 'revoked_at'])
    .where('revoked_at', 'is not', null)
    .execute()
}
