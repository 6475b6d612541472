import { randomUUID } from 'node:crypto'
import { type GeneratedType, Registry } from '@cosmjs/proto-signing'
import { MsgExec } from 'cosmjs-types/cosmos/authz/v1beta1/tx'
import { expect, test } from 'vitest'
import { TestClock, type TestUser } from '#core/testing'
import { onEachDatabase } from '../../test/support/each-database.ts'
import { paidApp, pay, session, settledAccount } from '../../test/support/paid-app.ts'
import { toBech32 } from './ledger/bech32.ts'
import {
  type EvaluateClaim,
  evaluations,
  readEvaluateClaim,
  writeEvaluateClaim,
} from './ledger/claim-messages.ts'
import { readExec, types } from './ledger/messages.ts'

/** Polls longer than a loaded machine needs. */
const patient = { timeout: 30_000, interval: 50 }

const at = async (user: TestUser) => (await user.get('/payments/development/account')).body

const transact = async (
  user: TestUser,
  { messages, memo }: { messages: unknown; memo: string },
) => {
  const sent = await user.post('/payments/development/transact', { messages, memo })
  expect(sent.body).toMatchObject({ code: 0 })
  return String(sent.body.transactionHash)
}

interface Wish {
  readonly maxAmount?: string
  readonly agentQuota?: number
  readonly days?: number
  readonly collectionId?: string
}

const offer = async (user: TestUser, wish: Wish = {}) => {
  const { address } = await at(user)
  const body = { address, maxAmount: '50000', agentQuota: 10, days: 7, ...wish }
  const made = await user.post('/payments/contracts', body)
  expect(made.status).toBe(201)
  return made.body
}

const confirm = (user: TestUser, id: string, txHash: string) =>
  user.post(`/payments/contracts/${id}/confirm`, { txHash })

/** A contract that stands on the ledger. */
const contracted = async (user: TestUser, wish: Wish = {}) => {
  const made = await offer(user, wish)
  const confirmed = await confirm(user, made.id, await transact(user, made))
  expect(confirmed).toMatchObject({ status: 200, body: { status: 'active' } })
  return made.id as string
}

const account = async (user: TestUser) => (await user.get('/payments/account')).body
const contractOf = async (user: TestUser, id: string) =>
  (await user.get('/payments/contracts')).body.contracts.find(
    (one: { id: string }) => one.id === id,
  )

/** Says something, and waits until the turn is billed. */
const turn = async (user: TestUser, sessionId: string) => {
  const answer = await user.post(`/messages/${sessionId}`, { message: 'Hello', stream: false })
  if (answer.status === 200) await settledAccount(user)
  return answer
}

/** The claims that the oracle collected by itself. */
const collected = async (user: TestUser) => {
  const { body } = await user.get('/payments/claims?status=paid')
  return body.claims.filter((one: { method: string }) => one.method === 'contract')
}

