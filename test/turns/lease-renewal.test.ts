import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { scriptedModel, testApp } from '#core/testing'
import { onPostgres } from '../support/each-database.ts'

const patient = { timeout: 20_000, interval: 50 }

await onPostgres('the renewal of leases', ({ databaseUrl = '' }) => {
  test('waits for no write that holds one of its runs, renews the others and keeps them all', async () => {
    const client = new pg.Client(databaseUrl)
    await client.connect()
    onTestFinished(() => client.end())
    const going = Promise.withResolvers<string>()
    const app = await testApp({
      plugins: [],
      model: scriptedModel([() => going.promise, () => going.promise]),
      // On a busy machine a shorter lease ends before its time, and the process takes up its own run.
      env: { DATABASE_URL: databaseUrl, RUN_LEASE_MS: '12000' },
    })
    onTestFinished(() => app.close())
    const users = await Promise.all([app.user(), app.user()])
    const turns = users.map((user) => user.say('Hello'))
    const leases = async () => {
      const { rows } = await client.query<{ id: string; until: string }>(
        `select id, lease_until as until from kernel_runs where status = 'running' order by id`,
      )
      return rows.map(({ id, until }) => ({ id, until: Number(until) }))
    }
    await expect.poll(async () => (await leases()).length, patient).toBe(2)
    // As a write does that then wants another of these rows.
    await client.query('begin')
    const { rows } = await client.query(`select id, lease_until as until from kernel_runs
      order by id limit 1 for no key update`)
    const [held] = rows
    const renewed = async (n: number, than: number) => ((await leases())[n]?.until ?? 0) > than
    const before = (await leases())[1]?.until ?? Infinity
    await expect.poll(() => renewed(1, before), patient).toBe(true)
    expect((await leases())[0]).toEqual({ id: held.id, until: Number(held.until) })
    await client.query('commit')
    await expect.poll(() => renewed(0, Number(held.until)), patient).toBe(true)
    going.resolve('Yes.')
    expect((await Promise.all(turns)).map(({ status }) => status)).toEqual(['finished', 'finished'])
    expect(app.log.filter((line) => line.includes('could not be renewed'))).toEqual([])
  })
})
