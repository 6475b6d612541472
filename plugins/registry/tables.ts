import type { Kysely } from 'kysely'
import type { Database } from '#core'
import type { SubscriptionRow } from './subscriptions/tables.ts'
import type { IndexTables } from './indexes/tables.ts'

// Rows are types, not interfaces: Kysely wants an index signature, which only a type has. Columns hold JSON as text.

/**
 * The counter of changes. A transaction that writes locks its one row until the commit, so that on every database the
 * numbers of changes are in the order of their commits.
 */
export type ClockRow = { id: number; seq: number }

/** The state of an entity at one moment; the present row and each recorded version have these columns. */
export type StateColumns = {
  controller: string
  protocol: string | null
  protocol_version: number | null
  properties: string
  /** The JSON of `Details`; null when there are neither services nor credentials, which is the usual case. */
  details: string | null
}

/** An entity as it is now. */
export type EntityRow = StateColumns & {
  did: string
  /** The number of the change that created the entity: lists are in this order. */
  ordinal: number
  type: string
  class: string | null
  status: 'active' | 'deactivated'
  version: number
  created_at: string
  updated_at: string
  /** The text that the filter `q` searches: the id, the type and the texts among the properties, in lower case. */
  search: string
  /** How many edges the entity has ever had as source: the next edge's position. With 0 no query for edges is needed. */
  edges_made: number
}

/** An edge between two active entities. */
export type EdgeRow = {
  source: string
  role: string
  target: string
  position: number
  properties: string | null
  /** Who drew the edge: a DID, or the name of an API key; null where the history does not say. */
  drawn_by: string | null
  /** 1 where the operator drew the edge or confirmed it. */
  by_operator: number
  /** The DID that confirmed the edge as it stands, beside whoever drew it. */
  confirmed_by: string | null
}

/** What a change did to an entity. */
export type ChangeAction = 'created' | 'updated' | 'related' | 'unrelated' | 'deactivated'

/** A change, as the feed tells it; a change of an entity also records the version that it made. */
export type ChangeRow = {
  seq: number
  /** The kind of the changed thing: `entity`, `protocol`, `claim` or `credential`. */
  kind: string
  did: string
  version: number
  type: string
  action: string
  /** Who made the change: a DID, or the name of an API key. */
  actor: string
  at: string
  /** JSON of what the change was about beside the state of the thing, such as a relationship. */
  about: string | null
  controller: string | null
  protocol: string | null
  protocol_version: number | null
  properties: string | null
  details: string | null
}

/** A protocol as it is now; the rows of its versions hold its definitions. */
export type ProtocolRow = {
  did: string
  ordinal: number
  version: number
  controller: string
  status: 'active' | 'deactivated'
  created_at: string
  updated_at: string
}

/** One version of a protocol, which never changes. */
export type ProtocolVersionRow = {
  did: string
  version: number
  /** The definition as the client sent it. */
  definition: string
  /** The definition with all that the protocol inherits. */
  effective: string
  created_at: string
}

/** A protocol whose newest version extends another protocol. */
export type ExtensionRow = { did: string; extends: string }

/** How much a DID has ever made. Removing a thing does not lower the count, because its history stays. */
export type UsageRow = {
  did: string
  entities: number
  protocols: number
  edges: number
  claims: number
}

/** Which credential became which credit. The row stays when the credit is deactivated, so no credential becomes two credits. */
export type MintRow = { credential: string; entity: string; at: string }

/** The tables of entities and protocols. */
export type Tables = {
  registry_clock: ClockRow
  registry_entities: EntityRow
  registry_edges: EdgeRow
  registry_changes: ChangeRow
  registry_protocols: ProtocolRow
  registry_protocol_versions: ProtocolVersionRow
  registry_extensions: ExtensionRow
  registry_usage: UsageRow
  registry_mints: MintRow
  registry_subscriptions: SubscriptionRow
} & IndexTables
/** The database, or a transaction in it, with the tables of the registry. */
export type RegistryDatabase = Kysely<Tables>

/** The database with the tables of the registry. */
export const withRegistryTables = (db: Database): RegistryDatabase => db.withTables<Tables>()