await onEachDatabase('contracts', (where) => {
  const env = { PAYMENTS_FIRST_CREDIT: '0' }

  test('three turns are collected by themselves, then the quota is reached and the next turn is a 402', async () => {
    const app = await paidApp({ where, env })
    const user = await app.user()
    const sessionId = await session(user)
    expect((await turn(user, sessionId)).status).toBe(402)
    const id = await contracted(user, { agentQuota: 3 })
    const before = await at(user)
    expect(await account(user)).toMatchObject({
      available: '50000',
      contract: { id, form: 'grant', left: { amount: '50000', quota: 3 } },
    })
    for (const times of [1, 2, 3]) {
      expect((await turn(user, sessionId)).status).toBe(200)
      await expect.poll(async () => (await collected(user)).length, patient).toBe(times)
    }
    expect(await contractOf(user, id)).toMatchObject({ status: 'spent', taken: '15000', used: 3 })
    expect(await account(user)).toMatchObject({ owed: '0', balance: '0', available: '0' })
    expect(await account(user)).not.toHaveProperty('contract')
    const spent = Number(before.balance) - Number((await at(user)).balance)
    expect(spent).toBe(15_000)
    expect((await turn(user, sessionId)).status).toBe(402)
  })

  test('the maximum is reached: what is left does not cover a turn, and nothing more is taken', async () => {
    const app = await paidApp({ where, env })
    const user = await app.user()
    const sessionId = await session(user)
    const id = await contracted(user, { maxAmount: '12000' })
    for (const times of [1, 2]) {
      expect((await turn(user, sessionId)).status).toBe(200)
      await expect.poll(async () => (await collected(user)).length, patient).toBe(times)
    }
    expect((await turn(user, sessionId)).status).toBe(402)
    expect(await contractOf(user, id)).toMatchObject({ taken: '10000', used: 2 })
    expect(await account(user)).toMatchObject({ available: '2000', owed: '0' })
  })

  test.each(['revoked on the ledger', 'an empty purse'])(
    '%s: the collection fails, its claim stays open, and the next turn is a 402',
    async (how) => {
      const app = await paidApp({ where, env })
      const user = await app.user()
      const sessionId = await session(user)
      const id = await contracted(user)
      const { address, balance } = await at(user)
      if (how === 'an empty purse') {
        const other = await at(await app.user())
        const amount = [{ denom: 'udev', amount: String(Number(balance) - 1) }]
        const value = { fromAddress: address, toAddress: other.address, amount }
        const messages = [{ typeUrl: '/cosmos.bank.v1beta1.MsgSend', value }]
        await transact(user, { messages, memo: '' })
      } else {
        // The messages of a second contract take the first one's grant back, and this server does not hear of it.
        const { messages, memo } = (
          await user.delete(`/payments/contracts/${(await offer(user)).id}`)
        ).body
        await transact(user, { messages, memo })
      }
      expect((await turn(user, sessionId)).status).toBe(200)
      await expect.poll(async () => (await contractOf(user, id)).status, patient).toBe('failed')
      expect(await account(user)).toMatchObject({ owed: '5000', available: '-5000' })
      const refused = await turn(user, sessionId)
      expect(refused).toMatchObject({ status: 402, body: { amount: '5000' } })
      const { claims } = (await user.get('/payments/claims')).body
      expect(claims).toMatchObject([{ status: 'open', amount: '5000' }])
      if (how === 'an empty purse') await user.post('/payments/development/faucet', {})
      expect((await pay(user)).settled?.status).toBe(200)
      expect(await account(user)).toMatchObject({ owed: '0', balance: '0' })
    },
  )

  test('a contract that was ended here is no credit, and its messages end it on the ledger', async () => {
    const app = await paidApp({ where, env })
    const user = await app.user()
    const sessionId = await session(user)
    const id = await contracted(user)
    const stranger = await app.user()
    expect((await stranger.delete(`/payments/contracts/${id}`)).status).toBe(404)
    const ended = await user.delete(`/payments/contracts/${id}`)
    expect(ended).toMatchObject({ status: 200, body: { status: 'revoked' } })
    await transact(user, ended.body)
    expect(await account(user)).toMatchObject({ available: '0' })
    expect((await turn(user, sessionId)).status).toBe(402)
  })

  test('a contract whose time is over counts no more', async () => {
    const clock = new TestClock(new Date('2026-05-01T12:00:00Z'))
    const app = await paidApp({ where, env, clock })
    const user = await app.user()
    const sessionId = await session(user)
    await contracted(user, { days: 1 })
    expect((await turn(user, sessionId)).status).toBe(200)
    await expect.poll(async () => (await collected(user)).length, patient).toBe(1)
    await clock.advance('2d')
    expect(await account(user)).toMatchObject({ available: '0' })
    expect((await turn(user, sessionId)).status).toBe(402)
  })

  test('a stranger who confirms the transaction of another is refused', async () => {
    const app = await paidApp({ where, env })
    const [user, thief] = [await app.user(), await app.user()]
    const made = await offer(user)
    const hash = await transact(user, made)
    const { address } = await at(user)
    const body = { address, maxAmount: '50000', agentQuota: 10, days: 7 }
    const stolen = (await thief.post('/payments/contracts', body)).body
    const mismatch = { status: 409, body: { code: 'PAYMENT_MISMATCH' } }
    expect(await confirm(thief, stolen.id, hash)).toMatchObject(mismatch)
    expect((await confirm(thief, made.id, hash)).status).toBe(404)
    // Whoever signs with another key than that of the address grants nothing of the address.
    expect(
      await confirm(thief, stolen.id, await transact(thief, { ...(await offer(thief)) })),
    ).toMatchObject(mismatch)
    expect((await confirm(user, made.id, 'A'.repeat(64))).status).toBe(202)
    expect((await confirm(user, made.id, hash)).status).toBe(200)
    expect((await confirm(user, made.id, hash)).status).toBe(200)
    expect(await account(thief)).toMatchObject({ available: '0' })
    // A transaction whose memo is another, or which grants nothing, is no contract either.
    const next = await offer(user)
    expect(await confirm(user, next.id, hash)).toMatchObject(mismatch)
    expect(
      await confirm(user, next.id, await transact(user, { ...next, memo: 'contract:x' })),
    ).toMatchObject(mismatch)
    const send = { fromAddress: address, toAddress: (await at(thief)).address }
    const messages = [
      {
        typeUrl: '/cosmos.bank.v1beta1.MsgSend',
        value: { ...send, amount: [{ denom: 'udev', amount: '1' }] },
      },
    ]
    expect(
      await confirm(user, next.id, await transact(user, { messages, memo: next.memo })),
    ).toMatchObject(mismatch)
    // The same messages with more in the contract than they grant.
    const more = await offer(user, { maxAmount: '60000' })
    expect(
      await confirm(
        user,
        more.id,
        await transact(user, { messages: made.messages, memo: more.memo }),
      ),
    ).toMatchObject(mismatch)
  })

  test.each(['a grant', 'a claim authorization'])(
    '%s of more than ten times what is in the purse is no credit',
    async (form) => {
      const app = await paidApp({ where, env })
      const user = await app.user()
      const { collectionId, balance } = await at(user)
      const more = form === 'a grant' ? {} : { collectionId }
      const most = Number(balance) * 10
      for (const [amount, status] of [
        [String(Number.MAX_SAFE_INTEGER), 409],
        [String(most + 10), 409],
        [String(most), 200],
      ] as const) {
        const made = await offer(user, { ...more, maxAmount: amount })
        expect((await confirm(user, made.id, await transact(user, made))).status).toBe(status)
        expect(await account(user)).toMatchObject({
          available: status === 200 ? amount : '0',
        })
      }
    },
  )

  test('what is no contract is 400 with its path', async () => {
    const app = await paidApp({ where, env })
    const user = await app.user()
    const { address } = await at(user)
    const good = { address, maxAmount: '5', agentQuota: 1, days: 1 }
    for (const [path, value] of [
      ['address', 'dev1nobody'],
      ['address', `ixo${address.slice(3)}`],
      ['address', 'd'.repeat(200)],
      ['adminAddress', 'dev1nobody'],
      ['maxAmount', '0'],
      ['maxAmount', '-1'],
      ['maxAmount', '1.5'],
      ['maxAmount', 5],
      ['agentQuota', 0],
      ['agentQuota', 1001],
      ['days', 0],
      ['days', 366],
      ['days', 1001],
      ['collectionId', 'a b'],
    ] as const) {
      const refused = await user.post('/payments/contracts', { ...good, [path]: value })
      expect(refused).toMatchObject({ status: 400, body: { details: [{ path }] } })
    }
    expect((await confirm(user, 'x', 'A'.repeat(64))).status).toBe(404)
    expect((await confirm(user, randomUUID(), 'A'.repeat(64))).status).toBe(404)
    expect((await confirm(user, randomUUID(), 'a'.repeat(64))).status).toBe(400)
    for (let i = 0; i < 10; i++)
      expect((await user.post('/payments/contracts', good)).status).toBe(201)
    expect((await user.post('/payments/contracts', good)).status).toBe(429)
  })

  test('by a claim authorization claims are submitted, approved by the user, and paid by the ledger', async () => {
    const app = await paidApp({ where, env })
    const user = await app.user()
    const sessionId = await session(user)
    const { address, collectionId, balance } = await at(user)
    const id = await contracted(user, { collectionId, agentQuota: 2 })
    expect((await turn(user, sessionId)).status).toBe(200)
    const stands = async (claim: string) => {
      const { body } = await user.post('/payments/prepare', {
        address: (await at(user)).address,
        claims: [claim],
      })
      return body.memo
    }
    const newest = async () => (await user.get('/payments/claims')).body.claims[0]
    const first = await newest()
    await expect.poll(() => stands(first.id), patient).toBe(`Approve claim ${first.id}`)
    const paid = await pay(user, [first.id])
    const [message] = paid.prepared.body.messages
    expect(paid.prepared.body.messages).toEqual([
      {
        typeUrl: '/cosmos.authz.v1beta1.MsgExec',
        value: {
          grantee: address,
          msgs: [
            {
              typeUrl: '/ixo.claims.v1beta1.MsgEvaluateClaim',
              value: { $bytes: expect.any(String) },
            },
          ],
        },
      },
    ])
    // The published types encode it, once the client has made bytes of what travelled as text.
    const msgs = message.value.msgs.map((one: { typeUrl: string; value: { $bytes: string } }) => ({
      typeUrl: one.typeUrl,
      value: Buffer.from(one.value.$bytes, 'base64'),
    }))
    const registry = new Registry([[types.exec, MsgExec as GeneratedType]])
    const bytes = registry.encode({ typeUrl: types.exec, value: { grantee: address, msgs } })
    const [approval] = readExec(bytes).msgs
    expect(readEvaluateClaim(approval?.value ?? new Uint8Array())).toEqual({
      claimId: first.id,
      collectionId,
      oracle: user.did,
      agentDid: user.did,
      agentAddress: address,
      adminAddress: address,
      status: evaluations.approved,
      reason: 0,
      amount: [{ denom: 'udev', amount: '5000' }],
    })
    expect(paid.settled).toMatchObject({ status: 200, body: { paid: [first.id], balance: '0' } })
    expect((await user.get(`/payments/claims/${first.id}`)).body).toMatchObject({
      status: 'paid',
      method: 'claim',
    })
    expect(Number(balance) - Number((await at(user)).balance)).toBe(5_000)
    expect(await contractOf(user, id)).toMatchObject({ status: 'active', taken: '5000', used: 1 })

    // The second one is rejected on the ledger: then it is disputed here.
    expect((await turn(user, sessionId)).status).toBe(200)
    const second = await newest()
    await expect.poll(() => stands(second.id), patient).toBe(`Approve claim ${second.id}`)
    const { body } = await user.post('/payments/prepare', {
      address: (await at(user)).address,
      claims: [second.id],
    })
    await transact(user, {
      ...body,
      messages: altered(body.messages, { status: evaluations.rejected }),
    })
    await user.post('/payments/settle', { paymentId: body.paymentId })
    expect((await user.get(`/payments/claims/${second.id}`)).body).toMatchObject({
      status: 'disputed',
    })
    expect(await account(user)).toMatchObject({ owed: '5000' })
  })

  test('who approves a claim for less than it is has paid so much, and is asked for it as for any other', async () => {
    const app = await paidApp({ where, env })
    const user = await app.user()
    const sessionId = await session(user)
    const { collectionId, address, balance } = await at(user)
    await contracted(user, { collectionId, agentQuota: 5 })
    /** A claim that stands on the ledger, and what its user does not sign as it came. */
    const standing = async () => {
      expect((await turn(user, sessionId)).status).toBe(200)
      const { id } = (await user.get('/payments/claims')).body.claims[0]
      const prepare = async () =>
        (await user.post('/payments/prepare', { address, claims: [id] })).body
      await expect.poll(async () => (await prepare()).memo, patient).toBe(`Approve claim ${id}`)
      return { id, prepare }
    }
    const less = await standing()
    const { paymentId, messages, memo } = await less.prepare()
    const amount = [{ denom: 'udev', amount: '1' }]
    await transact(user, { messages: altered(messages, { amount }), memo })
    await user.post('/payments/settle', { paymentId })
    expect(await account(user)).toMatchObject({ owed: '5000', balance: '1', claims: [less.id] })
    // The ledger takes no second approval: the claim is paid by a transfer.
    const transfer = await pay(user, [less.id])
    expect(transfer.prepared.body.messages[0].typeUrl).toBe('/cosmos.bank.v1beta1.MsgSend')
    expect(transfer.settled?.body).toMatchObject({ paid: [less.id] })
    expect(await account(user)).toMatchObject({ owed: '0', balance: '1' })

    // More than the claim: the rest is in the balance.
    const more = await standing()
    const prepared = await more.prepare()
    await transact(user, {
      messages: altered(prepared.messages, { amount: [{ denom: 'udev', amount: '6000' }] }),
      memo: prepared.memo,
    })
    const settled = await user.post('/payments/settle', { paymentId: prepared.paymentId })
    expect(settled.body).toMatchObject({ paid: [more.id], balance: '1001' })
    expect(Number(balance) - Number((await at(user)).balance)).toBe(1 + 5000 + 6000)
  })

  test('a contract that is confirmed twice, and collections that two replicas send, count once', async () => {
    const env2 = { ...env, ORACLE_MNEMONIC: 'the oracle whose collections two replicas send' }
    const first = await paidApp({ where, env: env2 })
    const second = where.databaseUrl ? await paidApp({ where, env: env2 }) : first
    const users = await Promise.all(
      [first, second].map((app) => app.user(`collected twice ${where.databaseUrl ?? ''}`)),
    )
    const made = await offer(users[0]!)
    const hash = await transact(users[0]!, made)
    const answers = await Promise.all(users.map((user) => confirm(user, made.id, hash)))
    expect(answers.map(({ status }) => status)).toEqual([200, 200])
    const sessions = await Promise.all(Array.from({ length: 6 }, () => session(users[0]!)))
    const turns = await Promise.all(sessions.map((id, i) => turn(users[i % 2]!, id)))
    expect(turns.map(({ status }) => status)).toEqual(Array(6).fill(200))
    await expect.poll(async () => (await account(users[0]!)).owed, patient).toBe('0')
    expect(await contractOf(users[0]!, made.id)).toMatchObject({ taken: '30000' })
    expect(Number((await at(users[0]!)).balance)).toBe(1_000_000_000 - 30_000)
  })
})

