import { connect as connectTcp, type Socket } from 'node:net'
import { request, type IncomingMessage } from 'node:http'
import { describe, expect, onTestFinished, test } from 'vitest'
import { definePlugin } from '#core'
import { testApp } from '#core/testing'
import { startServer } from '../support/process.ts'
import { connect } from '../support/sockets.ts'

/** Streams that say one thing and stay open. */
const ticker = definePlugin({
  name: 'ticker',
  summary: 'Streams.',
  routes: {
    'GET /ticks': {
      answers: { 200: ['text/event-stream'] },
      auth: 'public',
      async *run(_, { signal }) {
        yield { event: 'tick', data: {} }
        await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
      },
    },
  },
})

interface Held {
  readonly status: number
  readonly retryAfter: string | undefined
  end(): void
}

/** A request that is left open once its answer has begun. */
function hold(url: string, headers: Record<string, string> = {}): Promise<Held> {
  return new Promise((resolve, reject) => {
    const asked = request(url, { agent: false, headers }, (res: IncomingMessage) => {
      res.on('data', () => {}).on('error', () => {})
      resolve({
        status: res.statusCode ?? 0,
        retryAfter: res.headers['retry-after'],
        end: () => asked.destroy(),
      })
    })
    asked.on('error', reject).end()
    onTestFinished(() => void asked.destroy())
  })
}

/** Whether somebody else is served. */
const answers = (url: string) =>
  hold(`${url}/health`).then(
    ({ status }) => status,
    () => 'dropped',
  )

/** A connection on which nothing, or only this, is ever said. */
function silent(url: string, says = ''): Promise<Socket> {
  const { port } = new URL(url)
  return new Promise((resolve) => {
    const socket = connectTcp(Number(port), '127.0.0.1', () => {
      if (says) socket.write(says)
      resolve(socket)
    })
    socket.on('error', () => resolve(socket)).resume()
    onTestFinished(() => void socket.destroy())
  })
}

describe('event streams', () => {
  test('of one address are as many as may be; one that ends makes room', async () => {
    await using app = await testApp({ plugins: [ticker], env: { STREAMS_PER_ADDRESS: '3' } })
    const url = `${app.url}/ticks`
    const held = await Promise.all([hold(url), hold(url), hold(url)])
    expect(held.map(({ status }) => status)).toEqual([200, 200, 200])
    const refused = await app.get('/ticks')
    expect(refused).toMatchObject({
      status: 429,
      body: { code: 'TOO_MANY_CONNECTIONS', details: { max: 3 } },
    })
    expect(refused.body.message).toContain('3 event streams of this address')
    expect(refused.headers.get('retry-after')).toBe('60')
    expect((await app.get('/health')).status).toBe(200)
    held[0]?.end()
    await expect.poll(async () => (await hold(url)).status).toBe(200)
  })

  test('are counted by the address that a trusted proxy names', async () => {
    const env = { STREAMS_PER_ADDRESS: '1', TRUST_PROXY_ENABLED: 'true' }
    await using app = await testApp({ plugins: [ticker], env })
    const from = async (address: string) =>
      (await hold(`${app.url}/ticks`, { 'X-Forwarded-For': address })).status
    expect(await from('192.0.2.1')).toBe(200)
    expect(await from('192.0.2.2')).toBe(200)
    expect(await from('192.0.2.1')).toBe(429)
    expect(await from('2001:db8:1:2::1')).toBe(200)
    expect(await from('2001:db8:1:2::2')).toBe(429)
  })

  test('a turn whose stream cannot be opened does not begin', async () => {
    await using app = await testApp({ plugins: [ticker], env: { STREAMS_PER_ADDRESS: '1' } })
    const user = await app.user()
    const { sessionId } = (await user.post('/sessions')).body
    const held = await hold(`${app.url}/ticks`)
    const refused = await user.post(`/messages/${sessionId}`, { message: 'Hello' })
    expect(refused).toMatchObject({ status: 429, body: { code: 'TOO_MANY_CONNECTIONS' } })
    expect((await user.get(`/messages/${sessionId}`)).body).toEqual({ messages: [] })
    held.end()
    await expect
      .poll(async () => (await user.post(`/messages/${sessionId}`, { message: 'Hello' })).status)
      .toBe(200)
  })
})