/** Makes the tables of entities, edges, changes and the clock. */
export async function createEntities(db: Kysely<any>) {
  // any: a migration sees tables that no type knows yet
  await db.schema
    .createTable('registry_clock')
    .addColumn('id', 'integer', (column) => column.primaryKey())
    .addColumn('seq', 'bigint', (column) => column.notNull())
    .execute()
  await db.insertInto('registry_clock').values({ id: 1, seq: 0 }).execute()

  await db.schema
    .createTable('registry_entities')
    .addColumn('did', 'text', (column) => column.primaryKey())
    .addColumn('ordinal', 'bigint', (column) => column.notNull())
    .addColumn('type', 'text', (column) => column.notNull())
    .addColumn('class', 'text')
    .addColumn('controller', 'text', (column) => column.notNull())
    .addColumn('protocol', 'text')
    .addColumn('protocol_version', 'integer')
    .addColumn('status', 'text', (column) => column.notNull())
    .addColumn('version', 'integer', (column) => column.notNull())
    .addColumn('created_at', 'text', (column) => column.notNull())
    .addColumn('updated_at', 'text', (column) => column.notNull())
    .addColumn('properties', 'text', (column) => column.notNull())
    .addColumn('details', 'text')
    .addColumn('search', 'text', (column) => column.notNull())
    .addColumn('edges_made', 'integer', (column) => column.notNull())
    .execute()
  for (const columns of [
    ['ordinal'],
    ['type', 'ordinal'],
    ['protocol', 'ordinal'],
    ['controller', 'ordinal'],
  ])
    await db.schema
      .createIndex(`registry_entities_by_${columns[0]}`)
      .on('registry_entities')
      .columns(columns)
      .execute()

  await db.schema
    .createTable('registry_edges')
    .addColumn('source', 'text', (column) => column.notNull())
    .addColumn('role', 'text', (column) => column.notNull())
    .addColumn('target', 'text', (column) => column.notNull())
    .addColumn('position', 'integer', (column) => column.notNull())
    .addColumn('properties', 'text')
    .addPrimaryKeyConstraint('registry_edges_pk', ['source', 'role', 'target'])
    .execute()
  await db.schema
    .createIndex('registry_edges_by_target')
    .on('registry_edges')
    .columns(['target', 'role', 'source'])
    .execute()

  await db.schema
    .createTable('registry_changes')
    .addColumn('seq', 'bigint', (column) => column.primaryKey())
    .addColumn('kind', 'text', (column) => column.notNull())
    .addColumn('did', 'text', (column) => column.notNull())
    .addColumn('version', 'integer', (column) => column.notNull())
    .addColumn('type', 'text', (column) => column.notNull())
    .addColumn('action', 'text', (column) => column.notNull())
    .addColumn('actor', 'text', (column) => column.notNull())
    .addColumn('at', 'text', (column) => column.notNull())
    .addColumn('about', 'text')
    .addColumn('controller', 'text')
    .addColumn('protocol', 'text')
    .addColumn('protocol_version', 'integer')
    .addColumn('properties', 'text')
    .addColumn('details', 'text')
    .execute()
  await db.schema
    .createIndex('registry_changes_of_thing')
    .on('registry_changes')
    .columns(['did', 'version'])
    .execute()
}

/** Makes the tables of protocols. */
export async function createProtocols(db: Kysely<any>) {
  // any: a migration sees tables that no type knows yet
  await db.schema
    .createTable('registry_protocols')
    .addColumn('did', 'text', (column) => column.primaryKey())
    .addColumn('ordinal', 'bigint', (column) => column.notNull())
    .addColumn('version', 'integer', (column) => column.notNull())
    .addColumn('controller', 'text', (column) => column.notNull())
    .addColumn('status', 'text', (column) => column.notNull())
    .addColumn('created_at', 'text', (column) => column.notNull())
    .addColumn('updated_at', 'text', (column) => column.notNull())
    .execute()
  await db.schema
    .createIndex('registry_protocols_in_order')
    .on('registry_protocols')
    .columns(['ordinal'])
    .execute()
  await db.schema
    .createTable('registry_protocol_versions')
    .addColumn('did', 'text', (column) => column.notNull())
    .addColumn('version', 'integer', (column) => column.notNull())
    .addColumn('definition', 'text', (column) => column.notNull())
    .addColumn('effective', 'text', (column) => column.notNull())
    .addColumn('created_at', 'text', (column) => column.notNull())
    .addPrimaryKeyConstraint('registry_protocol_versions_pk', ['did', 'version'])
    .execute()
  await db.schema
    .createTable('registry_extensions')
    .addColumn('did', 'text', (column) => column.primaryKey())
    .addColumn('extends', 'text', (column) => column.notNull())
    .execute()
  await db.schema
    .createIndex('registry_extensions_by_parent')
    .on('registry_extensions')
    .columns(['extends'])
    .execute()
}
