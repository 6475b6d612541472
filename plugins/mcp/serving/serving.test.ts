import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { scriptedModel, testApp, type TestApp, type TestUser } from '#core/testing'
import { heldModel } from '../../../test/support/held-model.ts'
import mcpServers from '../index.ts'
import { done, keyOf, message, quiet, send, vault } from '../../../test/support/mcp-clients.ts'

const env = {
  ORACLE_MNEMONIC: 'words of the tests of serving by MCP',
  API_KEY: 'an-api-key-of-this-test',
  CORS_ORIGIN: '*, https://editor.example',
  NODE_ENV: 'test',
}
let app: TestApp
let user: TestUser
let key: string
beforeAll(async () => {
  app = await testApp({
    plugins: [vault, quiet, mcpServers],
    model: scriptedModel(Array.from({ length: 20 }, () => 'There is gold in it.')),
    env,
  })
  user = await app.user()
  key = await keyOf(user, 'tools/call')
})
afterAll(() => app?.close())

const headers = (of: string) => ({ requestInit: { headers: { authorization: `Bearer ${of}` } } })
const address = () => new URL(`${app.url}/mcp`)

/** The published clients, as programs use them. */
const clients = {
  'client 2.4.0, 2026-07-28': async (of: string) => {
    const client = new Client(
      { name: 'new', version: '1' },
      { versionNegotiation: { mode: 'auto' } },
    )
    await client.connect(new StreamableHTTPClientTransport(address(), headers(of)))
    expect(client.getNegotiatedProtocolVersion()).toBe('2026-07-28')
    return client
  },
  'client 2.4.0, 2025-11-25': async (of: string) => {
    const client = new Client({ name: 'middle', version: '1' })
    await client.connect(new StreamableHTTPClientTransport(address(), headers(of)))
    expect(client.getNegotiatedProtocolVersion()).toBe('2025-11-25')
    return client
  },
  'sdk 1.32': async (of: string) => {
    const client = new OldClient({ name: 'old', version: '1' })
    const transport = new OldTransport(address(), headers(of))
    // The transport of the package does not fit the package's own interface under exactOptionalPropertyTypes.
    await client.connect(transport as Parameters<OldClient['connect']>[0])
    return client
  },
}

describe.each(Object.entries(clients))('a client of the package (%s)', (_, connect) => {
  it('lists, calls, and is told what failed', async () => {
    const client = await connect(key)
    onTestFinished(() => client.close())
    const { tools } = await client.listTools()
    const names = tools.map(({ name }) => name)
    expect(names).toEqual([
      ...['ask', 'look', 'count', 'wipe', 'fails', 'breaks', 'large', 'slow', 'picture'],
    ])
    expect(tools.find(({ name }) => name === 'look')).toMatchObject({
      inputSchema: { type: 'object', properties: { shelf: { type: 'string' } } },
      outputSchema: { type: 'object', required: ['shelf', 'things'] },
      annotations: { readOnlyHint: true, openWorldHint: true },
    })
    expect(tools.find(({ name }) => name === 'wipe')?.annotations).toEqual({
      ...{ readOnlyHint: false, destructiveHint: true, idempotentHint: false },
      openWorldHint: false,
    })
    expect(tools.find(({ name }) => name === 'count')?.annotations).toMatchObject({
      ...{ destructiveHint: false, idempotentHint: true },
    })

    expect(await client.callTool({ name: 'look', arguments: { shelf: 'low' } })).toMatchObject({
      content: [{ type: 'text', text: '{"shelf":"low","things":["gold"]}' }],
      structuredContent: { shelf: 'low', things: ['gold'] },
    })
    expect(await client.callTool({ name: 'fails', arguments: {} })).toMatchObject({
      content: [{ text: 'The vault is shut. [CONFLICT] Come back tomorrow.' }],
      isError: true,
    })
    const wrong = await client.callTool({ name: 'look', arguments: { shelf: 7 } })
    expect(wrong).toMatchObject({ isError: true })
    expect(JSON.stringify(wrong)).toContain('INVALID_INPUT')
    const broken = await client.callTool({ name: 'breaks', arguments: {} })
    expect(broken.isError).toBe(true)
    expect(JSON.stringify(broken)).not.toContain('secret of the inside')
    const large = await client.callTool({ name: 'large', arguments: {} })
    expect(JSON.stringify(large).length).toBeLessThan(257 * 1024)
    expect(await client.callTool({ name: 'picture', arguments: {} })).toMatchObject({
      content: [
        { type: 'text', text: 'here' },
        { type: 'image', mimeType: 'image/png' },
      ],
    })
    await expect(client.callTool({ name: 'hidden', arguments: {} })).rejects.toThrow(/no tool/)
  })

  it('asks the agent, and goes on in the session of the answer', async () => {
    const client = await connect(key)
    onTestFinished(() => client.close())
    const first = await client.callTool({ name: 'ask', arguments: { message: 'What is in it?' } })
    const { text, session, status } = Object(first.structuredContent)
    expect([text, status]).toEqual(['There is gold in it.', 'finished'])
    await client.callTool({ name: 'ask', arguments: { message: 'And now?', session } })
    const { body } = await user.get(`/sessions/${session}/messages`)
    expect(body.messages.map(({ content }: any) => content)).toEqual([
      ...['What is in it?', 'There is gold in it.', 'And now?', 'There is gold in it.'],
    ])
    const other = await keyOf(await app.user())
    const stranger = await connect(other)
    onTestFinished(() => stranger.close())
    const foreign = await stranger.callTool({ name: 'ask', arguments: { message: 'x', session } })
    expect(foreign.isError).toBe(true)
    expect(JSON.stringify(foreign)).toContain('NOT_FOUND')
  })

  it('has only the agent where its key lacks tools/call, and a call is 403 that names it', async () => {
    const weak = await keyOf(user)
    const client = await connect(weak)
    onTestFinished(() => client.close())
    expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(['ask'])
    await expect(client.callTool({ name: 'look', arguments: {} })).rejects.toThrow(/tools\/call/)
  })

  it('cannot be asked for consent without elicitation, and its key may approve by itself', async () => {
    const client = await connect(key)
    onTestFinished(() => client.close())
    done.length = 0
    const refused = await client.callTool({ name: 'wipe', arguments: { what: 'all' } })
    expect(refused.isError).toBe(true)
    expect(JSON.stringify(refused)).toContain('let this key approve (tools/approve)')
    expect(done).toEqual([])
    const strong = await connect(await keyOf(user, 'tools/call', 'tools/approve'))
    onTestFinished(() => strong.close())
    const wiped = await strong.callTool({ name: 'wipe', arguments: { what: 'all' } })
    expect(wiped).toMatchObject({ content: [{ text: 'wiped all' }] })
    expect(done).toEqual([`${user.did} all`])
  })
})