describe('sockets', () => {
  const paths = ['/ws', '/socket.io/?EIO=4&transport=websocket']

  test.each(paths)('of one address are as many as may be, also in one moment: %s', async (path) => {
    await using app = await testApp({ plugins: [], env: { SOCKETS_PER_ADDRESS: '5' } })
    const sockets = Array.from({ length: 12 }, () => connect(app.url + path))
    const outcomes = await Promise.allSettled(sockets.map(({ opened }) => opened))
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(5)
    for (const outcome of outcomes)
      if (outcome.status === 'rejected') expect(String(outcome.reason)).toContain('429')
    for (const [i, { kill }] of sockets.entries()) if (outcomes[i]?.status === 'fulfilled') kill()
    await expect
      .poll(() =>
        connect(app.url + path).opened.then(
          () => 'open',
          () => 'refused',
        ),
      )
      .toBe('open')
  })

  test('without a hello are closed after five seconds', async () => {
    await using app = await testApp({ plugins: [] })
    const closed = await Promise.all(paths.map((path) => connect(app.url + path).closed))
    expect(closed.map(({ code }) => code)).toEqual([4408, 4408])
  }, 15_000)

  test('of one DID are as many as may be: the next is told 4429', async () => {
    await using app = await testApp({ plugins: [], env: { SOCKETS_PER_DID: '2' } })
    const [user, other] = [await app.user(), await app.user()]
    const enter = async (who = user) => {
      const { sessionId } = (await who.post('/sessions')).body
      const socket = connect(`${app.url}/ws`)
      await socket.opened
      const headers = await who.wallet.headers(app.oracleDid)
      const invocation = headers.authorization?.slice('Bearer '.length)
      const hello = () => socket.send({ type: 'auth', sessionId, auth: { invocation } })
      hello()
      const outcome = await Promise.race([
        socket.find((text) => (text.includes('connected') ? 'in' : undefined)).catch(() => 'out'),
        socket.closed.then(({ code }) => code),
      ])
      return { socket, outcome, hello }
    }
    const [first, second] = [await enter(), await enter()]
    expect([first.outcome, second.outcome]).toEqual(['in', 'in'])
    first.hello() // to renew is not to come again
    const third = await enter()
    expect(await third.socket.closed).toEqual({
      code: 4429,
      reason: 'You have too many sockets. Close one.',
    })
    expect((await enter(other)).outcome).toBe('in')
    first.socket.kill()
    await expect.poll(async () => (await enter()).outcome).toBe('in')
  })
})

describe('connections', () => {
  test('that are only held make way for others, and one line of the log tells', async () => {
    const log: string[] = []
    await using app = await testApp({
      plugins: [],
      env: { CONNECTIONS_TOTAL: '40' },
      log: (line) => log.push(line),
    })
    const kinds = ['', 'GET /health HTTP/1.1\r\nHost: ', 'GET /health HTTP/1.1\r\nHost: a\r\n\r\n']
    for (const says of kinds) {
      const held = await Promise.all(Array.from({ length: 120 }, () => silent(app.url, says)))
      for (let i = 0; i < 5; i++) await expect.poll(() => answers(app.url)).toBe(200)
      const open = held.filter((socket) => !socket.closed && !socket.readableEnded)
      expect(open.length).toBeLessThanOrEqual(40)
    }
    const told = log.filter((line) => line.includes('CONNECTIONS_TOTAL'))
    expect(told).toHaveLength(1)
  })

  test('on which something is under way stay, and what comes beyond the total is dropped', async () => {
    await using app = await testApp({ plugins: [ticker], env: { CONNECTIONS_TOTAL: '20' } })
    const streams = await Promise.all(Array.from({ length: 20 }, () => hold(`${app.url}/ticks`)))
    expect(streams.every(({ status }) => status === 200)).toBe(true)
    await expect(hold(`${app.url}/health`)).rejects.toThrow()
    streams[0]?.end()
    await expect.poll(() => answers(app.url)).toBe(200)
  })

  test('on which nothing is ever said are closed within the time for a head', async () => {
    await using app = await testApp({ plugins: [] })
    const socket = await silent(app.url)
    const from = performance.now()
    await new Promise((resolve) => socket.once('close', resolve))
    expect(performance.now() - from).toBeLessThan(14_000)
  }, 20_000)
})