type Approvals = readonly { value: { msgs: { value: { $bytes: string } }[] } }[]

/** The same messages with other words in their evaluations. */
function altered(messages: Approvals, change: Partial<EvaluateClaim>): Approvals {
  const copy = structuredClone(messages)
  for (const { value } of copy)
    for (const one of value.msgs) {
      const said = readEvaluateClaim(Buffer.from(one.value.$bytes, 'base64'))
      const bytes = writeEvaluateClaim({ ...said, ...change })
      one.value.$bytes = Buffer.from(bytes).toString('base64')
    }
  return copy
}

test('an oracle without a key makes no contracts, and says so', async () => {
  const env = {
    PAYMENTS_LEDGER: '127.0.0.1:1',
    PAYMENTS_LEDGER_TLS: 'off',
    PAYMENTS_ADDRESS: toBech32('dev', new Uint8Array(20)),
  }
  const app = await paidApp({ env })
  const user = await app.user()
  const body = { address: env.PAYMENTS_ADDRESS, maxAmount: '5', agentQuota: 1, days: 1 }
  const refused = await user.post('/payments/contracts', body)
  expect(refused).toMatchObject({
    status: 409,
    body: { hint: expect.stringMatching(/PAYMENTS_MNEMONIC/) },
  })
  expect((await app.get('/payments/authz.json')).status).toBe(404)
})
