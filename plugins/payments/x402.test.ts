import { decodePaymentResponseHeader, wrapFetchWithPayment } from '@x402/fetch'
import { expect, test } from 'vitest'
import { TestClock, type TestApp, type TestUser } from '#core/testing'
import { onEachDatabase } from '../../test/support/each-database.ts'
import { paidApp, session, settledAccount } from '../../test/support/paid-app.ts'
import { fakeFacilitator, paidBy, payer } from './fixtures/fake-facilitator.ts'

const headersOf = async (app: TestApp, user: TestUser, more = {}) => {
  const invocation = await user.wallet.invoke({ audience: app.oracleDid })
  return {
    authorization: `Bearer ${invocation.text}`,
    'x-auth-type': 'ucan',
    'content-type': 'application/json',
    ...more,
  }
}

const decoded = (header: string | null) =>
  JSON.parse(Buffer.from(header ?? '', 'base64').toString())
const encoded = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64')

await onEachDatabase('x402', (where) => {
  const start = async () => {
    const facilitator = await fakeFacilitator()
    const app = await paidApp({
      where,
      fetch,
      env: {
        PAYMENTS_FIRST_CREDIT: '0',
        PAYMENTS_ADVANCE: '10000',
        ...paidBy(facilitator),
        LOG_LEVEL: 'trace',
      },
    })
    const user = await app.user()
    const sessionId = await session(user)
    const post = async (
      more: Record<string, string> = {},
      who: TestUser = user,
      id: string = sessionId,
    ) =>
      fetch(`${app.url}/messages/${id}`, {
        method: 'POST',
        headers: await headersOf(app, who, more),
        body: JSON.stringify({ message: 'Hello', stream: false }),
      })
    /** An offer, and a signature for it by the published client. */
    const signed = async () => {
      const refused = await post()
      expect(refused.status).toBe(402)
      const required = decoded(refused.headers.get('payment-required'))
      const { client } = payer()
      const payload = await client.createPaymentPayload(required)
      return { required, payload: structuredClone(payload) as any, header: encoded(payload) }
    }
    const pay = (header: string) => post({ 'payment-signature': header })
    const account = async () => (await user.get('/payments/account')).body
    return { app, user, sessionId, facilitator, post, signed, pay, account }
  }

  test('the published client pays in one retry, and reads the stream of the answer', async () => {
    const { app, user, sessionId, facilitator, account } = await start()
    const { client } = payer()
    const requests: number[] = []
    const counting: typeof fetch = async (...args) => {
      const response = await fetch(...args)
      requests.push(response.status)
      return response
    }
    const paying = wrapFetchWithPayment(counting, client)
    const answer = await paying(`${app.url}/messages/${sessionId}`, {
      method: 'POST',
      headers: await headersOf(app, user),
      body: JSON.stringify({ message: 'Hello', stream: true }),
    })
    expect(requests).toEqual([402, 200])
    expect(answer.headers.get('content-type')).toMatch(/^text\/event-stream/)
    expect(await answer.text()).toContain('event: done')
    const told = decodePaymentResponseHeader(answer.headers.get('payment-response') ?? '')
    expect(told).toMatchObject({ success: true, network: 'eip155:84532' })
    expect(facilitator.transfers).toMatchObject([{ value: '10000' }])
    expect(await settledAccount(user)).toMatchObject({ balance: '5000', owed: '0' })
    const { claims } = (await user.get('/payments/claims?status=paid')).body
    expect(claims).toMatchObject([{ kind: 'advance', method: 'x402', amount: '10000' }])
    expect(await account()).toMatchObject({ available: '5000' })
  })

  test('what is not the offer is 402 with the reason and an offer, and nothing is settled', async () => {
    const { app, facilitator, post, signed, pay, account } = await start()
    const other = await app.user()
    const theirs = await session(other)
    const { payload, header } = await signed()
    const altered = (change: (copy: any) => void) => {
      const copy = structuredClone(payload)
      change(copy)
      return encoded(copy)
    }
    const cases: Record<string, string> = {
      other_amount: altered((copy) => (copy.payload.authorization.value = '1')),
      other_payee: altered(
        (copy) => (copy.payload.authorization.to = payload.payload.authorization.from),
      ),
      not_the_offer: altered((copy) => (copy.accepted.amount = '1')),
      unknown_offer: altered(
        (copy) => (copy.accepted.extra.offer = '4b0b3c2e-1111-4111-8111-111111111111'),
      ),
      offer_expired: altered((copy) => (copy.payload.authorization.validBefore = '1')),
      valid_for_too_long: altered(
        (copy) => (copy.payload.authorization.validBefore = '99999999999'),
      ),
    }
    const more = {
      network: altered((copy) => (copy.accepted.network = 'eip155:1')),
      key: altered((copy) => (copy.accepted.more = true)),
    }
    for (const [reason, one] of [
      ...Object.entries(cases),
      ...Object.values(more).map((one) => ['not_the_offer', one] as const),
    ]) {
      const refused = await pay(one)
      expect(refused.status).toBe(402)
      expect(await refused.json()).toMatchObject({ refused: reason })
      expect(decoded(refused.headers.get('payment-required'))).toMatchObject({
        error: reason,
        accepts: [payload.accepted],
      })
    }
    const stolen = await post({ 'payment-signature': header }, other, theirs)
    expect(await stolen.json()).toMatchObject({ statusCode: 402, refused: 'unknown_offer' })
    expect(facilitator.asked).toEqual([])
    // A signature over another amount is the facilitator's to find; the offer stands after that.
    const forged = altered((copy) => {
      copy.payload.authorization.nonce = `0x${'11'.repeat(32)}`
    })
    expect(await (await pay(forged)).json()).toMatchObject({
      statusCode: 402,
      refused: 'invalid_exact_evm_signature',
    })
    expect(facilitator.transfers).toEqual([])
    expect(await account()).toMatchObject({ balance: '0' })
    expect((await pay(header)).status).toBe(200)
    expect(facilitator.transfers).toHaveLength(1)
  })

  test('a header that is no payment is 400 with what is wrong', async () => {
    const { facilitator, post, signed } = await start()
    const { payload, header } = await signed()
    for (const [name, value, what] of [
      ['payment-signature', 'not base64!', /no base64/],
      ['payment-signature', Buffer.from('{').toString('base64'), /no JSON/],
      ['payment-signature', 'A'.repeat(9 * 1024), /longer than 8192/],
      ['payment-signature', encoded({ ...payload, x402Version: 1 }), /x402Version/],
      ['payment-signature', encoded({ ...payload, more: 1 }), /no payment, or has other keys/],
      ['payment-signature', encoded(null), /no payment, or has other keys/],
      ['x-payment', header, /version 1/],
    ] as const) {
      const refused = await post({ [name]: value })
      expect(refused.status).toBe(400)
      expect(((await refused.json()) as { message: string }).message).toMatch(what)
    }
    const both = await post({ 'payment-signature': header, 'x-payment': header })
    expect(both.status).toBe(400)
    expect(facilitator.asked).toEqual([])
  })

  test('two requests with one signature settle once, and the signature sent again pays nothing more', async () => {
    const { facilitator, signed, pay, account } = await start()
    const { header } = await signed()
    const answers = await Promise.all([pay(header), pay(header), pay(header)])
    const statuses = answers.map(({ status }) => status)
    // Two turns are paid; the third meets another 402.
    expect(statuses.filter((status) => status === 200).length).toBeGreaterThan(0)
    expect(statuses.every((status) => [200, 402, 409].includes(status))).toBe(true)
    expect(facilitator.transfers).toHaveLength(1)
    await expect.poll(async () => (await account()).held, { timeout: 20_000 }).toBe('0')
    while ((await pay(header)).status === 200);
    expect(facilitator.transfers).toHaveLength(1)
    const { payload } = await signed()
    const again = { ...payload, payload: decoded(header).payload }
    expect(await (await pay(encoded(again))).json()).toMatchObject({ statusCode: 402 })
    expect(facilitator.transfers).toHaveLength(1)
    expect(facilitator.asked.filter((path) => path === '/settle')).toHaveLength(1)
  })

  test.each(['down', 'garbage', 'slow', '500 after it settled', '500 before'] as const)(
    'a facilitator that is %s: nobody is asked to pay again, and the same signature goes on',
    async (mood) => {
      const { facilitator, post, signed, pay, user } = await start()
      const { header, payload } = await signed()
      await facilitator.be(mood)
      const pending = await pay(header)
      expect(pending.status).toBe(503)
      expect(await pending.json()).toMatchObject({ code: 'PAYMENT_PENDING' })
      expect(pending.headers.get('retry-after')).toBe('5')
      expect(pending.headers.get('payment-required')).toBeNull()
      // No new demand for these claims, by any way, while the signature can still be settled.
      const without = await post()
      expect(without.status).toBe(503)
      expect(without.headers.get('payment-required')).toBeNull()
      const { address } = (await user.get('/payments/development/account')).body
      expect((await user.post('/payments/prepare', { address })).status).toBe(503)
      const { account: another } = payer()
      const other = structuredClone(payload)
      other.payload.authorization.from = another.address
      expect((await pay(encoded(other))).status).toBe(503)
      await facilitator.be('well')
      expect((await pay(header)).status).toBe(200)
      expect(facilitator.transfers).toHaveLength(1)
      expect(await settledAccount(user)).toMatchObject({ balance: '5000' })
    },
  )
})