describe('a client with elicitation', () => {
  const answering = async (content: object, action: 'accept' | 'decline' = 'accept') => {
    const asked: string[] = []
    const client = new Client(
      { name: 'asking', version: '1' },
      { versionNegotiation: { mode: 'auto' }, capabilities: { elicitation: { form: {} } } },
    )
    client.setRequestHandler('elicitation/create', ({ params }) => {
      asked.push(params.message)
      return action === 'accept'
        ? { action, content: content as Record<string, boolean> }
        : { action }
    })
    await client.connect(new StreamableHTTPClientTransport(address(), headers(key)))
    onTestFinished(() => client.close())
    return { client, asked }
  }

  it('asks its person, and the tool runs once', async () => {
    done.length = 0
    const { client, asked } = await answering({ approve: true })
    const result = await client.callTool({ name: 'wipe', arguments: { what: 'dust\u001b[31m' } })
    expect(result).toMatchObject({ content: [{ text: 'wiped dust\u001b[31m' }] })
    expect(asked).toEqual(['May "wipe" run with {"what":"dust\\u001b[31m"}?'])
    expect(done).toHaveLength(1)
  })

  it('runs nothing where the person says no', async () => {
    done.length = 0
    for (const { client } of [
      await answering({ approve: false }),
      await answering({}),
      await answering({}, 'decline'),
    ])
      expect(
        JSON.stringify(await client.callTool({ name: 'wipe', arguments: { what: 'x' } })),
      ).toContain('REJECTED')
    expect(done).toEqual([])
  })
})

