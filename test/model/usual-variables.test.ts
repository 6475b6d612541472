import { execFile } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it, onTestFinished } from 'vitest'
import { fakeProvider, testApp } from '#core/testing'
import { callerOf } from '../support/caller.ts'
import { bareEnv, root, startServer } from '../support/process.ts'

interface Provider {
  readonly name: string
  readonly key?: string
  readonly address: string
  readonly header?: string
}

const compatible = (name: string): Provider => {
  const prefix = name.toUpperCase().replaceAll('-', '_')
  return { name, key: `${prefix}_API_KEY`, address: `${prefix}_BASE_URL` }
}

/** Every provider of the package, with the variables that its own documentation names. */
const providers: readonly Provider[] = [
  { ...compatible('anthropic'), header: 'x-api-key' },
  { name: 'google', key: 'GOOGLE_API_KEY', address: 'GOOGLE_BASE_URL', header: 'x-goog-api-key' },
  { name: 'google', key: 'GEMINI_API_KEY', address: 'GOOGLE_BASE_URL', header: 'x-goog-api-key' },
  {
    name: 'azure',
    key: 'AZURE_OPENAI_API_KEY',
    address: 'AZURE_OPENAI_ENDPOINT',
    header: 'api-key',
  },
  { name: 'ollama', address: 'OLLAMA_HOST' },
  ...['openai', 'openrouter', 'deepseek', 'mistral', 'groq', 'xai', 'moonshotai'].map(compatible),
  ...['z-ai', 'together', 'fireworks', 'lmstudio', 'vllm'].map(compatible),
]

const cases = providers.map((one) => [`${one.name}/ by ${one.key ?? one.address}`, one] as const)

describe.each(cases)('%s', (_, { name, key, address, header = 'authorization' }) => {
  const opened = async () => {
    const provider = await fakeProvider()
    onTestFinished(() => provider.close())
    const env: Record<string, string> = { MODEL: `${name}/fake`, [address]: provider.url }
    if (key) env[key] = provider.key
    const app = await testApp({ plugins: [], env: { ...env, LOG_LEVEL: 'trace' } })
    onTestFinished(() => app.close())
    return { provider, app, user: await app.user() }
  }

  it('reaches its server with its own header, and the key is told to nobody', async () => {
    const { provider, app, user } = await opened()
    provider.answer('Hello there.')
    const said = await user.say('Hello')
    expect(said).toMatchObject({ status: 'finished', text: 'Hello there.' })
    const asked = provider.requests.filter(({ wire }) => wire !== undefined)
    expect(asked).toHaveLength(1)
    const sent = asked[0]!.headers[header]
    if (key) expect(sent).toBe(header === 'authorization' ? `Bearer ${provider.key}` : provider.key)
    expect(asked[0]!.path).not.toContain(provider.key)
    const pages = [
      '/health',
      '/models',
      '/sessions',
      '/openapi.json',
      `/messages/${said.sessionId}`,
    ]
    const read = await Promise.all(pages.map(async (page) => (await user.get(page)).body))
    expect(JSON.stringify([said.events, read, app.log, app.report])).not.toContain(provider.key)
  })

  if (key)
    it('keeps a key that is refused out of the error, though the server quotes it', async () => {
      const { provider, app } = await opened()
      const wrong = `${provider.key}-wrong`
      await app.again({ env: { [key]: wrong } })
      const again = await app.user()
      const { sessionId } = (await again.post('/sessions', {})).body
      const failed = await again.post(`/messages/${sessionId}`, { message: 'Hello' })
      expect(failed).toMatchObject({ status: 502, body: { code: 'MODEL_UNAUTHORIZED' } })
      const pages = ['/health', '/sessions', `/messages/${sessionId}`]
      const read = await Promise.all(pages.map(async (page) => (await again.get(page)).body))
      expect(app.log.join()).toContain('MODEL_UNAUTHORIZED')
      const all = JSON.stringify([failed.body, read, app.log])
      expect(all).not.toContain(provider.key)
    })
})

describe('a whole process with keys of all providers', () => {
  const secret = (name: string) => `sk-known-${name.toLowerCase()}-0123456789abcdef`
  const env = Object.fromEntries(
    providers.flatMap(({ key }) => (key ? [[key, secret(key)] as const] : [])),
  )

  it('prints none of them: at its start, at a fault of its start, when it is inspected', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'keys-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const quiet = { DATA_DIR: folder, LOG_LEVEL: 'trace', NODE_ENV: 'development' }
    const server = startServer('server.ts', { ...env, ...quiet })
    onTestFinished(async () => void (await server.end('SIGKILL')))
    const url = await server.url
    const health = await (await fetch(`${url}/health`)).text()
    await server.end()
    const broken = startServer('server.ts', {
      ...env,
      ...quiet,
      MODEL: 'anthropic/a|openai/b,antropic/c',
      OPENAI_BASE_URL: `ftp://${env.OPENAI_API_KEY}@example.org`,
    })
    expect(await broken.exited).not.toBe(0)
    expect(broken.output()).toContain('ENV_INVALID')
    const inspected = await promisify(execFile)(
      process.execPath,
      ['--conditions=oracle-runtime-source', join(root, 'cli/main.ts'), 'inspect'],
      { cwd: root, env: { ...bareEnv(), ...env, ...quiet, MODEL: 'anthropic/a' } },
    ).catch((error: { stdout: string; stderr: string }) => error)
    const all = [server.output(), health, broken.output(), inspected.stdout, inspected.stderr]
    expect(inspected.stdout.length).toBeGreaterThan(100)
    for (const key of Object.values(env)) expect(all.join('\n')).not.toContain(key)
  }, 120_000)

  it('leaves none of them in the report of its crash, nor in the log of it', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'crash-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const provider = await fakeProvider({ key: env.ANTHROPIC_API_KEY })
    onTestFinished(() => provider.close())
    provider.answer({ calls: [{ name: 'note', args: { word: 'crash' } }] })
    const server = startServer('test/support/loop-server.ts', {
      ...env,
      MODEL: 'anthropic/a',
      ANTHROPIC_BASE_URL: provider.url,
      CRASHES: 'crash',
      DATA_DIR: folder,
      LOG_LEVEL: 'trace',
      NODE_OPTIONS: `--report-uncaught-exception --report-directory=${folder}`,
    })
    onTestFinished(async () => void (await server.end('SIGKILL')))
    const url = await server.url
    const { headers } = await callerOf(url)
    const send = async (path: string, body: object) =>
      await fetch(url + path, {
        method: 'POST',
        headers: { ...(await headers()), 'content-type': 'application/json' },
        body: JSON.stringify(body),
      })
    const { sessionId } = (await (await send('/sessions', {})).json()) as { sessionId: string }
    await (await send(`/messages/${sessionId}`, { message: 'Note it' })).text().catch(() => '')
    expect(await server.exited).not.toBe(0)
    expect(server.output()).toContain('Nobody caught an exception')
    const reports = readdirSync(folder).filter((name) => /^report\..*\.json$/.test(name))
    expect(reports).toHaveLength(1)
    const report = readFileSync(join(folder, reports[0]!), 'utf8')
    expect(report).toContain('Nobody catches this.')
    for (const key of Object.values(env)) expect(report + server.output()).not.toContain(key)
  }, 120_000)
})
