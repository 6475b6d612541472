import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { startServer, type ServerProcess } from './support/process.ts'

const open: (() => unknown)[] = []
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close()
})
function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'oracle-data-'))
  open.push(() => rmSync(path, { recursive: true, force: true }))
  return path
}
function start(script: string, env: Record<string, string> = {}): ServerProcess {
  const server = startServer(script, env)
  open.push(() => (server.child.exitCode === null ? server.end('SIGKILL') : undefined))
  return server
}
const json = async (url: string) => (await fetch(url)).json() as Promise<Record<string, any>>

describe('npm start', () => {
  it('answers / and /health, prints the boot report, and ends on SIGTERM with 0', async () => {
    const server = start('start.js', { DATA_DIR: folder() })
    const url = await server.url
    expect(await json(url)).toMatchObject({
      status: 'ok',
      message: expect.any(String),
      environment: 'development',
      timestamp: expect.stringMatching(/Z$/),
    })
    expect(await json(`${url}/health`)).toMatchObject({
      status: 'ok',
      database: 'connected',
      signingKey: 'loaded',
      uptime: expect.any(Number),
      plugins: { weather: 'available' },
    })
    expect(server.output()).toMatch(/oracle-runtime \d+\.\d+\.\d+/)
    expect(server.output()).toContain('weather available (on-demand)')
    expect(server.output()).toContain('model: Demonstration model (no key, no network) (demo)')
    expect(server.output()).toContain('embeddings: lexical, which finds what is written alike')
    expect(await server.end()).toBe(0)
  })

  it('loads neither the translator nor undici to start, once it has been started before', async () => {
    const loaded = 'process.moduleLoadList.filter((name) => /deps.(amaro|undici)/.test(name))'
    const tell = `process.on('exit', () => console.log('loaded', JSON.stringify(${loaded})))`
    const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(tell)}`
    const DATA_DIR = folder()
    const first = start('start.js', { DATA_DIR })
    await first.url
    // What it compiled is kept by now, though it cannot say goodbye.
    await fetch(await first.url)
    await first.end('SIGKILL')
    const second = start('start.js', { DATA_DIR, NODE_OPTIONS })
    await second.url
    expect(await second.end()).toBe(0)
    expect(second.output()).toContain('loaded []')
  })

  it('finds its data again on the second start, which it keeps to itself', async () => {
    const DATA_DIR = join(folder(), 'data')
    const secrets = () => readFileSync(join(DATA_DIR, 'dev.env'), 'utf8')
    const first = start('start.js', { DATA_DIR })
    await first.url
    const generated = secrets()
    expect(generated).toMatch(/^ORACLE_MNEMONIC="(\w{5} ){15}\w{5}"$/m)
    expect(await first.end()).toBe(0)
    const second = start('start.js', { DATA_DIR })
    await second.url
    expect(secrets()).toBe(generated)
    expect(statSync(DATA_DIR).mode & 0o777).toBe(0o700)
    for (const file of readdirSync(DATA_DIR))
      expect(statSync(join(DATA_DIR, file)).mode & 0o777, file).toBe(0o600)
    for (const [, secret] of generated.matchAll(/="(.+)"/g))
      expect(outputsOf(first, second)).not.toContain(secret)
    await second.end()
  })

  it('says so when the port is taken', async () => {
    const first = start('start.js', { DATA_DIR: folder() })
    const { port } = new URL(await first.url)
    const second = start('start.js', { DATA_DIR: folder(), PORT: port })
    expect(await second.exited).toBe(1)
    expect(second.output()).toContain(`Something else listens on 127.0.0.1:${port}.`)
    expect(second.output()).toContain('Set PORT to a free port')
    expect(second.output()).not.toContain('    at ')
    expect((await fetch(`${await first.url}/health`)).status).toBe(200)
  })

  it('stops with a sentence when another server has the folder', async () => {
    const DATA_DIR = folder()
    const first = start('start.js', { DATA_DIR })
    const url = await first.url
    const second = start('start.js', { DATA_DIR })
    expect(await second.exited).toBe(1)
    expect(second.output()).toContain(String(first.pid))
    expect(second.output()).toContain(url)
    expect(second.output()).not.toContain('    at ')
    await first.end('SIGKILL')
    const third = start('start.js', { DATA_DIR })
    expect((await fetch(`${await third.url}/health`)).status).toBe(200)
  })

  it('generates nothing in production and still serves what is public', async () => {
    const DATA_DIR = folder()
    const server = start('start.js', { DATA_DIR, NODE_ENV: 'production', HOST: '127.0.0.1' })
    const url = await server.url
    expect(readdirSync(DATA_DIR)).not.toContain('dev.env')
    expect(await json(`${url}/health`)).toMatchObject({
      status: 'degraded',
      signingKey: 'missing',
      environment: 'production',
    })
    for (const line of server.output().trim().split('\n'))
      expect(() => JSON.parse(line)).not.toThrow()
  })

  it('reports every boot fault without a stack trace and exits with 1', async () => {
    const server = start('start.js', {
      DATA_DIR: folder(),
      FEATURES: 'wether=off',
      WEATHER_DEFAULT_UNITS: 'kelvin',
      LOG_LEVEL: 'loud',
    })
    expect(await server.exited).toBe(1)
    for (const part of ['wether', 'Did you mean "weather"?', 'kelvin', 'LOG_LEVEL', '3 faults'])
      expect(server.output()).toContain(part)
    expect(server.output()).not.toContain('    at ')
  })

  it('ends well within ten seconds while streams are open, and tells them', async () => {
    const server = start('test/support/streaming-server.ts', { DATA_DIR: folder() })
    const url = await server.url
    const streams = await Promise.all(Array.from({ length: 5 }, () => fetch(`${url}/ticks`)))
    const texts = streams.map((stream) => stream.text())
    const slow = fetch(`${url}/slow`).then((response) => response.json())
    await expect.poll(() => server.output()).toContain('slow has begun')
    const from = Date.now()
    const exit = server.end()
    expect(await slow).toEqual({ finished: true })
    for (const text of texts) {
      expect(await text).toMatch(/event: tick/)
      expect(await text).toMatch(/event: goodbye\ndata: \{\}\n\n$/)
    }
    expect(await exit).toBe(0)
    expect(Date.now() - from).toBeLessThan(10_000)
  })
})

describe('the examples', () => {
  it('minimal: fifteen lines are a server', async () => {
    const server = start('examples/minimal/server.ts', { DATA_DIR: ':memory:' })
    const { rolled } = await json(`${await server.url}/dice?sides=6`)
    expect([1, 2, 3, 4, 5, 6]).toContain(rolled)
  })

  it('own-plugin: a bundled plugin and one’s own', async () => {
    const server = start('examples/own-plugin/server.ts', {
      DATA_DIR: ':memory:',
      API_KEY: 'the-key-of-this-test',
    })
    const listed = await fetch(`${await server.url}/shopping-list`, {
      headers: { authorization: 'Bearer the-key-of-this-test' },
    })
    expect(await listed.json()).toEqual({ items: [] })
    expect((await json(`${await server.url}/health`)).plugins).toEqual({
      weather: 'available',
      'shopping-list': 'available',
    })
  })
})

const outputsOf = (...servers: ServerProcess[]) => servers.map((server) => server.output()).join('')
