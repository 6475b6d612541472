import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { call, resultOf, scriptedModel, testApp, type ScriptedStep } from '#core/testing'
import { onPostgres } from '../../test/support/each-database.ts'
import mcpServers from './index.ts'

const raw = (how: string) => ({
  command: process.execPath,
  args: [
    '--disable-warning=ExperimentalWarning',
    join(import.meta.dirname, 'fixtures', 'raw-server.ts'),
    how,
  ],
})
const operator = { authorization: 'Bearer a-token-of-these-tests' }
const load = (name: string) => call('load_capability', { names: [name] })

async function boot(servers: Record<string, object>, script: ScriptedStep[], databaseUrl?: string) {
  const model = scriptedModel(script)
  const named = Object.entries(servers).map(([name, way]) => [
    name,
    { ...way, oracle: { access: 'everyone' } },
  ])
  const app = await testApp({
    plugins: [mcpServers],
    model,
    env: {
      MCP_SERVERS: JSON.stringify({ mcpServers: Object.fromEntries(named) }),
      ORACLE_MNEMONIC: 'words of the revisions of MCP',
      OPERATOR_TOKEN: 'a-token-of-these-tests',
      ...(databaseUrl && { DATABASE_URL: databaseUrl }),
    },
  })
  onTestFinished(() => app.close())
  const states = async () => (await app.get('/mcp-servers', { headers: operator })).body.servers
  return { app, model, states }
}

it('a server of 2025-11-25 gives 200 tools on twenty pages', async () => {
  const { app, model, states } = await boot({ middle: raw('middle') }, [
    load('middle'),
    call('middle_tool_199'),
    (request) => String(resultOf(request, 'middle_tool_199')),
  ])
  expect((await (await app.user()).say('Go')).text).toBe('called tool 199')
  const seen = model.requests.at(-1)?.tools.filter(({ name }) => name.startsWith('middle_'))
  expect(seen).toHaveLength(198) // the schema of one points elsewhere, that of another has 100 KiB
  expect(await states()).toMatchObject([{ name: 'middle', revision: '2025-11-25' }])
})

it('a list without an end is cut or refused, and the turn goes on', async () => {
  const { app, model } = await boot({ endless: raw('endless') }, [load('endless'), 'Done.'])
  expect((await (await app.user()).say('Go')).text).toBe('Done.')
  const seen = model.requests.at(-1)?.tools.filter(({ name }) => name.startsWith('endless_')) ?? []
  expect(seen.length).toBeGreaterThan(0)
  expect(seen.length).toBeLessThanOrEqual(20)
})

/** A certificate that nobody vouches for; `openssl` makes it. */
function certificate(name: string, days: string) {
  const folder = mkdtempSync(join(tmpdir(), 'mcp-tls-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
  const made = spawnSync('openssl', [
    ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'],
    ...['-keyout', key, '-out', cert, '-days', days, '-subj', `/CN=${name}`],
    ...['-addext', `subjectAltName=DNS:${name}`],
  ])
  if (made.status !== 0) throw new Error(`openssl made no certificate: ${made.stderr}`)
  return { key: readFileSync(key), cert: readFileSync(cert) }
}

it.skipIf(spawnSync('openssl', ['version']).status !== 0)(
  'a certificate that nobody vouches for, and a port without TLS, have their sentences',
  async () => {
    let asked = 0
    const server = createServer(certificate('localhost', '1'), (_, res) => {
      asked++
      res.end()
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    const secure = (server.address() as AddressInfo).port
    const { createServer: createPlain } = await import('node:http')
    const plain = createPlain((_, res) => res.end())
    await new Promise<void>((resolve) => plain.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void plain.close())
    const { port } = plain.address() as AddressInfo
    let told: Record<string, string> = {}
    const { app } = await boot(
      {
        selfmade: { url: `https://localhost:${secure}/mcp`, headers: { Authorization: 'sesame' } },
        nosecret: { url: `https://127.0.0.1:${port}/mcp` },
      },
      [
        call('load_capability', { names: ['selfmade', 'nosecret'] }),
        ({ tools }) => {
          told = Object.fromEntries(tools.map(({ name, description }) => [name, description]))
          return 'Done.'
        },
      ],
    )
    expect((await (await app.user()).say('Go')).text).toBe('Done.')
    expect(told.selfmade_status).toContain(
      `no answer at https://localhost:${secure}/mcp: its certificate is not trusted.`,
    )
    expect(told.nosecret_status).toContain('it does not speak TLS')
    const health = JSON.stringify((await app.get('/health')).body)
    expect(health).toContain('its certificate is not trusted')
    expect(health).not.toContain('sesame')
    expect(asked).toBe(0)
  },
)

await onPostgres('servers of MCP on two replicas', ({ databaseUrl }) => {
  it('share the list, have a process each, and see what the operator accepts', async () => {
    const servers = { shared: raw('old') }
    const one = await boot(servers, [load('shared'), call('shared_tool_1'), 'Done.'], databaseUrl)
    const two = await boot(
      servers,
      [load('shared'), 'Listed.', call('shared_tool_7'), 'Done.'],
      databaseUrl,
    )
    await (await one.app.user()).say('Go')
    expect((await one.states())[0]).toMatchObject({ state: 'connected', unseen: 0 })
    // The second has the list of the first, and starts nothing to show it.
    const user = await two.app.user()
    const listed = await user.say('Go')
    expect(listed.text).toBe('Listed.')
    const seen = two.model.requests.at(-1)?.tools.map(({ name }) => name)
    expect(seen).toContain('shared_tool_7')
    expect((await two.states())[0]).toMatchObject({ state: 'idle' })
    expect((await user.say('Call', { sessionId: listed.sessionId })).text).toBe('Done.')
    expect((await two.states())[0]).toMatchObject({ state: 'connected' })
    await one.app.post('/mcp-servers/shared/accept', {}, operator)
    const changes = async (app: typeof one.app) =>
      (await app.get('/mcp-servers/shared/changes', { headers: operator })).body.changes
    expect([await changes(one.app), await changes(two.app)]).toEqual([[], []])
  })
})
