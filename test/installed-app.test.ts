import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { callerOf, sayTo } from './support/caller.ts'
import { freePort } from './support/cluster.ts'
import { complaintsOf, launch } from './support/browser.ts'
import { openStream, readOn, wordsOf } from './support/event-stream.ts'
import { withoutNetwork } from './support/no-network.ts'
import { otlpReceiver } from './support/otlp-receiver.ts'
import { root } from './support/process.ts'
import { describeWith } from './support/services.ts'
import { slowness } from './support/slowness.ts'

const runFile = promisify(execFile)

/** The version of the API of OpenTelemetry that the package brings, of which there may be no second one. */
const apiVersion = '1.9.1'

/** The oldest Node that `engines` allows, the oldest that reads TypeScript by itself, the newest 22, and the one of the tests. */
const nodes = ['22.13.0', '22.18.0', '22.23.3', process.versions.node]

/** Where a Node of this version is; one that does not run the tests comes from npm. */
async function nodeOf(version: string): Promise<string> {
  if (version === process.versions.node) return process.execPath
  const at = join(above, `node-${version}`)
  const name = `node-${process.platform}-${process.arch}`
  const options = ['--prefer-offline', '--no-audit', '--no-fund', '--prefix', at]
  await runFile('npm', ['install', `${name}@${version}`, ...options])
  return join(at, 'node_modules', name, 'bin/node')
}

const operator = 'an-operator-token-of-a-test-1234567890'

/** The environment of somebody's shell: what the tests say of themselves is left out. */
const own = { ...process.env, NODE_ENV: undefined }

/** How long a server may take from the signal to its end; then it is killed, and its end is no 0. */
const endMs = 15_000

/** An app whose model answers slowly, and which says when its plugin closes. */
const slowServer = `import { defineApp, definePlugin } from 'oracle-runtime'
const model = {
  id: 'slow/one',
  contextWindow: undefined,
  async *stream({ signal }) {
    for (let n = 0; n < 20; n++) {
      yield { type: 'text', text: 'word' + n + ' ' }
      await new Promise((resolve) => setTimeout(resolve, 150))
      signal.throwIfAborted()
    }
  },
}
const plugin = definePlugin({
  name: 'closing',
  summary: 'Says that it closes.',
  setup({ onClose }) {
    onClose(async () => {
      console.log('the plugin closes')
      if (process.env.HANGS) await new Promise((resolve) => setTimeout(resolve, 600_000))
    })
  },
})
const app = defineApp({ plugins: [plugin], model })
export default app
if (import.meta.main) await app.listen()
`
const words = Array.from({ length: 20 }, (_, n) => `word${n} `).join('')

/** Node as the first process of a namespace, as in a container without an init. */
const asFirst = ['unshare', '--pid', '--fork', '--kill-child', '--', process.execPath, 'server.ts']
const ways: [string, readonly string[]][] = [
  ['npm start', ['npm', 'start']],
  ['node server.ts', [process.execPath, 'server.ts']],
  ...(process.getuid?.() === 0 ? [['node as PID 1', asFirst] as [string, readonly string[]]] : []),
]

/** The process that a signal goes to: the one that was started, or the first one of the namespace that it made. */
function signalled(pid: number, command: readonly string[]): number {
  if (command !== asFirst) return pid
  return Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ')[0])
}

