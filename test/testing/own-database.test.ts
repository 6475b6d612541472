import { afterEach, expect, it, vi } from 'vitest'
import pg from 'pg'
import { sql } from 'kysely'
import { definePlugin } from '#core'
import { testApp } from '#core/testing'
import { describeWith } from '../support/services.ts'

const which = definePlugin({
  name: 'which',
  summary: 'Names the database.',
  routes: {
    'GET /database': {
      auth: 'public',
      async run(_, { db }) {
        const { rows } = await sql<{ name: string }>`select current_database() as name`.execute(db)
        return { name: rows[0]?.name }
      },
    },
  },
})

afterEach(() => vi.unstubAllEnvs())

await describeWith('postgres', 'an app with a database of its own', (url) => {
  const exists = async (name: string) => {
    const client = new pg.Client(url)
    await client.connect()
    const { rows } = await client.query('select 1 from pg_database where datname = $1', [name])
    await client.end()
    return rows.length > 0
  }

  it('drops the database when it is closed, also after a crash', async () => {
    const app = await testApp({ plugins: [which], database: 'postgres' })
    const { name } = (await app.get('/database')).body
    expect(name).toMatch(/^oracle_test_[0-9a-f]{12}$/)
    expect(await exists(name)).toBe(true)
    await app.crash()
    await app.close()
    expect(await exists(name)).toBe(false)
  })

  it('drops the database of an app that does not boot', async () => {
    const seen: string[] = []
    const broken = definePlugin({
      name: 'broken',
      summary: 'Does not start.',
      async setup({ db }) {
        const { rows } = await sql<{ name: string }>`select current_database() as name`.execute(db)
        seen.push(rows[0]?.name ?? '')
        throw new Error('not today')
      },
    })
    await expect(testApp({ plugins: [broken], database: 'postgres' })).rejects.toThrow()
    expect(seen).toHaveLength(1)
    expect(await exists(seen[0] ?? '')).toBe(false)
  })
})

it('says what to do when no server answers, without the password', async () => {
  vi.stubEnv('TEST_DATABASE_URL', 'postgres://someone:hush@127.0.0.1:1/test')
  const failed = testApp({ plugins: [], database: 'postgres' })
  await expect(failed).rejects.toThrow(/127\.0\.0\.1:1\/test.*TEST_DATABASE_URL/)
  await expect(failed).rejects.not.toThrow(/hush/)
})
