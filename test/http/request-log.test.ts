import { connect } from 'node:net'
import { once } from 'node:events'
import { describe, expect, it, onTestFinished } from 'vitest'
import { WebSocket } from 'ws'
import { z } from 'zod'
import { created, definePlugin, RuntimeError } from '#core'
import { testApp } from '#core/testing'

const secret = 'the words that nobody may find'

const shop = definePlugin({
  name: 'shop',
  summary: 'Routes of every kind.',
  routes: {
    'GET /open/:id': {
      auth: 'public',
      input: z.object({ id: z.string() }),
      run: ({ id }) => ({ id }),
    },
    'GET /mine': { run: () => ({ ok: true }) },
    'POST /mine': { input: z.object({ words: z.string() }), run: () => ({ ok: true }) },
    'GET /keyed': { auth: 'bearer', run: () => ({ ok: true }) },
    'GET /ops': { auth: 'operator', run: () => ({ ok: true }) },
    'POST /own': {
      auth: 'own',
      verify: () => ({ caller: 'account 7' }),
      run: () => ({ ok: true }),
    },
    'POST /strict': {
      auth: 'own',
      verify: () => undefined,
      run: () => ({ ok: true }),
    },
    'GET /none': {
      auth: 'public',
      run() {
        throw new RuntimeError('NOT_FOUND', `There is no ${secret}.`)
      },
    },
    'GET /away': {
      auth: 'public',
      run() {
        throw new RuntimeError('UNAVAILABLE', `${secret} is away.`)
      },
    },
    'GET /made': {
      auth: 'public',
      answers: { 201: ['application/json'] },
      run: () => created('/made/1', {}),
    },
    'GET /long': {
      auth: 'public',
      run: (_, { signal }) =>
        new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true })),
    },
    'GET /rare': { auth: 'public', limit: { max: 1, perMs: 3_600_000 }, run: () => ({ ok: true }) },
    'POST /small': {
      auth: 'public',
      input: z.object({ words: z.string() }),
      run: () => ({ ok: true }),
    },
    'GET /same': {
      answers: { 304: [] },
      auth: 'public',
      run(_, { koa }) {
        koa.status = 304
        return null
      },
    },
    'GET /odd': {
      auth: 'public',
      run() {
        throw new RuntimeError('CONFLICT', `It is ${secret}.`, { status: 409 })
      },
    },
    'GET /broken': {
      auth: 'public',
      run() {
        throw new Error('The shop is broken.')
      },
    },
    'GET /slow': {
      auth: 'public',
      run: () => new Promise((resolve) => setTimeout(resolve, 60, { ok: true })),
    },
    'GET /ticks': {
      answers: { 200: ['text/event-stream'] },
      auth: 'public',
      async *run(_, { signal }) {
        yield { event: 'tick', data: { secret } }
        await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
      },
    },
  },
  web: { '/window': (koa) => void (koa.body = 'a window') },
})

interface Line {
  readonly msg: string
  readonly [field: string]: unknown
}

async function start(env: Record<string, string> = {}) {
  const app = await testApp({
    plugins: [shop],
    env: {
      NODE_ENV: 'production',
      ORACLE_MNEMONIC: 'an oracle of a test',
      REQUEST_LOG: 'all',
      ...env,
    },
  })
  onTestFinished(() => app.close())
  const lines = () =>
    app.log.map((line) => JSON.parse(line) as Line).filter(({ msg }) => msg === 'request')
  /** Waits until so many requests have left their lines. */
  const after = async (count: number) => {
    await expect.poll(() => lines().length, { timeout: 20_000 }).toBeGreaterThanOrEqual(count)
    return lines()
  }
  return { app, lines, after }
}