test('an offer that has run out is not settled, and another one is made for the same claim', async () => {
  const facilitator = await fakeFacilitator()
  const clock = new TestClock(new Date())
  const env = { PAYMENTS_FIRST_CREDIT: '0', ...paidBy(facilitator) }
  const app = await paidApp({ fetch, clock, env })
  const user = await app.user()
  const sessionId = await session(user)
  const say = (header?: string) =>
    user.post(
      `/messages/${sessionId}`,
      { message: 'Hello', stream: false },
      header === undefined ? {} : { 'payment-signature': header },
    )
  const offered = async () => decoded((await say()).headers.get('payment-required'))
  const required = await offered()
  const header = encoded(await payer().client.createPaymentPayload(required))
  await clock.advance('6m')
  const late = await say(header)
  expect(late).toMatchObject({ status: 402, body: { refused: 'offer_expired' } })
  const next = decoded(late.headers.get('payment-required'))
  expect(next.accepts[0].extra.offer).not.toBe(required.accepts[0].extra.offer)
  expect(next.accepts[0].amount).toBe(required.accepts[0].amount)
  expect(facilitator.asked).toEqual([])
})

test('a turn that fails after it was paid costs nothing, and the money stays in the account', async () => {
  const facilitator = await fakeFacilitator()
  const app = await paidApp({
    fetch,
    steps: [new Error('500')],
    env: {
      PAYMENTS_FIRST_CREDIT: '0',
      ...paidBy(facilitator),
    },
  })
  const user = await app.user()
  const sessionId = await session(user)
  const { client } = payer()
  const paying = wrapFetchWithPayment(fetch, client)
  await paying(`${app.url}/messages/${sessionId}`, {
    method: 'POST',
    headers: await headersOf(app, user),
    body: JSON.stringify({ message: 'Hello', stream: false }),
  })
  expect(await settledAccount(user)).toMatchObject({ balance: '50000', owed: '0' })
  const { charges } = (await user.get('/payments/charges')).body
  expect(charges).toMatchObject([{ status: 'void', amount: '0' }])
})
