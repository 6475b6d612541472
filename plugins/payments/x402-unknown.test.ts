import { sql } from 'kysely'
import { expect, onTestFinished, test, vi } from 'vitest'
import { definePlugin } from '#core'
import { TestClock, type TestUser } from '#core/testing'
import { freshDatabase } from '../../test/support/database.ts'
import { onEachDatabase } from '../../test/support/each-database.ts'
import { paidApp, session, settledAccount } from '../../test/support/paid-app.ts'
import payments from './index.ts'
import { fakeFacilitator, type Mood, paidBy, payer } from './fixtures/fake-facilitator.ts'

const operator = { authorization: 'Bearer the-operator-of-this-test' }
/** Longer than a signature of the published client is good for, and than an offer stands. */
const longAfter = '30m'

const read = (header: string | null) => JSON.parse(Buffer.from(header ?? '', 'base64').toString())
const written = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64')

/** Counts what stands of the offers. */
const counter = definePlugin({
  name: 'counter',
  summary: 'Counts offers.',
  routes: {
    'GET /offers': {
      auth: 'public',
      run: async (_, { db }) => {
        const { rows } = await sql<{ count: number }>`select count(*) as count
          from payments_offers`.execute(db)
        return { count: Number(rows[0]?.count) }
      },
    },
  },
})

