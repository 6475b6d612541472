import { execFile, execFileSync, spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { fakeProvider } from '#core/testing'
import { callerOf } from './support/caller.ts'
import { complaintsOf, launch } from './support/browser.ts'
import { markedBlocks, runProgram, shellBlock } from './support/page-program.ts'
import { describeWith } from './support/services.ts'

const root = resolve(import.meta.dirname, '..')

const server = `import { createApp, definePlugin } from 'oracle-runtime'
import weather from 'oracle-runtime/plugins/weather'
import { z } from 'zod'

const dice = definePlugin({
  name: 'dice',
  summary: 'Rolls a dice.',
  requires: [weather],
  routes: {
    'GET /dice/:sides': { auth: 'public', input: z.object({ sides: z.coerce.number().int() }), run: ({ sides }) => ({ sides }) },
  },
})
const app = await createApp({ plugins: [dice, weather], env: { DATA_DIR: ':memory:' } })
const { url } = await app.listen({ port: 0 })
console.log('at ' + url)
`

const secrets = {
  ORACLE_MNEMONIC: 'words of an image',
  OPERATOR_TOKEN: 'o'.repeat(40),
  API_KEY: 'a'.repeat(40),
}

/** The lines of a Dockerfile by their first word, each with its continuation. */
function dockerfile(path: string) {
  const lines = readFileSync(path, 'utf8').replaceAll(/\\\n/g, ' ').split('\n')
  return {
    of: (word: string) =>
      lines
        .filter((line) => line.startsWith(`${word} `))
        .map((line) => line.slice(word.length + 1)),
  }
}

const author = `import { fakeFetch, testApp } from 'oracle-runtime/testing'
import weather from 'oracle-runtime/plugins/weather'
import { definePlugin, type ToolsOf } from 'oracle-runtime'

type Ask = ToolsOf<typeof weather>['get_current_weather']['input']
const ask: Ask = { city: 'Lusaka' }
const app = await testApp({ plugins: [weather], fetch: fakeFetch({}) })
const names: string[] = app.thread().load('weather').tools
await app.close()
console.log(ask.city, names.length)

export default definePlugin({
  name: 'layer',
  summary: 'Stands around requests.',
  middleware: {
    async http(koa, next) {
      // @ts-expect-error: the types of Koa come along, so the compiler knows that a status is a number
      const status: string = koa.status
      await next()
      console.log(status)
    },
  },
})
`

const phones = `import { createApp } from 'oracle-runtime'
import ussd from 'oracle-runtime/plugins/ussd'
import water from './water.ts'

const app = await createApp({ plugins: [ussd, water], env: { DATA_DIR: ':memory:' } })
const { url } = await app.listen({ port: 0 })
const call = { sessionId: 'a', serviceCode: '*384#', phoneNumber: '+254711000111', text: '4*1' }
const answer = await fetch(url + '/api/ussd', { method: 'POST', body: new URLSearchParams(call) })
console.log(await answer.text())
await app.close()
`

const bridge = `import { fakeWebhook } from 'oracle-runtime/testing'
import { deliver, verifyHmac, verifyWebhook, type DeliverOptions } from 'oracle-runtime/webhooks'

await using receiver = await fakeWebhook()
const options: DeliverOptions = { id: 'one', secret: receiver.secret }
const { status }: { readonly status: number } = await deliver(receiver.url, { type: 'a.b' }, options)
const { isValid, headers } = await receiver.next()
const again: boolean = verifyWebhook({ secret: receiver.secret, headers, body: '{"type":"a.b"}' })
const hmac = { algorithm: 'sha256', encoding: 'hex', prefix: 'sha256=' } as const
console.log(status, isValid, again, verifyHmac({ ...hmac, secret: 'a', body: 'b', signature: undefined }))
`

const strict = `import { createApp, definePlugin, reply, RuntimeError, type Model, type ToolsOf, type WebModule } from 'oracle-runtime'
import playground from 'oracle-runtime/plugins/playground'
import preferences from 'oracle-runtime/plugins/preferences'
import queryGateway from 'oracle-runtime/plugins/query-gateway'
import registry from 'oracle-runtime/plugins/registry'
import sampling from 'oracle-runtime/plugins/sampling'
import ussd from 'oracle-runtime/plugins/ussd'
import weather from 'oracle-runtime/plugins/weather'
import { testApp, TestClock, type TestApp } from 'oracle-runtime/testing'
import { verifyHmac } from 'oracle-runtime/webhooks'
import { z } from 'zod'

const note = z.object({ id: z.string(), words: z.string().optional() })
const hello: WebModule = (koa) => void (koa.body = 'hello')
const model: Model = {
  id: 'mine',
  contextWindow: undefined,
  async *stream({ signal }) {
    signal.throwIfAborted()
    yield { type: 'text', text: 'Hello.' }
  },
}

export const notes = definePlugin({
  name: 'notes',
  summary: 'Keeps notes.',
  env: { NOTES_SECRET: z.string().default('s'), NOTES_MAX: z.coerce.number().default(5) },
  requires: [preferences],
  uses: [weather],
  state: { last: z.string().optional(), list: z.array(z.string()).default([]).meta({ scope: 'room' }) },
  setup: ({ env, log, plugins, rooms }) => {
    log.info({ max: env.NOTES_MAX }, 'set up')
    return {
      weatherOf: (city: string) => plugins.weather?.current(city, { signal: AbortSignal.timeout(1000) }),
      add: (room: string, words: string) => rooms.update({ room }, ({ list }) => void list.push(words)),
    }
  },
  jobs: {
    remind: { input: note, attempts: 3, run: ({ words }, { job }) => (words ? undefined : job.giveUp('no words')) },
    sweep: { cron: '0 3 * * *', run: () => undefined },
  },
  runs: { end: async (run, { jobs }) => void (await jobs.later('remind', { id: run.runId }, { key: run.runId })) },
  prompt: ({ state }) => state.last,
  tools: {
    add_note: {
      description: 'Adds a note.',
      input: note,
      output: note,
      can: { can: 'notes/write' },
      approve: ({ words }) => words === undefined,
      async run({ id, words }, { state, user, sessions }) {
        state.last = words ?? id
        await sessions.say({ user, text: 'Noted.' })
        return words === undefined ? { id } : { id, words }
      },
    },
  },
  toolsFor: ({ user }) => ({ ping: { description: user.did, parameters: {}, run: (args) => args['host'] } }),
  subAgents: { sorter: { description: 'Sorts.', prompt: 'Sort.', tools: ['add_note'], output: note } },
  middleware: { turn: (_ctx, next) => next(), http: (_koa, next) => next() },
  routes: {
    'GET /notes/:id': {
      output: note,
      run: async ({ id }) => {
        if (id === '') throw new RuntimeError('NOT_FOUND', 'There is no such note.')
        return id === 'new' ? reply(202, { id }) : { id }
      },
    },
    'POST /hooks/:from': {
      auth: 'own',
      raw: true,
      limit: ({ NOTES_MAX }) => ({ max: NOTES_MAX, perMs: 1000 }),
      verify: ({ headers, raw }, { env }) =>
        verifyHmac({
          algorithm: 'sha256',
          encoding: 'hex',
          secret: env.NOTES_SECRET,
          body: raw(),
          signature: headers['x-signature'],
        })
          ? { caller: 'hook' }
          : undefined,
      run: ({ from }, { raw, koa }) => ({ from, bytes: raw.length, ip: koa.ip }),
    },
  },
  web: { '/hello': hello },
  notices: async (notice, { job }) => void [notice.title, job.key],
})

const given: ToolsOf<typeof notes>['add_note'] = { input: { id: '1' }, output: { id: '1', words: 'w' } }
const plugins = [notes, playground, preferences, queryGateway, registry, sampling, ussd, weather]
const app = createApp({ plugins, model, instructions: 'Be short.' })
const tested: TestApp = await testApp({ plugins: [notes, preferences], model, clock: new TestClock() })
const said = await (await tested.user()).say(given.input.id)
const wallet = (await tested.user()).wallet
const token: string = (await wallet.invoke({ audience: wallet.did })).text
console.log(app, said.text, token)
`

const mine = `import { definePlugin } from 'oracle-runtime'
import { z } from 'zod'

export default definePlugin({
  name: 'tides',
  summary: 'Tides of harbours.',
  visibility: 'always',
  tools: {
    get_tide: {
      description: 'The tide in a city.',
      effect: 'read',
      input: z.object({ city: z.string() }),
      run: ({ city }) => ({ tide: 'high in ' + city }),
    },
  },
})
`

/** A conversation of a new user with a server; resolves to what each message is answered with. */
async function talkTo(url: string): Promise<(message: object) => Promise<string>> {
  const { headers } = await callerOf(url)
  const send = async (path: string, body: object) =>
    await fetch(url + path, {
      method: 'POST',
      headers: { ...(await headers()), 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
  const { sessionId } = (await (await send('/sessions', {})).json()) as { sessionId: string }
  return async (message) => {
    const answer = await send(`/messages/${sessionId}`, { stream: false, ...message })
    return ((await answer.json()) as { message: { content: string } }).message.content
  }
}

let above: string
let folder: string
let child: ChildProcess | undefined
const run = (command: string, args: string[], cwd = folder) =>
  execFileSync(command, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })

// Every suite of this file looks at one package, installed once.
beforeAll(() => {
  above = mkdtempSync(join(tmpdir(), 'oracle-package-'))
  folder = join(above, 'my-oracle')
  const commands = shellBlock('docs/getting-started.md', 'npm pack')
    .replaceAll('../my-oracle', folder)
    .replace('node server.ts\n', '')
  const quick = {
    npm_config_prefer_offline: 'true',
    npm_config_audit: 'false',
    npm_config_fund: 'false',
  }
  execFileSync('bash', ['-euc', commands], {
    cwd: root,
    env: { ...process.env, ...quick },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
}, 600_000)
afterAll(() => {
  child?.kill()
  rmSync(above, { recursive: true, force: true })
}, 600_000)

describe('the published package', () => {
  it('runs the application of getting-started as the page says', async () => {
    await using program = await runProgram('node server.ts', folder)
    const answer = await fetch(`${program.url}/dice?sides=20`)
    expect(await answer.json()).toEqual({ rolled: expect.any(Number) })
  }, 60_000)

  it('brings a command line, which reads the app of the folder and adds plugins with passing tests', () => {
    const cli = (...words: string[]) => run('npx', ['--no', '--', 'oracle-runtime', ...words])
    expect(cli('--help')).toContain('inspect')
    const report = JSON.parse(cli('inspect', '--json')) as { plugins: { name: string }[] }
    expect(report.plugins.map(({ name }) => name)).toEqual(['dice'])
    expect(cli('migrate', '--check')).toContain('would run')
    expect(cli('new', 'field-notes')).toContain('server.ts loads it')
    expect(run(process.execPath, ['--test', 'plugins/field-notes/*.test.ts'])).toMatch(/fail 0\b/)
    expect(cli('init', 'another', '--runtime', '0.1.0')).toContain('another is there')
    const other = join(folder, 'another')
    expect(run('npx', ['--no', '--', 'oracle-runtime', 'inspect'], other)).toContain('roll_dice')
  }, 120_000)

  it.skipIf(process.getuid?.() !== 0)(
    'runs what the lines of deploy/Dockerfile make, as a user who can write nowhere but in DATA_DIR',
    async () => {
      const image = join(above, 'image')
      const app = join(image, 'app')
      const lines = dockerfile(join(root, 'deploy/Dockerfile'))
      mkdirSync(join(image, 'usr'), { recursive: true })
      chmodSync(above, 0o755)
      execFileSync('cp', ['-a', folder, app])
      rmSync(join(app, 'node_modules'), { recursive: true })
      // The paths of an image are paths of a folder here; the copies are where the context is.
      const inImage = (line: string) => line.replaceAll(/(?<=^|[\s=])\/(?=[a-z])/g, `${image}/`)
      for (const line of lines.of('RUN'))
        execFileSync('bash', ['-euc', inImage(line)], { cwd: app, stdio: 'pipe' })
      const env = Object.fromEntries(
        lines.of('ENV').flatMap((line) => line.split(' ').map((pair) => inImage(pair).split('='))),
      )
      const uid = Number(lines.of('USER')[0]?.split(':')[0])
      expect(uid).toBe(10001)
      const start = () =>
        spawn(process.execPath, JSON.parse(lines.of('CMD').at(-1) ?? '[]').slice(1), {
          cwd: app,
          uid,
          gid: uid,
          env: {
            PATH: process.env.PATH,
            ...env,
            PORT: '0',
            HOST: '127.0.0.1',
            DRAIN_MS: '0',
            ...secrets,
          },
          stdio: ['ignore', 'pipe', 'pipe'],
        })
      const server = start()
      let said = ''
      for (const stream of [server.stdout, server.stderr])
        stream.on('data', (bytes: Buffer) => (said += bytes.toString()))
      const exited = once(server, 'exit')
      await expect.poll(() => said, { timeout: 30_000 }).toContain('listening on')
      const url = /listening on (http:\/\/[\d.:]+\d)/.exec(said)?.[1] ?? ''
      const probe = JSON.parse(/CMD (\[.*\])/.exec(lines.of('HEALTHCHECK')[0] ?? '')?.[1] ?? '[]')
      run(process.execPath, [...probe.slice(1), url], app)
      const script = `for (const at of ['app', 'usr']) try { fs.writeFileSync('${image}/' + at + '/x', ''); console.log(at) } catch {}`
      const writable = execFileSync(process.execPath, ['-e', script], {
        uid,
        gid: uid,
        encoding: 'utf8',
      })
      expect(writable).toBe('')
      expect(existsSync(join(image, 'data/oracle.sqlite'))).toBe(true)
      server.kill('SIGTERM')
      expect(await exited).toEqual([0, null])
    },
    180_000,
  )

  it('loads a plugin that was published as write-a-plugin says', async () => {
    for (const [path, code] of markedBlocks('docs/write-a-plugin.md', 'outside')) {
      mkdirSync(dirname(join(folder, path)), { recursive: true })
      writeFileSync(join(folder, path), code)
    }
    const plugin = join(folder, 'oracle-plugin-dice')
    run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc')], plugin)
    run('npm', ['pack'], plugin)
    const install = ['install', '--prefer-offline', '--no-audit', '--no-fund']
    run('npm', [...install, join(plugin, 'oracle-plugin-dice-1.0.0.tgz')])
    await using program = await runProgram('node server.ts', join(folder, 'app-with-dice'))
    const health = await (await fetch(`${program.url}/health`)).json()
    expect(health).toMatchObject({ plugins: { dice: 'available' } })
  }, 120_000)

  it('answers with models of a provider that was published as write-a-provider says', async () => {
    for (const [path, code] of markedBlocks('docs/write-a-provider.md', 'outside')) {
      mkdirSync(dirname(join(folder, path)), { recursive: true })
      writeFileSync(join(folder, path), code)
    }
    const plugin = join(folder, 'oracle-models-acme')
    const source = readFileSync(join(root, 'examples/acme-models/index.ts'), 'utf8')
    writeFileSync(join(plugin, 'index.ts'), source.replaceAll("'#core", "'oracle-runtime"))
    run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc')], plugin)
    run('npm', ['pack'], plugin)
    const install = ['install', '--prefer-offline', '--no-audit', '--no-fund']
    run('npm', [...install, join(plugin, 'oracle-models-acme-1.0.0.tgz')])
    await using provider = await fakeProvider()
    provider.otherwise = ({ wire }) => `Hello over ${wire}.`
    const env = {
      MODEL: 'acme/one,anthropic/two',
      ACME_API_KEY: provider.key,
      ACME_BASE_URL: provider.url,
      ANTHROPIC_API_KEY: provider.key,
      ANTHROPIC_BASE_URL: provider.url,
    }
    const set = Object.entries(env).map(([name, value]) => `${name}=${value}`)
    const app = join(folder, 'app-with-acme')
    await using program = await runProgram(`${set.join(' ')} node server.ts`, app)
    const say = await talkTo(program.url)
    expect(await say({ message: 'Hello', model: 'acme/one' })).toContain('over chat.')
    expect(await say({ message: 'Hello', model: 'anthropic/two' })).toContain('over messages.')
    const words = ['--no', '--', 'oracle-runtime', 'models', 'acme']
    const { stdout } = await promisify(execFile)('npx', words, {
      cwd: app,
      env: { ...process.env, ...env },
    })
    expect(stdout).toBe('acme (Acme): 2 models\n  acme/fake-large\n  acme/fake-small\n')
  }, 120_000)

  it('answers with the demonstration model in an app of two files, and stops without any', async () => {
    writeFileSync(join(folder, 'mine.ts'), mine)
    const app = (options: string) => `import { createApp } from 'oracle-runtime'
import mine from './mine.ts'
await (await createApp({ plugins: [mine]${options} })).listen()
`
    writeFileSync(join(folder, 'two.ts'), app(''))
    await using program = await runProgram('node two.ts', folder)
    const say = await talkTo(program.url)
    expect(await say({ message: 'What is the tide in Lagos?' })).toContain('high in Lagos')
    writeFileSync(join(folder, 'none.ts'), app(', models: false'))
    const { status, stdout, stderr } = spawnSync(process.execPath, ['none.ts'], {
      cwd: folder,
      encoding: 'utf8',
      env: { ...process.env, DATA_DIR: ':memory:', PORT: '0' },
    })
    expect(status).toBe(1)
    expect(stdout + stderr).toContain('MODEL_MISSING')
  }, 60_000)

  it('runs a small server with a plugin of its user’s own', async () => {
    writeFileSync(join(folder, 'server.js'), server)
    child = spawn(process.execPath, ['server.js'], {
      cwd: folder,
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let output = ''
    child.stdout!.on('data', (chunk) => (output += chunk))
    while (!/^at http/m.test(output)) await once(child.stdout!, 'data')
    const url = /^at (.*)$/m.exec(output)![1]!
    expect(await (await fetch(`${url}/dice/6`)).json()).toEqual({ sides: 6 })
    const health = (await (await fetch(`${url}/health`)).json()) as { plugins: unknown }
    expect(health.plugins).toEqual({
      weather: 'available',
      dice: 'available',
    })
  }, 60_000)

  it('runs a menu for phones that a user wrote as the documentation does', () => {
    copyFileSync(join(root, 'examples/ussd-menu/water.ts'), join(folder, 'water.ts'))
    writeFileSync(join(folder, 'phones.ts'), phones)
    expect(run(process.execPath, ['phones.ts'])).toContain('CON Which well?\n0. Back\n')
  }, 60_000)

  it('sends and checks webhooks by an entry of its own', () => {
    writeFileSync(join(folder, 'bridge.ts'), bridge)
    expect(run(process.execPath, ['bridge.ts'])).toBe('204 true true false\n')
  }, 60_000)

  it('compiles in the strictest project, with the types that it brings along and no others', () => {
    const project = join(folder, 'strict')
    mkdirSync(project)
    const files = {
      'bridge.ts': bridge,
      'kernel.ts': server,
      'author.ts': author,
      'all.ts': strict,
    }
    for (const [name, text] of Object.entries(files)) writeFileSync(join(project, name), text)
    const compilerOptions = {
      module: 'nodenext',
      target: 'es2024',
      strict: true,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      noImplicitOverride: true,
      noPropertyAccessFromIndexSignature: true,
      noUnusedLocals: true,
      verbatimModuleSyntax: true,
      isolatedModules: true,
      skipLibCheck: false,
      noEmit: true,
    }
    const config = { compilerOptions, include: ['*.ts'] }
    writeFileSync(join(project, 'tsconfig.json'), JSON.stringify(config))
    const compiler = join(root, 'node_modules/typescript/bin/tsc')
    const { stdout } = spawnSync(process.execPath, [compiler, '-p', project, '--listFiles'], {
      encoding: 'utf8',
    })
    expect(stdout.split('\n').filter((line) => line.includes('error TS'))).toEqual([])
    const used = stdout.split('\n').filter((line) => line.includes('node_modules'))
    expect(used.some((path) => path.includes('node_modules/@types/koa/'))).toBe(true)
    // Everything comes from what the package's own installation brought, but for the compiler's own library.
    const strange = used.filter((path) => !path.startsWith(folder) && !path.includes('typescript'))
    expect(strange).toEqual([])
  }, 120_000)

  it('imports few files of the package, and a trace names the lines of the sources', () => {
    const program = `
      import { registerHooks } from 'node:module'
      const files = []
      registerHooks({ load: (url, context, next) => (files.push(url), next(url, context)) })
      const { createApp, chain } = await import('oracle-runtime')
      const model = { id: 'none', async *stream() {} }
      const env = { DATA_DIR: ':memory:', LOG_LEVEL: 'silent' }
      const app = await createApp({ plugins: [], models: false, model, env })
      await app.listen({ port: 0 })
      console.log(files.filter((url) => url.includes('/oracle-runtime/dist/')).length)
      try { chain([]) } catch (error) { console.log(error.stack) }
      await app.close()`
    const started = ['--enable-source-maps', '--input-type=module', '-e', program]
    const [files = '', ...trace] = run(process.execPath, started).split('\n')
    expect(Number(files)).toBeGreaterThan(0)
    expect(Number(files)).toBeLessThan(30)
    expect(trace.join('\n')).toMatch(/core\/[a-z/-]+\.ts:\d+:\d+/)
  })

  it('carries built files, pages and nothing of the workshop', () => {
    const files = (
      JSON.parse(run('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], root)) as {
        files: { path: string }[]
      }[]
    )[0]!.files.map(({ path }) => path)
    expect(files).toEqual(
      expect.arrayContaining([
        'dist/index.js',
        'dist/core/index.d.ts',
        'cli/bin.js',
        'dist/cli/main.js',
        'dist/plugins/weather/index.js',
        'docs/getting-started.md',
        'LICENSE',
        'README.md',
      ]),
    )
    expect(files.filter((path) => /(^|\/)(test|bench|scripts|\.ci)\/|\.test\./.test(path))).toEqual(
      [],
    )
  }, 60_000)
})

await describeWith('chromium', 'a view of the published package', (chromium) => {
  it('builds a view by its own Vite, and the page that the package brings shows it', async () => {
    const other = join(above, 'view')
    execFileSync('cp', ['-a', folder, other])
    for (const [path, code] of markedBlocks('docs/write-a-plugin.md', 'outside')) {
      mkdirSync(dirname(join(other, path)), { recursive: true })
      writeFileSync(join(other, path), code)
    }
    const [client = ''] = run('npm', ['pack', '-w', 'client', '--pack-destination', other], root)
      .trim()
      .split('\n')
      .slice(-1)
    const { devDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
      devDependencies: Record<string, string>
    }
    const names = ['vite', 'react', 'react-dom', '@types/react', '@types/react-dom']
    const wanted = names.map((name) => `${name}@${devDependencies[name]}`)
    const install = ['install', '--prefer-offline', '--no-audit', '--no-fund', '--save-dev']
    run('npm', [...install, `./${client}`, ...wanted], other)

    const app = join(other, 'app-with-view')
    const built = join(app, 'plugins/tolls/built/view.js')
    const cli = (...words: string[]) => run('npx', ['--no', '--', 'oracle-runtime', ...words], app)
    expect(cli('build:view', 'plugins/tolls')).toContain('view.js')
    expect(readFileSync(built).byteLength).toBeLessThan(2_000)
    const types = {
      compilerOptions: { module: 'nodenext', strict: true, noEmit: true, jsx: 'react-jsx' },
      include: ['plugins/tolls/view.tsx'],
    }
    writeFileSync(join(app, 'tsconfig.json'), JSON.stringify(types))
    run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', app], app)

    await using program = await runProgram('node server.ts', app)
    const browser = await launch(chromium)
    try {
      const page = await (await browser.newContext({ locale: 'fr-FR' })).newPage()
      const complaints = complaintsOf(page)
      await page.goto(`${program.url}/playground/`)
      await page.getByRole('link', { name: 'Péages' }).click()
      await page.getByText('A crossing costs two coins. Demonstration model').waitFor()
      expect(complaints).toEqual([])
    } finally {
      await browser.close()
    }
    // The view of payments is in the package, as it is in the repository.
    const brought = 'plugins/payments/built/view.js'
    expect(readFileSync(join(other, 'node_modules/oracle-runtime/dist', brought), 'utf8')).toBe(
      readFileSync(join(root, brought), 'utf8'),
    )
  }, 240_000)
})
