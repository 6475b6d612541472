import { execFileSync, spawnSync } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import pg from 'pg'
import { describe, expect, it, onTestFinished } from 'vitest'
import { type Database, definePlugin } from '#core'
import { testApp } from '#core/testing'
import { freshDatabase } from '../../test/support/database.ts'
import { startServer } from '../../test/support/process.ts'
import { describeWith } from '../../test/support/services.ts'
import ussd from './index.ts'
import { Phone } from './phone.ts'

const unavailable = 'END Service temporarily unavailable. Please try again later.'

/** Starts a gateway, and returns it with its connection to the database. */
async function starting(env: Record<string, string>) {
  let db: Database | undefined
  const insider = definePlugin({
    name: 'insider',
    summary: 'Has the connection.',
    visibility: 'silent',
    setup: (boot) => void (db = boot.db),
  })
  const app = await testApp({
    plugins: [ussd, insider],
    env: { USSD_RATE_LIMIT_PER_MINUTE: '1000000', USSD_REPLY_BUDGET_MS: '100', ...env },
  })
  onTestFinished(() => app.close())
  const phoneOf = (number: string) =>
    new Phone(number, async (request) => {
      const { status, body } = await app.post('/api/ussd', request)
      expect(status).toBe(200)
      return body
    })
  const health = async () => (await app.get('/health')).body
  return { app, phoneOf, health, say: (text: string) => sql.raw(text).execute(db!) }
}

type Started = Awaited<ReturnType<typeof starting>>

/** Checks that a phone in mid-session gets the exact words during the fault, and continues after the fault. */
async function through(
  { app, phoneOf, health }: Started,
  { fails, heals }: { fails(): unknown; heals(): unknown },
) {
  const phone = phoneOf('+254711000111')
  await phone.dial()
  await phone.type('2', '1')
  expect(await health()).toMatchObject({ status: 'ok', database: 'connected' })
  await fails()
  expect(await phone.type('Amina')).toBe(unavailable)
  expect(await phone.again()).toBe(unavailable)
  expect(await phoneOf('+254722000222').dial()).toBe(unavailable)
  const { status, body } = await app.get('/health')
  expect([status, body.status, body.database]).toEqual([503, 'degraded', 'unreachable'])
  await heals()
  await expect.poll(async () => (await health()).database, { timeout: 15_000 }).toBe('connected')
  expect(await phone.again()).toMatch(/^CON Your e-mail/)
  expect(await phone.type('1', '48213')).toMatch(/^CON (Type the PIN|Still working)/)
  expect(await phoneOf('+254722000222').dial()).toMatch(/^CON Welcome/)
}

