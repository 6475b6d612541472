import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { createOracleClient } from '../../../client/core/client.ts'
import { scriptedModel } from '#core/testing'
import { shortTiming, tabStorage, testOracle, testWallet } from '../oracle.ts'
import { until } from '../page.ts'
import { chatOf, ended, plain } from './chats.ts'

const oracleDid = 'did:key:z6MkffDZCkCTWreg8868fG1FGFogcJj5X6PY93pPcWDn9bob'
const line = (id: number, event: string, data: unknown) =>
  `id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`

const call = { id: 'c-1', name: 'look', args: {}, status: 'done', output: '{}' }

/**
 * Serves a session whose run is under way: the history has the user's message and the first words of the reply. The
 * run's events come when `begins` has resolved.
 */
async function serve(begins: Promise<void>, onPost = () => {}): Promise<string> {
  const answers: Record<string, unknown> = {
    '/messages/s': {
      messages: [
        { id: 'user-r-0', type: 'human', content: 'Earlier', isComplete: true },
        { id: 'a-0', type: 'ai', content: 'Yes.', isComplete: true },
        {
          id: 'm-7',
          type: 'human',
          content: 'Count',
          isComplete: true,
          run: { runId: 'r-1', status: 'running' },
        },
        { id: 'a-1', type: 'ai', content: 'One ', toolCalls: [call], isComplete: false },
      ],
    },
    '/sessions/s/run': { run: { runId: 'r-1' } },
  }
  const server = createServer(async ({ url = '', method }, res) => {
    if (method === 'POST') onPost()
    if (url === '/runs/r-1' || method === 'POST') {
      await begins
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      return void res.end(
        line(1, 'run', { runId: 'r-1', requestId: 'q', userMessageId: 'm-7' }) +
          line(2, 'message', { content: 'One ' }) +
          line(3, 'message', { content: 'two.' }) +
          line(4, 'done', { runId: 'r-1', status: 'finished' }),
      )
    }
    res.writeHead(url in answers ? 200 : 404, { 'content-type': 'application/json' })
    res.end(JSON.stringify(answers[url] ?? { code: 'NOT_FOUND', message: 'No.' }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

it('the message that began a joined run is shown once, before the run is heard and after', async () => {
  let begin = () => {}
  const baseUrl = await serve(new Promise((resolve) => (begin = resolve)))
  const { initialWallet, createDelegation } = await testWallet()
  const client = createOracleClient({
    wallet: initialWallet,
    createDelegation,
    storage: tabStorage(),
    timing: shortTiming,
  })
  const chat = client.chat({ oracleDid, sessionId: 's', overrides: { baseUrl } })
  const shown = () => chat.getSnapshot().messages.map(({ content }) => content)
  onTestFinished(chat.subscribe(() => {}))
  await until(() => shown().length > 0)
  expect(shown()).toEqual(['Earlier', 'Yes.', 'Count', 'One '])
  begin()
  await until(() => chat.getSnapshot().run.ended === 'finished')
  expect(shown()).toEqual(['Earlier', 'Yes.', 'Count', 'One two.'])
})

it('a message that the history has before its run is heard is shown once', async () => {
  let begin = () => {}
  const posted = Promise.withResolvers<void>()
  const begins = new Promise<void>((resolve) => (begin = resolve))
  const baseUrl = await serve(begins, posted.resolve)
  const { initialWallet, createDelegation } = await testWallet()
  const client = createOracleClient({
    wallet: initialWallet,
    createDelegation,
    storage: tabStorage(),
    timing: shortTiming,
  })
  const chat = client.chat({ oracleDid, sessionId: 's', overrides: { baseUrl } })
  const shown = () => chat.getSnapshot().messages.map(({ content }) => content)
  // The run is begun as soon as its words are sent: the history is read for the first time then.
  const saying = chat.sendMessage('Count')
  onTestFinished(chat.subscribe(() => {}))
  await posted.promise
  await until(() => !chat.getSnapshot().isLoading)
  expect(shown()).toEqual(['Earlier', 'Yes.', 'Count'])
  begin()
  await saying
  expect(shown()).toEqual(['Earlier', 'Yes.', 'Count', 'One two.'])
})

it('a message is shown at once, before the server has answered anything', async () => {
  await using oracle = await testOracle({ plugins: [], model: scriptedModel(['Hello.']) })
  const chat = await chatOf(oracle)
  let answer = () => {}
  const held = new Promise<void>((resolve) => (answer = resolve))
  oracle.proxy.interfere = ({ method }) => (method === 'POST' ? held : undefined)
  const sending = chat.sendMessage('Hi')
  const shown = [{ type: 'human', content: 'Hi', isComplete: true }]
  expect(chat.getSnapshot().status).toBe('submitted')
  expect(plain(chat)).toMatchObject(shown)
  await until(() => oracle.proxy.to(/^\/messages\//, 'POST').length === 1)
  expect(plain(chat)).toMatchObject(shown)
  answer()
  await sending
  await until(() => ended(chat) === 'finished')
  expect(plain(chat).map(({ content }) => content)).toEqual(['Hi', 'Hello.'])
})

it('a message is shown at once while offline, stays when it cannot be sent, and is shown once when it is sent again', async () => {
  await using oracle = await testOracle({ plugins: [], model: scriptedModel(['Hello.']) })
  const chat = await chatOf(oracle)
  oracle.proxy.isOffline = true
  oracle.proxy.cutAll()
  const shown: unknown[][] = []
  chat.subscribe(() => shown.push(chat.getSnapshot().messages.map(({ content }) => content)))
  const sending = chat.sendMessage('Hi')
  expect(plain(chat).map(({ content }) => content)).toEqual(['Hi'])
  await sending
  expect(chat.getSnapshot()).toMatchObject({
    status: 'error',
    sendMessageError: { code: 'stream_interrupted' },
  })
  expect(plain(chat).map(({ content }) => content)).toEqual(['Hi'])
  oracle.proxy.isOffline = false
  const again = chat.sendMessage('Hi')
  expect(plain(chat).map(({ content }) => content)).toEqual(['Hi'])
  await again
  await until(() => ended(chat) === 'finished')
  expect(plain(chat).map(({ content }) => content)).toEqual(['Hi', 'Hello.'])
  expect(shown.filter((each) => each.filter((content) => content === 'Hi').length > 1)).toEqual([])
})
