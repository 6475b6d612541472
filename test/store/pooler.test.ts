import { sql } from 'kysely'
import { expect, it, onTestFinished } from 'vitest'
import { definePlugin, type Log } from '#core'
import { testApp } from '#core/testing'
import { openStore, type StoreOptions } from '../../core/runtime/store/store.ts'
import { onPostgres } from '../support/each-database.ts'
import { behindPooler } from '../support/pooler.ts'

/** A log whose warnings a test reads. */
function heard() {
  const warnings: string[] = []
  const nothing = () => {}
  const warn = (...said: unknown[]) => void warnings.push(String(said.at(-1)))
  const log: Log = { debug: nothing, info: nothing, error: nothing, warn }
  return { log, warnings }
}

async function opened(databaseUrl: string, options: Partial<StoreOptions> = {}) {
  const { log, warnings } = heard()
  const store = await openStore({ databaseUrl, log, ...options })
  onTestFinished(() => store.close())
  return { store, warnings }
}

const limit = sql<{ ms: string }>`select current_setting('statement_timeout') as ms`

await behindPooler('a store behind a transaction pooler', (pooled) => {
  it('opens without the parameters that the pooler refuses, and one line says so', async () => {
    const { store, warnings } = await opened(pooled.pooledUrl)
    expect((await limit.execute(store.db)).rows).toEqual([{ ms: '0' }])
    expect(warnings.filter((line) => line.includes('refuses time limits'))).toHaveLength(1)
  })

  it('limits statements within transactions, whatever their kind, and leaves nothing at the pooler', async () => {
    const { store } = await opened(pooled.pooledUrl)
    const within = (trx: typeof store.db) => limit.execute(trx)
    const plain = await store.db.transaction().execute(within)
    const isolated = await store.db.transaction().setIsolationLevel('serializable').execute(within)
    expect([plain.rows, isolated.rows]).toEqual([[{ ms: '30s' }], [{ ms: '30s' }]])
    const streamed: unknown[] = []
    for await (const row of store.db.getExecutor().stream(limit.compile(store.db), 10))
      streamed.push(...row.rows)
    expect(streamed).toEqual([{ ms: '30s' }])
    expect((await limit.execute(store.db)).rows).toEqual([{ ms: '0' }])
  })

  it('keeps the limits that stand in the address', async () => {
    const { store } = await opened(`${pooled.pooledUrl}?statement_timeout=7000`)
    const { rows } = await store.db.transaction().execute((trx) => limit.execute(trx))
    expect(rows).toEqual([{ ms: '7s' }])
  })

  it('ends a statement that runs too long by itself', async () => {
    const { store } = await opened(`${pooled.pooledUrl}?statement_timeout=50`)
    const slow = store.db.transaction().execute((trx) => sql`select pg_sleep(60)`.execute(trx))
    await expect(slow).rejects.toMatchObject({ code: '57014' })
  })

  it('runs migrations, each once, when several servers boot at the same time', async () => {
    const stores = await Promise.all([1, 2, 3].map(() => opened(pooled.pooledUrl)))
    const ran = await Promise.all(
      stores.map(({ store }) =>
        store.migrate('pooled', {
          '001': (db) => db.schema.createTable('pooled_once').addColumn('n', 'integer').execute(),
        }),
      ),
    )
    expect(ran.flat()).toEqual(['001'])
  })
})

await onPostgres('a full pool', ({ databaseUrl }) => {
  it('has DATABASE_POOL connections', async () => {
    const { store } = await opened(databaseUrl!, { poolSize: 3 })
    const name = sql<{ pid: number }>`select pg_backend_pid() as pid, pg_sleep(0.05)`
    const asked = await Promise.all(Array.from({ length: 30 }, () => name.execute(store.db)))
    expect(new Set(asked.map(({ rows }) => rows[0]?.pid)).size).toBe(3)
  })

  it('keeps nobody out for the length of its line, as long as that moves', async () => {
    const { store } = await opened(databaseUrl!, { poolSize: 2 })
    // The last of these waits for longer than a line may stand still.
    const asked = Array.from({ length: 16 }, () => sql`select pg_sleep(1)`.execute(store.db))
    expect((await Promise.allSettled(asked)).filter(({ status }) => status === 'rejected')).toEqual(
      [],
    )
    expect((await sql<{ n: number }>`select 1 as n`.execute(store.db)).rows).toEqual([{ n: 1 }])
  })

  it('is told to operators; users read that the server is busy, and when to come again', async () => {
    const app = await testApp({
      plugins: [
        definePlugin({
          name: 'hoarder',
          summary: 'Keeps connections to itself.',
          routes: {
            'GET /stuck': {
              auth: 'public',
              // A transaction that waits for a connection outside of itself, of which there is only this one.
              run: (_, { db }) =>
                db.transaction().execute(async () => {
                  await sql`select 1`.execute(db)
                  return {}
                }),
            },
          },
        }),
      ],
      env: { DATABASE_URL: databaseUrl!, DATABASE_POOL: '1' },
    })
    onTestFinished(() => app.close())
    const answer = await fetch(`${app.url}/stuck`)
    expect(answer.status).toBe(503)
    expect(answer.headers.get('retry-after')).toBe('1')
    const text = await answer.text()
    expect(JSON.parse(text)).toMatchObject({ message: 'Busy, try again' })
    expect(text).not.toMatch(/connection|transaction|pool/i)
  })
})
