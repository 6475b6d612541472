import { expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { scriptedModel } from '#core/testing'
import { useNotices, type UserEvent } from '../../../client/notices.ts'
import { testOracle, type TestOracle } from '../oracle.ts'
import { hook, until } from '../page.ts'

/** A plugin whose jobs fail: the user of a dead job gets a notice. */
const failing = definePlugin({
  name: 'helper',
  summary: 'Fails at what it is asked for.',
  jobs: { fail: { input: z.object({}), attempts: 1, run: (_, { job }) => job.giveUp('No.') } },
  routes: {
    'POST /fail': {
      auth: 'public',
      input: z.object({ did: z.string() }),
      run: ({ did }, { jobs }) => jobs.later('fail', {}, { user: did }),
    },
  },
})

const fail = ({ app, wallet }: TestOracle) => app.post('/fail', { did: wallet.initialWallet.did })

it('notices: read once and then heard, for all who look by one stream, seen everywhere', async () => {
  await using oracle = await testOracle({ plugins: [failing], model: scriptedModel(['Hello.']) })
  const { oracleDid, overrides, proxy } = oracle
  await fail(oracle)
  const client = oracle.tab()
  const heard: UserEvent[] = []
  const onEvent = (event: UserEvent) => void heard.push(event)
  const one = hook(() => useNotices(oracleDid, { overrides, onEvent }), oracle.within(client))
  const two = hook(() => useNotices(oracleDid, { overrides }), oracle.within(client))
  expect(one.now).toMatchObject({ notices: [], unread: 0, isLoading: true, isConnected: false })
  await until(() => one.now.isConnected && one.now.unread === 1)
  await fail(oracle)
  await until(() => two.now.unread === 2)
  expect(two.now.notices).toBe(one.now.notices)
  expect(proxy.to(/^\/events/)).toHaveLength(1)
  expect(proxy.to(/^\/notices\?/)).toHaveLength(1)
  // Another tab of the user marks one as seen, and this one hears of it.
  const other = hook(() => useNotices(oracleDid, { overrides }), oracle.within(oracle.tab()))
  await until(() => other.now.isConnected)
  await other.now.markSeen({ ids: [other.now.notices[0]!.id] })
  expect(other.now).toMatchObject({ unread: 1, error: null })
  await until(() => one.now.unread === 1 && one.now.notices[0]?.seenAt !== undefined)
  await one.now.markSeen({ upTo: one.now.notices[0]!.id })
  expect(one.now.unread).toBe(0)
  const sessionId = await oracle.session()
  await until(() => heard.some(({ eventName }) => eventName === 'session'))
  expect(heard.at(-1)).toEqual({ eventName: 'session', payload: { sessionId, change: 'made' } })
})

it('notices: each once and in order, however often the connection breaks', async () => {
  await using oracle = await testOracle({ plugins: [failing], model: scriptedModel([]) })
  const { oracleDid, overrides, proxy } = oracle
  const seen = hook(() => useNotices(oracleDid, { overrides }), oracle.provided)
  await until(() => seen.now.isConnected)
  for (let round = 1; round <= 3; round++) {
    await fail(oracle)
    await until(() => seen.now.notices.length === 2 * round - 1)
    proxy.cutAll()
    await fail(oracle)
    await until(() => seen.now.notices.length === 2 * round && seen.now.isConnected)
  }
  const ids = seen.now.notices.map(({ id }) => id)
  expect(new Set(ids).size).toBe(6)
  expect([...ids].sort((a, b) => b - a)).toEqual(ids)
  expect(seen.now).toMatchObject({ unread: 6, error: null })
  const [last] = proxy.to(/^\/events/).slice(-1)
  expect(Number(last?.headers['last-event-id'])).toBeGreaterThan(0)
})

it('notices: a plugin is muted and heard again; the stream ends when nobody looks', async () => {
  await using oracle = await testOracle({
    plugins: [failing],
    model: scriptedModel([]),
    env: { STREAMS_PER_ADDRESS: '1' },
  })
  const { app, oracleDid, overrides } = oracle
  const seen = hook(() => useNotices(oracleDid, { overrides }), oracle.provided)
  await until(() => seen.now.isConnected)
  await seen.now.mute('helper')
  expect(seen.now.muted).toEqual(['helper'])
  await expect(seen.now.mute('nobody')).rejects.toMatchObject({ code: 'invalid_request' })
  await seen.now.unmute('helper')
  expect(seen.now.muted).toEqual([])
  await fail(oracle)
  await until(() => seen.now.unread === 1)
  const headers = await oracle.tab().tokens.headers(oracleDid)
  const another = async () => {
    const stop = new AbortController()
    const { status } = await fetch(`${app.url}/events`, { headers, signal: stop.signal })
    stop.abort()
    return status
  }
  expect(await another()).toBe(429)
  seen.unmount()
  await expect.poll(another).toBe(200)
})

it('notices: read and heard as soon as a server is there that was not when the page was opened', async () => {
  await using oracle = await testOracle({ plugins: [failing], model: scriptedModel([]) })
  const { oracleDid, overrides, proxy } = oracle
  await fail(oracle)
  proxy.isOffline = true
  const seen = hook(() => useNotices(oracleDid, { overrides }), oracle.provided)
  await until(() => seen.now.error?.code === 'network')
  expect(seen.now).toMatchObject({ notices: [], isLoading: false, isConnected: false })
  proxy.isOffline = false
  await until(() => seen.now.isConnected)
  expect(seen.now).toMatchObject({ unread: 1, error: null })
  await fail(oracle)
  await until(() => seen.now.unread === 2)
})
