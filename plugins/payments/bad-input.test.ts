import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type ServerHttp2Stream } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { onEachDatabase } from '../../test/support/each-database.ts'
import { paidApp, pay, session, settledAccount } from '../../test/support/paid-app.ts'
import { outcomeOf } from './contracts/standing-claims.ts'
import { toBech32 } from './ledger/bech32.ts'
import { type LedgerClaim, writeEvaluateClaim } from './ledger/claim-messages.ts'
import type { LedgerTx } from './ledger/ledger.ts'
import { type LedgerCoin, type TypedBytes, types, writeExec, writeSend } from './ledger/messages.ts'
import { message, part, text } from './ledger/proto.ts'
import { arrived } from './paying/arrived.ts'
import type { PaymentRow } from './tables.ts'

const operator = { authorization: 'Bearer the-operator-of-this-test' }
const patient = { timeout: 40_000, interval: 50 }

await onEachDatabase('bad input of payments', (where) => {
  test('a claim that is paid is neither paid again nor disputed, and a disputed one is not paid', async () => {
    const app = await paidApp({ where })
    const user = await app.user()
    const sessionId = await session(user)
    const say = () => user.post(`/messages/${sessionId}`, { message: 'Hello', stream: false })
    while ((await say()).status === 200) await settledAccount(user)
    const [id] = (await user.get('/payments/account')).body.claims
    expect((await pay(user, [id])).settled?.status).toBe(200)
    const conflict = { status: 409, body: { code: 'CONFLICT' } }
    expect(await user.post(`/payments/claims/${id}/dispute`, { reason: 'No' })).toMatchObject({
      ...conflict,
      body: { message: `Claim ${id} is paid.`, hint: expect.stringMatching(/operator/) },
    })
    expect((await pay(user, [id])).prepared).toMatchObject(conflict)
    expect((await user.get(`/payments/claims/${id}`)).body).toMatchObject({ status: 'paid' })
    expect((await say()).status).toBe(200)
    await settledAccount(user)
    const { claim } = (await user.post('/payments/claims', {})).body
    await user.post(`/payments/claims/${claim.id}/dispute`, { reason: 'No' })
    expect((await pay(user, [claim.id])).prepared).toMatchObject(conflict)
    expect(await settledAccount(user)).toMatchObject({ owed: '5000' })
  })

  test('an id that nobody was given is 404, whatever it looks like', async () => {
    const app = await paidApp({ where, env: { OPERATOR_TOKEN: 'the-operator-of-this-test' } })
    const user = await app.user()
    const { address } = (await user.get('/payments/development/account')).body
    for (const id of [
      randomUUID(),
      '11111111-1111-1111-1111-111111111111',
      'nope',
      'x'.repeat(100),
    ]) {
      const answers = [
        await user.get(`/payments/claims/${id}`),
        await user.post(`/payments/claims/${id}/dispute`, { reason: 'No' }),
        await user.post('/payments/prepare', { claims: [id], address }),
        await user.post('/payments/settle', { paymentId: id }),
        await user.post(`/payments/contracts/${id}/confirm`, { txHash: 'A'.repeat(64) }),
        await user.delete(`/payments/contracts/${id}`),
        await app.post(`/payments/admin/claims/${id}`, { action: 'void', reason: 'No' }, operator),
      ]
      expect(answers.map(({ status, body }) => [status, body.code])).toEqual(
        answers.map(() => [404, 'NOT_FOUND']),
      )
      expect(await user.get(`/payments/charges?run=${id}`)).toMatchObject({
        status: 200,
        body: { charges: [] },
      })
    }
  })

  test('a dispute without a reason, with 501 characters or U+0000, and amounts of an operator that are none, change nothing', async () => {
    const app = await paidApp({ where, env: { OPERATOR_TOKEN: 'the-operator-of-this-test' } })
    const user = await app.user()
    const { claim } = (await user.post('/payments/claims', { advance: '5' })).body
    const dispute = (reason: unknown) =>
      user.post(`/payments/claims/${claim.id}/dispute`, { reason })
    for (const reason of ['x'.repeat(501), '', '   ', 'a\0b', 7, undefined]) {
      const refused = await dispute(reason)
      expect(refused).toMatchObject({ status: 400 })
      expect(JSON.stringify(refused.body)).toContain('reason')
    }
    const credit = (amount: unknown) =>
      app.post('/payments/admin/credit', { did: user.did, amount, reason: 'x' }, operator)
    for (const amount of ['-1', '1.5', '1e3', '01', '', '0', '9007199254740992', 7]) {
      const refused = await credit(amount)
      expect(refused).toMatchObject({ status: 400 })
      expect(JSON.stringify(refused.body.details)).toContain('amount')
    }
    expect((await user.get('/payments/account')).body).toMatchObject({ balance: '0' })
    expect((await user.get(`/payments/claims/${claim.id}`)).body).toMatchObject({ status: 'open' })
    expect((await dispute('x'.repeat(500))).status).toBe(200)
  })

  test('U+0000 is 400 wherever it stands, and nothing of it is kept', async () => {
    const app = await paidApp({ where, env: { OPERATOR_TOKEN: 'the-operator-of-this-test' } })
    const user = await app.user()
    const { address } = (await user.get('/payments/development/account')).body
    const sent = { fromAddress: address, toAddress: address }
    const send = (value: object, memo = '') =>
      user.post('/payments/development/transact', {
        messages: [{ typeUrl: types.send, value: { ...sent, ...value } }],
        memo,
      })
    const coin = { denom: 'udev', amount: '1' }
    const answers = [
      await user.get('/payments/charges?session=a%00b'),
      await user.get('/payments/claims?cursor=a%00b'),
      await user.get('/payments/claims/a%00b'),
      await user.post('/payments/prepare', { address: `${address}\0` }),
      await user.post('/payments/contracts', {
        ...{ address, maxAmount: '5', agentQuota: 1, days: 1 },
        collectionId: '7\0',
      }),
      await send({ amount: [coin] }, 'a\0b'),
      await send({ amount: [{ ...coin, denom: 'u\0' }] }),
      await app.get('/payments/admin/accounts?did=did:x:a%00b', { headers: operator }),
      await app.post(
        '/payments/admin/credit',
        { did: 'did:x:a\0b', amount: '1', reason: 'x' },
        operator,
      ),
    ]
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 400))
    // Within the bytes of a message nobody looks for it before the ledger does.
    const claim = {
      ...{ claimId: 'a\0b', collectionId: '7\0', oracle: '', agentDid: '', agentAddress: '' },
      ...{ adminAddress: '', status: 1, reason: 0, amount: [] },
    }
    for (const bytes of [writeEvaluateClaim(claim), Buffer.from('no message')]) {
      const value = { $bytes: Buffer.from(bytes).toString('base64') }
      const answer = await user.post('/payments/development/transact', {
        messages: [
          {
            typeUrl: types.exec,
            value: { grantee: address, msgs: [{ typeUrl: types.evaluateClaim, value }] },
          },
        ],
      })
      expect(answer.status).toBe(200)
      const { transactionHash: txHash } = answer.body
      expect(await user.post('/payments/settle', { txHash })).toMatchObject({ status: 409 })
    }
  })

  test('another denomination is 400 with its path, and moves nothing', async () => {
    const app = await paidApp({ where })
    const user = await app.user()
    const own = async () => (await user.get('/payments/development/account')).body
    const { address, balance } = await own()
    const coins = (...denoms: string[]) => denoms.map((denom) => ({ denom, amount: '5' }))
    const messages = [coins('udev'), coins('udev', 'uatom')].map((amount) => ({
      typeUrl: types.send,
      value: { fromAddress: address, toAddress: toBech32('dev', new Uint8Array(20)), amount },
    }))
    const refused = await user.post('/payments/development/transact', { messages })
    expect(refused).toMatchObject({
      status: 400,
      body: { details: [{ path: 'messages.1.value.amount.1.denom' }] },
    })
    expect(await own()).toMatchObject({ balance })
  })

  test('a node that knows no calls, or answers nothing at all, is unreachable: turns within the credit go on', async () => {
    let asked = 0
    let isSilent = false
    const server = createServer()
    server.on('stream', (stream: ServerHttp2Stream) => {
      asked++
      stream.on('error', () => undefined)
      if (isSilent) return
      stream.respond({
        ':status': 200,
        'content-type': 'application/grpc',
        'grpc-status': '12',
        'grpc-message': 'unknown service%00',
      })
      stream.end()
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    const app = await paidApp({
      where,
      env: {
        PAYMENTS_LEDGER: `127.0.0.1:${(server.address() as AddressInfo).port}`,
        PAYMENTS_LEDGER_TLS: 'off',
        PAYMENTS_ADDRESS: toBech32('dev', new Uint8Array(20)),
        PAYMENTS_FIRST_CREDIT: '5000',
      },
    })
    const user = await app.user()
    const sessionId = await session(user)
    const say = () => user.post(`/messages/${sessionId}`, { message: 'Hello', stream: false })
    expect((await say()).status).toBe(200)
    await settledAccount(user)
    const address = toBech32('dev', new Uint8Array(20).fill(1))
    expect((await user.post('/payments/prepare', { address })).status).toBe(200)
    const settle = () => user.post('/payments/settle', { txHash: 'A'.repeat(64) })
    expect(await settle()).toMatchObject({ status: 503, body: { code: 'LEDGER_UNREACHABLE' } })
    expect(asked).toBeGreaterThan(0)
    isSilent = true
    // The look before a refusal takes two seconds at most, and then says what it would have said.
    expect(await say()).toMatchObject({ status: 402, body: { amount: '5000' } })
    expect(await settle()).toMatchObject({ status: 503, body: { code: 'LEDGER_UNREACHABLE' } })
  }, 60_000)
})

