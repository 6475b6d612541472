import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { definePlugin, RuntimeError } from '#core'
import { scriptedModel, testApp } from '#core/testing'
import payments from './index.ts'
import { paidApp, pay, session, settledAccount } from '../../test/support/paid-app.ts'

const boot = async (env: Record<string, string>) => {
  const app = await testApp({
    plugins: [payments],
    model: scriptedModel(['Yes.']),
    env: { NODE_ENV: 'test', ...env },
  })
  onTestFinished(() => app.close())
  return app
}

describe('a boot with variables that do not fit', () => {
  let folder = ''
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'terms-'))
    const files: Record<string, unknown> = {
      negative: { tools: { ring: '-1' } },
      number: { tools: { ring: 5 } },
      stars: { tokens: [{ model: 'a*b*', input: '1', output: '1' }] },
      unknown: { tool: {} },
      ring: { tools: { ring: '500' } },
    }
    for (const [name, content] of Object.entries(files))
      writeFileSync(join(folder, `${name}.json`), JSON.stringify(content))
    writeFileSync(join(folder, 'broken.json'), '{')
  })
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  test.each(['-1', '1.5', '1e3', '01', '9007199254740993', 'free'])(
    'a price of %s stops it, and names the variable',
    async (price) => {
      await expect(boot({ PAYMENTS_TURN_PRICE: price })).rejects.toThrow(/PAYMENTS_TURN_PRICE/)
    },
  )

  test.each([
    ['nowhere', /PAYMENTS_PRICES.*there is no file/],
    ['broken', /PAYMENTS_PRICES.*not JSON/],
    ['negative', /PAYMENTS_PRICES.*"tools.ring" is wrong/],
    ['number', /PAYMENTS_PRICES.*"tools.ring" is wrong/],
    ['stars', /PAYMENTS_PRICES.*"tokens.0.model" is wrong/],
    ['unknown', /PAYMENTS_PRICES/],
    ['ring', /PAYMENTS_MAX_PER_TURN is unset/],
  ])('a file of prices that is %s', async (name, sentence) => {
    const PAYMENTS_PRICES = join(folder, `${name}.json`)
    await expect(boot({ PAYMENTS_PRICES })).rejects.toThrow(sentence)
  })

  test('a most below the turn price', async () => {
    await expect(boot({ PAYMENTS_TURN_PRICE: '10', PAYMENTS_MAX_PER_TURN: '9' })).rejects.toThrow(
      /PAYMENTS_MAX_PER_TURN is 9, less than PAYMENTS_TURN_PRICE/,
    )
  })

  test('an advance below the most that a turn costs', async () => {
    const env = { PAYMENTS_TURN_PRICE: '10', PAYMENTS_ADVANCE: '9' }
    await expect(boot(env)).rejects.toThrow(
      /PAYMENTS_ADVANCE is 9, less than the most that a turn costs, which is 10/,
    )
  })

  test('in production a price that nobody can pay: without this plugin every turn would be free', async () => {
    const env = {
      NODE_ENV: 'production',
      ORACLE_MNEMONIC: 'words',
      API_KEY: 'key',
      OPERATOR_TOKEN: 'token',
      PAYMENTS_TURN_PRICE: '10',
    }
    await expect(boot(env)).rejects.toThrow(/no way to pay: PAYMENTS_LEDGER is unset/)
    await expect(boot({ ...env, PAYMENTS_LEDGER: '127.0.0.1:1' })).rejects.toThrow(
      /PAYMENTS_ADDRESS is unset/,
    )
    await expect(
      boot({ ...env, PAYMENTS_LEDGER: '127.0.0.1:1', PAYMENTS_ADDRESS: 'dev1nobody' }),
    ).rejects.toThrow(/PAYMENTS_ADDRESS is "dev1nobody", which is no address/)
  })
})

test('without a price turns are free, nothing is recorded, and the document names no price', async () => {
  const app = await boot({})
  const user = await app.user()
  await user.say('Hello')
  expect((await user.get('/payments/charges')).body.charges).toEqual([])
  const facts = (await app.get('/.well-known/oracle.json')).body
  expect(facts).toMatchObject({ price: null, payments: { denom: 'udev', chainId: 'dev-1' } })
})

test('the document says that payments are taken while nobody knows yet who is paid', async () => {
  // Who is paid on the development ledger stands in the database, which somebody keeps.
  let letGo = () => {}
  const keeper = definePlugin({
    name: 'keeper',
    summary: 'Keeps the database.',
    routes: {
      'GET /keep': {
        auth: 'public',
        run: (_, { db }) =>
          new Promise((resolve, reject) => {
            const kept = async () => {
              const held = new Promise<void>((done) => (letGo = done))
              resolve({})
              await held
            }
            db.transaction().execute(kept).catch(reject)
          }),
      },
    },
  })
  const app = await paidApp({ plugins: [payments, keeper] })
  expect((await app.get('/keep')).status).toBe(200)
  const told = async () => (await app.get('/.well-known/oracle.json')).body.payments
  const early = await told()
  letGo()
  expect(early).toMatchObject({ denom: 'udev', methods: ['transfer', 'development'] })
  expect(early).not.toHaveProperty('address')
  await expect.poll(told).toMatchObject({ ...early, address: expect.stringMatching(/^dev1/) })
})

