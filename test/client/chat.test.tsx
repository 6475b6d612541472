import { expect, it } from 'vitest'
import { definePlugin } from '#core'
import { scriptedModel } from '#core/testing'
import { z } from 'zod'
import { useChat } from '../../client/index.ts'
import { testOracle } from './oracle.ts'
import { hook, until } from './page.ts'

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
