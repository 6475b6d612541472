import { expect, onTestFinished, test } from 'vitest'
import { createApp, definePlugin, RuntimeError } from '#core'
import { testApp } from '#core/testing'
import type { HttpLayer } from '../../core/plugin.ts'

interface Seen {
  readonly by: string
  readonly path: string
  readonly route: unknown
  readonly plugin: unknown
  readonly caller: unknown
  readonly status: number
  readonly hasId: boolean
}

async function layered(
  http: HttpLayer | undefined,
  outer: readonly HttpLayer[] = [],
  env: Record<string, string> = {},
) {
  const seen: Seen[] = []
  const seeing =
    (by: string): HttpLayer =>
    async (koa, next) => {
      const hasId = typeof koa.state.requestId === 'string'
      await next()
      const { route, plugin, caller } = koa.state
      seen.push({ by, path: koa.path, route, plugin, caller, status: koa.status, hasId })
    }
  const app = await testApp({
    env,
    http: [...outer, seeing('app')],
    plugins: [
      definePlugin({
        name: 'around',
        summary: 'Has a layer.',
        middleware: { http: http ?? seeing('plugin') },
        routes: {
          'GET /open': { auth: 'public', run: () => ({ ok: true }) },
          'GET /mine': { run: (_, { user }) => ({ did: user.did }) },
          'GET /fails': {
            auth: 'public',
            run: () => {
              throw new RuntimeError('CONFLICT', 'It is taken.')
            },
          },
          'GET /breaks': {
            auth: 'public',
            run: () => {
              throw new Error('broken')
            },
          },
        },
      }),
    ],
  })
  onTestFinished(() => app.close())
  return { app, seen }
}

test('layers see route, plugin, caller and status of every request, faults and 404 included', async () => {
  const { app, seen } = await layered(undefined)
  const user = await app.user()
  await user.get('/mine')
  await app.get('/mine')
  await app.get('/open')
  await app.get('/fails')
  await app.get('/breaks')
  await app.get('/nowhere')
  await app.post('/open', {})
  await fetch(`${app.url}/open`, { method: 'OPTIONS' })
  const told = seen.filter(({ by }) => by === 'plugin')
  expect(told.map(({ path, route, plugin, status }) => [path, route, plugin, status])).toEqual([
    ['/mine', 'GET /mine', 'around', 200],
    ['/mine', 'GET /mine', 'around', 401],
    ['/open', 'GET /open', 'around', 200],
    ['/fails', 'GET /fails', 'around', 409],
    ['/breaks', 'GET /breaks', 'around', 500],
    ['/nowhere', undefined, undefined, 404],
    ['/open', undefined, undefined, 405],
    ['/open', undefined, undefined, 204],
  ])
  expect(told[0]?.caller).toBe(user.did)
  expect(seen.every(({ hasId }) => hasId)).toBe(true)
  // The app's own layer stands outside: it hears of each after the plugin's.
  expect(seen.map(({ by }) => by).slice(0, 4)).toEqual(['plugin', 'app', 'plugin', 'app'])
})

test('layers see what the limits refuse', async () => {
  const { app, seen } = await layered(undefined, [], { RATE_LIMIT_PER_MINUTE: '2' })
  for (let n = 0; n < 3; n++) await app.get('/open')
  const told = seen.filter(({ by }) => by === 'plugin')
  expect(told.map(({ route, plugin, status }) => [route, plugin, status])).toEqual([
    ['GET /open', 'around', 200],
    ['GET /open', 'around', 200],
    ['GET /open', 'around', 429],
  ])
})

test('a layer that answers by itself is the end of the request', async () => {
  const { app, seen } = await layered(async (koa) => {
    koa.status = 503
    koa.body = { closed: true }
  })
  const answer = await app.get('/nowhere-in-the-document')
  expect(answer).toMatchObject({ status: 503, body: { closed: true } })
  expect(seen).toMatchObject([{ by: 'app', status: 503, route: undefined }])
  expect(answer.headers.get('x-request-id')).toBeTruthy()
})

