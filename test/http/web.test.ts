import Koa, { type Context } from 'koa'
import { describe, expect, test } from 'vitest'
import type { AnyRoute } from '../../core/plugin.ts'
import { definePlugin } from '#core'
import { testApp } from '#core/testing'
import {
  type Edge,
  edge,
  fakeAccess,
  fakeUser,
  firstOf,
  type ServedMount,
} from '../support/edge.ts'

const open: AnyRoute = { auth: 'public', run: () => 'route' }
const page = (mount: string, body: unknown = `page ${mount}`): ServedMount => ({
  mount,
  owner: 'pages',
  handler: (koa) => void (koa.body = body),
})
const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`

describe('a web module', () => {
  test('serves its mount and everything below, and nothing beside', async () => {
    const server = await edge({}, { web: [page('/docs')] })
    for (const path of ['/docs', '/docs/', '/docs/a/b', '/docs?x=1'])
      expect((await server.call('GET', path)).text).toBe('page /docs')
    expect((await server.call('POST', '/docs/form', { body: 'x' })).text).toBe('page /docs')
    for (const path of ['/doc', '/docsx', '/DOCS', '/'])
      expect((await server.call('GET', path)).json).toMatchObject({ code: 'NOT_FOUND' })
  })

  test.each([
    '//docs',
    '/docs//a',
    '/docs/../secret',
    '/docs/%2e%2e/secret',
    '/x/../docs',
    '/docs/./a',
    '/./docs',
  ])('is not reached by %s', async (path) => {
    const server = await edge({}, { web: [page('/docs'), page('/')] })
    expect(firstOf(await server.raw(get(path)))).toMatchObject({
      status: 404,
      json: { code: 'NOT_FOUND' },
    })
  })

  test('comes after routes, deepest first, and / last', async () => {
    const server = await edge(
      { 'GET /docs/:id': open, 'GET /other': open },
      { web: [page('/'), page('/docs'), page('/docs/deep')] },
    )
    expect((await server.call('GET', '/docs/1')).json).toBe('route')
    expect((await server.call('GET', '/docs/deep')).json).toBe('route')
    expect((await server.call('GET', '/docs/deep/x')).text).toBe('page /docs/deep')
    expect((await server.call('GET', '/docs/a/b')).text).toBe('page /docs')
    expect((await server.call('GET', '/anything')).text).toBe('page /')
    // A route owns its path with every method, except below a mount.
    expect((await server.call('POST', '/other')).status).toBe(405)
    expect((await server.call('POST', '/docs/1')).text).toBe('page /docs')
  })

  test('may answer the preflights of paths that no route owns, by a rule of its own', async () => {
    const handler: ServedMount['handler'] = async (koa, next) => {
      if (koa.method !== 'OPTIONS') return next()
      koa.set('Access-Control-Allow-Origin', 'https://friend.example')
      koa.status = 204
      koa.body = ''
    }
    const server = await edge(
      { 'GET /docs/:id': open },
      {
        web: [
          { mount: '/', owner: 'a', handler: Object.assign(handler, { answersPreflights: true }) },
        ],
      },
    )
    const ask = async (path: string) =>
      (
        await server.call('OPTIONS', path, {
          headers: { origin: 'https://friend.example', 'access-control-request-method': 'GET' },
        })
      ).headers.get('access-control-allow-origin')
    expect(await ask('/anything')).toBe('https://friend.example')
    expect(await ask('/docs/1')).toBe('*')
  })

  test('passes on with next(), from mount to / to nobody', async () => {
    const seen: string[] = []
    const passing = (mount: string): ServedMount => ({
      mount,
      owner: 'pages',
      async handler(_, next) {
        seen.push(`in ${mount}`)
        await next()
        seen.push(`out ${mount}`)
      },
    })
    const server = await edge({}, { web: [passing('/'), passing('/docs')] })
    expect((await server.call('GET', '/docs')).json).toMatchObject({
      statusCode: 404,
      code: 'NOT_FOUND',
    })
    expect(seen).toEqual(['in /docs', 'in /', 'out /', 'out /docs'])
  })

  test('gets the user when a valid token came, and nobody otherwise', async () => {
    let asked = 0
    const server = await edge(
      {},
      {
        web: [
          {
            mount: '/me',
            owner: 'pages',
            handler: (koa) => void (koa.body = { did: koa.user?.did ?? null }),
          },
        ],
        access: {
          authorize: async () => ({ caller: '' }),
          byPlugin: () => Promise.reject(new Error('No route here checks its callers itself.')),
          demand: () => undefined,
          optional: async ({ headers }) => (
            asked++,
            headers.authorization === 'Bearer good' ? fakeUser : undefined
          ),
        },
      },
    )
    const as = (authorization: string) => ({ headers: { authorization } })
    expect((await server.call('GET', '/me')).json).toEqual({ did: null })
    expect(asked).toBe(0)
    expect((await server.call('GET', '/me', as('Bearer good'))).json).toEqual({ did: fakeUser.did })
    expect((await server.call('GET', '/me', as('Bearer bad'))).json).toEqual({ did: null })
    expect(asked).toBe(2)
  })

  test('may be a foreign Koa app, and its failures have the one shape', async () => {
    const app = new Koa()
    app.use(async (ctx, next) => {
      if (ctx.path === '/app/throw') ctx.throw(403, 'Not here')
      if (ctx.path === '/app/break') throw new Error('password=1234')
      if (ctx.path === '/app/status') ctx.status = 410
      else if (ctx.path === '/app/empty') ctx.status = 204
      else if (ctx.path === '/app/own') {
        ctx.status = 422
        ctx.body = { own: 'words' }
      } else if (ctx.path === '/app') ctx.body = 'app'
      else await next()
    })
    const [middleware] = app.middleware
    if (middleware === undefined) throw new Error('the app has no middleware')
    const server = await edge({}, { web: [{ mount: '/app', owner: 'app', handler: middleware }] })
    const call = async (path: string) => server.call('GET', path)
    expect((await call('/app')).text).toBe('app')
    expect((await call('/app/throw')).json).toMatchObject({
      statusCode: 403,
      code: 'FORBIDDEN',
      message: 'Not here',
    })
    expect((await call('/app/break')).json).toMatchObject({ statusCode: 500, code: 'INTERNAL' })
    expect((await call('/app/break')).text).not.toContain('1234')
    expect((await call('/app/status')).json).toMatchObject({ statusCode: 410, code: 'GONE' })
    expect((await call('/app/empty')).status).toBe(204)
    expect(await call('/app/own')).toMatchObject({ status: 422, json: { own: 'words' } })
    expect((await call('/app/nothing')).json.code).toBe('NOT_FOUND')
    expect((await call('/app')).headers.get('x-request-id')).toBeTruthy()
    expect((await call('/app')).headers.get('x-content-type-options')).toBe('nosniff')
  })

  test('answers HEAD and its own OPTIONS, but preflights are the edge’s', async () => {
    const server = await edge(
      {},
      {
        web: [
          {
            mount: '/dav',
            owner: 'dav',
            handler: (koa) => (koa.set('DAV', '1'), void (koa.body = 'dav')),
          },
        ],
      },
    )
    expect(await server.call('HEAD', '/dav')).toMatchObject({ status: 200, text: '' })
    expect((await server.call('OPTIONS', '/dav')).headers.get('dav')).toBe('1')
    const headers = { Origin: 'https://a.example', 'Access-Control-Request-Method': 'PUT' }
    const preflight = await server.call('OPTIONS', '/dav', { headers })
    expect(preflight.status).toBe(204)
    expect(preflight.headers.get('dav')).toBeNull()
  })
})

describe('a web module with rules of its own', () => {
  const fromPage = (origin: string) => ({ headers: { origin } })
  const friend = 'https://friend.example'
  const stranger = 'https://stranger.example'
  const all = async (server: Edge, path: string, times: number) => {
    const calls = Array.from({ length: times }, () => server.call('GET', path))
    return (await Promise.all(calls)).filter(({ status }) => status === 200).length
  }

  test('is counted by its own limit in place of the kernel’s', async () => {
    const limits = { ratePerMinute: 3, trustProxy: true }
    const server = await edge(
      {},
      {
        limits,
        web: [
          { ...page('/small'), limit: { max: 2, perMs: 60_000 } },
          { ...page('/large'), limit: { max: 5, perMs: 60_000 } },
          page('/usual'),
        ],
      },
    )
    expect(await all(server, '/small/x', 4)).toBe(2)
    expect(await all(server, '/large', 7)).toBe(5)
    expect(await all(server, '/usual', 5)).toBe(3)
    const elsewhere = { headers: { 'X-Forwarded-For': '192.0.2.1' } }
    expect((await server.call('GET', '/small', elsewhere)).status).toBe(200)
    expect((await server.call('GET', '/small')).json).toMatchObject({ code: 'RATE_LIMITED' })
  })

  test('keeps its rules where another module passes on to it', async () => {
    const passing: ServedMount = { mount: '/a', owner: 'a', handler: (_, next) => next() }
    const server = await edge(
      {},
      { web: [passing, { ...page('/'), limit: { max: 2, perMs: 60_000 }, cors: [friend] }] },
    )
    expect((await server.call('GET', '/a', fromPage(stranger))).status).toBe(403)
    const read = await server.call('GET', '/a', fromPage(friend))
    expect(read.headers.get('access-control-allow-origin')).toBe(friend)
    expect(await all(server, '/a/b', 3)).toBe(1)
  })

  test('is open to the origins that it lists, and closed to all others by false', async () => {
    const server = await edge(
      {},
      {
        web: [
          { ...page('/listed'), cors: [friend] },
          { ...page('/closed'), cors: false },
          page('/'),
        ],
      },
    )
    const allowed = async (path: string, origin: string, method = 'GET') => {
      const headers: Record<string, string> = { origin }
      if (method === 'OPTIONS') headers['access-control-request-method'] = 'POST'
      const { status, headers: answered } = await server.call(method, path, { headers })
      return [status, answered.get('access-control-allow-origin')]
    }
    expect(await allowed('/listed', friend)).toEqual([200, friend])
    expect(await allowed('/listed', friend, 'OPTIONS')).toEqual([204, friend])
    for (const [path, origin] of [
      ['/listed', stranger],
      ['/closed', friend],
      ['/closed/below', stranger],
    ] as const) {
      expect(await allowed(path, origin)).toEqual([403, null])
      expect(await allowed(path, origin, 'OPTIONS')).toEqual([204, null])
    }
    expect(await allowed('/elsewhere', stranger)).toEqual([200, '*'])
    expect(await allowed('/elsewhere', stranger, 'OPTIONS')).toEqual([204, '*'])
    // Its own page, a server and a link from elsewhere carry no foreign Origin.
    expect((await server.call('GET', '/closed', fromPage(server.url))).status).toBe(200)
    expect((await server.call('GET', '/closed')).status).toBe(200)
  })

  test('is asked nothing beyond its limit, not even whose credential came', async () => {
    let asked = 0
    const access = { ...fakeAccess, optional: async () => (asked++, undefined) }
    const server = await edge(
      {},
      { access, web: [{ ...page('/small'), limit: { max: 1, perMs: 60_000 } }] },
    )
    const as = { headers: { authorization: 'Bearer good' } }
    expect((await server.call('GET', '/small', as)).status).toBe(200)
    expect((await server.call('GET', '/small', as)).status).toBe(429)
    expect(asked).toBe(1)
  })

  test('stands in a plugin’s definition as { handler, limit?, cors? }', async () => {
    await using app = await testApp({
      plugins: [
        definePlugin({
          name: 'pages',
          summary: 'Pages.',
          web: {
            '/plain': (koa) => void (koa.body = 'plain'),
            '/own': {
              handler: (koa) => void (koa.body = 'own'),
              limit: { max: 1, perMs: 60_000 },
              cors: false,
            },
          },
        }),
      ],
    })
    expect((await app.get('/plain')).body).toBe('plain')
    expect((await app.get('/own')).body).toBe('own')
    expect((await app.get('/own')).status).toBe(429)
    expect(app.report.plugins[0]?.web).toEqual(['/plain', '/own'])
  })

  test.each([
    ['no handler', {}, 'it has no "handler" function'],
    ['a limit of nothing', { handler: () => {}, limit: { max: 0, perMs: 1 } }, 'whole numbers'],
    [
      'a limit by something else',
      { handler: () => {}, limit: { max: 1, perMs: 1, by: () => 'x' } },
      'limit.by is for routes',
    ],
    ['an origin with a path', { handler: () => {}, cors: ['https://a.example/'] }, 'not an origin'],
    ['cors that is a text', { handler: () => {}, cors: '*' }, 'false or a list of origins'],
  ])('stops the boot with %s', async (_, module, why) => {
    const wrong = definePlugin({
      name: 'wrong',
      summary: 'Wrong.',
      web: { '/wrong': module as never },
    })
    const boot = testApp({ plugins: [wrong] })
    await expect(boot).rejects.toMatchObject({
      details: { faults: [{ code: 'ROUTE_INVALID', message: expect.stringContaining(why) }] },
    })
  })
})

test('a web module may be made of what setup returned, at once or late', async () => {
  const late = Promise.withResolvers<string>()
  const made = (name: string, setup: () => string | Promise<string>) =>
    definePlugin({
      name,
      summary: 'A page.',
      visibility: 'silent',
      setup: (_) => setup(),
      web: ({ self }) => ({ [`/${name}`]: (koa: Context) => void (koa.body = self) }),
    })
  await using app = await testApp({
    plugins: [made('early', () => 'here'), made('later', () => late.promise)],
  })
  expect((await app.get('/early')).body).toBe('here')
  expect((await app.get('/later')).status).toBe(503)
  expect(app.report.plugins.find(({ name }) => name === 'early')?.web).toEqual(['/early'])
  late.resolve('at last')
  await expect.poll(async () => (await app.get('/later')).body).toBe('at last')
})