describe('a SQLite file that', () => {
  function file() {
    const DATA_DIR = mkdtempSync(join(tmpdir(), 'oracle-ussd-'))
    onTestFinished(() => rmSync(DATA_DIR, { recursive: true, force: true }))
    return { DATA_DIR, path: join(DATA_DIR, 'oracle.sqlite') }
  }

  // prlimit exists only on Linux. On other systems the cases below test the same for SQLite, but not for the system's limit.
  const hasLimits = spawnSync('prlimit', ['--version']).status === 0
  it.skipIf(!hasLimits)(
    'may not grow any more says so in the exact words, and goes on when it may',
    async () => {
      const { DATA_DIR } = file()
      const env = { DATA_DIR, USSD_RATE_LIMIT_PER_MINUTE: '1000000' }
      const server = startServer('server.ts', env)
      onTestFinished(async () => void (await server.end('SIGKILL')))
      const url = await server.url
      // The limit makes the system refuse every write that lengthens a file, as a full disk does.
      const limit = (bytes: string) =>
        execFileSync('prlimit', ['--pid', String(server.pid), `--fsize=${bytes}`])
      const post = async (request: object) =>
        (
          await fetch(`${url}/api/ussd`, {
            method: 'POST',
            body: new URLSearchParams({ ...request }),
          })
        ).text()
      const health = async () =>
        (await (await fetch(`${url}/health`)).json()) as { database: string }
      const phone = new Phone('+254711000111', post)
      await phone.dial()
      await phone.type('2', '1')
      limit('0:unlimited')
      expect(await phone.type('Amina')).toBe(unavailable)
      expect((await health()).database).toBe('unreachable')
      limit('unlimited:unlimited')
      await expect
        .poll(async () => (await health()).database, { timeout: 15_000 })
        .toBe('connected')
      expect(await phone.again()).toMatch(/^CON Your e-mail/)
      expect(await server.end()).toBe(0)
    },
  )

  it('has no page left likewise', async () => {
    const { phoneOf, say } = await starting(file())
    const { rows } = await say('pragma page_count')
    const { page_count: pages } = rows[0] as { page_count: number }
    await say(`pragma max_page_count = ${pages + 2}`)
    const last = phoneOf('+254711000111')
    let answer = ''
    for (let calls = 0; calls < 2000 && !answer.startsWith('END'); calls++)
      answer = await last.dial(`${calls}-`.padEnd(100, 'x'))
    expect(answer).toBe(unavailable)
    await say('pragma max_page_count = 1000000')
    expect(await last.again()).toMatch(/^CON Welcome/)
  })

  it('is read-only likewise', async () => {
    const started = await starting(file())
    await through(started, {
      fails: () => started.say('pragma query_only = on'),
      heals: () => started.say('pragma query_only = off'),
    })
  })

  it('another process holds likewise', async () => {
    const { path, ...env } = file()
    const started = await starting(env)
    const other = new DatabaseSync(path)
    await through(started, {
      fails: () => other.exec('begin immediate'),
      heals: () => (other.exec('rollback'), other.close()),
    })
  })

  it('is broken likewise, once it is repaired', async () => {
    const { path, ...env } = file()
    const started = await starting(env)
    let intact = Buffer.alloc(0)
    const write = (bytes: Buffer) => {
      const target = openSync(path, 'r+')
      writeSync(target, bytes, 0, bytes.length, 0)
      closeSync(target)
    }
    await through(started, {
      async fails() {
        await started.say('pragma wal_checkpoint(truncate)')
        intact = readFileSync(path)
        write(Buffer.alloc(intact.length, 'broken'))
        await started.say('pragma shrink_memory')
      },
      heals: () => write(intact),
    })
  })
})

await describeWith('postgres', 'a PostgreSQL that kills connections', (url) => {
  it('is noticed by nobody, or in the exact words; each phone goes on and nothing is done twice', async () => {
    const database = await freshDatabase(url)
    onTestFinished(database.drop)
    const { phoneOf, app } = await starting({ DATABASE_URL: database.url })
    const killer = new pg.Client(url)
    await killer.connect()
    onTestFinished(() => killer.end())
    const name = new URL(database.url).pathname.slice(1)
    const phones = Array.from({ length: 60 }, (_, n) => phoneOf(`+2547110001${10 + n}`))
    let isOver = false
    const killing = (async () => {
      while (!isOver)
        await killer.query(
          'select pg_terminate_backend(pid), pg_sleep(0.05) from pg_stat_activity where datname = $1',
          [name],
        )
    })()
    const stopKilling = () => ((isOver = true), killing)
    onTestFinished(stopKilling)
    const heard = new Set<string>()
    const insist = async (first: Promise<string>, phone: Phone) => {
      let answer = await first
      for (; answer === unavailable; answer = await phone.again()) heard.add(answer)
      return answer
    }
    const ends = await Promise.all(
      phones.map(async (phone) => {
        expect(await insist(phone.dial(), phone)).toMatch(/^CON Welcome/)
        expect(await insist(phone.type('2'), phone)).toMatch(/^CON Your account/)
        expect(await insist(phone.type('1'), phone)).toMatch(/^CON Your name/)
        return insist(phone.type('Amina'), phone)
      }),
    )
    await stopKilling()
    expect(new Set(ends)).toEqual(new Set(['CON Your e-mail address, or 1 to skip:\n0. Back']))
    expect([...heard].every((answer) => answer === unavailable)).toBe(true)
    await expect
      .poll(async () => (await app.get('/health')).body.database, { timeout: 15_000 })
      .toBe('connected')
    expect((await app.get('/api/ussd/sessions')).body.count).toBe(60)
  })
})
