import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { testApp } from '#core/testing'
import { AppFolder, tidesServer } from '../support/command-line.ts'
import { plannedDatabase } from '../support/database.ts'
import { describeWith, urlOf } from '../support/services.ts'

interface Finding {
  readonly what: string
  readonly state: 'ok' | 'warning' | 'fault'
  readonly says: string
  readonly remedy?: string
}

/** A port of this machine where nothing listens, as far as anybody can know. */
const closed = '127.0.0.1:9'

/** A module that is loaded before the command, in place of what no test can bring about in the machine. */
const preload = (code: string) => ({
  NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(code)}`,
})
const noRoom = `import fs from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
fs.statfs = async () => ({ bavail: 10, bsize: 4096 })
syncBuiltinESMExports()`
/** Somebody writes a file whenever it is read. */
const growsMeanwhile = (path: string) => `import fs from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
const { open } = fs
fs.open = async (name, ...rest) => {
  const handle = await open(name, ...rest)
  if (name !== ${JSON.stringify(path)}) return handle
  const read = handle.read.bind(handle)
  handle.read = async (...how) => {
    await fs.appendFile(name, 'x')
    return read(...how)
  }
  return handle
}
syncBuiltinESMExports()`
const lateClock = `const now = Date.now; Date.now = () => now() - 60_000`

const app = new AppFolder(tidesServer)
const folder = mkdtempSync(join(tmpdir(), 'oracle-check-'))
const at = (name: string) => join(folder, name)

/** The findings of a check, beside its exit code. */
async function check(env: Readonly<Record<string, string>>) {
  const { code, out, err } = await app.run(['check', '--json'], { PORT: '0', ...env })
  expect(err).toBe('')
  return { code, findings: JSON.parse(out) as readonly Finding[] }
}

/** Shows that a check has one fault of this kind, with these words, a remedy and exit code 1. */
async function expectFault(
  env: Readonly<Record<string, string>>,
  what: string,
  says: RegExp,
  remedy: RegExp,
) {
  const { code, findings } = await check(env)
  const faults = findings.filter(({ state }) => state === 'fault')
  expect(faults.map((each) => each.what)).toEqual([what])
  expect(faults[0]?.says).toMatch(says)
  expect(faults[0]?.remedy).toMatch(remedy)
  expect(code).toBe(1)
}

const servers: ReturnType<typeof createServer>[] = []
async function serving(answer: RequestListener): Promise<number> {
  const server = createServer(answer).listen(0, '127.0.0.1')
  servers.push(server)
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

beforeAll(() => {
  for (const name of ['foreign', 'newer']) mkdirSync(at(name), { mode: 0o700 })
  writeFileSync(at('file'), 'no folder')
  writeFileSync(at('growing'), 'the-first-half', { mode: 0o600 })
  writeFileSync(join(at('foreign'), 'oracle.sqlite'), 'no database')
})
afterAll(() => {
  for (const server of servers) server.close()
  rmSync(folder, { recursive: true, force: true })
  app[Symbol.dispose]()
})

describe('oracle-runtime check', () => {
  it('names each fault with its remedy, and ends with 1', async () => {
    const foreign = await serving((_, response) => response.end('hello'))
    const model = 'openai/gpt-5'
    const away = JSON.stringify({ [model]: { baseUrl: `http://${closed}/v1`, keyFrom: 'API_KEY' } })
    const cases: Parameters<typeof expectFault>[] = [
      [{ REQUEST_LOG: 'loud' }, 'environment', /REQUEST_LOG .*"loud"/, /Correct REQUEST_LOG/],
      [{ API_KEY_FILE: at('none') }, 'environment', /API_KEY_FILE is .*none/, /Name a text file/],
      [
        { API_KEY_FILE: at('growing'), ...preload(growsMeanwhile(at('growing'))) },
        ...(['environment', /growing", .*changes while it is read/, /Name a text file/] as const),
      ],
      [{ HOST: '0.0.0.0' }, 'environment', /NODE_ENV is unset/, /Set NODE_ENV=production/],
      [{ MODEL: model }, 'environment', /OPENAI_API_KEY/, /OPENAI_API_KEY|openai/],
      [{ DATA_DIR: at('file') }, 'DATA_DIR', /is not a directory/, /Set DATA_DIR/],
      [{ DATA_DIR: at('foreign') }, 'database', /is no database of this runtime/, /restore <file>/],
      [preload(noRoom), 'disk', /0 MiB are free/, /Make room/],
      [{ PORT: String(foreign) }, 'PORT', /Something else listens/, /Set PORT/],
      [{ REDIS_URL: `redis://${closed}` }, 'REDIS_URL', /ECONNREFUSED/, /Start that Redis/],
      [{ BUS_URL: `nats://${closed}` }, 'BUS_URL', /does not answer/, /Start that bus/],
      [{ PUBLIC_URL: `http://127.0.0.1:${foreign}` }, 'PUBLIC_URL', /is no oracle/, /Lead PUBLIC/],
      [
        { MODEL: model, MODEL_SETTINGS: away, API_KEY: 'k'.repeat(32) },
        'MODEL',
        /gpt-5/,
        /Correct/,
      ],
      [
        { DATABASE_URL: `postgres://me:hidden-word@${closed}/none` },
        ...([
          'database',
          /PostgreSQL at 127.0.0.1:9\/none .*ECONNREFUSED/,
          /DATABASE_URL/,
        ] as const),
      ],
    ]
    // Two at a time, as the machine has cores.
    for (let next = 0; next < cases.length; next += 2)
      await Promise.all(cases.slice(next, next + 2).map((each) => expectFault(...each)))
  }, 120_000)

  it('names the migration of a newer version that breaks, and a server that has the folder', async () => {
    const running = await testApp({ plugins: [], env: { DATA_DIR: at('newer') } })
    const held = await check({ DATA_DIR: at('newer') }).finally(() => running.close())
    expect(held.code).toBe(0)
    expect(held.findings).toContainEqual(
      expect.objectContaining({ what: 'lock', state: 'warning', remedy: expect.any(String) }),
    )
    const database = new DatabaseSync(join(at('newer'), 'oracle.sqlite'))
    database
      .prepare('insert into kernel_migrations (name, ran_at, breaks) values (?, ?, 1)')
      .run('999-later', new Date().toISOString())
    database.close()
    await expectFault({ DATA_DIR: at('newer') }, 'migrations', /"999-later"/, /newer version/)
  }, 120_000)

  it('ends with 0 where nothing is wrong, asks a model for nothing but its list, and leaves no file', async () => {
    const asked: string[] = []
    const port = await serving(({ method, url }, response) => {
      asked.push(`${method} ${url}`)
      response.end('{}')
    })
    const model = 'openai/gpt-5'
    const { code, findings } = await check({
      DATA_DIR: at('not-yet'),
      MODEL: model,
      API_KEY: 'k'.repeat(32),
      MODEL_SETTINGS: JSON.stringify({
        [model]: { baseUrl: `http://127.0.0.1:${port}/v1`, keyFrom: 'API_KEY' },
      }),
    })
    expect(findings.filter(({ state }) => state === 'fault')).toEqual([])
    expect(code).toBe(0)
    expect(asked).toEqual(['GET /v1'])
    const { out } = await app.run(['check'], { PORT: '0', DATA_DIR: at('not-yet') })
    expect(out).toMatch(/^warning {2}MODEL {8}The stand-in answers/m)
    expect(out).toMatch(/\n0 faults\.\n$/)
    expect(out).toContain('which the first start makes')
    expect(existsSync(at('not-yet'))).toBe(false)
    expect((await app.run(['check', 'more'])).code).toBe(2)
  }, 120_000)
})

const url = await urlOf('postgres')
await describeWith('postgres', 'oracle-runtime check on PostgreSQL', () => {
  const [own, other] = [plannedDatabase(url!), plannedDatabase(url!)]
  beforeAll(async () => {
    await own.create()
    await other.create()
  })
  afterAll(async () => {
    await own.drop()
    await other.drop()
  })

  it('names a clock that is wrong and a line that hears nothing', async () => {
    const base = { DATABASE_URL: own.url }
    const sound = await check(base)
    expect(sound.findings.filter(({ state }) => state === 'fault')).toEqual([])
    expect(sound.findings.map(({ what }) => what)).toEqual(
      expect.arrayContaining(['database', 'clock', 'LISTEN', 'migrations']),
    )
    await expectFault({ ...base, ...preload(lateClock) }, 'clock', /60\.\d s behind/, /NTP/)
    // NOTIFY stays within a database, so a line to another one is as deaf as one through a pooler.
    const deaf = { ...base, DATABASE_LISTEN_URL: other.url }
    await expectFault(deaf, 'LISTEN', /not heard over DATABASE_LISTEN_URL/, /without a pooler/)
  }, 120_000)
})