test('a price for a tool that no plugin has is a warning that names the tool that was meant', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'priced-tools-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'prices.json')
  const tools = { get_acount: '5', get_account: '5', something_else: '5' }
  writeFileSync(file, JSON.stringify({ tools }))
  const env = { PAYMENTS_PRICES: file, PAYMENTS_MAX_PER_TURN: '9000', LOG_LEVEL: 'warn' }
  const app = await paidApp({ env })
  const warnings = () => app.log.filter((line) => line.includes('has a price for the tool'))
  await expect.poll(() => warnings().length, patient).toBe(2)
  const [misspelt, unknown] = warnings()
  expect(misspelt).toContain('"get_acount", which no plugin has. Did you mean "get_account"?')
  expect(unknown).toContain('"something_else", which no plugin has. Take the line away')
  for (const line of warnings()) expect(line).toContain('PAYMENTS_PRICES')
})

test('a list of transfers with one that cannot be read still shows the others', async () => {
  const { Ledger } = await import('./ledger/ledger.ts')
  const tx = (memo: Uint8Array) =>
    message(
      text(2, 'AB'),
      part(11, message(text(1, '/cosmos.tx.v1beta1.Tx'), part(2, part(1, part(2, memo))))),
    )
  const notUtf8 = Uint8Array.of(0xff, 0xfe)
  const listed = message(part(2, tx(notUtf8)), part(2, tx(new TextEncoder().encode('oracle:1'))))
  const port = {
    unary: async (path: string) => (path.endsWith('GetTxsEvent') ? listed : new Uint8Array()),
    close: () => Promise.resolve(),
  }
  expect(await new Ledger(port, 'dev-1').transfersTo('dev1x')).toMatchObject([{ memo: 'oracle:1' }])
})

