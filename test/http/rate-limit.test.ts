import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { AnyRoute } from '../../core/plugin.ts'
import { type Called, type Edge, edge } from '../support/edge.ts'
import { describeWith } from '../support/services.ts'

const open: AnyRoute = { auth: 'public', run: () => 'open' }
const strict = (max: number, perMs = 60_000): AnyRoute => ({ ...open, limit: { max, perMs } })
const behindProxy = { ratePerMinute: 1000, trustProxy: true }
const from = (address: string) => ({ headers: { 'X-Forwarded-For': address } })

const statuses = async (calls: Promise<Called>[]) => {
  const all = (await Promise.all(calls)).map(({ status }) => status)
  return {
    passed: all.filter((status) => status === 200).length,
    limited: all.filter((status) => status === 429).length,
  }
}
const many = (server: Edge, count: number, path: string, init?: RequestInit) =>
  Array.from({ length: count }, () => server.call('GET', path, init))

describe('a limit', () => {
  test('lets exactly as many through as it says, then answers 429 with Retry-After', async () => {
    const server = await edge({ 'GET /a': strict(5) })
    expect(await statuses(many(server, 12, '/a'))).toEqual({ passed: 5, limited: 7 })
    const refused = await server.call('GET', '/a')
    expect(refused.json).toMatchObject({
      statusCode: 429,
      code: 'RATE_LIMITED',
      hint: expect.any(String),
    })
    const wait = Number(refused.headers.get('retry-after'))
    expect(wait).toBeGreaterThanOrEqual(1)
    expect(wait).toBeLessThanOrEqual(60)
    expect(refused.headers.get('access-control-allow-origin')).toBe('*')
  })

  test('counts requests that arrive in one packet one by one', async () => {
    const server = await edge({ 'GET /a': strict(5) })
    const answers = await server.raw(
      `${'GET /a HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(8)}GET /b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`,
    )
    expect(answers.match(/HTTP\/1\.1 \d+/g)?.map((line) => line.slice(9))).toEqual([
      ...Array<string>(5).fill('200'),
      ...Array<string>(3).fill('429'),
      '404',
    ])
  })

  test('is a client’s own: one address does not use up another’s', async () => {
    const server = await edge({ 'GET /a': strict(2) }, { limits: behindProxy })
    expect(await statuses(many(server, 3, '/a', from('192.0.2.1')))).toEqual({
      passed: 2,
      limited: 1,
    })
    expect(await statuses(many(server, 3, '/a', from('6.6.6.6, 192.0.2.2')))).toEqual({
      passed: 2,
      limited: 1,
    })
    // The leftmost hop is what the client claims.
    expect(await statuses(many(server, 1, '/a', from('6.6.6.7, 192.0.2.2')))).toEqual({
      passed: 0,
      limited: 1,
    })
    expect(await statuses(many(server, 1, '/a', from('::ffff:192.0.2.1')))).toEqual({
      passed: 0,
      limited: 1,
    })
  })

  test('takes the addresses that one subscriber of IPv6 can give himself for one', async () => {
    const server = await edge({ 'GET /a': strict(2) }, { limits: behindProxy })
    const calls = ['2001:db8:1:2::1', '2001:db8:1:2::2', '2001:db8:1:2:3:4:5:6', '2001:db8:1:3::1']
    expect(await statuses(calls.map((address) => server.call('GET', '/a', from(address))))).toEqual(
      {
        passed: 3,
        limited: 1,
      },
    )
  })

  test('opens again when its time is over', async () => {
    const server = await edge({ 'GET /a': strict(1, 1500) })
    expect((await server.call('GET', '/a')).status).toBe(200)
    const refused = await server.call('GET', '/a')
    expect(refused.headers.get('retry-after')).toMatch(/^[12]$/)
    await sleep(Number(refused.headers.get('retry-after')) * 1000)
    expect((await server.call('GET', '/a')).status).toBe(200)
  })

  test('of a route stands for that route alone, in place of the kernel’s', async () => {
    const server = await edge(
      { 'GET /a': strict(5), 'GET /b': strict(1), 'GET /c': open, 'GET /d': open },
      { limits: { ratePerMinute: 3, trustProxy: false } },
    )
    expect(await statuses(many(server, 6, '/a'))).toEqual({ passed: 5, limited: 1 })
    expect(await statuses(many(server, 2, '/b'))).toEqual({ passed: 1, limited: 1 })
    expect(await statuses([...many(server, 2, '/c'), ...many(server, 2, '/d')])).toEqual({
      passed: 3,
      limited: 1,
    })
  })

  test('of the kernel counts unknown paths, wrong methods and web modules, before any credential', async () => {
    let asked = 0
    const server = await edge(
      { 'GET /locked': { run: () => 1 } },
      {
        limits: { ratePerMinute: 4, trustProxy: false },
        web: [{ mount: '/page', owner: 'tests', handler: (koa) => void (koa.body = 'page') }],
        access: {
          authorize: async () => (asked++, { caller: 'someone' }),
          byPlugin: () => Promise.reject(new Error('No route here checks its callers itself.')),
          demand: () => undefined,
          optional: async () => undefined,
        },
      },
    )
    expect((await server.call('GET', '/nowhere')).status).toBe(404)
    expect((await server.call('PUT', '/locked')).status).toBe(405)
    expect((await server.call('GET', '/page')).status).toBe(200)
    expect((await server.call('GET', '/locked')).status).toBe(200)
    for (const path of ['/nowhere', '/page', '/locked'])
      expect((await server.call('GET', path)).status).toBe(429)
    expect(asked).toBe(1)
  })

  test('does not starve a probe that has a limit of its own, nor a preflight', async () => {
    const server = await edge(
      { 'GET /health': strict(600), 'GET /a': open },
      { limits: { ratePerMinute: 1, trustProxy: false } },
    )
    expect(await statuses(many(server, 5, '/a'))).toEqual({ passed: 1, limited: 4 })
    expect((await server.call('GET', '/health')).status).toBe(200)
    const headers = { Origin: 'https://a.example', 'Access-Control-Request-Method': 'GET' }
    expect((await server.call('OPTIONS', '/a', { headers })).status).toBe(204)
  })
})