describe('/mcp', () => {
  it('tells of progress, and stops the tool when the client leaves', async () => {
    const heard: unknown[] = []
    const client = await clients['client 2.4.0, 2026-07-28'](key)
    onTestFinished(() => client.close())
    await client.callTool(
      { name: 'slow', arguments: { ms: 5 } },
      { onprogress: (progress) => heard.push(progress) },
    )
    expect(heard).toEqual([{ progress: 1, total: 2, message: 'half of it' }])
    done.length = 0
    const leaving = new AbortController()
    const gone = client.callTool(
      { name: 'slow', arguments: { ms: 60_000 } },
      { signal: leaving.signal },
    )
    setTimeout(() => leaving.abort(), 100)
    await expect(gone).rejects.toThrow()
    await expect.poll(() => done).toEqual(['stopped'])
  })

  it('stops the turn of ask when the client leaves', async () => {
    const model = heldModel(['Once upon '], ['a time.'])
    const other = await testApp({ plugins: [vault, mcpServers], model, env })
    onTestFinished(() => other.close())
    const mine = await other.user()
    const of = await keyOf(mine)
    const leaving = new AbortController()
    const client = new Client({ name: 'new', version: '1' })
    await client.connect(
      new StreamableHTTPClientTransport(new URL(`${other.url}/mcp`), headers(of)),
    )
    const gone = client.callTool(
      { name: 'ask', arguments: { message: 'A story' } },
      { signal: leaving.signal, onprogress: () => leaving.abort() },
    )
    await expect(gone).rejects.toThrow()
    await client.close()
    const { sessions } = (await mine.get('/sessions')).body
    // The model says no more by itself, so only a turn that was stopped ends.
    const statuses = async () =>
      (await mine.get(`/sessions/${sessions[0].sessionId}/runs`)).body.runs.map(
        ({ status }: { status: string }) => status,
      )
    await expect.poll(statuses).toEqual(['aborted'])
  })

  it('keeps what outlives a session, and leaves a line about each write', async () => {
    const mine = await app.user()
    const of = await keyOf(mine, 'tools/call')
    const text = async () =>
      (await send(app, of, message('tools/call', { name: 'count', arguments: {} }))).body.result
        .content[0].text
    expect([await text(), await text()]).toEqual(['opened 1 times', 'opened 2 times'])
    const lines = app.log.filter((line) => line.includes('count accepted'))
    expect(lines.filter((line) => line.includes(mine.did))).toHaveLength(2)
  })

  it('is narrowed by ?plugins, for calls as for the list', async () => {
    const at = (plugins: string) => ({ url: `${app.url}`, plugins })
    const list = async (plugins: string) => {
      const { url } = at(plugins)
      const body = message('tools/list')
      const response = await fetch(`${url}/mcp?plugins=${plugins}`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${key}`,
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          'mcp-protocol-version': '2026-07-28',
          'mcp-method': 'tools/list',
        },
        body: JSON.stringify(body),
      })
      const { result } = (await response.json()) as { result: { tools: { name: string }[] } }
      return result.tools.map(({ name }) => name)
    }
    expect(await list('none')).toEqual(['ask'])
    expect(await list('quiet,weather')).toEqual(['ask'])
    expect(await list('vault')).toContain('look')
  })

  it('lets in people alone, and says what it wants', async () => {
    const anonymous = await fetch(address(), { method: 'POST', body: '{}' })
    expect(anonymous.status).toBe(401)
    expect(anonymous.headers.get('www-authenticate')).toMatch(/^Bearer /)
    const operator = await send(app, env.API_KEY, message('tools/list'))
    expect([operator.status, operator.body.code]).toEqual([403, 'KEY_HAS_NO_USER'])
    for (const method of ['GET', 'DELETE']) {
      const response = await fetch(address(), { method })
      expect([method, response.status]).toEqual([method, 405])
    }
    const weak = await keyOf(user)
    const lacking = await send(app, weak, message('tools/call', { name: 'look' }))
    expect(lacking.status).toBe(403)
    expect(lacking.headers.get('www-authenticate')).toContain('scope="tools/call"')
    expect(lacking.body.error.message).toContain('"tools/call"')
  })

  it('takes a signed call with a delegation of tools/call, and none without', async () => {
    const { body } = await user.post('/mcp', message('tools/list'), {
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/list',
    })
    expect(body.result.tools.length).toBeGreaterThan(5)
  })

  it('refuses other hosts and pages of other origins', async () => {
    const port = new URL(app.url).port
    const from = async (more: Record<string, string>) => {
      const { status, body } = await rawSend(app, key, more)
      return [status, body?.code]
    }
    expect(await from({ host: 'attacker.example' })).toEqual([403, 'FORBIDDEN'])
    expect(await from({ host: `attacker.example:${port}` })).toEqual([403, 'FORBIDDEN'])
    expect(await from({ host: `localhost:1` })).toEqual([403, 'FORBIDDEN'])
    for (const host of [`localhost:${port}`, `127.0.0.1:${port}`, `LOCALHOST:${port}`])
      expect(await from({ host })).toEqual([200, undefined])
    for (const origin of ['null', 'https://attacker.example', `http://attacker.example:${port}`])
      expect(await from({ origin })).toEqual([403, 'FORBIDDEN'])
    for (const origin of ['https://editor.example', `http://localhost:${port}`])
      expect(await from({ origin })).toEqual([200, undefined])
  })
})

/** Sends a list request with headers that `fetch` keeps to itself. */
async function rawSend(at: TestApp, of: string, more: Record<string, string>) {
  const { request } = await import('node:http')
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; body: any }>()
  const req = request(
    `${at.url}/mcp`,
    {
      method: 'POST',
      headers: {
        authorization: `Bearer ${of}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2026-07-28',
        'mcp-method': 'tools/list',
        ...more,
      },
    },
    async (res) => {
      let text = ''
      for await (const chunk of res) text += chunk
      resolve({ status: res.statusCode ?? 0, body: JSON.parse(text) })
    },
  )
  req.on('error', reject)
  req.end(JSON.stringify(message('tools/list')))
  return promise
}
