import { describe, expect, it } from 'vitest'
import { scriptedModel } from '#core/testing'
import { testOracle } from '../oracle.ts'
import { until } from '../page.ts'
import { chatOf, plain } from './chats.ts'

describe('Stop', () => {
  it('works before the server has even heard of the message', async () => {
    const model = scriptedModel([
      { text: Array.from({ length: 400 }, (_, i) => `${i} `), paceMs: 10 },
    ])
    await using oracle = await testOracle({ plugins: [], model })
    const chat = await chatOf(oracle)
    const arrives = Promise.withResolvers<void>()
    oracle.proxy.interfere = ({ path, method }) => {
      if (method === 'POST' && /^\/messages\/(?!abort)/.test(path)) return arrives.promise
    }
    const sending = chat.sendMessage('Count')
    await until(() => oracle.proxy.requests.length > 1)
    const stopping = chat.abortStream()
    await until(() => oracle.proxy.to(/abort/).length === 1)
    arrives.resolve()
    await Promise.all([sending, stopping])
    expect(chat.getSnapshot()).toMatchObject({
      status: 'ready',
      error: null,
      sendMessageError: null,
      run: { ended: 'aborted' },
    })
    await until(() => model.requests.every(({ signal }) => signal.aborted))
    expect(plain(chat)[0]).toMatchObject({ content: 'Count' })
  })

  it('works when the network is gone: the page stops, and says that the server was not told', async () => {
    const model = scriptedModel([
      { text: Array.from({ length: 400 }, (_, i) => `${i} `), paceMs: 10 },
    ])
    await using oracle = await testOracle({ plugins: [], model })
    const chat = await chatOf(oracle)
    const sending = chat.sendMessage('Count')
    await until(() => plain(chat).length === 2)
    oracle.proxy.isOffline = true
    oracle.proxy.cutAll()
    await chat.abortStream()
    await sending
    expect(chat.getSnapshot()).toMatchObject({
      status: 'ready',
      error: { code: 'network' },
      run: { ended: 'aborted' },
    })
  })

  it('does nothing, and throws nothing, when nothing runs', async () => {
    await using oracle = await testOracle({ plugins: [], model: scriptedModel([]) })
    const chat = await chatOf(oracle)
    const { length } = oracle.proxy.requests
    await chat.abortStream()
    expect(oracle.proxy.requests).toHaveLength(length)
    await oracle.tab().chat({ oracleDid: oracle.oracleDid, sessionId: '' }).abortStream()
  })
})
