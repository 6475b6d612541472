import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { onEachDatabase } from '../../test/support/each-database.ts'
import { paidApp, pay, session, settledAccount } from '../../test/support/paid-app.ts'

await onEachDatabase('payments', (where) => {
  test('two turns on credit, a third that asks for one claim of 0.01 DEV, and the same message after it is paid', async () => {
    const app = await paidApp({ where })
    const user = await app.user()
    const sessionId = await session(user)
    const say = (message: string, more = {}) =>
      user.post(`/messages/${sessionId}`, { message, stream: false, ...more })
    for (const message of ['One', 'Two']) {
      expect((await say(message)).status).toBe(200)
      await settledAccount(user)
    }
    const requestId = randomUUID()
    for (const stream of [true, false]) {
      const refused = await say('Three', { requestId, stream })
      expect(refused.status).toBe(402)
      expect(refused.headers.get('content-type')).toMatch(/^application\/json/)
      expect(refused.body).toEqual({
        statusCode: 402,
        code: 'PAYMENT_REQUIRED',
        error: 'Payment Required',
        message: 'Payment needed: 0.01 DEV for 1 claim.',
        hint: expect.any(String),
        claims: [expect.any(String)],
        outstandingClaims: refused.body.claims,
        amount: '10000',
        denom: 'udev',
        methods: ['transfer', 'development'],
        requestId: expect.any(String),
      })
    }
    const [id] = (await user.get('/payments/account')).body.claims
    const claim = (await user.get(`/payments/claims/${id}`)).body
    expect(claim).toMatchObject({ kind: 'usage', status: 'open', amount: '10000' })
    expect(claim.charges).toHaveLength(2)
    expect(claim.charges[0]).toMatchObject({
      amount: '5000',
      status: 'due',
      sessionId,
      lines: [{ what: 'turn', amount: '5000' }],
    })
    // Reading is never refused to who owes.
    expect((await user.get(`/messages/${sessionId}`)).status).toBe(200)

    const { settled } = await pay(user)
    expect(settled).toMatchObject({
      status: 200,
      body: { status: 'settled', paid: [id], balance: '0' },
    })
    const { balance } = (await user.get('/payments/development/account')).body
    expect(balance).toBe('999990000')
    expect((await say('Three', { requestId })).status).toBe(200)
    expect(await settledAccount(user)).toMatchObject({ owed: '5000', balance: '0' })
    expect((await user.get(`/payments/claims/${id}`)).body).toMatchObject({
      status: 'paid',
      method: 'transfer',
    })
  })

  test('with nothing owed and no credit one advance claim is asked for, and it comes into the balance', async () => {
    const app = await paidApp({ where, env: { PAYMENTS_FIRST_CREDIT: '0' } })
    const user = await app.user()
    const sessionId = await session(user)
    const say = () => user.post(`/messages/${sessionId}`, { message: 'Hello', stream: false })
    const first = await say()
    expect(first).toMatchObject({ status: 402, body: { amount: '50000' } })
    expect((await say()).body.claims).toEqual(first.body.claims)
    await pay(user, first.body.claims)
    expect((await say()).status).toBe(200)
    expect(await settledAccount(user)).toMatchObject({ balance: '45000', owed: '0', claims: [] })
  })

  test('an Idempotency-Key that met a 402 works after payment', async () => {
    const app = await paidApp({ where, env: { PAYMENTS_FIRST_CREDIT: '0' } })
    const user = await app.user()
    const sessionId = await session(user)
    const say = () =>
      user.post(
        `/messages/${sessionId}`,
        { message: 'Hello', stream: false },
        { 'idempotency-key': 'the-same' },
      )
    expect((await say()).status).toBe(402)
    await pay(user)
    await pay(user)
    expect((await user.get('/payments/account')).body.balance).toBe('50000')
    expect((await say()).status).toBe(200)
    expect((await say()).status).toBe(200)
    expect(await settledAccount(user)).toMatchObject({ balance: '45000' })
  })

  test('a claim that was presented never grows, and later turns open a new one', async () => {
    const app = await paidApp({ where, env: { PAYMENTS_FIRST_CREDIT: '20000' } })
    const user = await app.user()
    const sessionId = await session(user)
    const say = () => user.post(`/messages/${sessionId}`, { message: 'Hello', stream: false })
    expect((await user.post('/payments/claims', {})).body).toEqual({ claim: null })
    await say()
    await settledAccount(user)
    const presented = (await user.post('/payments/claims', {})).body.claim
    expect(presented).toMatchObject({ amount: '5000', presentedAt: expect.any(String) })
    await say()
    await settledAccount(user)
    const { claims } = (await user.get('/payments/claims')).body
    expect(claims).toHaveLength(2)
    expect(claims.map((claim: { amount: string }) => claim.amount)).toEqual(['5000', '5000'])
    const page = (await user.get('/payments/claims?limit=1')).body
    expect(page.claims[0].id).toBe(claims[0].id)
    const next = (await user.get(`/payments/claims?limit=1&cursor=${page.nextCursor}`)).body
    expect(next.claims[0].id).toBe(claims[1].id)
    expect(next).not.toHaveProperty('nextCursor')
  })

  test('a dispute counts against the limit until the operator decides', async () => {
    const env = { OPERATOR_TOKEN: 'the-operator-of-this-test' }
    const app = await paidApp({ where, env })
    const operator = { authorization: `Bearer ${env.OPERATOR_TOKEN}` }
    const user = await app.user()
    const other = await app.user()
    const sessionId = await session(user)
    const say = () => user.post(`/messages/${sessionId}`, { message: 'Hello', stream: false })
    for (let i = 0; i < 2; i++) {
      await say()
      await settledAccount(user)
    }
    const [id] = (await say()).body.claims
    const dispute = (who: typeof user, reason: string) =>
      who.post(`/payments/claims/${id}/dispute`, { reason })
    expect((await dispute(other, 'Not mine')).status).toBe(404)
    expect((await other.get(`/payments/claims/${id}`)).status).toBe(404)
    expect((await dispute(user, 'x'.repeat(501))).status).toBe(400)
    expect((await dispute(user, 'a\u0000b')).status).toBe(400)
    expect((await dispute(user, 'It was wrong')).body).toMatchObject({ status: 'disputed' })
    // The disputed claim is not asked for, and what is owed still is.
    const refused = await say()
    expect(refused.status).toBe(402)
    expect(refused.body.claims).not.toContain(id)
    const act = (action: string) =>
      app.post(`/payments/admin/claims/${id}`, { action, reason: 'Looked at it' }, operator)
    expect((await user.post(`/payments/admin/claims/${id}`, {})).status).toBe(403)
    expect((await act('void')).body).toMatchObject({ status: 'void' })
    expect((await act('void')).status).toBe(409)
    expect((await user.get('/payments/account')).body).toMatchObject({ owed: '0' })
    expect((await say()).status).toBe(200)
    const given = await app.post(
      '/payments/admin/credit',
      { did: user.did, amount: '7', reason: 'A gift' },
      operator,
    )
    expect(given.status).toBe(200)
  })
})
