import { afterEach, describe, expect, test, vi } from 'vitest'
import { createApp } from '#core'
import { callerOf, sayTo } from '../support/caller.ts'
import { startServer, type ServerProcess } from '../support/process.ts'

vi.setConfig({ testTimeout: 60_000 })

const open: (() => unknown)[] = []
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close()
})
function start(script: string, env: Record<string, string> = {}): ServerProcess {
  const server = startServer(script, { DATA_DIR: ':memory:', ...env })
  open.push(() => (server.child.exitCode === null ? server.end('SIGKILL') : undefined))
  return server
}

describe('a plugin whose promise rejects where nobody waits', () => {
  test('is named in the log, and its server goes on', async () => {
    const server = start('test/support/straying-server.ts')
    const url = await server.url
    await fetch(`${url}/stray`)
    await fetch(`${url}/health`)
    const { headers } = await callerOf(url)
    const said = await sayTo(url, headers, 'Hello')
    expect(said.status).toBe('finished')
    expect(said.text).toContain('stray')
    expect(said.text).not.toContain('hidden')
    for (const where of [
      'in the prompt',
      'in the setup',
      'in the health check',
      'in the turn',
      'in enabled',
      'in a timer',
    ])
      await expect.poll(() => server.output()).toContain(`It failed ${where}.`)
    expect(server.output()).toMatch(/\[straying\] prompt of straying failed/)
    expect(server.output()).toMatch(/\[straying\] enabled of "hidden" of straying is async/)
    expect((await fetch(`${url}/health`)).status).toBe(200)
    expect(await server.end()).toBe(0)
    expect(server.output()).toContain('It failed while it closed.')
  })

  test('ends the process only with an exception that nobody catches, which is logged', async () => {
    const server = start('test/support/straying-server.ts')
    await fetch(`${await server.url}/throw`).catch(() => undefined)
    expect(await server.exited).toBe(1)
    expect(server.output()).toContain('Nobody caught an exception: the process ends')
    expect(server.output()).toContain('Nobody catches this.')
  })
})

test('a program with a handler of its own keeps deciding for itself', async () => {
  const before = process.listeners('unhandledRejection')
  expect(before.length).toBeGreaterThan(0) // the test runner has one
  const app = await createApp({ plugins: [], env: { DATA_DIR: ':memory:' }, log: () => undefined })
  expect(process.listeners('unhandledRejection')).toEqual(before)
  await app.close()
})

test('without one, the handler is there while an app is, and goes with the last', async () => {
  const before = process.listeners('unhandledRejection')
  process.removeAllListeners('unhandledRejection')
  open.push(() => {
    for (const listener of before) process.on('unhandledRejection', listener)
  })
  const start = () =>
    createApp({ plugins: [], env: { DATA_DIR: ':memory:' }, log: () => undefined })
  const apps = [await start(), await start()]
  expect(process.listenerCount('unhandledRejection')).toBe(1)
  await apps[0]!.close()
  expect(process.listenerCount('unhandledRejection')).toBe(1)
  await apps[1]!.close()
  expect(process.listenerCount('unhandledRejection')).toBe(0)
})
