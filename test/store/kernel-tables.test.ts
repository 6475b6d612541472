import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { describe, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { type AppOptions, definePlugin } from '#core'
import { testApp, type TestApp, type TestUser } from '#core/testing'
import { freshDatabase } from '../support/database.ts'
import { describeWith } from '../support/services.ts'
import { storeOf } from '../support/store-of.ts'

const older = ['delegations', 'revocations', 'used_tokens', 'room_state']

/** What a user keeps in the room with the oracle. */
const palette = definePlugin({
  name: 'palette',
  summary: 'Remembers a colour.',
  state: { colour: z.string().default('none').meta({ scope: 'room' }) },
  routes: {
    'PUT /colour': {
      input: z.object({ colour: z.string() }),
      run: ({ colour }: { colour: string }, { state }) => {
        state.colour = colour
        return { colour }
      },
    },
    'GET /colour': { run: (_, { state }) => ({ colour: state.colour }) },
  },
})

/** A plugin that takes every name the kernel once had. */
const neighbour = definePlugin({
  name: 'neighbour',
  summary: 'Has tables of plain names.',
  migrations: {
    '001-tables': async (db) => {
      for (const table of older)
        await db.schema
          .createTable(table)
          .addColumn('id', 'integer', (column) => column.notNull())
          .addPrimaryKeyConstraint(`${table}_pk`, ['id'])
          .execute()
    },
  },
})

interface Where {
  readonly env: Readonly<Record<string, string>>
  /** The database without a server. */
  open(): ReturnType<typeof storeOf>
}

async function inFolder(): Promise<Where> {
  const folder = mkdtempSync(join(tmpdir(), 'kernel-tables-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return {
    env: { DATA_DIR: folder },
    open: () => storeOf(folder, {}),
  }
}

async function onServer(postgres: string): Promise<Where> {
  const own = await freshDatabase(postgres)
  onTestFinished(own.drop)
  return {
    env: { DATABASE_URL: own.url },
    open: () => storeOf('', { databaseUrl: own.url }),
  }
}

const serve = ({ env }: Where, plugins: AppOptions['plugins'] = [palette]) =>
  testApp({ plugins, env: { ...env, ORACLE_MNEMONIC: 'words of both versions' } })

/** Hands in a delegation of the user, and answers it. */
async function delegate(app: TestApp, user: TestUser): Promise<string> {
  const { text } = await user.wallet.delegate({
    audience: app.oracleDid,
    nonce: randomUUID(), // two of one second would otherwise be one and the same
    capabilities: [{ can: 'palette/*', with: user.did }],
  })
  expect((await user.post('/delegation', { raw: text })).status).toBe(200)
  return text
}

/** Leaves the database as the version before the renaming left it. */
async function asBefore(where: Where): Promise<void> {
  const store = await where.open()
  for (const table of older)
    await sql`alter table ${sql.ref(`kernel_${table}`)} rename to ${sql.ref(table)}`.execute(
      store.db,
    )
  if (store.kind === 'postgres')
    for (const key of ['delegations_pk', 'revocations_pkey', 'used_tokens_pkey', 'room_state_pk'])
      await sql`alter index ${sql.ref(`kernel_${key}`)} rename to ${sql.ref(key)}`.execute(store.db)
  // Later migrations make these.
  for (const table of [
    'kernel_grants',
    'kernel_jobs',
    'kernel_notices',
    'kernel_erasures',
    'kernel_leases',
    'kernel_storage_days',
    'kernel_keys',
    'kernel_notice_users',
    'kernel_notice_mutes',
  ])
    await sql`drop table ${sql.ref(table)}`.execute(store.db)
  await sql`delete from kernel_migrations where name >= '003-kernel-names'`.execute(store.db)
  await store.close()
}

async function tablesOf(where: Where): Promise<string[]> {
  const store = await where.open()
  const tables = await store.db.introspection.getTables()
  await store.close()
  return tables.map(({ name }) => name)
}

function suite(make: () => Promise<Where>, replicas: number) {
  test('a database of the version before keeps delegations, revocations and room state', async () => {
    const where = await make()
    const before = await serve(where)
    const keeper = await before.user('keeper')
    const leaver = await before.user('leaver')
    await delegate(before, keeper)
    const revoked = await delegate(before, leaver)
    expect((await leaver.delete('/delegation')).status).toBe(200)
    await keeper.put('/colour', { colour: 'green' })
    await before.close()
    await asBefore(where)
    expect(await tablesOf(where)).toEqual(expect.arrayContaining(older))

    const apps = await Promise.all(Array.from({ length: replicas }, () => serve(where)))
    for (const app of apps) {
      const again = await app.user('keeper')
      expect((await again.get('/delegation')).body).toMatchObject({ authorized: true })
      expect((await again.get('/colour')).body).toEqual({ colour: 'green' })
      const left = await app.user('leaver')
      expect((await left.get('/delegation')).body).toEqual({ authorized: false })
      const refused = await left.post('/delegation', { raw: revoked })
      expect(refused).toMatchObject({ status: 400, body: { code: 'BAD_REQUEST' } })
    }
    const [app] = apps
    if (app) await delegate(app, await app.user('leaver')) // a new one is taken: the old one is what is refused
    for (const app of apps) await app.close()
    const tables = await tablesOf(where)
    expect(tables).toEqual(expect.arrayContaining(older.map((table) => `kernel_${table}`)))
    for (const table of older) expect(tables).not.toContain(table)
  })

  test('a plugin may have tables of the old names, on a new database and on an old one', async () => {
    const fresh = await make()
    await (await serve(fresh, [palette, neighbour])).close()
    const old = await make()
    await (await serve(old)).close()
    await asBefore(old)
    for (const where of [old, fresh]) {
      await using app = await serve(where, [palette, neighbour])
      const user = await app.user('a painter')
      expect((await user.put('/colour', { colour: 'blue' })).status).toBe(200)
      expect((await user.get('/colour')).body).toEqual({ colour: 'blue' })
    }
  })

  test('tables of the old names that somebody else had first are left alone', async () => {
    const where = await make()
    const store = await where.open()
    for (const table of older) {
      await sql`create table ${sql.ref(table)} (kept integer)`.execute(store.db)
      await sql`insert into ${sql.ref(table)} values (7)`.execute(store.db)
    }
    await store.close()
    await (await serve(where)).close()
    const after = await where.open()
    for (const table of older)
      expect((await sql`select kept from ${sql.ref(table)}`.execute(after.db)).rows).toEqual([
        { kept: 7 },
      ])
    await after.close()
  })
}

describe('the kernel’s tables on SQLite', () => suite(inFolder, 1))
await describeWith('postgres', 'the kernel’s tables on PostgreSQL', (postgres) =>
  suite(() => onServer(postgres), 3),
)
