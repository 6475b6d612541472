import { sql, type Kysely } from 'kysely'

/** Makes the columns and tables for who drew an edge, how much each DID has made, and which credential became which credit. */
export async function createRights(db: Kysely<any>) {
  // any: a migration sees tables that no type knows yet
  await db.schema.alterTable('registry_edges').addColumn('drawn_by', 'text').execute()
  await db.schema
    .alterTable('registry_edges')
    .addColumn('by_operator', 'integer', (column) => column.notNull().defaultTo(0))
    .execute()
  await db.schema.alterTable('registry_edges').addColumn('confirmed_by', 'text').execute()
  // It is certain who drew the edges of an entity only where a single party has ever changed the entity. Other edges
  // make nobody a verifier until the controller of the asset or the operator confirms them.
  await sql`update registry_edges set drawn_by = (
    select case when count(distinct actor) = 1 then min(actor) end from registry_changes
    where registry_changes.did = registry_edges.source and kind = 'entity')`.execute(db)
  await sql`update registry_edges set by_operator = 1 where drawn_by like 'key:%'`.execute(db)

  await db.schema
    .createTable('registry_usage')
    .addColumn('did', 'text', (column) => column.primaryKey())
    .addColumn('entities', 'integer', (column) => column.notNull())
    .addColumn('protocols', 'integer', (column) => column.notNull())
    .addColumn('edges', 'integer', (column) => column.notNull())
    .addColumn('claims', 'integer', (column) => column.notNull())
    .execute()
  const count = (kind: string, action: string) =>
    sql`sum(case when kind = ${sql.lit(kind)} and action = ${sql.lit(action)} then 1 else 0 end)`
  await sql`insert into registry_usage (did, entities, protocols, edges, claims)
    select actor, ${count('entity', 'created')}, ${count('protocol', 'created')},
      ${count('entity', 'related')}, ${count('claim', 'submitted')}
    from registry_changes where actor not like 'key:%' group by actor`.execute(db)

  await db.schema
    .createTable('registry_mints')
    .addColumn('credential', 'varchar(64)', (column) => column.primaryKey())
    .addColumn('entity', 'text', (column) => column.notNull())
    .addColumn('at', 'text', (column) => column.notNull())
    .execute()
  // The conditions of `reader.ts` search by submitter and controller, and a patch looks for the mint of its entity.
  for (const [table, column] of [
    ['registry_claims', 'submitter'],
    ['registry_protocols', 'controller'],
    ['registry_mints', 'entity'],
  ] as const)
    await db.schema.createIndex(`${table}_by_${column}`).on(table).column(column).execute()
}
