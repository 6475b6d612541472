import { createElement, StrictMode, type ReactNode } from 'react'
import { expect, it } from 'vitest'
import { definePlugin } from '#core'
import { scriptedModel } from '#core/testing'
import { useMemoryEngine } from '../../../client/index.ts'
import { useMemories } from '../../../client/memory.ts'
import memory from '../../../plugins/memory/index.ts'
import { testOracle } from '../oracle.ts'
import { hook, until } from '../page.ts'

/** Counts the requests for the memories, and holds changes back for as long as the test wants to see what the page shows. */
const counted = () => {
  const asked: string[] = []
  let held = Promise.resolve()
  /** Has what follows shown while no change is answered. */
  const unanswered = async (look: () => Promise<void>) => {
    const gate = Promise.withResolvers<void>()
    held = gate.promise
    await look().finally(gate.resolve)
  }
  const plugin = definePlugin({
    name: 'counting',
    summary: 'Counts requests.',
    middleware: {
      http: async (ctx, next) => {
        if (ctx.path.startsWith('/memory')) asked.push(`${ctx.method} ${ctx.url}`)
        if (ctx.method !== 'GET') await held
        return next()
      },
    },
  })
  return { asked, plugin, unanswered }
}

it('useMemories: one request under StrictMode, changes that show at once, and fall back where they are refused', async () => {
  const { asked, plugin, unanswered } = counted()
  await using oracle = await testOracle({ plugins: [memory, plugin], model: scriptedModel([]) })
  const { oracleDid, overrides } = oracle
  const strict = (child: ReactNode) =>
    createElement(StrictMode, null, oracle.within(oracle.tab())(child))
  const page = hook(() => useMemories(oracleDid, { overrides }), strict)
  await until(() => !page.now.isLoading)
  expect(asked).toEqual(['GET /memory?limit=200'])
  expect(page.now).toMatchObject({ memories: [], total: 0, error: null, query: '' })

  let adding: Promise<unknown> = Promise.resolve()
  await unanswered(async () => {
    adding = page.now.add({ text: 'has a pinkish bicycle' })
    await until(() => page.now.total === 1)
    expect(page.now.memories.map(({ text }) => text)).toEqual(['has a pinkish bicycle'])
  })
  await adding
  await page.now.add({ text: 'likes tea', kind: 'preference' })
  await until(() => page.now.total === 2)
  const bicycle = () => page.now.memories.find(({ text }) => /bicycle/.test(text))
  const id = bicycle()?.id ?? ''

  let changing: Promise<{ text: string }> = Promise.resolve({ text: '' })
  await unanswered(async () => {
    changing = page.now.update(id, { text: 'has a greenish bicycle' })
    await until(() => bicycle()?.text === 'has a greenish bicycle')
  })
  expect((await changing).text).toBe('has a greenish bicycle')

  // Another tab changes it: what this one shows is old, and the oracle says so.
  await oracle
    .tab()
    .request(oracleDid, `/memory/${id}`, { method: 'PATCH', body: { pinned: true } }, overrides)
  let refused: Promise<unknown> = Promise.resolve()
  await unanswered(async () => {
    refused = page.now.update(id, { text: 'has no bicycle' })
    refused.catch(() => {})
    await until(() => bicycle()?.text === 'has no bicycle')
  })
  await expect(refused).rejects.toMatchObject({ status: 412 })
  await until(() => page.now.error?.status === 412)
  expect(bicycle()).toMatchObject({ text: 'has a greenish bicycle', pinned: true })

  await expect(page.now.add({ text: 'my password is hunter2' })).rejects.toMatchObject({
    status: 422,
  })
  page.now.setQuery('greenish')
  await until(() => page.now.total === 1 && !page.now.isLoading)
  expect(bicycle()?.id).toBe(id)
  page.now.setQuery('')
  await until(() => page.now.total === 2)
  expect(await page.now.exportAll()).toMatchObject({ version: 1, memories: [{}, {}] })

  let removing: Promise<unknown> = Promise.resolve()
  await unanswered(async () => {
    removing = page.now.remove(id)
    await until(() => page.now.total === 1)
    expect(bicycle()).toBeUndefined()
  })
  expect(await removing).toMatchObject({ erased: 1, sessions: [] })
  await expect(page.now.remove(id)).rejects.toMatchObject({ status: 404 })
  const sessionId = await oracle.session()
  await page.now.setIncognito(sessionId, true)
  expect(await page.now.usedIn('no-such-run')).toEqual({ used: [], noticed: [] })
  expect(await page.now.removeAll()).toEqual({ erased: 1 })
  await until(() => page.now.total === 0)
})

it('useMemories: falls back on 409 when the memory is full', async () => {
  const { plugin, unanswered } = counted()
  await using oracle = await testOracle({
    plugins: [memory, plugin],
    model: scriptedModel([]),
    env: { MEMORY_MAX: '1' },
  })
  const { oracleDid, overrides } = oracle
  const page = hook(() => useMemories(oracleDid, { overrides }), oracle.within(oracle.tab()))
  await until(() => !page.now.isLoading)
  await page.now.add({ text: 'likes tea' })
  let adding: Promise<unknown> = Promise.resolve()
  await unanswered(async () => {
    adding = page.now.add({ text: 'has a bicycle' })
    adding.catch(() => {})
    await until(() => page.now.total === 2)
    expect(page.now.memories[0]?.text).toBe('has a bicycle')
  })
  await expect(adding).rejects.toMatchObject({ status: 409 })
  await until(() => page.now.error?.status === 409)
  expect(page.now.memories.map(({ text }) => text)).toEqual(['likes tea'])
  expect(page.now.total).toBe(1)
})

it('useMemoryEngine: turns memory on and sets every mode; a foreign account needs a messaging account', async () => {
  await using oracle = await testOracle({
    plugins: [memory],
    model: scriptedModel([]),
    env: { MEMORY_ENGINE_USER_ID: '@memory:example.org' },
  })
  const { oracleDid, overrides } = oracle
  const page = hook(() => useMemoryEngine(oracleDid, overrides), oracle.within(oracle.tab()))
  await until(() => page.now.mode === 'ask')
  await until(() => !page.now.isLoadingMembers && !page.now.isLoadingOracleRoomId)
  await page.now.enableMemoryEngine()
  await until(() => page.now.mode === 'on')
  for (const mode of ['paused', 'off', 'ask', 'on'] as const) {
    await page.now.setMode(mode)
    await until(() => page.now.mode === mode)
  }
  await page.now.setMode('paused')
  await page.now.enableMemoryEngine('@memory:example.org')
  await until(() => page.now.mode === 'on')
  const lacking = { code: 'plugin_not_available' }
  await expect(page.now.enableMemoryEngine('@other:example.org')).rejects.toMatchObject(lacking)
  await expect(page.now.inviteUser('@other:example.org')).rejects.toMatchObject(lacking)
  await until(() => page.now.error?.message.includes('messaging') === true)
  expect(page.now).toMatchObject({ isInvitingUser: false, isLoadingMemoryEngine: false })
})

it('useMemoryEngine: says which plugin is lacking where the oracle has no memory', async () => {
  await using oracle = await testOracle({ plugins: [], model: scriptedModel([]) })
  const { oracleDid, overrides } = oracle
  const page = hook(() => useMemoryEngine(oracleDid, overrides), oracle.within(oracle.tab()))
  await until(() => page.now.error?.code === 'plugin_not_available')
  expect(page.now.error?.message).toContain('"memory"')
  await expect(page.now.setMode('on')).rejects.toMatchObject({ code: 'plugin_not_available' })
})
