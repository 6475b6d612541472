import { type EncodeObject, Registry } from '@cosmjs/proto-signing'
import { expect, it, onTestFinished, vi } from 'vitest'
import { z } from 'zod'
import { definePlugin, reply, RuntimeError } from '#core'
import { scriptedModel } from '#core/testing'
import type { LedgerMessage, TransactionFn } from '../../../client/core/records.ts'
import { createOracleClient, type OracleClientOptions } from '../../../client/core/client.ts'
import type { IOraclesProviderProps } from '../../../client/index.ts'
import { usePayments } from '../../../client/payments.ts'
import payments from '../../../plugins/payments/index.ts'
import { testOracle } from '../oracle.ts'
import { lookedThrough } from '../../support/nothing-kept.ts'
import { hook, until } from '../page.ts'

/** What libraries of chains answer for a transaction that stands in a block. */
interface DeliverTxResponse {
  readonly height: number
  readonly txIndex: number
  readonly code: number
  readonly transactionHash: string
  readonly events: readonly object[]
  readonly rawLog?: string
  readonly gasUsed: bigint
  readonly gasWanted: bigint
}

/** A wallet as these libraries type it: compiling this as `transactSignX` is the test. */
const typed: (
  messages: readonly EncodeObject[],
  memo?: string,
) => Promise<DeliverTxResponse | undefined> = async () => undefined
export const fits: TransactionFn = typed
export const ofProvider: Pick<IOraclesProviderProps, 'transactSignX'> = { transactSignX: typed }
export const ofClient: Pick<OracleClientOptions, 'transactSignX'> = { transactSignX: typed }

const env = { PAYMENTS_TURN_PRICE: '5000', PAYMENTS_FIRST_CREDIT: '0' }

it('payments: pays what is open by the wallet, advances, disputes, and says what it cost', async () => {
  await using oracle = await testOracle({
    plugins: [payments, lookedThrough(() => oracle.app.log)],
    model: scriptedModel(['Yes.', 'Yes.']),
    env,
  })
  const { oracleDid, overrides, wallet } = oracle
  const plain = oracle.tab()
  const dev = await plain.request<{ address: string }>(
    oracleDid,
    '/payments/development/account',
    {},
    overrides,
  )
  const given: [readonly LedgerMessage[], string | undefined][] = []
  let refuses = false
  let sign: (sent: { transactionHash: string }) => unknown = ({ transactionHash }) =>
    transactionHash
  const client = createOracleClient({
    ...wallet,
    wallet: { ...wallet.initialWallet, address: dev.address },
    async transactSignX(messages: readonly LedgerMessage[], memo) {
      if (refuses) throw new Error('No, said the user.')
      given.push([messages, memo])
      const sent = await plain.request<{ transactionHash: string }>(
        oracleDid,
        '/payments/development/transact',
        { body: { messages, memo } },
        overrides,
      )
      return sign(sent)
    },
  })
  const page = hook(() => usePayments(oracleDid, { overrides }), oracle.within(client))
  await until(() => page.now.account !== undefined)
  expect(page.now).toMatchObject({ claims: [], charges: [], error: null, isPaying: false })
  expect(page.now.terms).toMatchObject({ symbol: 'DEV', prices: { turn: '5000' } })

  const settled = await page.now.advance('20000')
  expect(settled).toMatchObject({ status: 'settled', balance: '20000' })
  const [[messages, memo] = [[], '']] = given
  const value = {
    fromAddress: dev.address,
    toAddress: expect.stringMatching(/^dev1[a-z0-9]{38}$/),
    amount: [{ denom: 'udev', amount: '20000' }],
  }
  expect(messages).toEqual([{ typeUrl: '/cosmos.bank.v1beta1.MsgSend', value }])
  expect(memo).toMatch(/^oracle:[\da-f-]{36}$/)
  const registry = new Registry()
  for (const { typeUrl, value: sent } of messages)
    expect(
      registry.decode({ typeUrl, value: registry.encode({ typeUrl, value: sent }) }),
    ).toMatchObject(value)
  await until(() => page.now.account?.balance === '20000')
  sign = ({ transactionHash }) => ({ txhash: transactionHash })
  expect(await page.now.advance('10000')).toMatchObject({ balance: '30000' })

  // A wallet that tells no hash: the oracle finds the payment among the transfers.
  sign = () => undefined
  expect(await page.now.advance('15000')).toMatchObject({ balance: '45000' })

  // A wallet that fails after it has sent the transaction.
  sign = () => {
    throw new Error('The connection was lost.')
  }
  expect(await page.now.advance('11000')).toMatchObject({ balance: '56000' })

  refuses = true
  await expect(page.now.advance('12000')).rejects.toMatchObject({ code: 'payment_failed' })
  await until(() => page.now.error?.code === 'payment_failed')
  await page.now.refetch()
  await until(() => page.now.claims.some(({ status }) => status === 'open'))
  const [open] = page.now.account?.claims ?? []
  await page.now.dispute(String(open), 'I did not want it')
  await until(() => page.now.claims.some(({ status }) => status === 'disputed'))
})

