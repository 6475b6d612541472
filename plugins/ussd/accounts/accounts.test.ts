import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { testApp, type TestApp } from '#core/testing'
import { freshDatabase } from '../../../test/support/database.ts'
import { describeWith } from '../../../test/support/services.ts'
import { newCustomerId } from './accounts.ts'
import ussd from '../index.ts'
import { Phone } from '../phone.ts'
import { Pins, readKey } from './pins.ts'

const key = 'ab'.repeat(32)
const env = {
  USSD_RATE_LIMIT_PER_MINUTE: '1000000',
  USSD_REPLY_BUDGET_MS: '15000',
  PIN_ENCRYPTION_KEY: key,
  LOG_LEVEL: 'debug',
}
const phoneOf = (app: TestApp, number = '+254711000111') =>
  new Phone(number, async (request) => (await app.post('/api/ussd', request)).body)

async function starting(extra: Record<string, string>) {
  const app = await testApp({ plugins: [ussd], env: { ...env, ...extra } })
  onTestFinished(() => app.close())
  return app
}

async function create(phone: Phone, pin: string): Promise<string> {
  await phone.dial()
  const answer = await phone.type('2', '1', 'Amina Wanjiru', 'amina@example.org', pin, pin)
  return /customer number is (\d{9})/.exec(answer)?.[1] ?? answer
}

async function logIn(phone: Phone, customerId: string, pin: string): Promise<string> {
  await phone.dial()
  return phone.type('2', '2', customerId, pin)
}

const suite = (database: () => Promise<Record<string, string>>) => {
  it('is created, logged in to, and shows its balance', async () => {
    const app = await starting(await database())
    const phone = phoneOf(app)
    await phone.dial()
    expect(await phone.type('2', '4')).toMatch(/^CON Please log in first/)
    const customerId = await create(phone, '48213')
    expect((await app.get(`/api/ussd/debug/${phone.sessionId}`)).body.debugInfo).toMatchObject({
      state: 'account.created',
      context: { isAuthenticated: true },
    })
    expect(await logIn(phone, customerId, '48213')).toMatch(/^CON Welcome back, Amina Wanjiru\./)
    expect(await phone.type('1')).toContain(`Customer ${customerId}: 1,250.00`)
  })

  it('takes no weak PIN, no e-mail that is none, and no two PINs that differ', async () => {
    const phone = phoneOf(await starting(await database()))
    await phone.dial()
    expect(await phone.type('2', '1', 'A')).toMatch(/^CON A name has/)
    expect(await phone.type('Amina', 'nobody')).toMatch(/^CON That is no e-mail/)
    expect(await phone.type('1')).toMatch(/^CON Choose a PIN/)
    const refused: [string, RegExp][] = [
      ['11111', /all digits are the same/],
      ['23456', /in a row/],
      ['98765', /in a row/],
      ['00111', /your number ends/],
      ['1234', /is 5 digits/],
      ['４８２１３', /is 5 digits/],
      ['48a13', /is 5 digits/],
    ]
    for (const [pin, reason] of refused) expect(await phone.type(pin)).toMatch(reason)
    expect(await phone.type('48213', '48214')).toMatch(/^CON The two PINs differ/)
    expect(await phone.type('48213')).toMatch(/^CON Your account is ready/)
  })

  it('answers an unknown customer like a wrong PIN', async () => {
    const phone = phoneOf(await starting(await database()))
    expect(await logIn(phone, '123456789', '48213')).toMatch(/^CON The customer number or the PIN/)
  })

  it('speaks the language that was chosen, in later calls too', async () => {
    const app = await starting(await database())
    const phone = phoneOf(app)
    await phone.dial()
    expect(await phone.type('2', '3', '2')).toMatch(/^CON Kuanzia sasa/)
    expect(await phone.dial()).toMatch(/^CON Karibu/)
    expect(await phone.type('2', '3', '3', '0', '0')).toMatch(/^CON Votre compte/)
    expect(await phone.dial()).toMatch(/^CON Bienvenue/)
    expect(await phoneOf(app, '+254700000001').dial()).toMatch(/^CON Welcome/)
  })
}

describe('an account on SQLite', () => suite(async () => ({})))
await describeWith('postgres', 'an account on PostgreSQL', (url) =>
  suite(async () => {
    const database = await freshDatabase(url)
    onTestFinished(database.drop)
    return { DATABASE_URL: database.url }
  }),
)

describe('a PIN', () => {
  it('never looks like another, opens only for its owner, and moves to a new key when it is used', async () => {
    const [former, present] = [randomBytes(32), randomBytes(32)]
    const before = new Pins(former)
    const [one, two] = [await before.seal('48213', '1'), await before.seal('48213', '1')]
    expect(one).not.toBe(two)
    expect(await before.verify('48213', one, '1')).toEqual({ right: true })
    expect(await before.verify('48214', one, '1')).toEqual({ right: false })
    await expect(before.verify('48213', one, '2')).rejects.toThrow()
    await expect(new Pins(present).verify('48213', one, '1')).rejects.toThrow(/key .* not loaded/)

    const after = new Pins(present, former)
    const { right, resealed = '' } = await after.verify('48213', one, '1')
    expect(right).toBe(true)
    expect(await new Pins(present).verify('48213', resealed, '1')).toEqual({ right: true })
    // A server that has the next key as its second key can open PINs that other servers seal with the next key.
    const prepared = await new Pins(former, present).verify('48213', resealed, '1')
    expect(prepared.right).toBe(true)
    const broken = `${resealed.slice(0, -2)}${resealed.endsWith('AA') ? 'BB' : 'AA'}`
    await expect(new Pins(present).verify('48213', broken, '1')).rejects.toThrow()
  })

  it('takes keys as hex, as base64 and as a passphrase', () => {
    const bytes = randomBytes(32)
    expect(readKey(bytes.toString('hex'))).toEqual(bytes)
    expect(readKey(bytes.toString('base64'))).toEqual(bytes)
    expect(readKey('a passphrase of more than 32 characters')).toHaveLength(32)
  })

  it('goes over to a new key by a restart, while the former is still given', async () => {
    const DATA_DIR = mkdtempSync(join(tmpdir(), 'oracle-ussd-'))
    onTestFinished(() => rmSync(DATA_DIR, { recursive: true, force: true }))
    const before = await starting({ DATA_DIR })
    const customerId = await create(phoneOf(before), '48213')
    await before.close()
    const next = 'cd'.repeat(32)
    const between = await starting({
      DATA_DIR,
      PIN_ENCRYPTION_KEY: next,
      PIN_ENCRYPTION_KEY_PREVIOUS: key,
    })
    expect(await logIn(phoneOf(between), customerId, '48213')).toMatch(/^CON Welcome back/)
    await between.close()
    const after = await starting({ DATA_DIR, PIN_ENCRYPTION_KEY: next })
    expect(await logIn(phoneOf(after), customerId, '48213')).toMatch(/^CON Welcome back/)
  })
})

it('a customer number is nine digits that a phone can type', () => {
  for (let tries = 0; tries < 100; tries++) expect(newCustomerId()).toMatch(/^[1-9]\d{8}$/)
})
