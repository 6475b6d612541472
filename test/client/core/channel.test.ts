import { expect, it } from 'vitest'
import { definePlugin, type PluginSessions } from '#core'
import { scriptedModel } from '#core/testing'
import type { Chat } from '../../../client/core/chat/chat.ts'
import { heldModel } from '../../support/held-model.ts'
import { tabStorage, testOracle, type TestOracle } from '../oracle.ts'
import { until } from '../page.ts'
import { unquote } from '../../support/models.ts'

const call = (name: string, args: unknown = {}) => ({ call: name, args })

async function opened(oracle: TestOracle, sessionId: string): Promise<Chat> {
  const { oracleDid, overrides } = oracle
  const chat = oracle.tab({ storage: tabStorage() }).chat({ oracleDid, overrides, sessionId })
  chat.subscribe(() => {})
  await until(() => !chat.getSnapshot().isLoading)
  return chat
}

const texts = (chat: Chat) => chat.getSnapshot().messages.map(({ content }) => content)

it('the channel connects with the session, says so, and comes back after it was lost', async () => {
  await using oracle = await testOracle({ plugins: [], model: scriptedModel([]) })
  const chat = await opened(oracle, await oracle.session())
  await until(() => chat.getSnapshot().isRealTimeConnected)
  oracle.proxy.cutAll()
  await until(() => !chat.getSnapshot().isRealTimeConnected)
  await until(() => chat.getSnapshot().isRealTimeConnected)
})

it('what was said while the channel was away is shown once it is back', async () => {
  let sessions: PluginSessions | undefined
  const teller = definePlugin({
    name: 'teller',
    summary: 'Says things.',
    setup: (boot) => void (sessions = boot.sessions),
  })
  await using oracle = await testOracle({ plugins: [teller], model: scriptedModel([]) })
  const sessionId = await oracle.session()
  const chat = await opened(oracle, sessionId)
  await until(() => chat.getSnapshot().isRealTimeConnected)
  oracle.proxy.isOffline = true
  oracle.proxy.cutAll()
  await until(() => !chat.getSnapshot().isRealTimeConnected)
  await sessions?.say({ user: oracle.wallet.initialWallet, session: sessionId, text: 'Ding.' })
  oracle.proxy.isOffline = false
  await until(() => texts(chat).includes('Ding.'))
  await until(() => chat.getSnapshot().isRealTimeConnected)
})

it('what one tab says, the other shows while it streams', async () => {
  const model = heldModel(['One '], ['two ', 'three.'])
  await using oracle = await testOracle({ plugins: [], model })
  const sessionId = await oracle.session()
  const here = await opened(oracle, sessionId)
  const there = await opened(oracle, sessionId)
  await until(() => there.getSnapshot().isRealTimeConnected)
  const sending = here.sendMessage('Count')
  await until(() => there.getSnapshot().status === 'streaming')
  model.goOn()
  await sending
  await until(() => there.getSnapshot().status === 'ready' && texts(there).length === 2)
  expect(texts(there)).toEqual(['Count', 'One two three.'])
  expect(texts(here)).toEqual(texts(there))
})

it('a tool of the page runs once though stream and channel both ask, and its result comes by either', async () => {
  const model = scriptedModel([call('where'), 'Well.'])
  await using oracle = await testOracle({ plugins: [], model })
  const chat = await opened(oracle, await oracle.session())
  let calls = 0
  const fn = () => ({ at: ++calls })
  const where = { toolName: 'where', description: 'Where the user is.', schema: {}, fn }
  chat.use(() => ({ browserTools: { where } }))
  await until(() => chat.getSnapshot().isRealTimeConnected)
  // Without the HTTP way: the channel alone brings the result.
  oracle.proxy.interfere = ({ path }) => (/tool-results/.test(path) ? 'cut' : undefined)
  await chat.sendMessage('Where am I?')
  expect(calls).toBe(1)
  expect(unquote(model.requests[1]!.messages.at(-1)!.content)).toBe('{"at":1}')
})

it('a turn makes no request beyond its own, with the channel open', async () => {
  await using oracle = await testOracle({ plugins: [], model: scriptedModel(['Hello.']) })
  const sessionId = await oracle.session()
  const chat = await opened(oracle, sessionId)
  await until(() => chat.getSnapshot().isRealTimeConnected)
  await chat.sendMessage('Hi')
  await new Promise((resolve) => setTimeout(resolve, 100))
  expect(oracle.proxy.requests.map(({ method, path }) => `${method} ${path}`)).toEqual([
    `GET /messages/${sessionId}`,
    `POST /messages/${sessionId}`,
  ])
})

it('a result that is too long for a frame comes by HTTP, and the channel stays open', async () => {
  const model = scriptedModel([call('read_page'), 'Well.'])
  await using oracle = await testOracle({ plugins: [], model })
  const chat = await opened(oracle, await oracle.session())
  const fn = () => 'x'.repeat(100_000)
  const tool = { toolName: 'read_page', description: 'Reads the page.', schema: {}, fn }
  chat.use(() => ({ browserTools: { tool } }))
  await until(() => chat.getSnapshot().isRealTimeConnected)
  await chat.sendMessage('Read it')
  expect(model.requests[1]!.messages.at(-1)!.content.length).toBeGreaterThan(10_000)
  expect(chat.getSnapshot()).toMatchObject({ isRealTimeConnected: true, status: 'ready' })
})