await onEachDatabase('a payment of which nobody knows what became of it', (where) => {
  /** A user who has sent a signature to a facilitator of such a mood. */
  const start = async (mood: Mood) => {
    const facilitator = await fakeFacilitator()
    const clock = new TestClock(new Date())
    // The time of the clock stands in the database, so each test has its own.
    const own = where.databaseUrl === undefined ? undefined : await freshDatabase(where.databaseUrl)
    onTestFinished(() => own?.drop())
    const app = await paidApp({
      where: { databaseUrl: own?.url },
      clock,
      fetch,
      plugins: [payments, counter],
      env: {
        ...paidBy(facilitator),
        PAYMENTS_FIRST_CREDIT: '0',
        PAYMENTS_ADVANCE: '10000',
        OPERATOR_TOKEN: 'the-operator-of-this-test',
      },
    })
    const user = await app.user()
    const sessionId = await session(user)
    const say = async (header?: string) =>
      user.post(
        `/messages/${sessionId}`,
        { message: 'Hello', stream: false },
        header === undefined ? {} : { 'payment-signature': header },
      )
    const demand = async () => read((await say()).headers.get('payment-required'))
    const signed = async () => {
      const required = await demand()
      // The published client signs by the time of its machine.
      vi.useFakeTimers({ toFake: ['Date'], now: clock.now() })
      try {
        return written(await payer().client.createPaymentPayload(required))
      } finally {
        vi.useRealTimers()
      }
    }
    const header = await signed()
    await facilitator.be(mood)
    const { status, body } = await say(header)
    expect(body).toMatchObject({ code: 'PAYMENT_PENDING' })
    expect(status).toBe(503)
    return { app, user, say, header, signed, facilitator, clock }
  }

  const claimOf = async (user: TestUser) => (await user.get('/payments/claims')).body.claims[0]

  /** Nobody is asked for money, by any way. */
  const asksNothing = async ({ user, say }: Awaited<ReturnType<typeof start>>) => {
    const refused = await say()
    expect([refused.status, refused.body.code]).toEqual([503, 'PAYMENT_PENDING'])
    expect(refused.headers.get('payment-required')).toBeNull()
    const { address } = (await user.get('/payments/development/account')).body
    const { id } = await claimOf(user)
    for (const claims of [undefined, [id]])
      expect((await user.post('/payments/prepare', { address, claims })).status).toBe(503)
    for (const advance of ['7', '20000'])
      expect((await user.post('/payments/claims', { advance })).status).toBe(503)
    expect((await user.post(`/payments/claims/${id}/dispute`, { reason: 'No' })).status).toBe(503)
  }

  test.each(['500 after it settled', 'slow'] as const)(
    '%s: no demand follows however late it is, and the word that it is used counts as the settlement',
    async (mood) => {
      const started = await start(mood)
      const { facilitator, clock, say, header, user } = started
      await asksNothing(started)
      await clock.advance(longAfter)
      await asksNothing(started)
      await clock.advance('10d')
      await asksNothing(started)
      await expect.poll(() => facilitator.transfers.length, { timeout: 20_000 }).toBe(1)
      await facilitator.be('used is all it says to settle')
      // The server may be asking by itself just now: then the answer is that it waits.
      const paid = async () => (await say(header)).status
      await expect.poll(paid, { timeout: 40_000, interval: 200 }).toBe(200)
      expect(facilitator.transfers).toHaveLength(1)
      expect(await settledAccount(user)).toMatchObject({ balance: '5000', owed: '0' })
      expect(await claimOf(user)).toMatchObject({ status: 'paid', method: 'x402' })
      // The same signature brings nothing a second time.
      expect((await say(header)).status).toBe(200)
      expect(await settledAccount(user)).toMatchObject({ balance: '0' })
      expect((await say(header)).status).toBe(402)
    },
    120_000,
  )

  test('the server finds out by itself, when whoever paid does not come back', async () => {
    const { facilitator, user, say } = await start('500 after it settled')
    await facilitator.be('well')
    const balance = async () => (await user.get('/payments/account')).body.balance
    await expect.poll(balance, { timeout: 40_000, interval: 100 }).toBe('10000')
    expect(facilitator.transfers).toHaveLength(1)
    expect((await say()).status).toBe(200)
  }, 60_000)

  test('a no is no answer after that: the operator decides, and then it is asked for once', async () => {
    const started = await start('500 before')
    const { facilitator, clock, app, say, header, signed, user } = started
    await facilitator.be('no is all it says to settle')
    expect((await say(header)).status).toBe(503)
    await clock.advance(longAfter)
    await asksNothing(started)
    const { id } = await claimOf(user)
    const listed = (await app.get('/payments/admin/claims', { headers: operator })).body.claims
    expect(listed.find((one: { id: string }) => one.id === id)).toMatchObject({
      status: 'open',
      standing: 'signed',
    })
    const decided = await app.post(
      `/payments/admin/claims/${id}`,
      { action: 'reopen', reason: 'The chain has no such transfer' },
      operator,
    )
    expect(decided).toMatchObject({ status: 200, body: { status: 'open' } })
    expect(await (await say(header)).body).toMatchObject({
      code: 'PAYMENT_REQUIRED',
      refused: 'Given up by the operator.',
    })
    await facilitator.be('well')
    const { body } = await say()
    expect(body).toMatchObject({ code: 'PAYMENT_REQUIRED', claims: [id] })
    expect((await say(await signed())).status).toBe(200)
    expect(facilitator.transfers).toHaveLength(1)
  })

  test('a first answer that the signature is used up: nothing is counted, and nobody is asked again', async () => {
    const started = await start('used is all it says to settle')
    const { facilitator, clock, say, header, user } = started
    await asksNothing(started)
    await clock.advance(longAfter)
    // Whatever it says between, that word never becomes a payment: the payer may have spent the nonce elsewhere.
    for (const mood of ['500 before', 'used is all it says to settle'] as const) {
      await facilitator.be(mood)
      expect((await say(header)).status).toBe(503)
      await asksNothing(started)
      expect((await user.get('/payments/account')).body).toMatchObject({ balance: '0' })
    }
    expect(facilitator.transfers).toHaveLength(0)
    await facilitator.be('well')
    const paid = async () => (await say(header)).status
    await expect.poll(paid, { timeout: 40_000, interval: 200 }).toBe(200)
    expect(facilitator.transfers).toHaveLength(1)
    expect(await settledAccount(user)).toMatchObject({ balance: '5000' })
  }, 120_000)

  test('a process that dies after it asked for the settlement asks for no other money after it', async () => {
    const started = await start('500 after it settled')
    const { facilitator, clock, app, header, say, user } = started
    await app.crash()
    await app.again()
    await clock.advance(longAfter)
    await asksNothing(started)
    await facilitator.be('used is all it says to settle')
    expect((await say(header)).status).toBe(200)
    expect(await settledAccount(user)).toMatchObject({ balance: '5000' })
  })

  test('a facilitator that only could not look at a signature has moved nothing: it is asked for anew', async () => {
    const { facilitator, clock, say, signed, header } = await start('garbage')
    expect(facilitator.asked).not.toContain('/settle')
    expect((await say()).status).toBe(503)
    await clock.advance(longAfter)
    await facilitator.be('well')
    expect((await say()).status).toBe(402)
    expect((await say(await signed())).status).toBe(200)
    expect((await say(header)).status).toBe(200)
    expect(facilitator.transfers).toHaveLength(1)
  })

  test('what was not known is kept when old rows go', async () => {
    const { clock, app, user, say, header, facilitator } = await start('500 after it settled')
    const other = await app.user()
    const theirs = await session(other)
    expect((await other.post(`/messages/${theirs}`, { message: 'Hello' })).status).toBe(402)
    const offers = async () => (await app.get('/offers')).body.count
    expect(await offers()).toBe(2)
    await clock.advance('200d')
    await app.crash()
    await app.again()
    await expect.poll(offers, { timeout: 20_000 }).toBe(1)
    await facilitator.be('used is all it says to settle')
    expect((await say(header)).status).toBe(200)
    expect(await settledAccount(user)).toMatchObject({ balance: '5000' })
  })
})
