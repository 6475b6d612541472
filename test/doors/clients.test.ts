import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { definePlugin } from '#core'
import { scriptedModel, testApp, type ScriptedStep } from '#core/testing'
import a2a from '../../plugins/a2a/index.ts'
import agUi from '../../plugins/ag-ui/index.ts'
import aiSdk from '../../plugins/ai-sdk/index.ts'
import mcpServers from '../../plugins/mcp/index.ts'
import openaiApi from '../../plugins/openai-api/index.ts'
import { message } from '../support/mcp-clients.ts'

const ended: unknown[] = []
const ends = definePlugin({
  name: 'ends',
  summary: 'Notes how runs end.',
  visibility: 'silent',
  runs: { end: ({ cause }) => void ended.push(cause) },
})

type Env = Readonly<Record<string, string>>

/** What each door is asked in its own words, with a stream as the answer. */
const doors: Readonly<
  Record<string, (session: string) => { readonly headers?: Env; readonly body: object }>
> = {
  '/openai/v1/chat/completions': (session) => ({
    headers: { 'x-session-id': session, 'idempotency-key': session },
    body: { model: 'oracle', stream: true, messages: [{ role: 'user', content: 'Go' }] },
  }),
  '/ai-sdk/chat': (id) => ({
    headers: { 'x-alone': '0' },
    body: { id, messages: [{ id, role: 'user', parts: [{ type: 'text', text: 'Go' }] }] },
  }),
  '/ag-ui': (threadId) => ({
    headers: { 'x-alone': '0' },
    body: { threadId, runId: threadId, messages: [{ id: threadId, role: 'user', content: 'Go' }] },
  }),
  '/mcp': () => ({
    headers: {
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': 'ask',
    },
    body: message('tools/call', { name: 'ask', arguments: { message: 'Go' } }),
  }),
  '/a2a': (messageId) => ({
    headers: { 'a2a-version': '1.0' },
    body: {
      ...{ jsonrpc: '2.0', id: 1, method: 'SendStreamingMessage' },
      params: { message: { messageId, role: 'ROLE_USER', parts: [{ text: 'Go' }] } },
    },
  }),
}
/** A2A has tasks that go on when nobody listens. */
const stopping = Object.keys(doors).filter((path) => path !== '/a2a')

async function open(steps: readonly ScriptedStep[], env: Env = {}) {
  ended.length = 0
  const model = scriptedModel(steps)
  const plugins = [a2a, agUi, aiSdk, mcpServers, openaiApi, ends]
  const app = await testApp({ plugins, model, env })
  onTestFinished(() => app.close())
  const user = await app.user()
  const authorization = `Bearer ${(await user.post('/keys', { name: 'a client' })).body.key}`
  const asking = (path: string, session: string = randomUUID()) => {
    const { headers, body } = doors[path]!(session)
    return {
      headers: { 'content-type': 'application/json', authorization, ...headers },
      body: JSON.stringify(body),
    }
  }
  return {
    ...{ app, model, user },
    /** A request whose answer nobody has read. */
    ask: (path: string, session?: string, signal?: AbortSignal) =>
      fetch(`${app.url}${path}`, { method: 'POST', ...asking(path, session), signal }),
    /** A request over a bare socket, which reads what the test reads and nothing more. */
    async socket(path: string): Promise<Socket> {
      const { host, hostname, port } = new URL(app.url)
      const { headers, body } = asking(path)
      const lines = Object.entries({
        ...{ host, connection: 'close', 'content-length': String(Buffer.byteLength(body)) },
        ...headers,
      }).map(([name, value]) => `${name}: ${value}\r\n`)
      const socket = connect({ port: Number(port), host: hostname })
      socket.on('error', () => undefined)
      await once(socket, 'connect')
      socket.pause()
      socket.write(`POST ${path} HTTP/1.1\r\n${lines.join('')}\r\n${body}`)
      return socket
    },
  }
}

const held =
  (begun: () => void): ScriptedStep =>
  ({ signal }) => {
    begun()
    return new Promise((resolve) => signal.addEventListener('abort', () => resolve('Cut.')))
  }

test.each(stopping)('%s: who leaves before the first event stops the model', async (path) => {
  let begun = 0
  const { ask } = await open([held(() => begun++)])
  const leaving = new AbortController()
  const asked = ask(path, undefined, leaving.signal).catch(() => undefined)
  await expect.poll(() => begun).toBe(1)
  leaving.abort()
  await asked
  await expect.poll(() => ended, { timeout: 20_000 }).toHaveLength(1)
})

test('/a2a: who leaves before the first event finds the task done', async () => {
  const { ask, user } = await open(['Done.'])
  const leaving = new AbortController()
  const asked = ask('/a2a', undefined, leaving.signal).catch(() => undefined)
  await expect.poll(() => ended, { timeout: 20_000 }).toHaveLength(1)
  leaving.abort()
  await asked
  expect((await user.get('/sessions')).body.total).toBe(1)
})

// More than the buffers of both ends of a connection hold.
const flood = Array.from({ length: 40 }, () => 'x'.repeat(200_000))

test.each(Object.keys(doors))('%s: who reads a byte a second holds nobody up', async (path) => {
  const { socket, ask } = await open([{ text: flood }, 'Quick.'])
  const slow = await socket(path)
  onTestFinished(() => void slow.destroy())
  const bytes: number[] = []
  for (let second = 0; second < 3; second++) {
    await sleep(1_000)
    const byte: Buffer | null = slow.read(1)
    if (byte) bytes.push(...byte)
  }
  expect(bytes.length).toBeGreaterThan(0)
  const quick = await ask(path)
  expect(quick.status).toBe(200)
  expect(await quick.text()).toContain('Quick.')
  slow.destroy()
  await expect.poll(() => ended.length, { timeout: 20_000 }).toBe(2)
})

test.each(Object.keys(doors))('%s: of 300 streams at once each ends in its words', async (path) => {
  const { ask, model } = await open(
    // One for each, where none is one too many, and one for the request after them.
    Array.from({ length: 301 }, () => 'Done.'),
    { TURNS_AT_ONCE: '10', TURNS_PER_DAY: '1000', RATE_LIMIT_PER_MINUTE: '10000' },
  )
  const answers = await Promise.all(
    Array.from({ length: 300 }, async () => {
      const answer = await ask(path)
      return { status: answer.status, text: await answer.text() }
    }),
  )
  const good = answers.filter(({ text }) => text.includes('Done.'))
  expect(good.length).toBeGreaterThan(0)
  expect(model.requests).toHaveLength(good.length)
  // Whoever is one too many is told so, and not dropped.
  for (const { text, status } of answers)
    if (!text.includes('Done.'))
      expect([status, text]).toEqual([
        expect.any(Number),
        expect.stringMatching(/too many|at once|busy|RATE_LIMITED|rate_limit/i),
      ])
  expect((await ask(path)).status).toBe(200)
})

test.each(['/openai/v1/chat/completions', '/a2a'])(
  '%s: the same request ten times at once is one turn',
  async (path) => {
    const { ask, model } = await open([{ text: 'Once.', delayMs: 200 }])
    const answers = await Promise.all(
      Array.from({ length: 10 }, async () => (await ask(path, 'same')).text()),
    )
    expect(model.requests).toHaveLength(1)
    for (const answer of answers) expect(answer).toContain('Once.')
  },
)
