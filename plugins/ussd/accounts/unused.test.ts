import { sql } from 'kysely'
import { afterEach, beforeEach, expect, it, onTestFinished, vi } from 'vitest'
import { type Database, definePlugin } from '#core'
import { testApp, type TestApp } from '#core/testing'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import ussd from '../index.ts'
import { Phone } from '../phone.ts'

const env = {
  USSD_RATE_LIMIT_PER_MINUTE: '1000000',
  USSD_REPLY_BUDGET_MS: '15000',
  // The sweep comes once a second.
  USSD_SESSION_TTL_SECONDS: '1',
  PIN_ENCRYPTION_KEY: 'ab'.repeat(32),
}
const dayMs = 24 * 60 * 60_000
const pin = '48213'

beforeEach(() => void vi.useFakeTimers({ toFake: ['Date'], now: Date.now() }))
afterEach(() => void vi.useRealTimers())
const passDays = (days: number) => vi.setSystemTime(Date.now() + days * dayMs)

await onEachDatabase('what nobody uses at a phone', ({ databaseUrl }) => {
  async function start() {
    let db: Database | undefined
    const insider = definePlugin({
      name: 'insider',
      summary: 'Has the connection.',
      visibility: 'silent',
      setup: (boot) => void (db = boot.db),
    })
    const database = databaseUrl ? { DATABASE_URL: databaseUrl } : {}
    const app = await testApp({ plugins: [ussd, insider], env: { ...env, ...database } })
    onTestFinished(() => app.close())
    const listed = async (table: string, column: string) => {
      const { rows } = await sql<{
        value: string
      }>`select ${sql.ref(column)} as value from ${sql.table(table)}`.execute(db!)
      return rows.map(({ value }) => value).toSorted()
    }
    const phones = () => listed('ussd_phones', 'phone')
    const accounts = () => listed('ussd_accounts', 'customer_id')
    return { app, phones, accounts }
  }
  const phoneOf = (app: TestApp, number: string) =>
    new Phone(number, async (request) => (await app.post('/api/ussd', request)).body)
  const soon = { timeout: 10_000, interval: 200 }

  it('leaves after a year: the language of a phone and the name under which it asked', async () => {
    const { app, phones } = await start()
    const [dialling, silent, asking] = ['+254700000001', '+254700000002', '+254700000003']
    for (const number of [dialling, silent]) {
      const phone = phoneOf(app, number)
      await phone.dial()
      expect(await phone.type('2', '3', '3')).toMatch(/en francais/)
    }
    const asks = phoneOf(app, asking)
    await asks.dial()
    await asks.type('3')
    expect(await phones()).toEqual([dialling, silent, asking])
    passDays(300)
    // A dial is use enough: nothing of the language is changed.
    expect(await phoneOf(app, dialling).dial()).toMatch(/Bienvenue/)
    await asks.dial()
    await asks.type('3')
    passDays(66)
    await expect.poll(phones, soon).toEqual([dialling, asking])
    expect(await phoneOf(app, dialling).dial()).toMatch(/Bienvenue/)
    expect(await phoneOf(app, silent).dial()).toMatch(/Welcome/)
    passDays(364)
    expect(await phoneOf(app, dialling).dial()).toMatch(/Bienvenue/)
    await expect.poll(phones, soon).toEqual([dialling])
  }, 40_000)

  it('leaves after two years: an account that nobody logged in to', async () => {
    const { app, accounts } = await start()
    const owner = phoneOf(app, '+254700000004')
    const create = async () => {
      await owner.dial()
      const answer = await owner.type('2', '1', 'Amina Wanjiru', '1', pin, pin)
      return /customer number is (\d{9})/.exec(answer)?.[1] ?? answer
    }
    const logIn = async (customerId: string, digits = pin) => {
      await owner.dial()
      return owner.type('2', '2', customerId, digits)
    }
    const [used, unused] = [await create(), await create()]
    expect(await accounts()).toEqual([used, unused].toSorted())
    passDays(700)
    expect(await logIn(used)).toMatch(/^CON Welcome back/)
    // Guessing at an account does not keep it.
    expect(await logIn(unused, '55667')).toMatch(/^CON The customer number or the PIN is wrong/)
    passDays(31)
    await expect.poll(accounts, soon).toEqual([used])
    expect(await logIn(unused)).toMatch(/^CON The customer number or the PIN is wrong/)
    passDays(700)
    expect(await logIn(used)).toMatch(/^CON Welcome back/)
  }, 40_000)
})
