import { expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { scriptedModel } from '#core/testing'
import { useCapabilities, useChat, useModels, useOracleSessions } from '../../../client/index.ts'
import { testOracle } from '../oracle.ts'
import { hook, until } from '../page.ts'

const onPaymentRequiredError = () => {}

it('sessions: created, listed page by page, deleted, the same for all who look', async () => {
  await using oracle = await testOracle({ plugins: [], model: scriptedModel([]) })
  const { oracleDid, overrides } = oracle
  const client = oracle.tab()
  const list = () => useOracleSessions(oracleDid, { ...overrides, limit: 2 })
  const seen = hook(list, oracle.within(client))
  const other = hook(list, oracle.within(client))
  await until(() => !seen.now.isLoading)
  expect(seen.now).toMatchObject({ sessions: [], total: 0, error: null, hasNextPage: false })
  const made = []
  for (let i = 0; i < 5; i++) made.push(await seen.now.createSession())
  expect(made[0]).toMatchObject({ sessionId: expect.any(String), oracleDid })
  await until(() => other.now.sessions.length === 5)
  expect(oracle.proxy.to(/^\/sessions\?/)).toHaveLength(1)

  const fresh = hook(list, oracle.within(oracle.tab()))
  await until(() => fresh.now.sessions.length === 2)
  expect(fresh.now).toMatchObject({ total: 5, hasNextPage: true })
  await fresh.now.fetchNextPage()
  await fresh.now.fetchNextPage()
  expect(new Set(fresh.now.sessions.map(({ sessionId }) => sessionId)).size).toBe(5)
  expect(fresh.now.hasNextPage).toBe(false)
  await fresh.now.deleteSession(made[2]!.sessionId)
  expect(fresh.now).toMatchObject({
    total: 4,
    isDeletingSession: false,
    isDeleteSessionError: false,
  })
  await expect(fresh.now.deleteSession('none-of-mine')).rejects.toMatchObject({ code: 'not_found' })
  await until(() => fresh.now.isDeleteSessionError)
})

it('capabilities are listed, and loaded by hand; a model is chosen for the turns to come', async () => {
  const books = definePlugin({
    name: 'books',
    summary: 'Knows books.',
    whenToUse: ['The user asks for a book.'],
    tools: { find: { description: 'Finds.', effect: 'read', input: z.object({}), run: () => 1 } },
  })
  const words = 'You are Mwila.'
  const model = scriptedModel(['Hello.'])
  await using oracle = await testOracle({ plugins: [books], model, instructions: words })
  const { oracleDid, overrides } = oracle
  const sessionId = await oracle.session()
  const seen = hook(
    () => ({
      capabilities: useCapabilities(oracleDid, { sessionId, overrides }),
      models: useModels(oracleDid, overrides),
      chat: useChat({ oracleDid, sessionId, overrides, onPaymentRequiredError }),
    }),
    oracle.provided,
  )
  const plugin = () => seen.now.capabilities.plugins.find(({ name }) => name === 'books')
  await until(() => plugin())
  expect(plugin()).toMatchObject({
    visibility: 'on-demand',
    loaded: false,
    tools: [{ name: 'find' }],
  })
  expect(seen.now.capabilities.instructionsBytes).toBe(words.length)
  await seen.now.capabilities.load('books')
  await until(() => plugin()?.loaded)
  await until(() => seen.now.models.defaultModelId)
  expect(seen.now.models).toMatchObject({
    models: [{ isDefault: true }],
    error: null,
    model: seen.now.models.defaultModelId,
  })
  seen.now.models.setModel(seen.now.models.defaultModelId)
  await seen.now.chat.sendMessage('Hi')
  const sent = JSON.parse(oracle.proxy.to(/^\/messages/, 'POST')[0]!.body)
  expect(sent).toMatchObject({ message: 'Hi', model: seen.now.models.defaultModelId })
})
