import { describe, expect, it } from 'vitest'
import { definePlugin } from '#core'
import { testApp } from '#core/testing'
import { z } from 'zod'

const tick = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
async function until(check: () => unknown, ms = 10_000) {
  const end = Date.now() + ms
  while (!(await check())) {
    if (Date.now() > end) throw new Error('it never came true')
    await tick(20)
  }
}

describe('a plugin whose setup never ends', () => {
  const stuck = definePlugin({
    name: 'stuck',
    summary: 's',
    env: { STUCK_URL: z.string().default('http://nowhere') },
    setup: () => new Promise<{ n: number }>(() => undefined),
    tools: {
      stuck_tool: {
        description: 'Does a thing.',
        input: z.object({}),
        run: (_, { self }) => self.n,
      },
    },
    routes: { 'GET /stuck': { auth: 'public', run: (_, { self }) => self.n } },
  })
  const child = definePlugin({
    name: 'child',
    summary: 'c',
    requires: [stuck],
    setup: ({ plugins }) => plugins.stuck.n,
  })
  const fine = definePlugin({
    name: 'fine',
    summary: 'f',
    routes: { 'GET /fine': { auth: 'public', run: () => ({ fine: true }) } },
  })

  it('does not keep the server from answering, and is named with since when and what to check', async () => {
    await using app = await testApp({ plugins: [stuck, child, fine] })
    expect((await app.get('/fine')).status).toBe(200)
    const { status, body } = await app.get('/health')
    expect(status).toBe(200)
    expect(body.plugins).toEqual({ stuck: 'pending', child: 'pending', fine: 'available' })
    expect(body.notes).toMatchObject([
      {
        plugin: 'stuck',
        state: 'pending',
        since: expect.stringMatching(/^\d{4}-/),
        check: expect.stringContaining('STUCK_URL'),
      },
      { plugin: 'child', state: 'pending' },
    ])
    expect(app.log.join('')).toMatch(
      /stuck pending: its setup has not finished; check what it connects to \(STUCK_URL\)/,
    )
  })

  it('answers 503 on its routes and explains itself to the agent', async () => {
    await using app = await testApp({ plugins: [stuck] })
    const { status, body } = await app.get('/stuck')
    expect(status).toBe(503)
    expect(body).toMatchObject({
      code: 'PLUGIN_PENDING',
      message: expect.stringContaining('stuck'),
      hint: expect.stringContaining('STUCK_URL'),
    })
    expect(() => app.thread().load('stuck')).toThrow('setup has not finished')
    await expect(app.thread().call('stuck_tool')).rejects.toThrow('which is pending')
  })
})

it('a slow setup joins late: routes, tools and dependants come to life', async () => {
  let finish!: (self: { n: number }) => void
  const slow = definePlugin({
    name: 'slow',
    summary: 's',
    setup: () => new Promise<{ n: number }>((resolve) => (finish = resolve)),
    tools: {
      slow_tool: {
        description: 'Does a thing.',
        input: z.object({}),
        run: (_, { self }) => self.n,
      },
    },
    routes: ({ self }) => ({ 'GET /slow': { auth: 'public', run: () => self.n } }),
  })
  const child = definePlugin({
    name: 'child',
    summary: 'c',
    requires: [slow],
    setup: ({ plugins }) => plugins.slow.n + 1,
    routes: { 'GET /child': { auth: 'public', run: (_, { self }) => self } },
  })
  await using app = await testApp({ plugins: [slow, child] })
  // Nobody knows yet what the plugin will serve, so no address is said to be served by nobody.
  for (const path of ['/slow', '/anything']) {
    const { status, headers, body } = await app.get(path)
    expect([path, status, body.code]).toEqual([path, 503, 'PLUGIN_PENDING'])
    expect(headers.get('retry-after')).toBe('2')
  }
  expect((await app.get('/child')).status).toBe(503)
  finish({ n: 41 })
  await until(async () => (await app.get('/child')).status === 200)
  expect((await app.get('/slow')).body).toBe(41)
  expect((await app.get('/anything')).status).toBe(404)
  expect((await app.get('/child')).body).toBe(42)
  expect(await app.thread().load('slow').call('slow_tool')).toBe(41)
  expect(app.log.join('')).toContain('slow pending -> available')
})