describe('a request', () => {
  it('leaves one line that says which route, whose plugin, who and with what outcome', async () => {
    const { app, after } = await start({
      API_KEY: 'till:abcdefghijkl',
      OPERATOR_TOKEN: 'night:mnopqrstuvwx',
    })
    const user = await app.user('somebody')
    const bearer = (key: string) => ({ headers: { Authorization: `Bearer ${key}` } })
    const expected: object[] = []
    const ask = async (request: Promise<unknown>, line: object) => {
      await request
      expected.push(line)
      const lines = await after(expected.length)
      expect(lines).toHaveLength(expected.length)
      expect(lines.at(-1)).toMatchObject(line)
    }
    const at = (path: string, init?: RequestInit) =>
      fetch(`${app.url}${path}`, init).then((response) => response.arrayBuffer())
    const open = { method: 'GET', route: 'GET /open/:id', plugin: 'shop', who: 'public' }
    const spoken = { headers: { 'x-words': secret, cookie: `words=${encodeURIComponent(secret)}` } }
    await ask(at(`/open/17?q=${encodeURIComponent(secret)}`, spoken), { ...open, status: 200 })
    await ask(user.get('/mine'), { route: 'GET /mine', who: user.did.slice(-8), status: 200 })
    await ask(at('/mine'), {
      route: 'GET /mine',
      who: 'unknown',
      status: 401,
      code: 'UNAUTHORIZED',
    })
    await ask(
      user.post('/mine', { words: secret }).catch(() => undefined),
      {
        route: 'POST /mine',
        status: 200,
      },
    )
    await ask(
      user.post('/mine', { wrong: secret }).catch(() => undefined),
      {
        route: 'POST /mine',
        who: user.did.slice(-8),
        status: 400,
        code: 'INVALID_INPUT',
      },
    )
    await ask(at('/keyed', bearer('abcdefghijkl')), { who: 'key:till', status: 200 })
    await ask(at('/keyed', bearer('wrong')), { who: 'unknown', status: 401 })
    await ask(at('/ops', bearer('mnopqrstuvwx')), { who: 'key:night', status: 200 })
    await ask(at('/own', { method: 'POST' }), { who: 'own', status: 200 })
    await ask(at('/same'), { route: 'GET /same', status: 304 })
    await ask(at('/odd'), { route: 'GET /odd', plugin: 'shop', status: 409, code: 'CONFLICT' })
    await ask(at('/broken'), { route: 'GET /broken', status: 500, code: 'INTERNAL' })
    await ask(at('/window/pane'), { route: '/window', plugin: 'shop', status: 200 })
    await ask(at(`/no/where/${encodeURIComponent(secret)}`), { status: 404, code: 'NOT_FOUND' })
    await ask(at('/mine', { method: 'PATCH' }), { status: 405 })
    await ask(at('/mine', { method: 'OPTIONS' }), { method: 'OPTIONS', status: 204 })
    const big = {
      method: 'POST',
      body: 'x'.repeat(2_000_000),
      headers: { 'content-type': 'text/plain' },
    }
    await ask(
      at('/own', big).catch(() => undefined),
      { status: expect.any(Number) },
    )
    const json = (body: string) => ({
      method: 'POST',
      body,
      headers: { 'content-type': 'application/json' },
    })
    await ask(at('/strict', { method: 'POST' }), {
      route: 'POST /strict',
      who: 'unknown',
      status: 401,
    })
    await ask(at('/none'), { route: 'GET /none', plugin: 'shop', status: 404, code: 'NOT_FOUND' })
    await ask(at('/away'), { route: 'GET /away', status: 503, code: 'UNAVAILABLE' })
    await ask(at('/made'), { route: 'GET /made', who: 'public', status: 201 })
    await ask(at('/rare'), { route: 'GET /rare', status: 200 })
    await ask(at('/rare'), { route: 'GET /rare', status: 429, code: 'RATE_LIMITED' })
    await ask(at('/small', json(`{ "words": ${secret}`)), {
      route: 'POST /small',
      status: 400,
      code: 'INVALID_JSON',
    })
    await ask(at('/small', json(JSON.stringify({ words: 'x'.repeat(2_000_000) }))), {
      route: 'POST /small',
      status: 413,
    })
    await ask(at('/small', json('{}')), {
      route: 'POST /small',
      status: 400,
      code: 'INVALID_INPUT',
    })
    await ask(user.get('/ops'), { route: 'GET /ops', status: 403 })
    await ask(user.get('/keyed'), { route: 'GET /keyed', status: 403, code: 'NOT_GRANTED' })
    await ask(at('/open/1', { method: 'HEAD' }), { method: 'HEAD', status: 200 })
    await ask(user.get(`/runs/${crypto.randomUUID()}`), {
      route: 'GET /runs/:runId',
      plugin: 'the kernel',
      who: user.did.slice(-8),
      status: 404,
    })
    const heard = new WebSocket(`${app.url.replace('http', 'ws')}/ws`)
    await ask(once(heard, 'open'), { route: 'GET /ws', status: 101 })
    heard.terminate()
    const left = new AbortController()
    const ticks = await fetch(`${app.url}/ticks`, { signal: left.signal })
    left.abort()
    await ask(
      ticks.text().catch(() => undefined),
      { route: 'GET /ticks', status: 200 },
    )
    const socket = new WebSocket(`${app.url.replace('http', 'ws')}/nowhere`)
    await ask(once(socket, 'error'), { status: 404, code: 'NOT_FOUND' })
    const raw = connect(Number(new URL(app.url).port), '127.0.0.1', () =>
      raw.write('no HTTP\r\n\r\n'),
    )
    raw.resume() // unread, the socket would never see its end
    await ask(once(raw, 'close'), { status: 400, code: 'BAD_REQUEST' })

    expect(expected.length).toBeGreaterThanOrEqual(30)
    for (const line of await after(expected.length)) {
      expect(JSON.stringify(line)).not.toContain(secret)
      expect(JSON.stringify(line)).not.toContain(encodeURIComponent(secret))
      expect(JSON.stringify(line)).not.toContain(user.did)
      for (const key of ['abcdefghijkl', 'mnopqrstuvwx', 'Bearer', 'eyJ'])
        expect(JSON.stringify(line)).not.toContain(key)
    }
    const faults = app.log.filter((line) => line.includes('a request failed'))
    expect(JSON.parse(faults[0]!)).toMatchObject({ route: 'GET /broken', plugin: 'shop' })
  })

  it('says of a request without an answer that it had none, or what was said in its place', async () => {
    const { app, after } = await start()
    const left = new AbortController()
    const slow = fetch(`${app.url}/long`, { signal: left.signal })
    setTimeout(() => left.abort(), 200)
    await expect(slow).rejects.toThrow('aborted')
    const [cut] = await after(1)
    expect(cut).toMatchObject({ route: 'GET /long', status: 499, bytesOut: 0 })
    expect(cut).not.toHaveProperty('code')

    const raw = connect(Number(new URL(app.url).port), '127.0.0.1')
    const head = ['POST /small HTTP/1.1', 'host: x', 'content-type: application/json']
    raw.write(`${head.join('\r\n')}\r\ntransfer-encoding: chunked\r\n\r\n`)
    await new Promise((resolve) => setTimeout(resolve, 200))
    raw.write('no length\r\n')
    let answer = ''
    raw.on('data', (bytes) => (answer += String(bytes)))
    await once(raw, 'close')
    expect(answer).toMatch(/^HTTP\/1\.1 400 /)
    const [, refused, ...others] = await after(2)
    expect(refused).toMatchObject({ route: 'POST /small', status: 400, code: 'BAD_REQUEST' })
    expect(others).toEqual([])
  })

  it('counts the bytes of its body and of its answer, and its time', async () => {
    const { app, after } = await start()
    const body = JSON.stringify({ words: 'x'.repeat(5000) })
    await fetch(`${app.url}/own`, {
      method: 'POST',
      body,
      headers: { 'content-type': 'application/json' },
    })
    const [line] = await after(1)
    expect(line).toMatchObject({ bytesIn: body.length, ms: expect.any(Number) })
    expect(line!.bytesOut).toBeGreaterThan('{"ok":true}'.length)
  })

  it('names addresses and whole DIDs only where the operator wants that', async () => {
    const { app, after } = await start({ LOG_IP: 'on', LOG_DIDS: 'on' })
    const user = await app.user('somebody')
    await user.get('/mine')
    expect((await after(1))[0]).toMatchObject({ who: user.did, ip: '127.0.0.1' })
  })
})

