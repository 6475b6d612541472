import { wrapFetchWithPayment } from '@x402/fetch'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { definePlugin } from '#core'
import { onEachDatabase } from '../../test/support/each-database.ts'
import { faultsIn, look, sentence } from '../../test/support/nothing-kept.ts'
import { paidApp, pay, session, settledAccount } from '../../test/support/paid-app.ts'
import { fakeFacilitator, paidBy, payer } from './fixtures/fake-facilitator.ts'
import payments from './index.ts'

const mnemonic = 'legal winner thank year wave sausage worth useful legal winner thank yellow'

/** Shows every row of every table of payments, but for the keys that the development ledger keeps. */
const reader = definePlugin({
  name: 'reader',
  summary: 'Reads tables.',
  routes: {
    'GET /tables': {
      auth: 'public',
      run: async (_, { db }) => {
        const rows: Record<string, unknown> = {}
        for (const { name } of await db.introspection.getTables())
          if (name.startsWith('payments_') && name !== 'payments_dev_keys')
            rows[name] = (await sql`select * from ${sql.table(name)}`.execute(db)).rows
        return rows
      },
    },
  },
})

/** Keeps words where none may stand. */
const gossip = definePlugin({
  name: 'gossip',
  summary: 'Writes words into a table of payments.',
  routes: {
    'GET /gossip': {
      auth: 'public',
      run: async (_, { db }) => {
        const found = async () => (await look(db)).faults
        const before = await found()
        const memo = Buffer.from(`a memo that says ${sentence}`).toString('base64')
        for (const value of [sentence, memo])
          await sql`insert into payments_secrets (name, value) values (${value}, ${value})`.execute(
            db,
          )
        const after = await found()
        await sql`delete from payments_secrets`.execute(db)
        return { before, after }
      },
    },
  },
})

await onEachDatabase('what payments keep', (where) => {
  test('every test says the sentence, and whoever looks for it finds it', async () => {
    const app = await paidApp({ where, plugins: [payments, gossip] })
    const user = await app.user()
    const sessionId = await session(user)
    await user.post(`/messages/${sessionId}`, { message: 'Hello', stream: false })
    const { sessionId: other } = await user.say('Hello')
    for (const id of [sessionId, other])
      expect(JSON.stringify((await user.get(`/messages/${id}`)).body)).toContain(sentence)
    const name = 'the sentence of a conversation'
    expect((await app.get('/gossip')).body).toEqual({
      before: [],
      after: [`the table payments_secrets: ${name}`],
    })
    expect(faultsIn('a log line', `level=info ${sentence}`)).toEqual([`a log line: ${name}`])
  })
})

await onEachDatabase('what payments keep of all', (where) => {
  test('no words, mnemonic, signature or key stands in a table, a log line or a memo', async () => {
    const facilitator = await fakeFacilitator()
    const app = await paidApp({
      where,
      fetch,
      plugins: [payments, reader],
      steps: [`I heard: ${sentence}`],
      env: {
        ...paidBy(facilitator),
        PAYMENTS_FIRST_CREDIT: '5000',
        PAYMENTS_MNEMONIC: mnemonic,
        LOG_LEVEL: 'trace',
      },
    })
    const user = await app.user()
    const sessionId = await session(user)
    const signatures: string[] = []
    const watching: typeof fetch = async (input, init) => {
      const request = new Request(input, init)
      const header = request.headers.get('payment-signature')
      if (header) {
        const { payload } = JSON.parse(Buffer.from(header, 'base64').toString())
        signatures.push(header, payload.signature, payload.signature.slice(2))
      }
      return fetch(request)
    }
    const invocation = await user.wallet.invoke({ audience: app.oracleDid })
    const say = (by: typeof fetch) =>
      by(`${app.url}/messages/${sessionId}`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${invocation.text}`,
          'x-auth-type': 'ucan',
          'content-type': 'application/json',
        },
        body: JSON.stringify({ message: sentence, stream: false }),
      })
    // A turn on credit, one that is paid by signature, and one that is paid by transfer.
    expect((await say(fetch)).status).toBe(200)
    await settledAccount(user)
    const paid = await say(wrapFetchWithPayment(watching, payer().client))
    expect(paid.status).toBe(200)
    await settledAccount(user)
    expect((await say(fetch)).status).toBe(402)
    const transfer = await pay(user)
    expect(transfer.settled?.status).toBe(200)
    // A contract, and what the oracle collects by it.
    const { address } = (await user.get('/payments/development/account')).body
    const wish = { address, maxAmount: '50000', agentQuota: 100, days: 1 }
    const made = (await user.post('/payments/contracts', wish)).body
    const sent = await user.post('/payments/development/transact', {
      messages: made.messages,
      memo: made.memo,
    })
    const txHash = sent.body.transactionHash
    await user.post(`/payments/contracts/${made.id}/confirm`, { txHash })
    expect((await say(fetch)).status).toBe(200)
    const isCollected = async () =>
      JSON.stringify((await user.get('/payments/claims')).body.claims).includes('"contract"')
    await expect.poll(isCollected, { timeout: 30_000 }).toBe(true)
    await user.post('/payments/settle', { txHash: 'A'.repeat(64) })

    const tables = (await app.get('/tables')).body
    expect(Object.keys(tables)).toEqual(
      expect.arrayContaining([
        'payments_outbox',
        'payments_signatures',
        'payments_charges',
        'payments_dev_txs',
      ]),
    )
    expect(tables.payments_outbox.length).toBeGreaterThan(0)
    expect(tables.payments_signatures.length).toBeGreaterThan(0)
    expect(signatures).toHaveLength(3)
    const places = { tables: JSON.stringify(tables), log: app.log.join('\n') }
    const secrets = ['heron', mnemonic, 'sausage', ...signatures, 'the key of the facilitator']
    for (const [place, text] of Object.entries(places))
      for (const secret of secrets)
        expect(text.includes(secret), `${secret.slice(0, 30)} in ${place}`).toBe(false)
    const memos = JSON.stringify([transfer.prepared.body.memo, made.memo])
    for (const one of [user.did, sessionId, address]) expect(memos).not.toContain(one)
  })
})