test('of a claim on the ledger so much is paid as its evaluation says', () => {
  const claim: LedgerClaim = {
    ...{ collectionId: '7', agentAddress: 'dev1us', claimId: 'c', evaluation: 1, payment: 4 },
    approved: [{ denom: 'udev', amount: '7' }],
  }
  const told = (more: Partial<LedgerClaim>) => outcomeOf({ ...claim, ...more }, 'udev')
  const coin = (amount: string, denom = 'udev') => ({ denom, amount })
  expect(told({})).toBe(7)
  expect(told({ approved: [coin('3', 'uatom'), coin('4'), coin('1')] })).toBe(5)
  expect(told({ approved: [coin('7', 'uatom')] })).toBe(0)
  // It is paid what somebody has set for all claims of the collection, and no claim tells how much that is.
  expect(told({ approved: [] })).toMatch(/does not say for how much/)
  expect(told({ evaluation: 2, approved: [] })).toMatch(/Rejected/)
  for (const more of [{ payment: 1 }, { payment: 5 }, { evaluation: 0 }, { evaluation: 3 }])
    expect(told(more)).toBeUndefined()
  expect(() => told({ approved: [coin('9007199254740992')] })).toThrow(
    expect.objectContaining({ code: 'UNPROCESSABLE' }),
  )
})

test('of a transaction only coins of our denomination count that come to our address', () => {
  const payment: PaymentRow = {
    ...{ id: 'p', did: 'did:x:user', address: 'dev1user', claims: '[]', amount: 7 },
    ...{ memo: 'oracle:p', status: 'open', tx_hash: null, created_at: 0, expires_at: 0 },
  }
  const send = (toAddress: string, ...amount: LedgerCoin[]) => ({
    typeUrl: types.send,
    value: writeSend({ fromAddress: 'dev1user', toAddress, amount }),
  })
  const coin = (amount: string, denom = 'udev') => ({ denom, amount })
  const count = (messages: readonly TypedBytes[], more: Partial<LedgerTx> = {}) => {
    const tx = { hash: 'A', code: 0, memo: payment.memo, messages, publicKey: Buffer.of(), ...more }
    return arrived(tx, payment, 'dev1us', 'udev')
  }
  const ours = send('dev1us', coin('7'))
  expect(count([ours])).toBe(7)
  expect(count([ours, send('dev1other', coin('5')), send('dev1us', coin('3', 'uatom'))])).toBe(7)
  expect(count([send('dev1us', coin('3', 'uatom'), coin('4'))])).toBe(4)
  const exec = writeExec({ grantee: 'dev1user', msgs: [ours, ours] })
  expect(count([{ typeUrl: types.exec, value: exec }])).toBe(14)
  const mismatch = expect.objectContaining({ code: 'PAYMENT_MISMATCH' })
  for (const [messages, more] of [
    [[send('dev1us', coin('7', 'uatom'))], {}],
    [[send('dev1us', coin('0'))], {}],
    [[send('dev1other', coin('7'))], {}],
    [[{ typeUrl: types.grant, value: ours.value }], {}],
    [[], {}],
    [[ours], { code: 5 }],
    [[ours], { memo: 'oracle:q' }],
  ] as const)
    expect(() => count(messages, more)).toThrow(mismatch)
  expect(() => count([send('dev1us', coin('9007199254740992'))])).toThrow(
    expect.objectContaining({ code: 'UNPROCESSABLE' }),
  )
})
