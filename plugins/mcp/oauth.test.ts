import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it, onTestFinished, vi } from 'vitest'
import { call, resultOf, scriptedModel, testApp, type ScriptedStep } from '#core/testing'
import { readConfiguration } from './config/config.ts'
import mcpServers from './index.ts'

async function listen(answer: RequestListener): Promise<string> {
  const server = createServer(answer)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const textOf = async (req: IncomingMessage) => {
  let text = ''
  for await (const piece of req) text += piece
  return text
}

const oauth = {
  clientId: 'oracle',
  clientSecret: '${SECRET}',
  scopes: ['notes.read', 'notes.write'],
}
const secret = 'sesame-of-the-operator'

/** A server of MCP that wants a token, and the authorization server that it names. */
async function guarded({ leadsTo }: { readonly leadsTo?: string } = {}) {
  const asked: { readonly headers: IncomingMessage['headers']; readonly body: URLSearchParams }[] =
    []
  const calls: IncomingMessage['headers'][] = []
  const elsewhere: string[] = []
  const other = await listen((req, res) => {
    elsewhere.push(`${req.method} ${req.url}`)
    res.end()
  })
  let token = ''
  const issuer: string = await listen(async (req, res) => {
    const { pathname } = new URL(req.url ?? '', issuer)
    const say = (status: number, body: object) =>
      res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    if (pathname === '/.well-known/oauth-authorization-server')
      return say(200, {
        ...{
          issuer,
          token_endpoint: `${issuer}${leadsTo ?? '/token'}`,
          response_types_supported: ['code'],
        },
        ...{
          authorization_endpoint: `${issuer}/authorize`,
          grant_types_supported: ['client_credentials'],
        },
        token_endpoint_auth_methods_supported: ['client_secret_basic'],
      })
    if (pathname === '/away') return res.writeHead(307, { location: `${other}/token` }).end()
    if (pathname !== '/token') return say(404, {})
    asked.push({ headers: req.headers, body: new URLSearchParams(await textOf(req)) })
    const basic = `Basic ${Buffer.from(`oracle:${secret}`).toString('base64')}`
    if (req.headers.authorization !== basic)
      return say(401, { error: 'invalid_client', error_description: `no such ${secret}` })
    token = `token-${asked.length}`
    return say(200, { access_token: token, token_type: 'Bearer', expires_in: 3_600 })
  })
  const url: string = await listen(async (req, res) => {
    if (req.url === '/.well-known/oauth-protected-resource/mcp')
      return res
        .writeHead(200, { 'content-type': 'application/json' })
        .end(JSON.stringify({ resource: `${url}/mcp`, authorization_servers: [issuer] }))
    calls.push(req.headers)
    if (token === '' || req.headers.authorization !== `Bearer ${token}`)
      return res
        .writeHead(401, {
          'www-authenticate': `Bearer resource_metadata="${url}/.well-known/oauth-protected-resource/mcp"`,
        })
        .end()
    const { id, method } = JSON.parse((await textOf(req)) || '{}')
    if (id === undefined) return res.writeHead(req.method === 'POST' ? 202 : 405).end()
    const results: Record<string, object> = {
      initialize: {
        ...{ protocolVersion: '2025-11-25', capabilities: { tools: {} } },
        serverInfo: { name: 'guarded', version: '1' },
      },
      'tools/list': {
        tools: [
          { name: 'look', inputSchema: { type: 'object' }, annotations: { readOnlyHint: true } },
        ],
      },
      'tools/call': { content: [{ type: 'text', text: 'gold' }] },
    }
    const answer = results[method]
      ? { result: results[method] }
      : { error: { code: -32601, message: 'unknown' } }
    return res
      .writeHead(200, { 'content-type': 'application/json' })
      .end(JSON.stringify({ jsonrpc: '2.0', id, ...answer }))
  })
  return { url: `${url}/mcp`, elsewhere, asked, calls, expire: () => (token = '') }
}

async function boot(way: object, oracle: object, script: ScriptedStep[], value = secret) {
  const model = scriptedModel(script)
  const app = await testApp({
    plugins: [mcpServers],
    model,
    env: {
      MCP_SERVERS: JSON.stringify({
        mcpServers: { vault: { ...way, oracle: { access: 'everyone', oauth, ...oracle } } },
      }),
      SECRET: value,
      ORACLE_MNEMONIC: 'words of the tests of client credentials',
    },
  })
  onTestFinished(() => app.close())
  return app
}

const load = call('load_capability', { names: ['vault'] })
const seen: ScriptedStep = (request) => String(resultOf(request, 'vault_look'))

it('a server gets a token by the grant of client credentials, and a new one when it has ended', async () => {
  const { url, asked, calls, expire } = await guarded()
  const headers = { 'X-Team': 'blue' }
  const app = await boot({ url, headers }, {}, [
    load,
    call('vault_look'),
    seen,
    load,
    call('vault_look'),
    seen,
  ])
  const user = await app.user()
  expect((await user.say('Go')).text).toBe('gold')
  expect(asked).toHaveLength(1)
  expect(asked[0]?.body.get('grant_type')).toBe('client_credentials')
  expect(asked[0]?.body.get('scope')).toBe('notes.read notes.write')
  // The headers for the server are nobody else's.
  expect(asked[0]?.headers['x-team']).toBeUndefined()
  expect(calls.every((each) => each['x-team'] === 'blue')).toBe(true)
  expire()
  expect((await user.say('Again')).text).toBe('gold')
  expect(asked).toHaveLength(2)
  expect(app.log.join('\n')).not.toContain(secret)
}, 300_000)

it.each([
  ['a wrong secret', {}, {}, 'another', 'gives no token for oracle.oauth: invalid_client'],
  [
    'another authorization server than the operator named',
    {},
    { oauth: { ...oauth, issuer: 'https://login.example.org' } },
    secret,
    'names another authorization server than oracle.oauth.issuer; nothing was sent there',
  ],
  ['an authorization server that sends on', { leadsTo: '/away' }, {}, secret, 'vault: '],
])(
  '%s has its sentence, and the secret goes nowhere else',
  async (_, how, oracle, value, words) => {
    const warned = vi.spyOn(console, 'warn').mockImplementation(() => undefined)
    onTestFinished(() => warned.mockRestore())
    const { url, asked, elsewhere } = await guarded(how)
    let description = ''
    const app = await boot(
      { url },
      oracle,
      [
        load,
        ({ tools }) => {
          description = tools.find(({ name }) => name === 'vault_status')?.description ?? ''
          return 'Done.'
        },
      ],
      value,
    )
    expect((await (await app.user()).say('Go')).text).toBe('Done.')
    expect(description).toContain(words)
    expect(asked.map(({ headers }) => headers.authorization)).not.toContain(
      `Basic ${Buffer.from(`oracle:${secret}`).toString('base64')}`,
    )
    expect(elsewhere).toEqual([])
    const { body } = await app.get('/health')
    expect(JSON.stringify(body)).toContain(words)
    const warnings = JSON.stringify(warned.mock.calls)
    for (const told of [description, JSON.stringify(body), app.log.join('\n'), warnings])
      expect(told).not.toContain(secret)
  },
)

it('credentials stand with an address alone, and may name their authorization server', () => {
  const read = (entry: object) =>
    readConfiguration({
      MCP_SERVERS: JSON.stringify({ mcpServers: { vault: entry } }),
      SECRET: 'x',
    })
  expect(read({ command: 'true', oracle: { oauth } }).faults.join()).toContain(
    'Leave one of them out',
  )
  const plain = { ...oauth, issuer: 'http://login.example.org' }
  const url = 'https://mcp.example.org/mcp'
  expect(read({ url, oracle: { oauth: plain } }).faults.join()).toContain('plain http:')
  expect(read({ url, oracle: { oauth: { clientId: 'a' } } }).faults.join()).toContain(
    'clientSecret',
  )
  const missing = { ...oauth, clientSecret: '${NOBODY}' }
  expect(read({ url, oracle: { oauth: missing } }).faults.join()).toContain('NOBODY')
  expect(read({ url, oracle: { oauth } }).servers[0]?.oracle.oauth?.clientSecret).toBe('x')
})
