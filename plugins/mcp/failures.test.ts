import { createServer, type RequestListener, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import { z } from 'zod'
import { call, resultOf, scriptedModel, testApp, type ScriptedStep } from '#core/testing'
import mcpServers from './index.ts'

const raw = (how: string) => ({
  command: process.execPath,
  args: [
    '--disable-warning=ExperimentalWarning',
    join(import.meta.dirname, 'fixtures', 'raw-server.ts'),
    how,
  ],
})
const oracle = { access: 'everyone' }
const load = (name: string) => call('load_capability', { names: [name] })

async function listen(answer: RequestListener): Promise<string> {
  const server: Server = createServer(answer)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function boot(servers: Record<string, object>, script: ScriptedStep[], connectMs: number) {
  const model = scriptedModel(script)
  const named = Object.entries(servers).map(([name, way]) => [name, { ...way, oracle }])
  const app = await testApp({
    plugins: [(env, taken) => mcpServers(env, taken, { connectMs })],
    model,
    env: {
      MCP_SERVERS: JSON.stringify({ mcpServers: Object.fromEntries(named) }),
      ORACLE_MNEMONIC: 'words of the failures of MCP servers',
    },
  })
  onTestFinished(() => app.close())
  return { app, model }
}

it('every failure has its sentence, which the model and /health read, and stops no other server', async () => {
  const heard: unknown[] = []
  const elsewhere = await listen((req, res) => {
    heard.push(req.headers)
    res.end()
  })
  const answering = (status: number, headers: Record<string, string> = {}, body = '') =>
    listen((_, res) => res.writeHead(status, headers).end(body))
  const headers = { Authorization: 'Bearer sesame-of-the-operator' }
  const gone = createServer()
  await new Promise<void>((resolve) => gone.listen(0, '127.0.0.1', resolve))
  const closedPort = `http://127.0.0.1:${(gone.address() as AddressInfo).port}`
  await new Promise((resolve) => gone.close(resolve))
  const cases: Record<string, [way: object, words: string]> = {
    nowhere: [
      { command: 'no-such-program-here' },
      'cannot start "no-such-program-here": not found.',
    ],
    exits: [
      { ...raw('exit'), env: { TOKEN: 'hunter22' } },
      'ended with code 3: the token [secret] is not taken',
    ],
    long: [raw('long'), 'it sent what is no message: more than 10 MiB without an end of line'],
    stranger: [raw('stranger'), 'version'],
    port: [{ url: `${closedPort}/mcp` }, 'connection refused'],
    unknown: [
      { url: `${await answering(401)}/mcp`, headers },
      'wants other credentials (headers.Authorization)',
    ],
    forbidden: [{ url: `${await answering(403)}/mcp`, headers }, 'refuses these credentials'],
    missing: [
      { url: `${await answering(404)}/mcp` },
      'there is no MCP server at http://127.0.0.1:',
    ],
    page: [
      { url: `${await answering(200, { 'content-type': 'text/html' }, '<html>Hello</html>')}/mcp` },
      'answers with something that is not MCP',
    ],
    moved: [
      {
        url: `${await answering(307, { location: `${elsewhere.replace('127.0.0.1', 'localhost')}/mcp` })}/mcp`,
        headers,
      },
      'redirects to another host',
    ],
    shell: [{ command: 'echo $(id)' }, 'cannot start "echo $(id)": not found.'],
  }
  const names = Object.keys(cases)
  const ways = Object.fromEntries(names.map((name) => [name, cases[name]?.[0] ?? {}]))
  let descriptions: Record<string, string> = {}
  const { app } = await boot(
    { ...ways, good: raw('old') },
    [
      call('load_capability', { names: [...names, 'good'] }),
      ({ tools }) => {
        descriptions = Object.fromEntries(tools.map(({ name, description }) => [name, description]))
        return call('good_tool_1')
      },
      'Done.',
    ],
    // None of these waits for it: a slow machine may start all the children.
    19_000,
  )
  const said = await (await app.user()).say('Go')
  expect(said.text).toBe('Done.')
  const told = JSON.stringify((await app.get('/health')).body)
  for (const name of names) {
    const words = cases[name]?.[1] ?? ''
    expect([name, descriptions[`${name}_status`]]).toEqual([name, expect.stringContaining(words)])
    expect([name, told.includes(JSON.stringify(words).slice(1, -1))]).toEqual([name, true])
  }
  expect(told).not.toContain('sesame-of-the-operator')
  expect(descriptions.good_tool_1).toBe('Tool 1.')
  expect(heard).toEqual([])
  expect(app.log.join('\n')).not.toContain('sesame-of-the-operator')
})

it('a server that says nothing, or no message, is waited for no longer than it may take', async () => {
  const shell = (script: string) => ({ command: 'sh', args: ['-c', `${script}; sleep 60`] })
  const cases: Record<string, [way: object, words: string]> = {
    silent: [shell(':'), 'no answer within 3 s.'],
    garbage: [
      shell('echo "Welcome to this server!"'),
      'it sent what is no message: "Welcome to this server!"',
    ],
    // 2 MB in one line
    line: [
      shell('head -c 2097152 /dev/zero | tr "\\0" x; echo'),
      `it sent what is no message: "${'x'.repeat(80)}".`,
    ],
  }
  const ways = Object.entries(cases).map(([name, [way]]) => [name, way] as const)
  let descriptions: Record<string, string> = {}
  const { app } = await boot(
    Object.fromEntries(ways),
    [
      call('load_capability', { names: Object.keys(cases) }),
      ({ tools }) => {
        descriptions = Object.fromEntries(tools.map(({ name, description }) => [name, description]))
        return 'Done.'
      },
    ],
    3_000,
  )
  expect((await (await app.user()).say('Go')).text).toBe('Done.')
  const told = JSON.stringify((await app.get('/health')).body)
  for (const [name, [, words]] of Object.entries(cases)) {
    expect([name, descriptions[`${name}_status`]]).toEqual([name, expect.stringContaining(words)])
    expect([name, told.includes(JSON.stringify(words).slice(1, -1))]).toEqual([name, true])
  }
})

it('a server over HTTP is called with its headers, by both kinds of revisions', async () => {
  const seen = new Set<string | undefined>()
  const handler = createMcpHandler(() => {
    const server = new McpServer({ name: 'web', version: '1' }, { capabilities: { tools: {} } })
    server.registerTool(
      'greet',
      {
        description: 'Greets.',
        inputSchema: z.object({ name: z.string() }),
        annotations: { readOnlyHint: true },
      },
      ({ name }) => ({ content: [{ type: 'text', text: `Hello ${name}` }] }),
    )
    return server
  })
  const url = await listen(async (req, res) => {
    seen.add(req.headers.authorization)
    const body: Buffer[] = []
    for await (const piece of req) body.push(piece)
    const response = await handler.fetch(
      new Request(`http://127.0.0.1${req.url}`, {
        method: req.method,
        headers: Object.entries(req.headers).map(([name, value]): [string, string] => [
          name,
          String(value),
        ]),
        ...(body.length > 0 && { body: Buffer.concat(body) }),
      }),
    )
    res.writeHead(response.status, Object.fromEntries(response.headers))
    res.flushHeaders()
    for await (const piece of response.body ?? []) res.write(piece)
    res.end()
  })
  const { app } = await boot(
    { web: { url: `${url}/mcp`, headers: { Authorization: 'Bearer key-of-the-operator' } } },
    [
      load('web'),
      call('web_greet', { name: 'Ada' }),
      (request) => String(resultOf(request, 'web_greet')),
    ],
    10_000,
  )
  expect((await (await app.user()).say('Go')).text).toBe('Hello Ada')
  expect([...seen]).toEqual(['Bearer key-of-the-operator'])
})

it('a server of the old kind, with a stream of events, is called too', async () => {
  let events: ServerResponse | undefined
  const say = (message: object) =>
    events?.write(`event: message\ndata: ${JSON.stringify(message)}\n\n`)
  const url = await listen(async (req, res) => {
    if (req.method === 'GET') {
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      res.write('event: endpoint\ndata: /message\n\n')
      events = res
      return
    }
    let body = ''
    for await (const piece of req) body += piece
    res.writeHead(202).end()
    const { id, method } = JSON.parse(body)
    const answer = (result: object) => say({ jsonrpc: '2.0', id, result })
    if (method === 'initialize')
      answer({
        protocolVersion: '2024-11-05',
        capabilities: { tools: {} },
        serverInfo: { name: 'old', version: '0' },
      })
    else if (method === 'tools/list')
      answer({
        tools: [
          { name: 'ping', inputSchema: { type: 'object' }, annotations: { readOnlyHint: true } },
        ],
      })
    else if (method === 'tools/call') answer({ content: [{ type: 'text', text: 'pong' }] })
    else if (id !== undefined)
      say({ jsonrpc: '2.0', id, error: { code: -32601, message: 'unknown' } })
  })
  const { app } = await boot(
    { sse: { url: `${url}/sse`, type: 'sse' } },
    [load('sse'), call('sse_ping'), (request) => String(resultOf(request, 'sse_ping'))],
    10_000,
  )
  expect((await (await app.user()).say('Go')).text).toBe('pong')
})
