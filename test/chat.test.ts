import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { bareEnv, root, startServer } from './support/process.ts'

const folder = mkdtempSync(join(tmpdir(), 'oracle-chat-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Runs one of the commands to its end; once `stopAt` has been printed, it gets Ctrl-C or whatever `stop` does. */
async function run(
  name: string,
  args: string[],
  env: Record<string, string>,
  stopAt?: string,
  stop: (child: ChildProcess) => unknown = (child) => child.kill('SIGINT'),
) {
  const child = spawn(
    process.execPath,
    [
      '--disable-warning=ExperimentalWarning',
      '--conditions=oracle-runtime-source',
      'cli/main.ts',
      name,
      ...args,
    ],
    { cwd: root, env: { ...bareEnv(), ...env }, stdio: ['ignore', 'pipe', 'pipe'] },
  )
  let output = ''
  let stopped = false
  const take = (chunk: Buffer) => {
    output += chunk
    if (!stopAt || stopped || !output.includes(stopAt)) return
    stopped = true
    stop(child)
  }
  child.stdout.on('data', take)
  child.stderr.on('data', take)
  const [code] = await once(child, 'close')
  return { code, output }
}

describe('npm run chat', () => {
  const env = { DATA_DIR: join(folder, 'data'), PORT: '1' }

  it('runs a turn in its own process when no server answers, and explains a lost network in words', async () => {
    const upstream = { WEATHER_GEOCODING_URL: 'http://127.0.0.1:1/v1/search' }
    const { code, output } = await run('chat', ['What is the weather in Lusaka?'], {
      ...env,
      ...upstream,
    })
    expect(output).toMatch(
      /→ list_capabilities[^]*→ load_capability[^]*→ get_current_weather {"city":"Lusaka"}[^]*✗ get_current_weather/,
    )
    expect(output).toContain('The weather service cannot be reached')
    expect(output).toContain('demonstration model')
    expect(code).toBe(0)
  }, 60_000)

  it('uses the running server, and Ctrl-C stops the answer', async () => {
    const server = startServer('server.ts', { DATA_DIR: env.DATA_DIR })
    try {
      const { port } = new URL(await server.url)
      const at = { ...env, PORT: port }
      const { code, output } = await run(
        'chat',
        ['Tell me a very long story'],
        at,
        'demonstration model',
      )
      expect(output).not.toContain('No server answers')
      expect(output).toContain('(stopping)')
      expect(output).toContain('(aborted)')
      expect(code).toBe(0)

      const listed = await run('chat', ['--list'], at)
      const line = listed.output.split('\n').find((one) => one.includes('a very long story'))
      const [id = ''] = line?.split(/\s+/) ?? []
      const wentOn = await run('chat', ['--session', id, 'What did I ask?'], at)
      expect(wentOn.code).toBe(0)
      const again = await run('chat', ['--list'], at)
      expect(again.output.split(id)).toHaveLength(2)
      expect(again.output.trim().split('\n')).toHaveLength(listed.output.trim().split('\n').length)
      const unknown = await run('chat', ['--session', 'nothing', 'Hello'], at)
      expect([unknown.code, unknown.output]).toEqual([
        1,
        expect.stringContaining('You have no session "nothing"'),
      ])
      const help = await run('chat', ['--help'], at)
      expect([help.code, help.output]).toEqual([0, expect.stringContaining('--session <id>')])

      // The same development user, for curl: a config that curl reads.
      const token = await run('token', [], at)
      const headers = Object.fromEntries(
        [...token.output.matchAll(/^header = "([\w-]+): (.*)"$/gm)].map(([, name, value]) => [
          name,
          value,
        ]),
      )
      const sessions = await fetch(`http://127.0.0.1:${port}/sessions`, { headers })
      expect(await sessions.json()).toMatchObject({
        total: 2,
        sessions: [{ sessionId: id }, {}],
      })
    } finally {
      await server.end('SIGKILL')
    }
  }, 60_000)

  it('goes on with the answer when the server is killed and started again, and says nothing twice', async () => {
    const where = { DATA_DIR: join(folder, 'killed') }
    let server = startServer('server.ts', where)
    try {
      const { port } = new URL(await server.url)
      const told = 'Nobody trained me'
      const { code, output } = await run(
        'chat',
        ['Tell me a long story'],
        { ...where, PORT: port },
        told,
        async () => {
          await server.end('SIGKILL')
          server = startServer('server.ts', { ...where, PORT: port })
        },
      )
      expect(output.match(/connection lost/g)).toHaveLength(1)
      expect(output.split(told)).toHaveLength(2)
      const words = output.replace(/\n\(connection lost[^\n]*\n/, '').split(/\s+/)
      expect(words.length).toBeGreaterThan(380)
      expect(output).toMatch(/[.!?)]\s*$/)
      expect(code).toBe(0)
    } finally {
      await server.end('SIGKILL')
    }
  }, 90_000)
})

it('npm run env fits a terminal of 100 columns, and says of no variable that it is both made and missing', async () => {
  const { code, output } = await run('env', [], { DATA_DIR: join(folder, 'env') })
  expect(code).toBe(0)
  const lines = output.split('\n')
  expect(lines.length).toBeGreaterThan(100)
  expect(lines.filter((line) => line.length > 100)).toEqual([])
  expect(lines.filter((line) => /required.*generated in development/.test(line))).toEqual([])
  expect(output).not.toContain('(secret)')
}, 30_000)