function start(command: readonly string[], cwd: string, env: Record<string, string | undefined>) {
  const [program = '', ...args] = command
  const child = spawn(program, args, {
    cwd,
    detached: true,
    env: { ...own, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let printed = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (bytes: Buffer) => (printed += bytes.toString()))
  const exited = once(child, 'exit') as Promise<[number | null, string | null]>
  onTestFinished(async () => {
    // The group, because npm leaves its children behind when it is killed.
    if (child.exitCode === null && child.signalCode === null) process.kill(-child.pid!, 'SIGKILL')
    await exited
  })
  return {
    exited,
    output: () => printed,
    async url() {
      const listens = /listening on (http:\/\/[\d.:]+\d)/
      await expect.poll(() => printed, { timeout: 60_000 }).toMatch(listens)
      return listens.exec(printed)?.[1] ?? ''
    },
    signal(name: NodeJS.Signals) {
      process.kill(signalled(child.pid!, command), name)
    },
  }
}

/** A plugin with what the SQLite of an older Node does not tell of by itself. */
const flags = `const flags = definePlugin({
  name: 'flags',
  summary: 'Keeps flags.',
  migrations: {
    '001': (db) => db.schema.createTable('flags_kept').addColumn('up', 'boolean').execute(),
  },
  setup: ({ db }) => ({ db: db.withTables<{ flags_kept: { up: boolean } }>() }),
  routes: {
    'GET /flags': {
      auth: 'public',
      async run(_, { self: { db } }) {
        const [made] = await db.insertInto('flags_kept').values({ up: true }).returning('up as raised').execute()
        const kept = await db.selectFrom('flags_kept').selectAll().where('up', '=', true).execute()
        return { made, kept }
      },
    },
  },
})
`

/** Within which time somebody has all of it who begins with `init`, on a machine that does nothing else. */
const allThereMs = 120_000

let above: string
let folder: string
/** How long `init` and the installation took. */
let madeMs: number
let offline: Record<string, string>
let asked: string

beforeAll(async () => {
  above = mkdtempSync(join(tmpdir(), 'oracle-installed-'))
  folder = join(above, 'my-oracle')
  const quick = { npm_config_prefer_offline: 'true', npm_config_audit: 'false' }
  const options = { cwd: above, env: { ...process.env, ...quick } }
  await runFile('npm', ['pack', '--pack-destination', above], { ...options, cwd: root })
  const [tarball = ''] = readdirSync(above).filter((name) => name.endsWith('.tgz'))
  const began = performance.now()
  const init = ['oracle-runtime', 'init', 'my-oracle', '--runtime', `file:../${tarball}`]
  await runFile('npm', ['exec', '--yes', `--package=./${tarball}`, '--', ...init], options)
  await runFile('npm', ['install'], { ...options, cwd: folder })
  madeMs = performance.now() - began
  asked = join(above, 'asked')
  offline = withoutNetwork(join(above, 'no-network.mjs'), asked)
}, 900_000)
afterAll(() => rmSync(above, { recursive: true, force: true }), 300_000)

/** A folder of an app of its own with what was installed. */
function another(name: string, server: string): string {
  const app = join(above, name)
  mkdirSync(app)
  cpSync(join(folder, 'package.json'), join(app, 'package.json'))
  symlinkSync(join(folder, 'node_modules'), join(app, 'node_modules'))
  writeFileSync(join(app, 'server.ts'), server)
  return app
}

describe('an app of two files, outside of the repository', () => {
  it.each(ways)(
    'hands its answer over on SIGTERM to %s, ends with 0, and says the rest after a restart',
    async (name, command) => {
      const app = another(`ends-${name.replaceAll(/\W/g, '-')}`, slowServer)
      const env = { PORT: '0', DATA_DIR: '.data' }
      const server = start(command, app, env)
      const url = await server.url()
      const caller = await callerOf(url)
      const headers = async () => ({ ...(await caller.headers()) })
      const made = await fetch(`${url}/sessions`, { method: 'POST', headers: await headers() })
      const { sessionId } = (await made.json()) as { sessionId: string }
      const turn = await openStream(`${url}/messages/${sessionId}`, await headers(), {
        message: 'Talk',
      })
      const runId = turn.headers.get('x-run-id') ?? ''
      const events = await turn.until(({ data }) => String(data.content).startsWith('word1'))
      server.signal('SIGTERM')
      const late = setTimeout(() => server.signal('SIGKILL'), endMs)
      events.push(...(await turn.rest()))
      expect(events.at(-1)).toMatchObject({ event: 'run', data: { runId, handover: true } })
      expect(await server.exited).toEqual([0, null])
      clearTimeout(late)
      expect(server.output()).toContain('the plugin closes')

      const next = start(command, app, env)
      const at = await next.url()
      await readOn(
        async (after) => openStream(`${at}/runs/${runId}?after=${after}`, await headers()),
        events,
      )
      expect(events.at(-1)).toMatchObject({ event: 'done', data: { status: 'finished' } })
      expect(wordsOf(events)).toBe(words)
      next.signal('SIGTERM')
      expect(await next.exited).toEqual([0, null])
    },
    120_000,
  )

  it.each(ways)('ends at once with 1 on a second SIGTERM to %s', async (name, command) => {
    const app = another(`hangs-${name.replaceAll(/\W/g, '-')}`, slowServer)
    const server = start(command, app, { PORT: '0', DATA_DIR: '.data', HANGS: 'yes' })
    await server.url()
    server.signal('SIGTERM')
    await expect.poll(server.output, { timeout: 20_000 }).toContain('the plugin closes')
    server.signal('SIGTERM')
    expect(await server.exited).toEqual([1, null])
  })
})

/** An app as the `init` of this Node makes it, with what the package of the other tests has installed. */
async function madeBy(node: string, version: string) {
  const name = `on-${version.replaceAll('.', '-')}`
  const env = { ...own, PATH: `${dirname(node)}:${process.env.PATH}`, npm_config_offline: 'true' }
  const bin = join(folder, 'node_modules/oracle-runtime/cli/bin.js')
  await runFile(node, [bin, 'init', name], { cwd: above, env })
  const app = join(above, name)
  symlinkSync(join(folder, 'node_modules'), join(app, 'node_modules'))
  const text = readFileSync(join(app, 'server.ts'), 'utf8')
  const withFlags = text.replace('const app =', `${flags}\nconst app =`)
  writeFileSync(join(app, 'server.ts'), withFlags.replace('[dice,', '[flags, dice,'))
  const cli = (...args: string[]) => runFile(node, [bin, ...args], { cwd: app, env })
  return { app, env, cli }
}

describe('every Node that engines allows', () => {
  it.each(nodes)(
    '%s makes an app, starts it, answers and tests a plugin',
    async (version) => {
      const node = await nodeOf(version)
      expect((await runFile(node, ['--version'])).stdout).toBe(`v${version}\n`)
      const { app, env, cli } = await madeBy(node, version)
      expect((await cli('new', 'field-notes')).stdout).toContain('server.ts loads it')
      const tests = await runFile('npm', ['test'], { cwd: app, env })
      expect(tests.stdout).toMatch(/pass 3\b/)

      const settings = { PORT: '0', DATA_DIR: '.data', OPERATOR_TOKEN: operator }
      const server = start(['npm', 'start'], app, { ...env, ...settings })
      const url = await server.url()
      const caller = await callerOf(url)
      const { status, of } = await sayTo(url, caller.headers, 'Roll a dice')
      expect(status).toBe('finished')
      expect(of('tool_call').map(({ toolName }) => toolName)).toContain('roll_dice')
      const read = async (path: string, headers: Record<string, string> = {}): Promise<unknown> =>
        (await fetch(url + path, { headers })).json()
      expect(await read('/flags')).toEqual({ made: { raised: true }, kept: [{ up: true }] })
      const found = await read('/sessions?q=dic', { ...(await caller.headers()) })
      expect(found).toMatchObject({ total: 1, sessions: [{ hits: expect.any(Array) }] })
      const storage = await read('/storage', { authorization: `Bearer ${operator}` })
      const runs = { name: 'kernel_runs', kind: 'runs', rows: 1, bytes: expect.any(Number) }
      expect(storage).toMatchObject({ tables: expect.arrayContaining([runs]) })
      await cli('backup', join(app, 'copy.sqlite'))
      server.signal('SIGTERM')
      expect(await server.exited).toEqual([0, null])
      await cli('restore', join(app, 'copy.sqlite'))
      const report = JSON.parse((await cli('inspect', '--json')).stdout)
      expect(report.plugins.map(({ name }: { name: string }) => name)).toContain('field-notes')
    },
    300_000,
  )

  it('leaves a database alone that a newer one has made with more than the oldest knows', async () => {
    const app = another('made-by-newer', readFileSync(join(folder, 'server.ts'), 'utf8'))
    const bin = 'node_modules/oracle-runtime/cli/bin.js'
    const migrate = (node: string) => runFile(node, [bin, 'migrate'], { cwd: app, env: own })
    await migrate(process.execPath)
    const older = migrate(await nodeOf('22.13.0'))
    await expect(older).rejects.toMatchObject({
      stderr: expect.stringContaining('Run it with Node 22.16 or newer'),
    })
    expect((await migrate(process.execPath)).stdout).toContain('0 migrations ran')
  }, 300_000)
})

describe('an app that is told where spans go', () => {
  it('names the packages that it lacks, and sends its spans once npm has installed these', async () => {
    const receiver = await otlpReceiver()
    const app = join(above, 'traced')
    mkdirSync(app)
    for (const file of ['package.json', 'package-lock.json'])
      cpSync(join(folder, file), join(app, file))
    writeFileSync(join(app, 'server.ts'), slowServer)
    const npm = (...args: string[]) =>
      runFile('npm', [...args, '--prefer-offline', '--no-audit', '--no-fund'], { cwd: app })
    await npm('ci')
    const env = { PORT: '0', OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url }
    const node = [process.execPath, 'server.ts']
    const without = start(node, app, env)
    await without.url()
    without.signal('SIGTERM')
    expect(await without.exited).toEqual([0, null])
    const names = /npm install ((?:@opentelemetry\/\S+ ?)+)/.exec(without.output())?.[1]
    const { devDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
      devDependencies: Record<string, string>
    }
    const packages = (names ?? '').trim().split(' ')
    expect(packages).toHaveLength(2)
    await npm('install', ...packages.map((name) => `${name}@${devDependencies[name]}`))
    // npm ends with a fault where a peer is missing or another one than asked for.
    const { stdout } = await npm('ls', '@opentelemetry/api', '--all', '--json')
    const versions = [...stdout.matchAll(/"@opentelemetry\/api": \{\s*"version": "([^"]+)"/g)]
    expect(new Set(versions.map(([, version]) => version))).toEqual(new Set([apiVersion]))
    const traced = start(node, app, env)
    expect((await fetch(`${await traced.url()}/health`)).status).toBe(200)
    traced.signal('SIGTERM')
    expect(await traced.exited).toEqual([0, null])
    expect(receiver.spans.map(({ name }) => name)).toContain('GET /health')
  }, 240_000)
})

await describeWith('chromium', 'what init made from the packed package', (program) => {
  it('answers in a page, has a command line and a new plugin with passing tests, and asks no other machine', async () => {
    const slow = [await slowness()]
    const began = performance.now()
    const port = String(await freePort())
    const env = { ...own, ...offline, PORT: port }
    const cli = (...args: string[]) =>
      runFile('npx', ['--no', '--', 'oracle-runtime', ...args], { cwd: folder, env })
    const dev = start(['npm', 'run', 'dev'], folder, { ...offline, PORT: port })
    const url = `http://127.0.0.1:${port}`
    await expect.poll(dev.output, { timeout: 60_000 }).toContain(`Watching. Open ${url}`)
    await answerInPage(program, url)
    await cli('probe', '--wait', '60', url)
    const { headers } = JSON.parse((await cli('token', '--json')).stdout) as {
      headers: Record<string, string>
    }
    expect((await fetch(`${url}/sessions`, { method: 'POST', headers })).status).toBe(201)
    expect((await cli('chat', 'Roll a dice')).stdout).toContain('roll_dice')
    const report = JSON.parse((await cli('inspect', '--json')).stdout)
    expect(report.plugins.map(({ name }: { name: string }) => name)).toContain('dice')
    expect((await cli('env')).stdout).toContain('DATA_DIR')
    const checked = JSON.parse((await cli('check', '--json')).stdout) as { state: string }[]
    expect(checked.filter(({ state }) => state === 'fault')).toEqual([])
    expect((await cli('new', 'field-notes')).stdout).toContain('server.ts loads it')
    const { stdout } = await runFile('npm', ['test'], { cwd: folder, env })
    expect(stdout).toMatch(/pass 3\b/)
    expect(stdout).toMatch(/fail 0\b/)
    // The server behind the port has been started anew with the plugin.
    const unsigned = async () => (await fetch(`${url}/field-notes`)).status
    await expect.poll(unsigned, { timeout: 30_000 }).toBe(401)
    const tookMs = madeMs + performance.now() - began
    slow.push(await slowness())
    process.stdout.write(
      `init: all there after ${Math.round(tookMs)} ms, on a machine ${slow.map((by) => by.toFixed(1)).join(' to ')} ` +
        'times as slow as a quiet one\n',
    )
    expect(tookMs).toBeLessThan(allThereMs * Math.max(...slow))
    dev.signal('SIGTERM')
    expect(await dev.exited).toEqual([0, null])
    expect(readFileSync(asked, 'utf8')).toBe('')
  }, 600_000)
})

/** Asks in the page of the server and waits for the answer; the page asks nobody else for anything. */
async function answerInPage(program: string, url: string): Promise<void> {
  const browser = await launch(program)
  try {
    const page = await browser.newPage()
    const complaints = complaintsOf(page)
    const elsewhere: string[] = []
    page.on('request', (request) => {
      if (!request.url().startsWith(url)) elsewhere.push(request.url())
    })
    await page.goto(`${url}/playground`)
    await page.getByLabel('Message', { exact: true }).fill('Roll a dice')
    await page.getByRole('button', { name: 'Send' }).click()
    await page.locator('[data-tool=roll_dice]').first().waitFor()
    await expect
      .poll(() => page.locator('.oc-ai .oc-markdown').allTextContents())
      .toContainEqual(expect.stringMatching(/\S/))
    expect(elsewhere).toEqual([])
    expect(complaints).toEqual([])
  } finally {
    await browser.close()
  }
}
