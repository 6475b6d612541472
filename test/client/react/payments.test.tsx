import type { EncodeObject } from '@cosmjs/proto-signing'
import { expect, it } from 'vitest'
import { scriptedModel } from '#core/testing'
import type { LedgerMessage, TransactionFn } from '../../../client/core/records.ts'
import { createOracleClient, type OracleClientOptions } from '../../../client/core/client.ts'
import type { IOraclesProviderProps } from '../../../client/index.ts'
import { usePayments } from '../../../client/payments.ts'
import payments from '../../../plugins/payments/index.ts'
import { testOracle } from '../oracle.ts'
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
    plugins: [payments],
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
  let sign: (sent: { transactionHash: string }) => unknown = ({ transactionHash }) =>
    transactionHash
  const client = createOracleClient({
    ...wallet,
    wallet: { ...wallet.initialWallet, address: dev.address },
    async transactSignX(messages: readonly LedgerMessage[], memo) {
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
  await until(() => page.now.account?.balance === '20000')
  sign = ({ transactionHash }) => ({ txhash: transactionHash })
  expect(await page.now.advance('10000')).toMatchObject({ balance: '30000' })

  // A wallet that tells no hash: the oracle finds the payment among the transfers.
  sign = () => undefined
  expect(await page.now.advance('15000')).toMatchObject({ balance: '45000' })

  sign = () => {
    throw new Error('No, said the user.')
  }
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
