import { StrictMode, version } from 'react'
import { renderToString } from 'react-dom/server'
import { expect, it } from 'vitest'
import { scriptedModel } from '#core/testing'
import {
  OraclesProvider,
  renderMessageContent,
  useApproval,
  useCapabilities,
  useChat,
  useChatAnnouncer,
  useModels,
  useOracleSessions,
  useRun,
} from '../../../client/index.ts'
import { heldModel } from '../../support/held-model.ts'
import { testOracle } from '../oracle.ts'
import { hook, mount, until } from '../page.ts'

it('runs on the React that this project of the suite is for', () => {
  expect(version.split('.')[0]).toBe(process.env.REACT)
})

it('under StrictMode twenty consumers cost one history request and one stream', async () => {
  await using oracle = await testOracle({ plugins: [], model: scriptedModel(['Hello there.']) })
  const { oracleDid, overrides, proxy } = oracle
  const sessionId = await oracle.session()
  const options = { oracleDid, sessionId, overrides, onPaymentRequiredError: () => {} }
  const chats: ReturnType<typeof useChat>[] = []
  function Consumer({ i }: { i: number }) {
    chats[i] = useChat({ ...options, browserTools: {}, uiComponents: {} })
    return <p>{chats[i].messages.map(({ content }) => renderMessageContent(content))}</p>
  }
  const page = mount(
    <StrictMode>
      {oracle.provided(Array.from({ length: 20 }, (_, i) => <Consumer key={i} i={i} />))}
    </StrictMode>,
  )
  await until(() => !chats[0]!.isLoading)
  expect(proxy.requests.map(({ path }) => path)).toEqual([`/messages/${sessionId}`])
  await chats[3]!.sendMessage('Hi')
  await until(() => chats[19]!.status === 'ready' && chats[19]!.messages.length === 2)
  expect(proxy.requests.slice(1).map(({ method, path }) => `${method} ${path}`)).toEqual([
    `POST /messages/${sessionId}`,
  ])
  await until(() => page.container.querySelectorAll('p').length === 20)
  for (const p of page.container.querySelectorAll('p')) expect(p.textContent).toBe('HiHello there.')
})

it('only the message that changed has a new identity', async () => {
  const model = heldModel(['a'], ['b', 'c', 'd'], ['One.'])
  await using oracle = await testOracle({ plugins: [], model })
  const { oracleDid, overrides } = oracle
  const sessionId = await oracle.session()
  const seen = hook(
    () => useChat({ oracleDid, sessionId, overrides, onPaymentRequiredError: () => {} }),
    oracle.provided,
  )
  await until(() => !seen.now.isLoading)
  await seen.now.sendMessage('First')
  await until(() => seen.now.status === 'ready')
  const before = seen.now.messages
  const during: unknown[] = []
  const sending = seen.now.sendMessage('Second')
  await until(() => {
    const last = seen.now.messages[3]
    if (last && during.at(-1) !== last) during.push(last)
    if (during.length > 0) model.goOn()
    return seen.now.status === 'ready' && during.length > 1
  })
  await sending
  expect(seen.now.messages.slice(0, 2)).toEqual(before)
  expect(seen.now.messages[0]).toBe(before[0])
  expect(seen.now.messages[1]).toBe(before[1])
  expect(during.length).toBeGreaterThan(1)
  const settled = seen.now.messages
  await seen.now.refetchMessages()
  expect(seen.now.messages.every((message, i) => message === settled[i])).toBe(true)
})

it('inline options neither loop nor make the chat anew', async () => {
  await using oracle = await testOracle({ plugins: [], model: scriptedModel([]) })
  const { oracleDid, overrides, proxy } = oracle
  const sessionId = await oracle.session()
  const seen = hook(
    () =>
      useChat({
        oracleDid,
        sessionId,
        overrides: { ...overrides },
        onPaymentRequiredError: () => {},
        browserTools: { a: { toolName: 'a', description: 'A.', schema: {}, fn: () => 1 } },
        uiComponents: { Card: () => null },
      }),
    oracle.provided,
  )
  await until(() => !seen.now.isLoading && seen.now.isRealTimeConnected)
  const { renders } = seen
  await new Promise((resolve) => setTimeout(resolve, 150))
  expect(seen.renders).toBe(renders)
  expect(renders).toBeLessThan(8)
  expect(proxy.requests).toHaveLength(1)
})

it('renders on a server, without a request', async () => {
  await using oracle = await testOracle({ plugins: [], model: scriptedModel([]) })
  const { oracleDid, overrides, proxy, wallet } = oracle
  function Everything() {
    const address = { oracleDid, sessionId: 'some-session', overrides }
    const { messages, isLoading, status } = useChat({
      ...address,
      onPaymentRequiredError: () => {},
    })
    const { sessions } = useOracleSessions(oracleDid, overrides)
    const { models } = useModels(oracleDid, overrides)
    const { plugins } = useCapabilities(oracleDid, address)
    const { pending } = useApproval(address)
    const { ended } = useRun(address)
    const announcer = useChatAnnouncer(address)
    const all = { messages, isLoading, status, sessions, models, plugins, pending, ended }
    return (
      <>
        <pre>{JSON.stringify(all)}</pre>
        <div {...announcer} />
      </>
    )
  }
  const html = renderToString(
    <OraclesProvider {...wallet}>
      <Everything />
    </OraclesProvider>,
  )
  expect(JSON.parse(/<pre>(.*)<\/pre>/.exec(html)![1]!.replaceAll('&quot;', '"'))).toEqual({
    messages: [],
    isLoading: true,
    status: 'ready',
    sessions: [],
    models: [],
    plugins: [],
    pending: null,
    ended: null,
  })
  expect(html).toContain('<div role="status" aria-live="polite" aria-atomic="true"></div>')
  expect(proxy.requests).toEqual([])
})

it('a component that leaves lets go of the stream and stops nothing', async () => {
  const model = heldModel(['One '], ['two ', 'three.'])
  await using oracle = await testOracle({ plugins: [], model })
  const { oracleDid, overrides, proxy } = oracle
  const sessionId = await oracle.session()
  const use = () => useChat({ oracleDid, sessionId, overrides, onPaymentRequiredError: () => {} })
  const first = hook(use, oracle.provided)
  await until(() => !first.now.isLoading)
  const sending = first.now.sendMessage('Count')
  await until(() => first.now.status === 'streaming')
  first.unmount()
  await sending
  expect(proxy.to(/abort/)).toEqual([])
  const again = hook(use, oracle.provided)
  model.goOn()
  await until(
    () => again.now.messages[1]?.content === 'One two three.' && again.now.status === 'ready',
  )
  expect(again.now.messages).toHaveLength(2)
})