it('payments: an oracle that has no such plugin says so', async () => {
  await using oracle = await testOracle({ plugins: [], model: scriptedModel(['Yes.']) })
  const { oracleDid, overrides } = oracle
  const page = hook(() => usePayments(oracleDid, { overrides }), oracle.within(oracle.tab()))
  await until(() => page.now.error !== null)
  expect(page.now.error).toMatchObject({ code: 'plugin_not_available' })
})

/** The routes of payments, of which `settle` answers what the test says, one after the other. */
function fakePayments(answers: (() => unknown)[]) {
  const settled: object[] = []
  const plugin = definePlugin({
    name: 'payments',
    summary: 'Payments that are not real.',
    facts: () => ({ payments: { methods: ['transfer'] } }),
    routes: {
      'GET /payments/terms': { auth: 'public', run: () => ({}) },
      'GET /payments/account': { run: () => ({ claims: [] }) },
      'GET /payments/claims': { run: () => ({ claims: [] }) },
      'GET /payments/charges': { run: () => ({ charges: [] }) },
      'POST /payments/prepare': {
        input: z.looseObject({}),
        run: () => ({ paymentId: 'p-1', messages: [], memo: 'oracle:p-1' }),
      },
      'POST /payments/settle': {
        input: z.looseObject({}),
        answers: { 200: ['application/json'], 202: ['application/json'] },
        run: (input: object) => (settled.push(input), answers.shift()?.()),
      },
    },
  })
  return { plugin, settled }
}

const pending = () => reply(202, { status: 'pending' })
const away = () => {
  throw new RuntimeError('UNAVAILABLE', 'The ledger is away.')
}
const done = () => ({ status: 'settled', paid: ['c-1'], balance: '0' })
const hash = 'AB'.repeat(32)

async function payer(answers: (() => unknown)[], sign: () => unknown = () => ({ hash })) {
  const { plugin, settled } = fakePayments(answers)
  const oracle = await testOracle({ plugins: [plugin], model: scriptedModel([]) })
  onTestFinished(() => oracle[Symbol.asyncDispose]())
  let signatures = 0
  const client = oracle.tab({ transactSignX: async () => (signatures++, sign()) })
  const { oracleDid, overrides } = oracle
  const page = hook(() => usePayments(oracleDid, { overrides }), oracle.within(client))
  await until(() => page.now.account !== undefined)
  return { page, settled, signatures: () => signatures }
}

it('payments: while the ledger has not counted it, or cannot be asked, it asks again and signs once', async () => {
  const { page, settled, signatures } = await payer([pending, away, pending, done])
  const paying = page.now.pay()
  await until(() => page.now.isPaying)
  expect(await paying).toEqual(done())
  expect(settled).toEqual(Array.from({ length: 4 }, () => ({ paymentId: 'p-1', txHash: hash })))
  expect(signatures()).toBe(1)
  await until(() => !page.now.isPaying)
  expect(page.now.error).toBe(null)
}, 20_000)

it('payments: after a minute the outcome stays open, and who has signed is told not to pay again', async () => {
  const minute = vi.useFakeTimers({ toFake: ['Date'], now: Date.now() })
  onTestFinished(() => void vi.useRealTimers())
  const later = () => (minute.setSystemTime(Date.now() + 61_000), pending())
  const { page, settled, signatures } = await payer([later])
  await expect(page.now.pay()).rejects.toMatchObject({
    code: 'payment_pending',
    hint: expect.stringContaining('Do not pay again'),
    details: { paymentId: 'p-1', txHash: hash },
  })
  expect([settled.length, signatures()]).toEqual([1, 1])
  await until(() => page.now.error?.code === 'payment_pending' && !page.now.isPaying)
}, 20_000)

it('payments: a transaction that is not this payment is an error at once', async () => {
  const other = () => {
    throw new RuntimeError('CONFLICT', 'The memo is that of another payment.')
  }
  const { page, settled } = await payer([other, done])
  await expect(page.now.pay()).rejects.toMatchObject({
    code: 'invalid_request',
    status: 409,
    message: 'The memo is that of another payment.',
  })
  expect(settled).toHaveLength(1)
})

it('payments: a wallet that fails after it has sent the transaction is no reason to pay twice', async () => {
  const fails = (facts: object) => () => {
    throw Object.assign(new Error('It was submitted, and is not in a block yet.'), facts)
  }
  // The error names the transaction, as that of the ledger's own library does.
  const named = await payer([pending, done], fails({ txId: hash }))
  expect(await named.page.now.pay()).toEqual(done())
  expect(named.settled.at(-1)).toEqual({ paymentId: 'p-1', txHash: hash })

  // It names none: the oracle looks among the transfers.
  const silent = await payer([done], fails({}))
  expect(await silent.page.now.pay()).toEqual(done())
  expect(silent.settled).toEqual([{ paymentId: 'p-1' }])

  // It has sent nothing.
  const refused = await payer([pending], fails({ hash: 'no hash' }))
  await expect(refused.page.now.pay()).rejects.toMatchObject({
    code: 'payment_failed',
    hint: expect.stringContaining('before you try again'),
  })
  for (const { signatures } of [named, silent, refused]) expect(signatures()).toBe(1)
}, 20_000)
