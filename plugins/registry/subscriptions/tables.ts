import type { Kysely } from 'kysely'

/** A subscription: who hears of which changes, where, and how far the deliveries have come. */
export type SubscriptionRow = {
  id: string
  /** The DID or the name of the key that made it; only they and the operator see it. */
  owner: string
  /** The DID that it reads for; null reads for the holder of an API key, who sees everything. */
  reader: string | null
  query: string
  url: string
  /** Signs the deliveries. It leaves the database for nothing else. */
  secret: string
  state: 'active' | 'dead'
  /** The number of the last change that was delivered, or did not concern it. */
  reached: number
  error: string | null
  created_at: string
  /** How often it was revived: each life has jobs of its own. */
  revived: number
}

/** Lets dead subscriptions live again. */
export async function createRevivals(db: Kysely<any>) {
  // any: a migration sees tables that no type knows yet
  await db.schema
    .alterTable('registry_subscriptions')
    .addColumn('revived', 'integer', (column) => column.notNull().defaultTo(0))
    .execute()
}

/** Makes the table of subscriptions. */
export async function createSubscriptions(db: Kysely<any>) {
  // any: a migration sees tables that no type knows yet
  let table = db.schema
    .createTable('registry_subscriptions')
    .addColumn('id', 'varchar(64)', (column) => column.primaryKey())
  for (const name of ['owner', 'query', 'url', 'secret', 'state', 'created_at'])
    table = table.addColumn(name, 'text', (column) => column.notNull())
  for (const name of ['reader', 'error']) table = table.addColumn(name, 'text')
  await table.addColumn('reached', 'bigint', (column) => column.notNull()).execute()
  for (const column of ['owner', 'state'])
    await db.schema
      .createIndex(`registry_subscriptions_by_${column}`)
      .on('registry_subscriptions')
      .column(column)
      .execute()
}