/** How many files this process may have open at once, as its own report says. */
function openFiles(): number {
  Object.assign(process.report, { excludeNetwork: true }) // a report that asks for names of hosts takes seconds
  const { userLimits } = process.report.getReport() as {
    readonly userLimits?: { readonly open_files: { readonly soft: number | 'unlimited' } }
  }
  return Number(userLimits?.open_files.soft) || Infinity
}

/** A machine that is busy with ten thousand connections takes its time; others are served nevertheless. */
const patience = { timeout: 10_000 }

test('4,000 silent connections, 2,000 streams and 4,000 sockets without a hello from one address', async () => {
  // The test's own ends are files of this process too: where it may not open so many, all is as much smaller.
  const scale = Math.min(1, (openFiles() * 0.4) / 5_000)
  const of = (count: number) => String(Math.floor(count * scale))
  const server = startServer('test/support/ticking-server.ts', {
    DATA_DIR: ':memory:',
    RATE_LIMIT_PER_MINUTE: '1000000',
    CONNECTIONS_TOTAL: of(3_000),
    STREAMS_PER_ADDRESS: of(500),
    SOCKETS_PER_ADDRESS: of(500),
  })
  onTestFinished(async () => void (await server.end('SIGKILL')))
  const url = await server.url
  const memory = async () => Number(await (await fetch(`${url}/memory`)).text())
  const inTens = async <T>(count: string, make: () => Promise<T>): Promise<T[]> => {
    const made: T[] = []
    while (made.length < Number(count))
      made.push(...(await Promise.all(Array.from({ length: 50 }, make))))
    return made
  }
  await memory()
  const before = await memory()

  const streams = await inTens(of(2_000), () =>
    hold(`${url}/ticks`).then(
      ({ status }) => status,
      () => 0,
    ),
  )
  expect(streams.filter((status) => status === 200)).toHaveLength(Number(of(500)))
  expect(streams.filter((status) => status === 429)).toHaveLength(streams.length - Number(of(500)))
  await expect.poll(() => answers(url), patience).toBe(200)

  const sockets = await inTens(of(4_000), async () => {
    const socket = connect(`${url}/ws`)
    const isOpen = await socket.opened.then(
      () => true,
      () => false,
    )
    // As a function, for a promise would be waited for here.
    return async () => (isOpen ? (await socket.closed).code : 429)
  })
  await expect.poll(() => answers(url), patience).toBe(200)
  const codes = await Promise.all(sockets.map((closed) => closed()))
  expect(new Set(codes)).toEqual(new Set([429, 4408]))
  expect(codes.filter((code) => code === 4408).length).toBeGreaterThanOrEqual(Number(of(500)))

  const quiet = await inTens(of(4_000), () => silent(url))
  await expect.poll(() => answers(url), patience).toBe(200)
  expect(quiet.filter(({ closed }) => !closed).length).toBeLessThanOrEqual(Number(of(3_000)))
  await Promise.all(
    quiet.map((socket) => socket.closed || new Promise((resolve) => socket.once('close', resolve))),
  )
  await expect.poll(() => answers(url), patience).toBe(200)
  expect((await memory()) - before).toBeLessThan(64 * 1024 * 1024)
}, 90_000)

/** What a limit may not be. Each is told with its variable, its value and the range. */
test.each([
  'TURNS_AT_ONCE',
  'TURNS_PER_DAY',
  'ADDRESS_FACTOR',
  'TURNS_AT_ONCE_TOTAL',
  'SOCKETS_PER_DID',
  'SOCKETS_PER_ADDRESS',
  'STREAMS_PER_ADDRESS',
  'CONNECTIONS_TOTAL',
  'RATE_LIMIT_PER_MINUTE',
  'CALLS_PER_MINUTE',
  'AUTH_FAILURES_PER_MINUTE',
])('%s takes whole numbers within bounds', async (variable) => {
  for (const value of ['0', '-1', '1e9', 'ten', '1.5', '0x10', '99999999999', ' 4 4', 'Infinity']) {
    const fault = await testApp({ plugins: [], env: { [variable]: value } }).catch((error) => error)
    expect(fault.details?.faults, value).toEqual([
      expect.objectContaining({
        code: 'ENV_INVALID',
        message: expect.stringMatching(
          new RegExp(`^${variable} .*"${value}".* a whole number from 1?0? ?.*to 1,000`),
        ),
      }),
    ])
  }
  await using app = await testApp({ plugins: [], env: { [variable]: '1000' } })
  expect((await app.get('/health')).status).toBe(200)
})
