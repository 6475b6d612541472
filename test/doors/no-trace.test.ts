import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { call, scriptedModel, testApp, type ScriptedStep } from '#core/testing'
import { onPostgres } from '../support/each-database.ts'
import { everyPlugin, everyPluginEnv } from '../support/every-plugin.ts'
import { message } from '../support/mcp-clients.ts'
import { searchDatabase } from '../support/search-database.ts'
import { connect } from '../support/sockets.ts'

const text = 'Hello'
const said = { role: 'user', content: text }

/** A request by each door, and by the native routes: what is right, and what fails. */
const requests: readonly (readonly [
  path: string,
  body?: unknown,
  headers?: Record<string, string>,
])[] = [
  ['/openai/v1/models'],
  ['/openai/v1/chat/completions', { model: 'oracle', messages: [said] }],
  ['/openai/v1/chat/completions', { model: 'oracle', messages: [said] }, { 'x-session-id': 'one' }],
  ['/openai/v1/chat/completions', { model: 'nobody', messages: [said] }],
  ['/openai/v1/embeddings', { input: 'a' }],
  [
    '/ai-sdk/chat',
    { id: 'two', messages: [{ id: 'a', role: 'user', parts: [{ type: 'text', text }] }] },
  ],
  ['/ai-sdk/chat', { id: 'two', messages: [] }],
  ['/ai-sdk/chat/two/messages'],
  ['/ag-ui', { threadId: 'three', runId: 'a', messages: [{ id: 'a', ...said }] }],
  ['/ag-ui', { threadId: '..', runId: 'a', messages: [{ id: 'a', ...said }] }],
  [
    '/a2a',
    {
      jsonrpc: '2.0',
      id: 1,
      method: 'SendMessage',
      params: { message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text }] } },
    },
    { 'a2a-version': '1.0' },
  ],
  ['/a2a', { jsonrpc: '2.0', id: 1, method: 'Nothing' }, { 'a2a-version': '1.0' }],
  ['/.well-known/agent-card.json'],
  [
    '/mcp',
    message('tools/list'),
    {
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/list',
    },
  ],
  [
    '/mcp',
    message('tools/call', { name: 'ask', arguments: { message: text } }),
    {
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': 'ask',
    },
  ],
  ['/mcp', 'not json'],
  ['/messages/three', { message: text }],
  ['/messages/three', 'not json'],
  ['/sessions'],
  ['/keys'],
  ['/keys', { name: 'another' }],
  ['/delegation', {}],
  ['/me/export'],
  ['/capabilities'],
  ['/no/such/route'],
  ['/health'],
  ['/openapi.json'],
]

async function everywhere(env: Record<string, string>, database: string) {
  const script: ScriptedStep[] = Array.from({ length: 12 }, (_, n) =>
    n % 2 === 0 ? 'Hello.' : call('load_capability', { names: ['weather'] }),
  )
  const model = scriptedModel([...script, ...Array.from({ length: 20 }, () => 'Hello.')])
  const app = await testApp({
    plugins: everyPlugin,
    model,
    env: {
      ...{ ...everyPluginEnv, ...env },
      ORACLE_MNEMONIC: 'words of the test of traces',
      LOG_LEVEL: 'debug',
      RATE_LIMIT_PER_MINUTE: '10000',
    },
  })
  try {
    const user = await app.user()
    const can = ['oracle/call', 'tools/call']
    const { key } = (await user.post('/keys', { name: 'everywhere', can })).body
    expect(key).toMatch(/^ok_/)
    const told: string[] = []
    const ask = async (sent: Record<string, string>) => {
      for (const [path, body, headers] of requests) {
        const answer = await fetch(app.url + path, {
          method: body === undefined ? 'GET' : 'POST',
          headers: { 'content-type': 'application/json', ...headers, ...sent },
          ...(body !== undefined && {
            body: typeof body === 'string' ? body : JSON.stringify(body),
          }),
        })
        told.push(
          `${path} ${answer.status} ${JSON.stringify([...answer.headers])} ${await answer.text()}`,
        )
      }
    }
    await ask({ authorization: `Bearer ${key}` })
    await ask({ 'x-api-key': key })
    const socket = connect(`${app.url}/ws`)
    await socket.opened
    const { body: session } = await app.post('/sessions', undefined, {
      authorization: `Bearer ${key}`,
    })
    socket.send({ type: 'auth', sessionId: session.sessionId, auth: { invocation: key } })
    const isConnected = socket.find((line) => (line.includes('connected') ? line : undefined))
    const seen = await Promise.race([isConnected, socket.closed])
    expect(JSON.stringify(seen)).toContain('connected')
    socket.send({ type: 'nothing', auth: { invocation: key } })
    const secret = String(key).slice('ok_'.length)
    expect(await searchDatabase(database, [secret])).toEqual([])
    // The search sees what is there.
    expect((await searchDatabase(database, ['everywhere'])).join()).toContain('kernel_keys')
    const { id } = (await user.get('/keys')).body.keys[0]
    await user.delete(`/keys/${id}`)
    await socket.closed
    await ask({ authorization: `Bearer ${key}` })
    // What is nearly a key is no more for anybody's eyes.
    await ask({ authorization: `Basic ${key}` })
    await ask({ authorization: `Bearer ${key}x` })
    // The doors were open, so this is no search among refusals.
    for (const path of [
      '/openai/v1/chat/completions',
      '/ai-sdk/chat',
      '/ag-ui',
      '/a2a',
      '/mcp',
      '/messages/three',
    ])
      expect([
        path,
        told.some((each) => each.startsWith(`${path} 200`) && each.includes('Hello.')),
      ]).toEqual([path, true])
    expect(told.filter((each) => each.includes(secret))).toEqual([])
    expect(app.log.length).toBeGreaterThan(10)
    expect(app.log.filter((line) => line.includes(secret))).toEqual([])
    expect(await searchDatabase(database, [secret])).toEqual([])
  } finally {
    await app.close()
  }
}

await onPostgres('a personal key', ({ databaseUrl = '' }) => {
  test('is in no log line, row, answer or document after it was used everywhere', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'oracle-trace-'))
    try {
      await everywhere({ DATABASE_URL: databaseUrl, DATA_DIR: folder }, databaseUrl)
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  }, 300_000)
})
