import { expect, test } from 'vitest'
import type { TestUser } from '#core/testing'
import { onEachDatabase } from '../../test/support/each-database.ts'
import { paidApp, pay, session, settledAccount } from '../../test/support/paid-app.ts'

await onEachDatabase('only the ledger’s word counts', (where) => {
  const send = async (user: TestUser, to: string, amount: string, memo: string) => {
    const { address } = (await user.get('/payments/development/account')).body
    const coins = [{ denom: 'udev', amount }]
    const value = { fromAddress: address, toAddress: to, amount: coins }
    const messages = [{ typeUrl: '/cosmos.bank.v1beta1.MsgSend', value }]
    const sent = await user.post('/payments/development/transact', { messages, memo })
    return String(sent.body.transactionHash)
  }
  const prepared = async (user: TestUser, advance: string) => {
    const { claim } = (await user.post('/payments/claims', { advance })).body
    const { address } = (await user.get('/payments/development/account')).body
    const { body } = await user.post('/payments/prepare', { claims: [claim.id], address })
    return { claim, ...body, to: body.messages[0].value.toAddress }
  }
  const balance = async (user: TestUser) => (await user.get('/payments/account')).body.balance

  test('what is no payment of the user changes nothing', async () => {
    const app = await paidApp({ where })
    const [user, other] = [await app.user(), await app.user()]
    const { paymentId, memo, to, claim } = await prepared(user, '1000')
    const settle = (txHash: string, id: string | undefined = paymentId) =>
      user.post('/payments/settle', { ...(id && { paymentId: id }), txHash })
    const mismatch = { status: 409, body: { code: 'PAYMENT_MISMATCH' } }

    const unknown = await settle('A'.repeat(64))
    expect(unknown).toMatchObject({ status: 202, body: { status: 'pending' } })
    expect(unknown.headers.get('retry-after')).toBe('2')
    expect(await settle(await send(user, to, '1000000001000000', memo))).toMatchObject(mismatch)
    expect(await settle(await send(user, to, '1000', 'oracle:another'))).toMatchObject(mismatch)
    expect(await settle(await send(user, to, '1000', ''))).toMatchObject(mismatch)
    const { address } = (await other.get('/payments/development/account')).body
    expect(await settle(await send(user, address, '1000', memo))).toMatchObject(mismatch)
    const theirs = await prepared(other, '1000')
    const stolen = await send(other, to, '1000', theirs.memo)
    expect(await settle(stolen)).toMatchObject(mismatch)
    expect((await user.post('/payments/settle', { txHash: stolen })).status).toBe(409)
    expect((await other.post('/payments/settle', { paymentId, txHash: stolen })).status).toBe(404)
    expect(await balance(user)).toBe('0')
    expect((await user.get(`/payments/claims/${claim.id}`)).body.status).toBe('open')

    const bad = ['a'.repeat(64), 'A'.repeat(63), `0x${'A'.repeat(62)}`, '']
    for (const txHash of bad)
      expect((await user.post('/payments/settle', { txHash })).status).toBe(400)
    for (const from of [
      'cosmos1xyz',
      'dev1qqqq',
      `${to.slice(0, -1)}${to.endsWith('q') ? 'p' : 'q'}`,
      'x'.repeat(200),
    ])
      expect(await user.post('/payments/prepare', { address: from })).toMatchObject({
        status: 400,
        body: { code: 'INVALID_INPUT', details: [{ path: 'address' }] },
      })
  })

  test('a transaction is counted once, however often and however many ask at once', async () => {
    const app = await paidApp({ where })
    const user = await app.user()
    const first = await prepared(user, '1000')
    const hash = await send(user, first.to, '1000', first.memo)
    const settle = (paymentId: string) => user.post('/payments/settle', { paymentId, txHash: hash })
    const answers = await Promise.all(Array.from({ length: 8 }, () => settle(first.paymentId)))
    for (const answer of answers)
      expect(answer).toMatchObject({
        status: 200,
        body: { paid: [first.claim.id], balance: '1000' },
      })
    expect(await balance(user)).toBe('1000')
    const second = await prepared(user, '2000')
    expect(await settle(second.paymentId)).toMatchObject({
      status: 409,
      body: { code: 'PAYMENT_REUSED' },
    })
    expect(await balance(user)).toBe('1000')
  })

  test('too little goes to the balance, too much leaves the rest there', async () => {
    const app = await paidApp({ where })
    const user = await app.user()
    const sessionId = await session(user)
    const say = () => user.post(`/messages/${sessionId}`, { message: 'Hello', stream: false })
    // Each turn is billed before the next one, so that one claim gathers both.
    while ((await say()).status === 200) await settledAccount(user)
    const prepare = async () => {
      const { address } = (await user.get('/payments/development/account')).body
      const { body } = await user.post('/payments/prepare', { address })
      return { ...body, to: body.messages[0].value.toAddress }
    }
    const small = await prepare()
    expect(small.amount).toBe('10000')
    const hash = await send(user, small.to, '4000', small.memo)
    const settled = await user.post('/payments/settle', {
      paymentId: small.paymentId,
      txHash: hash,
    })
    expect(settled.body).toEqual({ status: 'settled', paid: [], balance: '4000' })
    const large = await prepare()
    expect(large.paymentId).not.toBe(small.paymentId)
    const more = await send(user, large.to, '16000', large.memo)
    const rest = await user.post('/payments/settle', { paymentId: large.paymentId, txHash: more })
    expect(rest.body).toMatchObject({ paid: [expect.any(String)], balance: '10000' })
    expect((await user.get('/payments/account')).body).toMatchObject({ owed: '0', claims: [] })
  })

  test('a payment that nobody settled lets the next message through, and is found after a crash', async () => {
    const app = await paidApp({ where, env: { PAYMENTS_FIRST_CREDIT: '0' } })
    const user = await app.user()
    const payer = await app.user()
    const sessionId = await session(user)
    const say = () => user.post(`/messages/${sessionId}`, { message: 'Hello', stream: false })
    expect((await say()).status).toBe(402)
    const { address } = (await user.get('/payments/development/account')).body
    const { body } = await user.post('/payments/prepare', { address })
    // Another wallet than the one that was prepared for sends the money, with the memo of the payment.
    await send(payer, body.messages[0].value.toAddress, '50000', body.memo)
    await expect.poll(async () => (await say()).status, { timeout: 20_000 }).toBe(200)
    expect((await pay(user)).prepared.status).toBe(409)

    const { memo, to } = await prepared(user, '1000000')
    await send(payer, to, '1000000', memo)
    await app.crash()
    await app.again()
    await expect
      .poll(async () => Number(await balance(user)), { timeout: 20_000 })
      .toBeGreaterThan(1_000_000)
  })
})
