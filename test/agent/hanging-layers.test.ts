import { expect, onTestFinished, test, vi } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { scriptedModel, testApp } from '#core/testing'
import type { HttpLayer } from '../../core/plugin.ts'

/** The patience of the log, half a minute, is over in 50 ms. */
function impatiently() {
  const real = globalThis.setTimeout
  const quick = (run: () => void, ms?: number, ...args: []) =>
    real(run, ms === 30_000 ? 50 : ms, ...args)
  const spy = vi.spyOn(globalThis, 'setTimeout').mockImplementation(quick as typeof setTimeout)
  onTestFinished(() => spy.mockRestore())
}

type Kind = 'http' | 'turn' | 'model' | 'tool'
type Where = 'before' | 'after'
type Next = () => Promise<never>

async function hanging(kind: Kind, where: Where) {
  impatiently()
  const over = Promise.withResolvers<void>()
  const hang = async (...given: unknown[]) => {
    const next = given.at(-1) as Next
    if (where === 'before') await over.promise
    const result = await next()
    if (where === 'after') await over.promise
    return result
  }
  const tar = definePlugin({
    name: 'tar',
    summary: 'Holds everything up.',
    visibility: 'always',
    tools: {
      look: { description: 'Looks.', effect: 'read', input: z.object({}), run: () => 'seen' },
    },
    middleware: { [kind]: hang },
  })
  const model = scriptedModel([{ call: 'look', args: {} }, 'Done.'])
  const app = await testApp({ plugins: [tar], model })
  onTestFinished(() => app.close())
  onTestFinished(() => over.resolve())
  return { app, over, told: () => app.log.filter((line) => line.includes(' waiting for 30 s')) }
}

test.each<[Kind, Where]>([
  ['turn', 'before'],
  ['turn', 'after'],
  ['model', 'before'],
  ['model', 'after'],
  ['tool', 'before'],
  ['tool', 'after'],
])('a middleware.%s that hangs %s its next() is told in the log', async (kind, where) => {
  const { app, over, told } = await hanging(kind, where)
  const user = await app.user()
  const said = user.say('Look')
  await expect.poll(told).toHaveLength(1)
  expect(told()[0]).toContain(
    `[tar] middleware.${kind} of tar has kept a turn waiting for 30 s ${where} its next()`,
  )
  expect(told()[0]).toMatch(/requestId=\S+ runId=\S+ sessionId=\S+/)
  over.resolve()
  expect((await said).text).toBe('Done.')
})

test('a middleware.http that hangs is told in the log, once for all requests that it holds up', async () => {
  const { app, over, told } = await hanging('http', 'before')
  const held = Array.from({ length: 20 }, () => fetch(`${app.url}/livez`))
  await expect.poll(told).toHaveLength(1)
  expect(told()[0]).toMatch(
    /\[tar\] middleware\.http of tar has kept a request waiting for 30 s before its next\(\) requestId=\S+ method=GET/,
  )
  over.resolve()
  for (const { status } of await Promise.all(held)) expect(status).toBe(200)
  expect(told()).toHaveLength(1)
})

test('a layer of the app itself is told, too, and one whose answer is out is not', async () => {
  impatiently()
  const over = Promise.withResolvers<void>()
  onTestFinished(() => over.resolve())
  const layer: HttpLayer = async (koa, next) => {
    if (koa.path === '/held') await over.promise
    await next()
    await over.promise
  }
  const app = await testApp({ plugins: [], http: [layer] })
  onTestFinished(() => app.close())
  onTestFinished(() => over.resolve())
  const told = () => app.log.filter((line) => line.includes(' waiting for 30 s'))
  expect((await fetch(`${app.url}/livez`)).status).toBe(200)
  const held = fetch(`${app.url}/held`)
  await expect.poll(told).toHaveLength(1)
  expect(told()[0]).toContain('a layer of createApp({ http }) has kept a request waiting')
  over.resolve()
  expect((await held).status).toBe(404)
})
