import { describe, expect, it, vi } from 'vitest'
import { scriptedModel } from '#core/testing'
import { heldModel } from '../../support/held-model.ts'
import { testOracle } from '../oracle.ts'
import { until } from '../page.ts'
import { chatOf, plain } from './chats.ts'

describe('a refused token', () => {
  const refuse = { status: 401, body: { code: 'UNAUTHORIZED', message: 'No valid credential.' } }

  it('once is replaced, and nobody notices', async () => {
    await using oracle = await testOracle({ plugins: [], model: scriptedModel(['Hello.']) })
    const chat = await chatOf(oracle)
    // The channel needs tokens of its own kind, which must not be counted below.
    await until(() => chat.getSnapshot().isRealTimeConnected)
    const { minted } = oracle.wallet
    const before = { ...minted }
    let refusals = 0
    oracle.proxy.interfere = ({ method }) =>
      method === 'POST' && refusals++ === 0 ? refuse : undefined
    await chat.sendMessage('Hi')
    expect(plain(chat)[1]!.content).toBe('Hello.')
    expect(chat.getSnapshot().sendMessageError).toBeNull()
    expect(minted).toEqual({
      delegations: before.delegations + 1,
      invocations: before.invocations + 1,
    })
    expect(oracle.proxy.to(/^\/messages/, 'POST')).toHaveLength(2)
  })

  it('twice is an error of its own', async () => {
    await using oracle = await testOracle({ plugins: [], model: scriptedModel([]) })
    const chat = await chatOf(oracle)
    oracle.proxy.interfere = ({ method }) => (method === 'POST' ? refuse : undefined)
    await chat.sendMessage('Hi')
    expect(chat.getSnapshot()).toMatchObject({
      status: 'error',
      sendMessageError: { code: 'unauthorized', status: 401 },
    })
    expect(oracle.proxy.to(/^\/messages/, 'POST')).toHaveLength(2)
    // What was said is still there, and is not there twice when it is said again.
    oracle.proxy.interfere = undefined
    expect(plain(chat).map(({ content }) => content)).toEqual(['Hi'])
  })

  it('is replaced when a stream is joined again, too', async () => {
    const model = heldModel(['One '], ['two.'])
    await using oracle = await testOracle({ plugins: [], model })
    const chat = await chatOf(oracle)
    let refusals = 0
    oracle.proxy.interfere = ({ path }) =>
      /runs/.test(path) && refusals++ === 0 ? refuse : undefined
    const sending = chat.sendMessage('Count')
    await until(() => plain(chat).length === 2)
    oracle.proxy.cutAll()
    await until(() => refusals > 1)
    model.goOn()
    await sending
    expect(refusals).toBeGreaterThan(1)
    expect(plain(chat)[1]!.content).toBe('One two.')
  })

  it('is asked for once by many at the same time', async () => {
    await using oracle = await testOracle({ plugins: [], model: scriptedModel([]) })
    const client = oracle.tab()
    await oracle.session()
    const before = oracle.wallet.minted.invocations
    await Promise.all(
      [1, 2, 3, 4].map(() => client.request(oracle.oracleDid, `${oracle.app.url}/sessions`)),
    )
    expect(oracle.wallet.minted.invocations).toBe(before + 1)
  })

  it('that is about to end is replaced before it is sent', async () => {
    await using oracle = await testOracle({ plugins: [], model: scriptedModel([]) })
    const { wallet } = oracle
    vi.useFakeTimers({ toFake: ['Date'] })
    try {
      const begun = Date.now()
      let count = 0
      const client = oracle.tab({
        async createInvocation(did) {
          count++
          return { ...(await wallet.createInvocation(did)), expiresAt: Date.now() + 60_000 }
        },
      })
      const ask = () => client.request(oracle.oracleDid, `${oracle.app.url}/sessions`)
      await ask()
      vi.setSystemTime(begun + 50_000)
      await ask()
      expect(count).toBe(1)
      vi.setSystemTime(begun + 56_000)
      await ask()
      expect(count).toBe(2)
    } finally {
      vi.useRealTimers()
    }
  })
})