test.each([401, 403, 410, 429, 503])(
  'a layer that sets only the status %i refuses with an error in the one shape',
  async (status) => {
    const { app, seen } = await layered(async (koa) => {
      koa.set('WWW-Authenticate', 'Basic')
      koa.set('Retry-After', '7')
      koa.set('X-Half-Made', 'yes')
      koa.status = status
    })
    const { body, headers, ...answer } = await app.get('/open')
    expect(answer.status).toBe(status)
    expect(body).toEqual({
      statusCode: status,
      code: expect.stringMatching(/^[A-Z_]+$/),
      message: expect.any(String),
      requestId: headers.get('x-request-id'),
    })
    expect(headers.get('content-type')).toBe('application/json; charset=utf-8')
    expect(headers.get('www-authenticate')).toBe('Basic')
    expect(headers.get('retry-after')).toBe('7')
    expect(headers.get('x-half-made')).toBeNull()
    expect(seen).toMatchObject([{ by: 'app', status }])
  },
)

test.each<[string, HttpLayer]>([
  ['sets only a status of success', async (koa) => void (koa.status = 200)],
  ['throws before', () => Promise.reject(new Error('layer broke'))],
  ['does nothing', async () => {}],
])('a layer that %s is answered 500 in the one shape', async (_, layer) => {
  const { app } = await layered(layer)
  expect(await app.get('/open')).toMatchObject({ status: 500, body: { code: 'INTERNAL' } })
})

test.each<[string, HttpLayer, string]>([
  [
    'throws afterwards',
    async (_, next) => {
      await next()
      throw new Error('layer broke')
    },
    'layer broke',
  ],
  [
    'calls next() twice',
    async (_, next) => {
      await next()
      await next()
    },
    'next() was called twice',
  ],
])('a layer that %s changes no answer that is out, and the log has it', async (_, layer, words) => {
  const { app } = await layered(layer)
  expect(await app.get('/open')).toMatchObject({ status: 200, body: { ok: true } })
  expect(app.log.join('\n')).toContain(words)
})

test('a layer that does not wait for next() lets the route answer all the same', async () => {
  const app = await testApp({
    http: [async (_, next) => void next()],
    plugins: [
      definePlugin({
        name: 'slow',
        summary: 'Answers later.',
        routes: {
          'GET /slow': {
            auth: 'public',
            run: () => new Promise((resolve) => setImmediate(() => resolve({ ok: true }))),
          },
        },
      }),
    ],
  })
  onTestFinished(() => app.close())
  expect(await app.get('/slow')).toMatchObject({ status: 200, body: { ok: true } })
})

test.each([null, { mine: 1 }])(
  'a layer that assigns %j to the state takes nothing from it',
  async (own) => {
    const seen: unknown[] = []
    const { app } = await layered(async (koa, next) => {
      koa.state = own as object
      await next()
      const { requestId, route, mine } = koa.state
      seen.push({ hasId: typeof requestId === 'string', route, mine })
    })
    expect(await app.get('/open')).toMatchObject({ status: 200 })
    expect(await app.get('/nowhere')).toMatchObject({
      status: 404,
      body: { requestId: expect.any(String) },
    })
    const mine = own?.mine
    expect(seen).toEqual([
      { hasId: true, route: 'GET /open', mine },
      { hasId: true, route: undefined, mine },
    ])
  },
)

test('a refused layer of the app keeps what is inside from being asked', async () => {
  let asked = 0
  const { app } = await layered(
    async (_, next) => {
      asked++
      await next()
    },
    [
      async () => {
        throw new RuntimeError('FORBIDDEN', 'Not today.')
      },
    ],
  )
  expect(await app.get('/open')).toMatchObject({ status: 403, body: { message: 'Not today.' } })
  expect(asked).toBe(0)
})

test('another kind of middleware stops the boot with the kinds that there are', async () => {
  const wrong = definePlugin({
    name: 'wrong',
    summary: 'Has a wrong layer.',
    middleware: { htp: async () => {} } as object,
  })
  const booting = createApp({ plugins: [wrong], env: { DATA_DIR: ':memory:' }, log: () => {} })
  await expect(booting).rejects.toThrow(/http/)
})
