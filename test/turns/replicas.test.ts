import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, expect, it } from 'vitest'
import pg from 'pg'
import { callerOf } from '../support/caller.ts'
import { flakyWire, freshDatabase } from '../support/database.ts'
import { startServer, type ServerProcess } from '../support/process.ts'
import { describeWith } from '../support/services.ts'

await describeWith('postgres', 'servers that share a PostgreSQL', (postgres) => {
  const open: (() => unknown)[] = []
  afterEach(async () => {
    for (const close of open.splice(0).reverse()) await close()
  })
  async function database() {
    const own = await freshDatabase(postgres)
    open.push(own.drop)
    return own.url
  }
  function server(DATABASE_URL: string, env: Record<string, string> = {}): ServerProcess {
    const DATA_DIR = mkdtempSync(join(tmpdir(), 'oracle-replica-'))
    const started = startServer('server.ts', {
      DATA_DIR,
      DATABASE_URL,
      ORACLE_MNEMONIC: 'words that replicas share',
      ...env,
    })
    open.push(async () => {
      await started.end('SIGKILL')
      rmSync(DATA_DIR, { recursive: true, force: true })
    })
    return started
  }
  const health = async (url: string) => {
    const response = await fetch(`${url}/health`)
    return {
      status: response.status,
      body: (await response.json()) as { database: string; status: string },
    }
  }

  it('boot at once on an empty one: all serve, and each migration ran once', async () => {
    const url = await database()
    const servers = [server(url), server(url), server(url)]
    for (const { url: at } of servers)
      expect((await health(await at)).body).toMatchObject({ status: 'ok', database: 'connected' })
    const ran = servers.flatMap((each) =>
      [...each.output().matchAll(/Migration ran owner=(\S+) migration=(\S+)/g)].map((match) =>
        match.slice(1).join(' '),
      ),
    )
    expect(ran.length).toBeGreaterThan(1)
    expect(new Set(ran).size).toBe(ran.length)
  })

  it('share what a user sets and revokes', async () => {
    const url = await database()
    const [one, two] = await Promise.all([server(url).url, server(url).url])
    const headers = await (await callerOf(one)).headers()
    const patched = await fetch(`${one}/user-preferences`, {
      method: 'PATCH',
      headers: { ...headers, 'content-type': 'application/json' },
      body: '{"language":"sw"}',
    })
    expect(patched.status).toBe(200)
    expect(await (await fetch(`${two}/user-preferences`, { headers })).json()).toEqual({
      userPreferences: { language: 'sw' },
    })

    const alone = { 'x-ucan-delegation': headers['x-ucan-delegation'] }
    const status = async (at: string) =>
      (await fetch(`${at}/user-preferences`, { headers: alone })).status
    expect([await status(one), await status(two)]).toEqual([200, 200])
    expect((await fetch(`${one}/delegation`, { method: 'DELETE', headers })).status).toBe(200)
    expect([await status(one), await status(two)]).toEqual([401, 401])
  })

  it('say that the database is away, and recover by themselves', async () => {
    const wire = await flakyWire(await database())
    open.push(wire.close)
    const at = await server(wire.url).url
    expect((await health(at)).status).toBe(200)
    await wire.cut()
    expect(await health(at)).toMatchObject({
      status: 503,
      body: { status: 'degraded', database: 'unreachable' },
    })
    expect((await fetch(`${at}/`)).status).toBe(200)
    await wire.restore()
    while ((await health(at)).status !== 200) await sleep(100)

    wire.silence()
    expect((await health(at)).status).toBe(503)
    await wire.restore()
    while ((await health(at)).status !== 200) await sleep(100)
  })

  it('do not start on one that is not there, say where they looked, and keep the password to themselves', async () => {
    const failing = server('postgres://user:very-secret-word@127.0.0.1:1/nothing')
    expect(await failing.exited).toBe(1)
    expect(failing.output()).toContain('127.0.0.1:1/nothing')
    expect(failing.output()).toContain('DATABASE_URL')
    expect(failing.output()).not.toContain('very-secret-word')
    expect(failing.output()).not.toContain('    at ')
  })

  it('leave no connection behind when they stop', async () => {
    const url = await database()
    const started = server(url)
    await started.url
    expect(await started.end('SIGTERM')).toBe(0)
    const client = new pg.Client(url)
    await client.connect()
    const { rows } = await client.query(
      'select count(*)::int as count from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
    )
    await client.end()
    expect(rows[0].count).toBe(0)
  })
})
