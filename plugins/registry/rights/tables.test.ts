import { afterAll, expect, it } from 'vitest'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import {
  postgresDatabase,
  sqliteDatabase,
  type TestDatabase,
} from '../../../test/support/databases.ts'
import { createClaims } from '../claims/tables.ts'
import { createEntities, createProtocols, withRegistryTables, type ChangeRow } from '../tables.ts'
import { createRights } from './tables.ts'

const older = {
  '001-entities': createEntities,
  '002-protocols': createProtocols,
  '003-claims': createClaims,
}

await onEachDatabase('a registry from before edges had owners', (where) => {
  let database: TestDatabase | undefined
  afterAll(() => database?.drop())

  it('knows who drew an edge where one party alone changed its source, and what each DID made', async () => {
    database = await (where.databaseUrl ? postgresDatabase(where.databaseUrl) : sqliteDatabase())
    const store = await database.open()
    await store.migrate('registry', older)
    const db = withRegistryTables(store.db)
    const change = (seq: number, did: string, actor: string, action = 'created'): ChangeRow => ({
      seq,
      did,
      actor,
      action,
      kind: 'entity',
      version: seq,
      type: 'Thing',
      at: '2026-01-01T00:00:00Z',
      about: null,
      controller: null,
      protocol: null,
      protocol_version: null,
      properties: null,
      details: null,
    })
    await db
      .insertInto('registry_changes')
      .values([
        change(1, 'did:a:operator', 'key:default'),
        change(2, 'did:a:owner', 'did:key:owner'),
        change(3, 'did:a:both', 'did:key:owner'),
        change(4, 'did:a:both', 'key:default', 'related'),
        change(5, 'did:a:owner', 'did:key:owner', 'related'),
      ])
      .execute()
    for (const source of ['did:a:operator', 'did:a:owner', 'did:a:both'])
      await store.db
        .withTables<{ registry_edges: Record<string, unknown> }>()
        .insertInto('registry_edges')
        .values({ source, role: 'verifier', target: 'did:a:oracle', position: 0 })
        .execute()

    expect(await store.migrate('registry', { ...older, '004-rights': createRights })).toEqual([
      '004-rights',
    ])
    const edges = await db
      .selectFrom('registry_edges')
      .select(['source', 'drawn_by', 'by_operator', 'confirmed_by'])
      .orderBy('source')
      .execute()
    expect(edges).toEqual([
      { source: 'did:a:both', drawn_by: null, by_operator: 0, confirmed_by: null },
      { source: 'did:a:operator', drawn_by: 'key:default', by_operator: 1, confirmed_by: null },
      { source: 'did:a:owner', drawn_by: 'did:key:owner', by_operator: 0, confirmed_by: null },
    ])
    expect(await db.selectFrom('registry_usage').selectAll().execute()).toEqual([
      { did: 'did:key:owner', entities: 2, protocols: 0, edges: 1, claims: 0 },
    ])
  })
})