it('pending work is followed: loaded when it ends, failed when it throws', async () => {
  let arrive!: () => void
  let fail!: (error: Error) => void
  const good = definePlugin({
    name: 'good',
    summary: 'g',
    visibility: 'always',
    setup: ({ pending }) =>
      pending(
        new Promise<void>((resolve) => (arrive = resolve)),
        'connecting to the post; check POST_URL',
      ),
    routes: { 'GET /good': { auth: 'public', run: () => ({ served: true }) } },
  })
  const bad = definePlugin({
    name: 'bad',
    summary: 'b',
    setup: ({ pending }) =>
      pending(new Promise((_, reject) => (fail = reject)), 'signing in; check BAD_TOKEN'),
  })
  await using app = await testApp({ plugins: [good, bad] })
  expect((await app.get('/good')).status).toBe(503)
  expect((await app.get('/health')).body).toMatchObject({
    status: 'ok',
    plugins: { good: 'pending', bad: 'pending' },
  })
  arrive()
  fail(new Error('the token is stale'))
  await until(async () => (await app.get('/health')).body.plugins.bad === 'failed')
  const { body } = await app.get('/health')
  expect(body).toMatchObject({ status: 'degraded', plugins: { good: 'loaded', bad: 'failed' } })
  expect(body.notes).toMatchObject([
    { plugin: 'bad', check: expect.stringContaining('the token is stale') },
  ])
  expect((await app.get('/good')).status).toBe(200)
  expect(app.log.join('')).toContain('good pending -> loaded')
  expect(app.log.join('')).toContain('bad pending -> failed')
})

it('close callbacks run in reverse order, each once, and one that throws stops nothing', async () => {
  const closed: string[] = []
  const named = (name: string) =>
    definePlugin({
      name,
      summary: name,
      setup: ({ onClose }) => {
        onClose(() => void closed.push(`${name}-1`))
        onClose(async () => {
          closed.push(`${name}-2`)
          if (name === 'b') throw new Error('stuck drawer')
        })
      },
    })
  const app = await testApp({ plugins: [named('a'), named('b'), named('c')] })
  await Promise.all([app.close(), app.close()])
  expect(closed).toEqual(['c-2', 'c-1', 'b-2', 'b-1', 'a-2', 'a-1'])
  expect(app.log.join('')).toContain('stuck drawer')
})

it('a health check that throws, or that hangs, degrades its plugin and says why; what it says in good health is a note', async () => {
  let mood: () => string | void | Promise<void> = () => undefined
  const moody = definePlugin({
    name: 'moody',
    summary: 'm',
    setup: ({ health }) => health(() => mood()),
  })
  await using app = await testApp({ plugins: [moody] })
  expect((await app.get('/health')).body).toMatchObject({
    status: 'ok',
    plugins: { moody: 'available' },
  })
  mood = () => {
    throw new Error('the queue is full')
  }
  expect((await app.get('/health')).body).toMatchObject({
    status: 'degraded',
    plugins: { moody: 'degraded' },
    notes: [{ check: 'the queue is full' }],
  })
  mood = () => new Promise(() => undefined)
  expect((await app.get('/health')).body).toMatchObject({
    status: 'degraded',
    notes: [{ check: 'no answer within 1000 ms' }],
  })
  mood = () => `the other process works ${'x'.repeat(400)}`
  const { body } = await app.get('/health')
  expect(body).toMatchObject({ status: 'ok', plugins: { moody: 'available' } })
  expect(body.notes).toMatchObject([{ plugin: 'moody', state: 'available' }])
  expect(body.notes[0].check).toMatch(/^the other process works x+$/)
  expect(body.notes[0].check).toHaveLength(300)
  mood = () => undefined
  expect((await app.get('/health')).body.notes).toBeUndefined()
})

it('visibility decides the state line', async () => {
  const plugins = (['always', 'on-demand', 'silent'] as const).map((visibility) =>
    definePlugin({ name: `p-${visibility}`, summary: 'p', visibility }),
  )
  await using app = await testApp({ plugins })
  const log = app.log.join('')
  for (const line of [
    'p-always loaded (always)',
    'p-on-demand available (on-demand)',
    'p-silent loaded (silent)',
  ])
    expect(log).toContain(line)
  expect(log).toMatch(/oracle-runtime \d+\.\d+\.\d+/)
})

it('a handler has everything that setup had, but for what only setup may do', async () => {
  const looking = definePlugin({
    name: 'looking',
    summary: 'l',
    setup: (boot) => Object.keys(boot),
    routes: {
      'GET /missing': {
        auth: 'public',
        run: (_, ctx) => ctx.self.filter((field) => !(field in ctx)).sort(),
      },
    },
  })
  await using app = await testApp({ plugins: [looking] })
  expect((await app.get('/missing')).body).toEqual(
    ['capabilities', 'environment', 'health', 'holdsCredential', 'lease', 'metrics', 'onClose']
      .concat(['onReady', 'oracle', 'pending', 'prices', 'toolNames', 'tools'])
      .sort(),
  )
})
