import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { testApp } from '#core/testing'
import { startServer } from '../support/process.ts'

const open: (() => unknown)[] = []
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close()
})

async function start(env: Record<string, string> = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'oracle-signals-'))
  open.push(() => rmSync(folder, { recursive: true, force: true }))
  const server = startServer('test/support/ending-server.ts', { DATA_DIR: folder, ...env })
  open.push(() => (server.child.exitCode === null ? server.end('SIGKILL') : undefined))
  return { ...server, at: await server.url }
}

describe('an app that says nothing of signals', () => {
  it.each(['SIGTERM', 'SIGINT'] as const)(
    'finishes its requests, closes its plugins and ends with 0 on %s',
    async (signal) => {
      const server = await start()
      const slow = fetch(`${server.at}/slow`).then((response) => response.json())
      await expect.poll(() => server.output(), { timeout: 20_000 }).toContain('slow has begun')
      const ended = server.end(signal)
      expect(await slow).toEqual({ finished: true })
      expect(await ended).toBe(0)
      expect(server.output()).toMatch(/the plugin closes[^]*stopped/)
    },
  )

  it('ends at once with 1 on a second signal', async () => {
    const server = await start({ ENDING: 'hangs' })
    server.child.kill('SIGTERM')
    await expect.poll(() => server.output(), { timeout: 20_000 }).toContain('the plugin closes')
    expect(await server.end('SIGTERM')).toBe(1)
  })

  it('ends with 0 and a line when a plugin cannot be closed', async () => {
    const server = await start({ ENDING: 'fails' })
    expect(await server.end()).toBe(0)
    expect(server.output()).toContain('The plugin cannot close.')
  })

  it('leaves a signal to a process that handles it itself, and says so', async () => {
    const server = await start({ ENDING: 'own' })
    expect(server.output()).toContain('this process handles SIGTERM itself')
    server.child.kill('SIGTERM')
    await expect.poll(() => server.output(), { timeout: 20_000 }).toContain('heard SIGTERM itself')
    expect((await fetch(`${server.at}/health`)).status).toBe(200)
    expect(await server.end('SIGINT')).toBe(0)
  })

  it('serves for DRAIN_MS after the signal, while /readyz sends balancers elsewhere', async () => {
    const server = await start({ DRAIN_MS: '3000' })
    expect(await (await fetch(`${server.at}/readyz`)).json()).toEqual({ ready: true })
    const ended = server.end()
    await expect.poll(() => server.output(), { timeout: 20_000 }).toContain('about to stop')
    const ready = await fetch(`${server.at}/readyz`)
    expect(ready.status).toBe(503)
    expect(await ready.json()).toEqual({ ready: false, why: 'The server is about to stop.' })
    expect((await fetch(`${server.at}/livez`)).status).toBe(200)
    expect(await (await fetch(`${server.at}/slow`)).json()).toEqual({ finished: true })
    expect(await ended).toBe(0)
  })

  it('drains and ends though 5,000 connections never say a byte', async () => {
    const server = await start({ DRAIN_MS: '500' })
    const { hostname, port } = new URL(server.at)
    const silent: Socket[] = []
    open.push(() => silent.forEach((socket) => socket.destroy()))
    for (let batch = 0; batch < 50; batch++)
      silent.push(
        ...(await Promise.all(
          Array.from({ length: 100 }, async () => {
            const socket = connect(Number(port), hostname)
            await once(socket, 'connect')
            return socket.on('error', () => undefined)
          }),
        )),
      )
    const slow = fetch(`${server.at}/slow`).then((response) => response.json())
    await expect.poll(() => server.output(), { timeout: 20_000 }).toContain('slow has begun')
    const ended = server.end()
    const late = setTimeout(() => server.child.kill('SIGKILL'), 15_000)
    expect(await slow).toEqual({ finished: true })
    expect(await ended).toBe(0)
    clearTimeout(late)
    expect(server.output()).toContain('the plugin closes')
  })

  it('leaves the signals of the process of a test alone', async () => {
    const listeners = () =>
      (['SIGTERM', 'SIGINT', 'SIGHUP'] as const).map((signal) => process.listeners(signal))
    const before = listeners()
    const app = await testApp({ plugins: [] })
    expect(listeners()).toEqual(before)
    await app.close()
    expect(listeners()).toEqual(before)
  })

  it('refuses a DRAIN_MS that is no number of milliseconds', async () => {
    await expect(start({ DRAIN_MS: 'soon' })).rejects.toThrow(/DRAIN_MS/)
  })
})