test('the price stands in the terms, the card, the fee and the document of the oracle', async () => {
  const app = await paidApp()
  const authConfig = (await app.get('/payments/authz.json')).body
  const facts = (await app.get('/.well-known/oracle.json')).body
  expect(facts.payments.authConfig).toEqual(authConfig)
  expect(facts).toMatchObject({ price: '0.005 DEV a turn', payments: { denom: 'udev' } })
  const terms = await app.get('/payments/terms')
  expect(terms.body).toMatchObject({
    prices: { turn: '5000' },
    maximum: '5000',
    symbol: 'DEV',
    methods: [{ name: 'transfer', address: facts.payments.address }],
  })
  const etag = terms.headers.get('etag') ?? ''
  const again = await app.get('/payments/terms', { headers: { 'if-none-match': etag } })
  expect(again.status).toBe(304)
  // The published chain client takes these two as they stand here, and no other way.
  const card = await app.get('/payments/card')
  expect(card.body).toEqual({
    credentialSubject: {
      id: app.oracleDid,
      name: app.oracleDid,
      services: [
        {
          id: 'turn',
          name: 'A turn',
          price: { amount: 0.005, currency: 'DEV' },
          deliverables: 'An answer',
        },
      ],
    },
  })
  const revision = { 'if-none-match': card.headers.get('etag') ?? '' }
  expect((await app.get('/payments/card', { headers: revision })).status).toBe(304)
  expect((await app.get('/payments/fee.json')).body.offers).toEqual({
    priceSpecification: { price: '5000', priceCurrency: 'udev' },
  })
})

test.each(['-1', '1.5', '1e3', '01', '', '9007199254740993', 7, '0'])(
  'an advance of %j is 400',
  async (advance) => {
    const app = await paidApp()
    const user = await app.user()
    const refused = await user.post('/payments/claims', { advance })
    expect(refused.status).toBe(400)
    expect(JSON.stringify(refused.body.details)).toContain('advance')
  },
)

test('ids that are none, too many, or of nothing', async () => {
  const app = await paidApp()
  const user = await app.user()
  const { address } = (await user.get('/payments/development/account')).body
  const prepare = (claims: unknown) => user.post('/payments/prepare', { address, claims })
  const id = '4b0b3c2e-1111-4111-8111-111111111111'
  expect((await prepare(['x'])).status).toBe(404)
  expect((await prepare(['x'.repeat(101)])).status).toBe(400)
  expect((await prepare(Array(101).fill(id))).status).toBe(400)
  expect((await prepare([id])).status).toBe(404)
  expect((await user.post('/payments/prepare', { address })).status).toBe(409)
  const { claim } = (await user.post('/payments/claims', { advance: '5' })).body
  const twice = (await prepare([claim.id, claim.id])).body
  expect(twice).toMatchObject({ amount: '5' })
  expect((await prepare([claim.id])).body.paymentId).toBe(twice.paymentId)
})

test('no words, keys or signatures stand in a log line, an answer of payments or a memo', async () => {
  const sentence = 'the heron waits in the reeds at dawn'
  const app = await paidApp({ steps: [`I heard: ${sentence}`], env: { LOG_LEVEL: 'trace' } })
  const user = await app.user()
  const sessionId = await session(user)
  const say = () => user.post(`/messages/${sessionId}`, { message: sentence, stream: false })
  while ((await say()).status === 200) await settledAccount(user)
  const paid = await pay(user)
  expect(paid.settled?.status).toBe(200)
  const told = await Promise.all(
    ['account', 'claims', 'charges', 'terms'].map((name) => user.get(`/payments/${name}`)),
  )
  const all = JSON.stringify([told.map(({ body }) => body), app.log, paid.prepared.body.memo])
  expect(all).not.toContain('heron')
  expect(JSON.stringify([paid.prepared.body.memo])).not.toContain(user.did)
  expect(paid.prepared.body.memo).not.toContain(sessionId)
})

test('two owners of the gate refuse each alone, and neither charges for what the other refused', async () => {
  let isOpen = false
  const quota = definePlugin({
    name: 'quota',
    summary: 'Keeps a quota.',
    runs: {
      admit() {
        if (!isOpen) throw new RuntimeError('QUOTA_SPENT', 'Nothing is left.', { status: 429 })
      },
    },
  })
  const app = await paidApp({ plugins: [payments, quota] })
  const user = await app.user()
  const sessionId = await session(user)
  const say = () => user.post(`/messages/${sessionId}`, { message: 'Hello', stream: false })
  expect((await say()).status).toBe(429)
  expect((await user.get('/payments/charges')).body.charges).toEqual([])
  isOpen = true
  for (const owed of ['5000', '10000']) {
    expect((await say()).status).toBe(200)
    expect(await settledAccount(user)).toMatchObject({ owed })
  }
  expect((await say()).status).toBe(402)
})

test('a turn that a crash cut off is taken over and billed once, with nothing left set aside', async () => {
  const app = await paidApp({
    steps: [{ text: ['One ', 'never'], paceMs: 3_600_000 }],
    env: { RUN_LEASE_MS: '500' },
  })
  const user = await app.user()
  const sessionId = await session(user)
  const leaving = new AbortController()
  const invocation = await user.wallet.invoke({ audience: app.oracleDid })
  const answer = await fetch(`${app.url}/messages/${sessionId}`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${invocation.text}`,
      'x-auth-type': 'ucan',
      'content-type': 'application/json',
    },
    body: JSON.stringify({ message: 'Go', stream: true }),
    signal: leaving.signal,
  })
  let text = ''
  for await (const piece of answer.body!) {
    text += Buffer.from(piece).toString()
    if (text.includes('event: message\n')) break
  }
  leaving.abort()
  expect((await user.get('/payments/account')).body).toMatchObject({ held: '5000', owed: '0' })
  await app.crash()
  await app.again({ model: scriptedModel(['Here it is.']) })
  expect(await settledAccount(user)).toMatchObject({ held: '0', owed: '5000' })
  const { charges } = (await user.get('/payments/charges')).body
  expect(charges).toMatchObject([{ amount: '5000', status: 'due' }])
})