describe('REQUEST_LOG', () => {
  it('errors: tells what failed and what was slow', async () => {
    const { app, lines, after } = await start({ REQUEST_LOG: 'errors', SLOW_MS: '50' })
    for (const path of ['/open/1', '/odd', '/slow', '/nowhere', '/readyz'])
      await (await fetch(`${app.url}${path}`)).arrayBuffer()
    await after(3)
    expect(lines().map(({ route, status }) => [route, status])).toEqual([
      ['GET /odd', 409],
      ['GET /slow', 200],
      [undefined, 404],
    ])
  })

  it('off: tells nothing', async () => {
    const { app, lines } = await start({ REQUEST_LOG: 'off' })
    for (const path of ['/open/1', '/odd']) await (await fetch(`${app.url}${path}`)).arrayBuffer()
    expect(lines()).toEqual([])
  })

  it('keeps a share of the successes, every failure, and no word about probes', async () => {
    const { app, lines, after } = await start({ REQUEST_LOG_SAMPLE: '0.1' })
    const ids = (kind: string) => Array.from({ length: 10_000 }, (_, n) => `${kind}-${n}`)
    const ask = async (path: string, id: string) =>
      (await fetch(`${app.url}${path}`, { headers: { 'x-request-id': id } })).arrayBuffer()
    const fine = ids('fine')
    const some = async () => {
      for (let id = fine.pop(); id !== undefined; id = fine.pop()) await ask('/open/1', id)
    }
    await Promise.all(Array.from({ length: 20 }, some))
    for (const id of ids('odd').slice(0, 50)) await ask('/odd', id)
    for (let n = 0; n < 20; n++) await ask('/readyz', `probe-${n}`)
    await after(50)
    const of = (status: number) => lines().filter((line) => line.status === status).length
    await expect.poll(() => of(409)).toBe(50)
    expect(of(200)).toBeGreaterThan(900)
    expect(of(200)).toBeLessThan(1100)
    expect(lines().some(({ requestId }) => String(requestId).startsWith('probe'))).toBe(false)
  })

  it.each([
    ['REQUEST_LOG', 'loud'],
    ['REQUEST_LOG_SAMPLE', '2'],
    ['SLOW_MS', '0'],
  ])('refuses %s=%s at boot', async (name, value) => {
    await expect(testApp({ plugins: [shop], env: { [name]: value } })).rejects.toThrow(name)
  })
})
