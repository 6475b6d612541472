import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { createOracleClient } from '../../../client/core/client.ts'
import { shortTiming, tabStorage, testWallet } from '../oracle.ts'
import { until } from '../page.ts'

const oracleDid = 'did:key:z6MkffDZCkCTWreg8868fG1FGFogcJj5X6PY93pPcWDn9bob'
const line = (id: number, event: string, data: unknown) =>
  `id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`

const call = { id: 'c-1', name: 'look', args: {}, status: 'done', output: '{}' }

/** Serves a session whose run is under way: the history has the user's message and the first words of the reply. */
async function serve(userMessageId: string, run: object): Promise<string> {
  const answers: Record<string, unknown> = {
    '/messages/s': {
      messages: [
        { id: 'user-r-0', type: 'human', content: 'Earlier', isComplete: true },
        { id: 'a-0', type: 'ai', content: 'Yes.', isComplete: true },
        { id: userMessageId, type: 'human', content: 'Count', isComplete: true },
        { id: 'a-1', type: 'ai', content: 'One ', toolCalls: [call], isComplete: false },
      ],
    },
    '/sessions/s/run': { run: { runId: 'r-1' } },
  }
  const server = createServer(({ url = '' }, res) => {
    if (url === '/runs/r-1') {
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      return void res.end(
        line(1, 'run', { runId: 'r-1', requestId: 'q', ...run }) +
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

it.each([
  ['the server says its id', 'm-7', { userMessageId: 'm-7' }],
  ['an older server names it after the run', 'user-r-1', {}],
] as const)('the message that began a joined run is shown once: %s', async (_, id, run) => {
  const baseUrl = await serve(id, run)
  const { initialWallet, createDelegation } = await testWallet()
  const client = createOracleClient({
    wallet: initialWallet,
    createDelegation,
    storage: tabStorage(),
    timing: shortTiming,
  })
  const chat = client.chat({ oracleDid, sessionId: 's', overrides: { baseUrl } })
  onTestFinished(chat.subscribe(() => {}))
  await until(() => chat.getSnapshot().run.ended === 'finished')
  expect(chat.getSnapshot().messages.map(({ content }) => content)).toEqual([
    'Earlier',
    'Yes.',
    'Count',
    'One two.',
  ])
})