await describeWith('redis', 'limits in Redis', (url) => {
  async function client(to = url): Promise<Redis> {
    const redis = new Redis(to, { retryStrategy: () => 50 })
    // The client says so itself when it is away; what the edge makes of it is the test's matter.
    redis.on('error', () => undefined)
    onTestFinished(() => redis.disconnect())
    await new Promise((resolve) => redis.once('ready', resolve))
    return redis
  }
  /** A key of its own for every test, so that runs do not meet. */
  const path = () => `/t${Math.random().toString(36).slice(2)}`
  const said = ({ logged }: Edge) => logged.map(({ message }) => message)
  const away = 'Redis is away: rate limits count per replica'

  test('are shared by replicas, and exact under load', async () => {
    const at = path()
    const routes = { [`GET ${at}`]: strict(20) }
    const one = await edge(routes, { redis: await client() })
    const two = await edge(routes, { redis: await client() })
    const calls = [...many(one, 25, at), ...many(two, 25, at)]
    expect(await statuses(calls)).toEqual({ passed: 20, limited: 30 })
    const wait = Number((await two.call('GET', at)).headers.get('retry-after'))
    expect(wait).toBeGreaterThanOrEqual(1)
    expect(wait).toBeLessThanOrEqual(62)
    expect([...said(one), ...said(two)]).toEqual([])
  })

  test('open again after what Retry-After said', async () => {
    const at = path()
    const server = await edge({ [`GET ${at}`]: strict(1, 1500) }, { redis: await client() })
    expect((await server.call('GET', at)).status).toBe(200)
    const refused = await server.call('GET', at)
    expect(refused.status).toBe(429)
    await sleep(Number(refused.headers.get('retry-after')) * 1000)
    expect((await server.call('GET', at)).status).toBe(200)
  })

  test('are made by a client that connects with its first command', async () => {
    const redis = new Redis(url, { lazyConnect: true })
    onTestFinished(() => redis.disconnect())
    const at = path()
    const server = await edge({ [`GET ${at}`]: strict(1) }, { redis })
    expect((await server.call('GET', at)).status).toBe(200)
    expect(redis.status).toBe('ready')
  })

  test('go on in memory while Redis is gone, and one line says so', async () => {
    const at = path()
    const redis = await client()
    const server = await edge({ [`GET ${at}`]: strict(3) }, { redis })
    expect((await server.call('GET', at)).status).toBe(200)
    redis.disconnect()
    expect(await statuses(many(server, 5, at))).toEqual({ passed: 3, limited: 2 })
    expect(said(server)).toEqual([away])
    await redis.connect()
    while (said(server).length < 2) {
      await server.call('GET', at)
      await sleep(50)
    }
    expect(said(server)[1]).toMatch(/^Redis is back/)
  })

  test('go on in memory while Redis accepts and never answers', async () => {
    const { hostname, port } = new URL(url)
    const open: Socket[] = []
    // A fake at the network's edge: it passes everything on until it is told to go silent.
    const proxy = createServer((near) => {
      const far = connect(Number(port), hostname)
      near.pipe(far).pipe(near)
      open.push(near, far)
    }).listen(0, '127.0.0.1')
    await new Promise((resolve) => proxy.once('listening', resolve))
    onTestFinished(() => {
      for (const socket of open) socket.destroy()
      proxy.close()
    })
    const redis = await client(`redis://127.0.0.1:${(proxy.address() as AddressInfo).port}`)
    const at = path()
    const server = await edge({ [`GET ${at}`]: strict(50) }, { redis })
    expect((await server.call('GET', at)).status).toBe(200)
    for (const socket of open) socket.unpipe().pause()
    expect(await statuses(many(server, 60, at))).toEqual({ passed: 50, limited: 10 })
    expect(said(server)).toEqual([away])
  })
})
