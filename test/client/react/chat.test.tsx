import { expect, it } from 'vitest'
import { definePlugin } from '#core'
import { scriptedModel } from '#core/testing'
import { z } from 'zod'
import { OraclesProvider, useChat } from '../../../client/index.ts'
import { shortTiming, testOracle } from '../oracle.ts'
import { hook, until } from '../page.ts'

const never = () => {
  throw new Error('Nothing was to be paid.')
}

const library = definePlugin({
  name: 'library',
  summary: 'Knows books.',
  visibility: 'always',
  tools: {
    find_book: {
      description: 'Finds a book.',
      effect: 'read',
      input: z.object({ title: z.string() }),
      run: ({ title }, ctx) => {
        ctx.emit.component('BookCard', { title })
        return { title, shelf: 7 }
      },
    },
  },
})

it('says something, streams the answer, and has in the end what the history has', async () => {
  const model = scriptedModel([
    { text: 'Looking.', calls: [{ call: 'find_book', args: { title: 'X' } }] },
    'It is on shelf 7.',
  ])
  await using oracle = await testOracle({ plugins: [library], model })
  const { oracleDid, overrides } = oracle
  const sessionId = await oracle.session()
  const seen = hook(
    () => useChat({ oracleDid, sessionId, overrides, onPaymentRequiredError: never }),
    oracle.provided,
  )
  expect(seen.now).toMatchObject({
    messages: [],
    isLoading: true,
    status: 'ready',
    isConfigReady: false,
  })
  await until(() => !seen.now.isLoading)
  const sending = seen.now.sendMessage('Where is X?')
  await until(() => seen.now.status === 'submitted' || seen.now.status === 'streaming')
  expect(seen.now.isSending).toBe(true)
  await sending
  await until(() => seen.now.status === 'ready')
  const said = seen.now.messages.map(({ type, content, toolCalls, isComplete }) => ({
    type,
    content,
    toolCalls,
    isComplete,
  }))
  await seen.now.refetchMessages()
  await until(() => seen.now.messages.length === 3)
  expect(said).toMatchObject([
    { type: 'human', content: 'Where is X?' },
    {
      type: 'ai',
      content: 'Looking.',
      toolCalls: [
        {
          name: 'find_book',
          args: { title: 'X' },
          status: 'done',
          result: { title: 'X', shelf: 7 },
        },
        { name: 'BookCard', args: { title: 'X' }, status: 'done' },
      ],
    },
    { type: 'ai', content: 'It is on shelf 7.', isComplete: true },
  ])
  expect(oracle.proxy.to(/^\/messages/, 'POST')).toHaveLength(1)
})

it('a message that is said before the history has come stands behind it, once', async () => {
  const model = scriptedModel(['First.', { text: ['Second', '.'], paceMs: 60 }])
  await using oracle = await testOracle({ plugins: [], model })
  const { oracleDid, overrides, proxy } = oracle
  const sessionId = await oracle.session()
  await (await oracle.app.user('a user')).say('One', { sessionId })
  const history = Promise.withResolvers<void>()
  proxy.interfere = ({ method }) => (method === 'GET' ? history.promise : undefined)
  const seen = hook(
    () => useChat({ oracleDid, sessionId, overrides, onPaymentRequiredError: never }),
    oracle.provided,
  )
  const sending = seen.now.sendMessage('Two')
  await until(() => seen.now.messages.length === 2)
  history.resolve()
  await sending
  await until(() => !seen.now.isLoading)
  const said = () => seen.now.messages.map(({ content }) => content)
  expect(said()).toEqual(['One', 'First.', 'Two', 'Second.'])
  await seen.now.refetchMessages()
  expect(said()).toEqual(['One', 'First.', 'Two', 'Second.'])
})

it('batched publishes once in a while, immediate for every event, and both end with the same text', async () => {
  const text = Array.from({ length: 60 }, (_, i) => `${i} `)
  const renders: Record<string, number> = {}
  for (const streamingMode of ['batched', 'immediate'] as const) {
    const model = scriptedModel([{ text, paceMs: 4 }])
    await using oracle = await testOracle({ plugins: [], model })
    const { oracleDid, overrides } = oracle
    const sessionId = await oracle.session()
    const seen = hook(
      () =>
        useChat({ oracleDid, sessionId, overrides, streamingMode, onPaymentRequiredError: never }),
      // So long that a slow machine, too, has many pieces in between.
      oracle.within(oracle.tab({ timing: { ...shortTiming, flushMs: 1000 } })),
    )
    await until(() => !seen.now.isLoading)
    const before = seen.renders
    await seen.now.sendMessage('Count')
    await until(() => seen.now.status === 'ready')
    expect(seen.now.messages[1]!.content).toBe(text.join(''))
    renders[streamingMode] = seen.renders - before
  }
  expect(renders.immediate).toBeGreaterThan(20)
  expect(renders.batched).toBeLessThan(renders.immediate! / 2)
})

it('without createInvocation the delegation alone says who calls', async () => {
  await using oracle = await testOracle({ plugins: [], model: scriptedModel(['Hello.']) })
  const { oracleDid, overrides, proxy, wallet } = oracle
  const sessionId = await oracle.session()
  const { createInvocation: _, ...rest } = wallet
  const seen = hook(
    () => useChat({ oracleDid, sessionId, overrides, onPaymentRequiredError: never }),
    (child) => <OraclesProvider {...rest}>{child}</OraclesProvider>,
  )
  await until(() => !seen.now.isLoading)
  await seen.now.sendMessage('Hi')
  expect(seen.now.sendMessageError).toBeNull()
  const { headers } = proxy.to(/^\/messages/, 'POST')[0]!
  expect(headers).toMatchObject({ 'x-ucan-delegation': expect.stringMatching(/.{100}/) })
  expect(headers.authorization).toBeUndefined()
})

it('a page that came by plain HTTP, where there is no randomUUID, can say something, too', async () => {
  await using oracle = await testOracle({ plugins: [], model: scriptedModel(['Hello.']) })
  const { oracleDid, overrides, proxy } = oracle
  const chat = oracle.tab().chat({ oracleDid, overrides, sessionId: await oracle.session() })
  Object.defineProperty(crypto, 'randomUUID', { value: undefined, configurable: true })
  try {
    await chat.sendMessage('Hi')
  } finally {
    Reflect.deleteProperty(crypto, 'randomUUID')
  }
  expect(chat.getSnapshot()).toMatchObject({ status: 'ready', sendMessageError: null })
  const { requestId } = JSON.parse(proxy.to(/^\/messages/, 'POST')[0]!.body)
  expect(requestId).toMatch(/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/)
  expect(typeof crypto.randomUUID).toBe('function')
})
