import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { callerOf } from '../support/caller.ts'
import { openStream, type Seen } from '../support/event-stream.ts'
import { onEachDatabase } from '../support/each-database.ts'
import { startServer, type ServerProcess } from '../support/process.ts'

// Each of these starts a server, freezes it, and waits.
vi.setConfig({ testTimeout: 180_000 })

const open: (() => unknown)[] = []
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close()
})
function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'watchdog-'))
  open.push(() => rmSync(path, { recursive: true, force: true }))
  return path
}
function start(env: Record<string, string> = {}): ServerProcess {
  const server = startServer('test/support/freezing-server.ts', {
    DATA_DIR: ':memory:',
    EVENT_LOOP_LIMIT_MS: '800',
    ...env,
  })
  open.push(() => (server.child.exitCode === null ? server.end('SIGKILL') : undefined))
  return server
}
/** The address of a server that is watched. */
const up = async (server: ServerProcess) => {
  const url = await server.url
  await expect.poll(() => server.output()).toContain('watched')
  return url
}
const ask = (url: string) => fetch(url).catch(() => undefined)
const lastWords = (server: ServerProcess) =>
  JSON.parse(
    server
      .output()
      .split('\n')
      .find((line) => line.includes('EVENT_LOOP_LIMIT_MS'))!,
  )

describe('an event loop that does not turn', () => {
  test.each([
    ['/spin', 'a loop without end', /spin/],
    ['/regex', 'a pattern that backtracks', /RegExp/],
    ['/promises', 'promises that follow each other', undefined],
  ])('ends the process with 70 at %s, %s, and says what was under way', async (path, _, stack) => {
    const server = start()
    void ask((await up(server)) + path)
    expect(await server.exited).toBe(70)
    const words = lastWords(server)
    expect(words).toMatchObject({ level: 60, msg: expect.stringContaining('800 ms') })
    expect(words.underWay[0]).toBe(`GET ${path} of freezer`)
    if (stack) expect(words.stack.join('\n')).toMatch(stack)
  })

  test('ends the process too where it waits in foreign code, that takes three times as long', async () => {
    const server = start()
    void ask(`${await up(server)}/wait`)
    expect([70, 'SIGKILL']).toContain(await server.exited)
    expect(lastWords(server).underWay[0]).toBe('GET /wait of freezer')
  })

  test('is not one that has much to do', async () => {
    const server = start()
    const url = await up(server)
    expect((await fetch(`${url}/busy`)).status).toBe(200)
    expect(await server.end()).toBe(0)
  })

  test('is not one of a process that was stopped and goes on', async () => {
    const server = start()
    const url = await up(server)
    server.child.kill('SIGSTOP')
    await sleep(3_000)
    server.child.kill('SIGCONT')
    await sleep(500)
    expect((await fetch(url)).status).toBe(200)
    expect(await server.end()).toBe(0)
  })

  test('may stand still where the limit is 0, or a debugger is attached', async () => {
    const servers = [
      start({ EVENT_LOOP_LIMIT_MS: '0' }),
      start({ NODE_OPTIONS: '--inspect=127.0.0.1:0' }),
    ]
    await Promise.all(
      servers.map(async (server) => {
        const url = await server.url
        await sleep(700) // when a watchdog would be there
        void ask(`${url}/spin`)
        await sleep(3_500)
        expect(server.child.exitCode).toBeNull()
        expect(await server.end('SIGKILL')).toBe('SIGKILL')
      }),
    )
  })

  test.each(['-1', 'ten', '1.5', '99999999999'])('has no limit of %s', async (limit) => {
    const server = start({ EVENT_LOOP_LIMIT_MS: limit })
    expect(await server.exited).toBe(1)
    expect(server.output()).toContain('EVENT_LOOP_LIMIT_MS')
  })
})

await onEachDatabase('a turn that freezes its server', ({ databaseUrl }) => {
  test('freezes it twice and is set aside; the turn beside it goes on', async () => {
    const DATA_DIR = folder()
    const env: Record<string, string> = {
      DATA_DIR,
      FROZEN: join(DATA_DIR, 'frozen'),
      RUN_LEASE_MS: '1000',
      EVENT_LOOP_LIMIT_MS: '5000',
      ORACLE_MNEMONIC:
        'legal winner thank year wave sausage worth useful legal winner thank yellow',
      ...(databaseUrl && { DATABASE_URL: databaseUrl }),
    }
    const exits: unknown[] = []
    let url = ''
    let supervising = true
    open.push(() => (supervising = false))
    const supervise = async () => {
      while (supervising) {
        const server = start(env)
        url = await server.url.catch(() => '')
        exits.push(await server.exited)
      }
    }
    void supervise()
    await expect.poll(() => url, { timeout: 30_000 }).not.toBe('')
    const caller = await callerOf(url)
    const session = async () => {
      const init = { method: 'POST', headers: await caller.headers() }
      const made = (await (await fetch(`${url}/sessions`, init)).json()) as { sessionId: string }
      return made.sessionId
    }
    const sessions = [await session(), await session()]
    const turn = async (sessionId: string | undefined, message: string, seen: Seen[] = []) => {
      const requestId = randomUUID() // a client that saw no answer sends the same again
      while (supervising && seen.at(-1)?.event !== 'done')
        try {
          const headers = await caller.headers()
          const stream = seen[0]
            ? await openStream(
                `${url}/runs/${seen[0].data.runId}?after=${seen.at(-1)!.id}`,
                headers,
              )
            : await openStream(`${url}/messages/${sessionId}`, headers, {
                message,
                requestId,
              })
          for (let event = await stream.next(); event; event = await stream.next())
            if (event.id !== undefined) seen.push(event)
        } catch {
          await sleep(100) // nobody is there: the next server starts
        }
      return seen
    }
    const ofSlow: Seen[] = []
    const slow = turn(sessions[1], 'Slow', ofSlow)
    await expect.poll(() => ofSlow.length, { timeout: 60_000 }).toBeGreaterThan(0)
    const frozen = await turn(sessions[0], 'Freeze')
    expect(frozen.slice(-2)).toMatchObject([
      { event: 'error', data: { code: 'RUN_QUARANTINED' } },
      { event: 'done', data: { status: 'failed' } },
    ])
    expect((await slow).at(-1)).toMatchObject({ event: 'done', data: { status: 'finished' } })
    // Where the machine leaves the frozen process no time to say its last words, it is killed.
    expect(exits.map((exit) => (exit === 'SIGKILL' ? 70 : exit))).toEqual([70, 70])
  }, 300_000)
})
