import { randomBytes, randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { definePlugin } from '#core'
import type { TestUser } from '#core/testing'
import { z } from 'zod'
import { onEachDatabase } from '../../test/support/each-database.ts'
import { paidApp, pay, session, settledAccount } from '../../test/support/paid-app.ts'
import payments from './index.ts'

const operator = { authorization: 'Bearer the-operator-of-this-test' }
const env = {
  OPERATOR_TOKEN: 'the-operator-of-this-test',
  ORACLE_MNEMONIC: 'the words of the oracle that has two replicas and is attacked',
  TURNS_AT_ONCE: '1000',
  CALLS_PER_MINUTE: '100000',
  RATE_LIMIT_PER_MINUTE: '100000',
}

/** Writes open claims of a user, as ever so many turns would leave them. */
const scribe = definePlugin({
  name: 'scribe',
  summary: 'Writes claims.',
  routes: {
    'POST /claims-of': {
      auth: 'public',
      input: z.object({ did: z.string(), count: z.number() }),
      run: async ({ did, count }, { db }) => {
        const rows = (from: number, to: number) =>
          sql.join(
            Array.from(
              { length: to - from },
              // Ten of them at a time have one creation time, so that pages end between equals.
              (_, i) => sql`(${randomUUID()}, ${did}, 'usage', 'open', 1,
                ${Math.floor((from + i) / 10)}, 1)`,
            ),
          )
        for (let from = 0; from < count; from += 1000)
          await sql`insert into payments_claims (id, did, kind, status, amount, created_at, presented_at)
            values ${rows(from, Math.min(from + 1000, count))}`.execute(db)
        await sql`update payments_accounts set owed = ${count} where did = ${did}`.execute(db)
        return { count }
      },
    },
  },
})

const accountOf = async (user: TestUser) => (await user.get('/payments/account')).body
const addressOf = async (user: TestUser): Promise<string> =>
  (await user.get('/payments/development/account')).body.address

const send = async (user: TestUser, to: string, amount: string, memo: string) => {
  const value = {
    fromAddress: await addressOf(user),
    toAddress: to,
    amount: [{ denom: 'udev', amount }],
  }
  const messages = [{ typeUrl: '/cosmos.bank.v1beta1.MsgSend', value }]
  const sent = await user.post('/payments/development/transact', { messages, memo })
  return String(sent.body.transactionHash)
}

const prepared = async (user: TestUser, advance: string) => {
  const { claim } = (await user.post('/payments/claims', { advance })).body
  const body = { claims: [claim.id], address: await addressOf(user) }
  const made = (await user.post('/payments/prepare', body)).body
  return { ...made, to: made.messages[0].value.toAddress, claim }
}

await onEachDatabase('attacks on payments', (where) => {
  test('turns, payments, disputes and advances at once over two replicas leave books that agree', async () => {
    const more = { ...env, PAYMENTS_FIRST_CREDIT: '20000' }
    const first = await paidApp({ where, env: more })
    const second = where.databaseUrl ? await paidApp({ where, env: more }) : first
    const words = `one user of two replicas ${where.databaseUrl ?? ''}`
    const users = await Promise.all([first, second].map((app) => app.user(words)))
    const [user, twin] = users as [TestUser, TestUser]
    const { paymentId, memo, to } = await prepared(user, '30000')
    const txHash = await send(user, to, '30000', memo)
    const sessions = await Promise.all(Array.from({ length: 24 }, () => session(user)))
    const either = (i: number) => (i % 2 === 0 ? user : twin)
    const message = { message: 'Hello', stream: false }
    const answers = await Promise.all([
      ...sessions.map((id, i) => either(i).post(`/messages/${id}`, message)),
      ...Array.from({ length: 6 }, (_, i) =>
        either(i).post('/payments/settle', { paymentId, txHash }),
      ),
      ...Array.from({ length: 6 }, (_, i) => either(i).post('/payments/claims', {})),
      ...Array.from({ length: 4 }, (_, i) =>
        either(i).post('/payments/claims', { advance: String(1000 + i) }),
      ),
    ])
    expect(answers.map(({ status }) => status).filter((status) => status >= 500)).toEqual([])
    const [open] = (await accountOf(user)).claims
    if (open)
      await Promise.all(
        [0, 1, 2, 3].map((i) =>
          either(i).post(`/payments/claims/${open}/dispute`, { reason: 'No' }),
        ),
      )
    const account = await settledAccount(user)
    const { charges } = (await user.get('/payments/charges')).body
    const { claims } = (await user.get('/payments/claims?limit=100')).body
    type Row = { status: string; kind?: string; amount: string }
    const sum = (rows: readonly Row[], ...statuses: string[]) =>
      rows
        .filter(({ status }) => statuses.includes(status))
        .reduce((all, { amount }) => all + Number(amount), 0)
    const usage = claims.filter(({ kind }: Row) => kind === 'usage')
    const turns = answers.slice(0, sessions.length).filter(({ status }) => status === 200)
    expect(charges).toHaveLength(turns.length)
    expect(Number(account.owed)).toBe(sum(charges, 'due'))
    expect(Number(account.owed)).toBe(sum(usage, 'open', 'disputed'))
    expect(Number(account.balance)).toBe(30_000 - sum(charges, 'paid'))
    // What was paid and the credit are room for ten turns, and never for an eleventh.
    expect(turns.length).toBeLessThanOrEqual(10)
    expect(Number(account.available)).toBeGreaterThanOrEqual(0)
  }, 120_000)

  test('a transaction that two accounts name at once counts for the one whose payment it is', async () => {
    const app = await paidApp({ where, env })
    const [user, thief] = [await app.user(), await app.user()]
    const own = await prepared(user, '1000')
    const theirs = await prepared(thief, '1000')
    const txHash = await send(user, own.to, '1000', own.memo)
    const answers = await Promise.all(
      Array.from({ length: 6 }, (_, i) =>
        i % 2 === 0
          ? user.post('/payments/settle', { paymentId: own.paymentId, txHash })
          : thief.post(
              '/payments/settle',
              i === 1 ? { txHash } : { paymentId: theirs.paymentId, txHash },
            ),
      ),
    )
    expect(answers.map(({ status }) => status)).toEqual([200, 409, 200, 409, 200, 409])
    expect([(await accountOf(user)).balance, (await accountOf(thief)).balance]).toEqual([
      '1000',
      '0',
    ])
  })

  test.each([' ', 'upper', 'prefix', 'twice', 'claim'])(
    'a memo that is nearly the right one pays nothing (%j)',
    async (how) => {
      const app = await paidApp({ where, env })
      const user = await app.user()
      const { paymentId, memo, to, claim } = await prepared(user, '1000')
      const memos: Record<string, string> = {
        ' ': `${memo} `,
        upper: memo.toUpperCase(),
        prefix: memo.slice(0, -1),
        twice: memo + memo,
        claim: `Approve claim ${claim.id}`,
      }
      const txHash = await send(user, to, '1000', memos[how] ?? '')
      for (const body of [{ paymentId, txHash }, { txHash }])
        expect(await user.post('/payments/settle', body)).toMatchObject({
          status: 409,
          body: { code: 'PAYMENT_MISMATCH' },
        })
      expect(await accountOf(user)).toMatchObject({ balance: '0' })
    },
  )

  test('two hundred new DIDs of one address have three times the free turns of one, and no more', async () => {
    const app = await paidApp({
      where,
      env: {
        ...env,
        PAYMENTS_FIRST_CREDIT: '0',
        PAYMENTS_FREE_TURNS: '2',
        TRUST_PROXY_ENABLED: 'true',
      },
    })
    const turnOf = async (user: TestUser, address: string) => {
      const body = { message: 'Hello', stream: false }
      const headers = { 'x-forwarded-for': address }
      return (await user.post(`/messages/${await session(user)}`, body, headers)).status
    }
    const one = `10.${[...randomBytes(3)].join('.')}`
    const strangers = await Promise.all(Array.from({ length: 200 }, () => app.user()))
    const statuses: number[] = []
    for (let i = 0; i < strangers.length; i += 20)
      statuses.push(
        ...(await Promise.all(strangers.slice(i, i + 20).map((user) => turnOf(user, one)))),
      )
    expect(statuses.filter((status) => status === 200)).toHaveLength(6)
    expect(statuses.filter((status) => status === 402)).toHaveLength(194)
    expect(await turnOf(await app.user(), `10.${[...randomBytes(3)].join('.')}`)).toBe(200)
  }, 120_000)

  test('a stranger reads, pays, disputes and settles nothing of another', async () => {
    const app = await paidApp({ where, env })
    const [user, stranger] = [await app.user(), await app.user()]
    const sessionId = await session(user)
    const said = await user.post(`/messages/${sessionId}`, { message: 'Hello', stream: false })
    expect(said.status).toBe(200)
    await settledAccount(user)
    const { claim } = (await user.post('/payments/claims', {})).body
    const [charge] = (await user.get('/payments/charges')).body.charges
    const address = await addressOf(stranger)
    const { paymentId } = (await user.post('/payments/prepare', { address: await addressOf(user) }))
      .body
    const statuses = [
      await stranger.get(`/payments/claims/${claim.id}`),
      await stranger.post(`/payments/claims/${claim.id}/dispute`, { reason: 'Mine' }),
      await stranger.post('/payments/prepare', { address, claims: [claim.id] }),
      await stranger.post('/payments/settle', { paymentId }),
      await stranger.post('/payments/settle', { paymentId, txHash: 'A'.repeat(64) }),
    ].map(({ status }) => status)
    expect(statuses).toEqual([404, 404, 404, 404, 404])
    for (const query of [`session=${sessionId}`, `run=${charge.runId}`])
      expect((await stranger.get(`/payments/charges?${query}`)).body.charges).toEqual([])
    expect((await stranger.get('/payments/claims')).body.claims).toEqual([])
    for (const path of ['/payments/admin/accounts', '/payments/admin/claims'])
      expect((await stranger.get(path)).status).toBe(403)
    expect(
      (
        await stranger.post('/payments/admin/credit', {
          did: stranger.did,
          amount: '1',
          reason: 'x',
        })
      ).status,
    ).toBe(403)
  })

  test('an account never holds more than it can count, and what it cannot count changes nothing', async () => {
    const app = await paidApp({ where, env })
    const user = await app.user()
    const most = String(Number.MAX_SAFE_INTEGER)
    const give = (amount: string) =>
      app.post('/payments/admin/credit', { did: user.did, amount, reason: 'A test' }, operator)
    expect((await give(most)).body).toMatchObject({ balance: most })
    expect((await give('1')).status).toBe(422)
    expect((await give('9007199254740992')).status).toBe(400)
    const { claim } = (await user.post('/payments/claims', { advance: most })).body
    expect(claim).toMatchObject({ amount: most })
    // What comes in above that stays uncounted, and the payment open for the operator to see.
    const { paymentId, memo, to } = await prepared(user, '1000')
    const txHash = await send(user, to, '1000', memo)
    const settle = () => user.post('/payments/settle', { paymentId, txHash })
    expect((await settle()).status).toBe(422)
    const sessionId = await session(user)
    const said = await user.post(`/messages/${sessionId}`, { message: 'Hello', stream: false })
    expect(said.status).toBe(200)
    expect(await settledAccount(user)).toMatchObject({ balance: '9007199254735991' })
    // Now there is room for it.
    expect((await settle()).status).toBe(200)
    expect(await accountOf(user)).toMatchObject({ balance: '9007199254736991' })
  })

  test('ten thousand claims are read page by page, asked for by the hundred, and paid by one credit', async () => {
    const app = await paidApp({ where, env, plugins: [payments, scribe] })
    const user = await app.user()
    await user.post('/payments/claims', { advance: '1' })
    await app.post('/claims-of', { did: user.did, count: 10_000 })
    const seen = new Set<string>()
    const times: string[] = []
    let path: string | undefined = '/payments/claims?status=open&limit=100'
    for (let pages = 0; path !== undefined && pages < 200; pages++) {
      const { claims, nextCursor }: { claims: any[]; nextCursor?: string } = (await user.get(path))
        .body
      expect(claims.length).toBeLessThanOrEqual(100)
      for (const { id, createdAt } of claims) {
        seen.add(id)
        times.push(createdAt)
      }
      path = nextCursor && `/payments/claims?status=open&limit=100&cursor=${nextCursor}`
    }
    expect(seen.size).toBe(10_001)
    expect(times).toEqual(times.toSorted().toReversed())
    const sessionId = await session(user)
    const say = () => user.post(`/messages/${sessionId}`, { message: 'Hello', stream: false })
    const refused = (await say()).body
    expect(refused.claims).toHaveLength(100)
    expect(refused).toMatchObject({ code: 'PAYMENT_REQUIRED', amount: '100' })
    expect((await pay(user, refused.claims)).settled?.body.paid).toHaveLength(100)
    const body = { did: user.did, amount: '9900', reason: 'A test' }
    expect((await app.post('/payments/admin/credit', body, operator)).status).toBe(200)
    expect(await accountOf(user)).toMatchObject({ owed: '0', balance: '0' })
    expect((await user.get('/payments/claims?status=open')).body.claims).toMatchObject([
      { kind: 'advance' },
    ])
  }, 120_000)
})
