import { type ReactNode, useState } from 'react'
import { expect, it } from 'vitest'
import { scriptedModel } from '#core/testing'
import { OraclesProvider, useChat, useOraclesContext } from '../../../client/index.ts'
import { testOracle, testWallet, type TestWallet } from '../oracle.ts'
import { hook, until } from '../page.ts'

const onPaymentRequiredError = () => {}

it('the context mints the tokens of the user, and asks the oracle with them', async () => {
  await using oracle = await testOracle({ plugins: [], model: scriptedModel(['Hello.']) })
  const { oracleDid, overrides, wallet } = oracle
  const sessionId = await oracle.session()
  const seen = hook(
    () => ({
      chat: useChat({ oracleDid, sessionId, overrides, onPaymentRequiredError }),
      context: useOraclesContext(),
    }),
    oracle.provided,
  )
  await until(() => !seen.now.chat.isLoading)
  await seen.now.chat.sendMessage('Hi')
  await until(() => seen.now.chat.messages.length === 2)
  expect(await seen.now.context.getDelegation(oracleDid)).toMatch(/^[A-Za-z0-9+/]+=*$/)
  expect(
    await seen.now.context.authedRequest(`${overrides.baseUrl}/sessions`, 'GET', {}, oracleDid),
  ).toMatchObject({ total: 1 })
  expect(wallet.minted.invocations).toBeLessThan(4)
})

it('another user in the same provider sees nothing of the first one’s chat', async () => {
  await using oracle = await testOracle({ plugins: [], model: scriptedModel(['Hello.']) })
  const { oracleDid, overrides, wallet } = oracle
  const sessionId = await oracle.session()
  const other = await testWallet('another user')
  const setUser: ((props: TestWallet) => void)[] = []
  function Users({ children }: { children: ReactNode }) {
    const [user, set] = useState(wallet)
    setUser[0] = set
    return <OraclesProvider {...user}>{children}</OraclesProvider>
  }
  const seen = hook(
    () => ({
      chat: useChat({ oracleDid, sessionId, overrides, onPaymentRequiredError }),
      context: useOraclesContext(),
    }),
    (child) => <Users>{child}</Users>,
  )
  await until(() => !seen.now.chat.isLoading)
  await seen.now.chat.sendMessage('Hi')
  await until(() => seen.now.chat.messages.length === 2)
  const { context } = seen.now
  setUser[0]?.(other)
  await until(() => seen.now.chat.error)
  expect(seen.now.chat).toMatchObject({ messages: [], error: { code: 'not_found' } })
  expect(seen.now.context.wallet).toBe(other.initialWallet)
  // What the first user has begun goes on as the first user.
  const before = { ...other.minted }
  await context.getDelegation(other.initialWallet.did)
  expect(other.minted).toEqual(before)
  expect(context.wallet).toBe(wallet.initialWallet)
})
