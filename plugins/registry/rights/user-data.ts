import { sql } from 'kysely'
import type { Database, ErasedData, KeptData, UserDataItem } from '#core'
import { takeBackOf, type TakingBack } from '../evaluation/told-turns.ts'
import { type RegistryDatabase, withRegistryTables } from '../tables.ts'

const rowsPerPage = 200

/** What the registry keeps of a user: a kind, the column of the user, and the columns that are told. */
const kinds = [
  [
    'registry_entities',
    'entity',
    'controller',
    'did',
    'did as id, type, status, version, properties',
  ],
  ['registry_protocols', 'protocol', 'controller', 'did', 'did as id, version, status'],
  [
    'registry_claims',
    'claim',
    'submitter',
    'id',
    'id, type, subject, properties, evidence, status',
  ],
  ['registry_subscriptions', 'subscription', 'owner', 'id', 'id, query, url, state, created_at'],
  ['registry_usage', 'quota', 'did', 'did', 'entities, protocols, edges, claims'],
] as const

/** The entities, protocols, claims and subscriptions of a user. */
export async function* exportRegistry(did: string, db: Database): AsyncGenerator<UserDataItem> {
  for (const [table, kind, owner, key, columns] of kinds)
    for (let last = ''; ;) {
      const { rows } = await sql<Record<string, unknown>>`select ${sql.ref(key)} as page_key,
        ${sql.raw(columns)} from ${sql.table(table)}
        where ${sql.ref(owner)} = ${did} and ${sql.ref(key)} > ${last}
        order by page_key limit ${sql.lit(rowsPerPage)}`.execute(db)
      for (const { page_key: _, ...row } of rows) yield { ...row, kind }
      last = String(rows.at(-1)?.page_key ?? '')
      if (rows.length < rowsPerPage) break
    }
}

/**
 * Deletes what only this user has to do with. An entity with a claim or a credential, a protocol that something uses and a
 * claim that was evaluated are the proofs of others: they stay, and the answer names them. What the agent was told of the
 * user in order to evaluate is taken back.
 */
export async function eraseRegistry(
  did: string,
  database: Database,
  takingBack: TakingBack,
): Promise<ErasedData> {
  const db = withRegistryTables(database)
  const told = await takeBackOf(did, db, takingBack)
  const claims = await run(
    db,
    sql`delete from registry_claims where submitter = ${did} and status = 'submitted' and credential is null
      or status = 'open' and (subject = ${did}
        or subject in (select did from registry_entities where controller = ${did})) returning id as did`,
  )
  await forgetChanges(db, 'claim', claims)
  // An evaluation that began meanwhile has noted its turn by now, or finds its claim gone.
  const late = await takeBackOf(did, db, takingBack)
  const entities = await run(
    db,
    sql`select did from registry_entities where controller = ${did}
      and not exists (select 1 from registry_claims where subject = registry_entities.did)
      and not exists (select 1 from registry_credentials where subject = registry_entities.did
        or oracle = registry_entities.did)`,
  )
  for (const entity of entities) await eraseEntity(db, entity)
  const protocols = await run(
    db,
    sql`select did from registry_protocols where controller = ${did}
      and not exists (select 1 from registry_entities where protocol = registry_protocols.did)
      and not exists (select 1 from registry_claims where protocol = registry_protocols.did)
      and not exists (select 1 from registry_extensions where extends = registry_protocols.did)`,
  )
  for (const protocol of protocols) await eraseProtocol(db, protocol)
  const subscriptions = await run(
    db,
    sql`delete from registry_subscriptions where owner = ${did} or reader = ${did}
      returning id as did`,
  )
  await run(db, sql`delete from registry_usage where did = ${did} returning did`)
  const kept = await leftOf(db, did)
  return {
    erased: {
      entity: entities.length,
      protocol: protocols.length,
      claim: claims.length,
      subscription: subscriptions.length,
      'evaluation-turn': told + late,
    },
    ...(kept.length > 0 && { kept }),
  }
}

async function run(db: RegistryDatabase, query: ReturnType<typeof sql>): Promise<string[]> {
  const { rows } = await query.execute(db)
  return rows.map((row) => String((row as { did?: unknown }).did)) // every query here names its column so
}

/** Deletes an entity with its edges, its history and its values in indexes. */
function eraseEntity(db: RegistryDatabase, entity: string): Promise<void> {
  return db.transaction().execute(async (trx) => {
    for (const table of ['registry_index_numbers', 'registry_index_texts'] as const)
      await sql`delete from ${sql.table(table)} where ordinal in
        (select ordinal from registry_entities where did = ${entity})`.execute(trx)
    await sql`delete from registry_edges where source = ${entity} or target = ${entity}`.execute(
      trx,
    )
    await sql`delete from registry_mints where entity = ${entity}`.execute(trx)
    await sql`delete from registry_entities where did = ${entity}`.execute(trx)
    await forgetChanges(trx, 'entity', [entity])
  })
}

/** Deletes a protocol with its versions and its history. */
function eraseProtocol(db: RegistryDatabase, protocol: string): Promise<void> {
  return db.transaction().execute(async (trx) => {
    for (const table of ['registry_extensions', 'registry_protocol_versions', 'registry_protocols'])
      await sql`delete from ${sql.table(table)} where did = ${protocol}`.execute(trx)
    await forgetChanges(trx, 'protocol', [protocol])
  })
}

/** The feed has gaps where something was erased; its readers go on after the last number that they have. */
async function forgetChanges(
  db: RegistryDatabase,
  kind: string,
  ids: readonly string[],
): Promise<void> {
  for (const id of ids)
    await sql`delete from registry_changes where kind = ${kind} and did = ${id}`.execute(db)
}

/** What stays, and still names the user. */
async function leftOf(db: RegistryDatabase, did: string): Promise<KeptData[]> {
  const proof = 'Claims and credentials of others rest on it.'
  const history = 'Who changed a thing that others share belongs to its history.'
  const queries = [
    ['entities', sql`select did from registry_entities where controller = ${did}`, proof],
    ['protocols', sql`select did from registry_protocols where controller = ${did}`, proof],
    ['claims', sql`select id as did from registry_claims where submitter = ${did}`, proof],
    [
      'edges that the user drew or confirmed',
      sql`select source as did from registry_edges where drawn_by = ${did} or confirmed_by = ${did}`,
      history,
    ],
    [
      'changes',
      sql`select did from registry_changes where actor = ${did} or controller = ${did}`,
      history,
    ],
  ] as const
  const kept: KeptData[] = []
  for (const [what, query, why] of queries) {
    const { rows } = await sql<{ count: number }>`select count(*) as count
      from (${query}) as one`.execute(db)
    const count = Number(rows[0]?.count ?? 0)
    if (count > 0) kept.push({ what: `${count} ${what}`, why })
  }
  return kept
}
