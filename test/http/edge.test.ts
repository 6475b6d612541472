import { request as httpRequest } from 'node:http'
import { connect } from 'node:net'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { AnyRoute } from '../../core/plugin.ts'
import { edge, firstOf, raw } from '../support/edge.ts'

const open: AnyRoute = { auth: 'public', run: () => 'open' }
const posted: AnyRoute = {
  auth: 'public',
  input: z.object({ a: z.string() }),
  run: (input) => input,
}
const impatient = { headersMs: 150, bodyMs: 300, checkMs: 20 }

/** What every refusal looks like, also one that was written on the bare socket. */
function expectRefusal(received: string, status: number, code: string) {
  const { status: got, head, json } = firstOf(received)
  expect(got).toBe(status)
  expect(json).toMatchObject({ statusCode: status, code, message: expect.any(String) })
  expect(head).toContain(`X-Request-Id: ${json.requestId}`)
  expect(head.toLowerCase()).toContain('content-type: application/json; charset=utf-8')
  expect(head.toLowerCase()).toContain('connection: close')
}

/** Sends a byte now and then until the server has enough; says what came back. */
function drip(port: number, head: string, byte: string): Promise<string> {
  return new Promise((resolve) => {
    let received = ''
    let timer: NodeJS.Timeout | undefined
    const socket = connect(port, '127.0.0.1', () => {
      socket.write(head)
      timer = setInterval(() => socket.write(byte), 20)
    })
    socket.setEncoding('latin1').on('data', (chunk: string) => (received += chunk))
    socket.on('error', () => undefined).on('close', () => (clearInterval(timer), resolve(received)))
  })
}

describe('what is no HTTP is answered in the one shape and cut off', () => {
  test.each<[string, string]>([
    ['garbage', 'hello\r\n\r\n'],
    ['binary garbage', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
    ['a lone line break and garbage', '\r\n\r\n\x00\r\n\r\n'],
    ['another version', 'GET / HTTP/9.9\r\nHost: a\r\n\r\n'],
    ['a header without a name', 'GET / HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n'],
    ['a space before a colon', 'GET / HTTP/1.1\r\nHost : a\r\n\r\n'],
    ['a folded header', 'GET / HTTP/1.1\r\nHost: a\r\nX-A: 1\r\n 2\r\n\r\n'],
    ['a zero byte in a header', 'GET / HTTP/1.1\r\nHost: a\r\nX-A: 1\x002\r\n\r\n'],
    ['a lone carriage return', 'GET / HTTP/1.1\r\nHost: a\r\nX-A: 1\rX-B: 2\r\n\r\n'],
    [
      'two lengths',
      'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab',
    ],
    ['a length that is none', 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n'],
    [
      'a length and chunks',
      'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    ],
    [
      'an unknown transfer encoding',
      'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n',
    ],
    [
      'chunked, but not at the end',
      'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n',
    ],
  ])('%s', async (_, bytes) => {
    const server = await edge({ 'GET /': open, 'POST /': posted })
    expectRefusal(await server.raw(Buffer.from(bytes, 'latin1')), 400, 'BAD_REQUEST')
    expect((await server.call('GET', '/')).json).toBe('open')
  })

  test('headers over 16 KiB are 431, even a megabyte of them', async () => {
    const server = await edge({ 'GET /': open })
    const request = (size: number) =>
      `GET / HTTP/1.1\r\nHost: a\r\nX-Big: ${'x'.repeat(size)}\r\n\r\n`
    expectRefusal(await server.raw(request(17_000)), 431, 'HEADERS_TOO_LARGE')
    expectRefusal(await server.raw(request(1_000_000)), 431, 'HEADERS_TOO_LARGE')
    const many = `GET / HTTP/1.1\r\nHost: a\r\n${'X-A: 1\r\n'.repeat(5000)}\r\n`
    expectRefusal(await server.raw(many), 431, 'HEADERS_TOO_LARGE')
    expectRefusal(
      await server.raw(`GET /${'x'.repeat(20_000)} HTTP/1.1\r\nHost: a\r\n\r\n`),
      431,
      'HEADERS_TOO_LARGE',
    )
    const fits = request(15_000).replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n')
    expect(firstOf(await server.raw(fits)).status).toBe(200)
  })

  test('a broken chunk in the middle of a body', async () => {
    const server = await edge({ 'POST /': posted })
    const head =
      'POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n'
    expectRefusal(await server.raw(`${head}5\r\n{"a":\r\nzz\r\n`), 400, 'BAD_REQUEST')
    expectRefusal(await server.raw(`${head}5;${'x'.repeat(20_000)}\r\n`), 413, 'BODY_TOO_LARGE')
  })
})

describe('a head that Node lets through', () => {
  test.each([
    'Authorization: Bearer good',
    'Host: b',
    'Content-Type: text/plain',
    'X-Auth-Type: ucan',
    'x-ucan-delegation: b',
  ])('with a second %s is 400', async (second) => {
    let runs = 0
    const server = await edge({ 'GET /': { run: () => ++runs } })
    const first = [
      'Host: a',
      'Authorization: Bearer good',
      'Content-Type: a/b',
      'X-Auth-Type: ucan',
      'X-Ucan-Delegation: a',
    ]
    const head = (lines: string[]) =>
      `GET / HTTP/1.1\r\n${lines.join('\r\n')}\r\nConnection: close\r\n\r\n`
    expect(firstOf(await server.raw(head([...first, second])))).toMatchObject({
      status: 400,
      json: { code: 'BAD_REQUEST' },
    })
    expect(
      firstOf(await server.raw(head([second.toUpperCase().replace('GOOD', 'good'), ...first])))
        .status,
    ).toBe(400)
    expect(runs).toBe(0)
    expect(firstOf(await server.raw(head(first))).status).toBe(200)
  })

  test('without a Host is 400 in HTTP/1.1 and served in HTTP/1.0', async () => {
    const server = await edge({ 'GET /': open })
    expect(firstOf(await server.raw('GET / HTTP/1.1\r\nConnection: close\r\n\r\n'))).toMatchObject({
      status: 400,
      json: { code: 'BAD_REQUEST' },
    })
    expect(firstOf(await server.raw('GET / HTTP/1.0\r\n\r\n')).status).toBe(200)
  })

  test('may have the absolute form, whose host means nothing', async () => {
    const server = await edge({
      'GET /a': { auth: 'public', run: (_, { koa }) => [koa.url, koa.path] },
    })
    const get = (target: string) =>
      server.raw(`GET ${target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`).then(firstOf)
    expect((await get('http://evil.example/a?x=1')).json).toEqual(['/a?x=1', '/a'])
    expect((await get('HTTPS://u:p@evil.example:1/a')).json).toEqual(['/a', '/a'])
    expect((await get('http://evil.example//a')).status).toBe(404)
    expect((await get('http://evil.example')).status).toBe(404)
    expect((await get('http://evil.example?/a')).status).toBe(404)
  })

  test.each([
    'http://[::1',
    'http://[zz]/',
    'http://a:99999/',
    'http:///',
    'http://:80/',
    'http://%zz/',
  ])('may not have the absolute form of %s, which is no URL', async (target) => {
    let runs = 0
    const server = await edge({ 'GET /': { auth: 'public', run: () => ++runs } })
    const answer = firstOf(
      await server.raw(`GET ${target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`),
    )
    expect(answer).toMatchObject({
      status: 400,
      json: { statusCode: 400, code: 'BAD_REQUEST', requestId: expect.any(String) },
    })
    expect(runs).toBe(0)
  })

  test.each(['ftp://a/a', 'a', '/a#b', '/a\\b', 'javascript:1', '*'])(
    'may not point to %s',
    async (target) => {
      const server = await edge({ 'GET /': open, 'GET /:id': open })
      const answer = firstOf(
        await server.raw(`GET ${target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`),
      )
      expect(answer.status).toBeGreaterThanOrEqual(400)
      expect(answer.status).toBeLessThan(500)
      expect(answer.json).toMatchObject({
        statusCode: answer.status,
        requestId: expect.any(String),
      })
    },
  )

  test('may expect what we do not know', async () => {
    const server = await edge({ 'GET /': open })
    const answer = await server.raw(
      'GET / HTTP/1.1\r\nHost: a\r\nExpect: miracles\r\nConnection: close\r\n\r\n',
    )
    expect(firstOf(answer).status).toBe(200)
  })

  test('CONNECT is refused and closed', async () => {
    const server = await edge({ 'GET /': open })
    const answer = await server.raw(
      'CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n',
    )
    expectRefusal(answer, 405, 'METHOD_NOT_ALLOWED')
  })
})

describe('a client that takes its time', () => {
  test('with its headers is closed with 408', async () => {
    const server = await edge({ 'GET /': open }, { times: impatient })
    expectRefusal(await drip(server.port, 'GET / HTTP/1.1\r\nX-A: ', 'x'), 408, 'REQUEST_TIMEOUT')
  })

  test('with everything is closed with 408', async () => {
    const server = await edge({ 'GET /': open }, { times: impatient })
    expectRefusal(await raw(server.port, ''), 408, 'REQUEST_TIMEOUT')
  })

  test('with its body is closed with 408', async () => {
    const server = await edge({ 'POST /': posted }, { times: impatient })
    const head =
      'POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n'
    expectRefusal(await drip(server.port, head, ' '), 408, 'REQUEST_TIMEOUT')
  })

  test('with an NDJSON body is closed with 408, and the handler is told', async () => {
    let failed: unknown
    const server = await edge(
      {
        'POST /': {
          auth: 'public',
          body: 'ndjson',
          async run(_, { lines }) {
            try {
              for await (const _line of lines);
            } catch (error) {
              failed = error
              throw error
            }
          },
        },
      },
      { times: impatient },
    )
    const head =
      'POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-ndjson\r\nContent-Length: 1000\r\n\r\n'
    expectRefusal(await drip(server.port, head, '1\n'), 408, 'REQUEST_TIMEOUT')
    while (failed === undefined) await sleep(2)
    expect(server.logged.filter(({ level }) => level === 'error')).toEqual([])
  })

  test('may wait for a slow answer as long as it likes', async () => {
    const server = await edge(
      { 'GET /': { auth: 'public', run: async () => (await sleep(600), 'late') } },
      { times: impatient },
    )
    expect((await server.call('GET', '/')).json).toBe('late')
  })

  test.each<[string, AnyRoute['run']]>([
    ['an answer', () => 'x'.repeat(50_000_000)],
    [
      'a stream of Koa',
      () => Readable.from(Array.from({ length: 50 }, () => 'x'.repeat(1_000_000))),
    ],
  ])('to read %s does not stay open when it takes nothing for too long', async (_, run) => {
    const server = await edge({ 'GET /': { auth: 'public', run } }, { times: { readMs: 100 } })
    const socket = connect(server.port, '127.0.0.1', () =>
      socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n'),
    )
    socket.pause().on('error', () => undefined)
    const open = () =>
      new Promise<number>((resolve) =>
        server.http.server.getConnections((_, count) => resolve(count)),
      )
    while ((await open()) === 0) await sleep(2)
    while ((await open()) > 0) await sleep(5)
    socket.destroy()
  })

  test('between two requests is closed when it is idle too long', async () => {
    const server = await edge({ 'GET /': open }, { times: { keepAliveMs: 50 } })
    const answer = await server.raw('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    expect(firstOf(answer).status).toBe(200)
    expect(answer).toContain('Connection: keep-alive')
  })
})

describe('an upgrade', () => {
  const upgrade = (path: string, protocol = 'websocket') =>
    `GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: ${protocol}\r\n` +
    'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n'

  test('for which nobody listens is answered and closed', async () => {
    const server = await edge({ 'GET /': open })
    for (const path of ['/ws', '/', '//', '/%00'])
      expectRefusal(await server.raw(upgrade(path)), 404, 'NOT_FOUND')
  })

  test('reaches who took its path, and nobody else', async () => {
    const server = await edge({})
    const taken: string[] = []
    server.http.upgrade('/ws', (req, socket) => {
      taken.push(req.url ?? '')
      socket.end('HTTP/1.1 101 Switching Protocols\r\n\r\n')
    })
    expect(await server.raw(upgrade('/ws?sessionId=1'))).toContain('101')
    expectRefusal(await server.raw(upgrade('/ws/')), 404, 'NOT_FOUND')
    expectRefusal(await server.raw(upgrade('/other')), 404, 'NOT_FOUND')
    expect(taken).toEqual(['/ws?sessionId=1'])
  })

  test('counts against the limit of its address', async () => {
    const server = await edge({}, { limits: { ratePerMinute: 2, trustProxy: false } })
    server.http.upgrade('/ws', (_, socket) =>
      socket.end('HTTP/1.1 101 Switching Protocols\r\n\r\n'),
    )
    expect(await server.raw(upgrade('/ws'))).toContain('101')
    expectRefusal(await server.raw(upgrade('/other')), 404, 'NOT_FOUND')
    const refused = await server.raw(upgrade('/ws'))
    expectRefusal(refused, 429, 'RATE_LIMITED')
    expect(refused).toMatch(/Retry-After: \d+\r\n/)
  })

  test('is answered when who took it throws', async () => {
    const server = await edge({})
    server.http.upgrade('/ws', () => {
      throw new Error('password=1234')
    })
    const answer = await server.raw(upgrade('/ws'))
    expectRefusal(answer, 500, 'INTERNAL')
    expect(answer).not.toContain('1234')
    const { requestId } = firstOf(answer).json
    expect(server.logged).toMatchObject([{ level: 'error', fields: { requestId } }])
  })

  test('is left to a listener of the server’s own', async () => {
    const server = await edge({})
    server.http.server.on('upgrade', (_, socket) => socket.end('HTTP/1.1 101 Mine\r\n\r\n'))
    expect(await server.raw(upgrade('/any'))).toBe('HTTP/1.1 101 Mine\r\n\r\n')
  })

  test('to HTTP/2, which some clients offer with every request, is served as HTTP/1.1', async () => {
    const server = await edge({ 'GET /': open })
    const offer = upgrade('/', 'h2c').replace('Connection: Upgrade', 'Connection: Upgrade, close')
    expect(firstOf(await server.raw(offer))).toMatchObject({ status: 200, json: 'open' })
  })

  test('whose socket breaks harms nobody', async () => {
    const server = await edge({ 'GET /': open })
    for (let n = 0; n < 20; n++) {
      const socket = connect(server.port, '127.0.0.1', () => {
        socket.write(upgrade('/ws'))
        socket.resetAndDestroy()
      })
      socket.on('error', () => undefined)
    }
    await sleep(50)
    expect((await server.call('GET', '/')).json).toBe('open')
  })
})

describe('a connection', () => {
  test('serves pipelined requests in order', async () => {
    const server = await edge({
      'GET /:n': {
        auth: 'public',
        run: async (input) => {
          const { n } = input as { n: string }
          if (n === '1') await sleep(50)
          return n
        },
      },
    })
    const get = (n: number, more = '') => `GET /${n} HTTP/1.1\r\nHost: a\r\n${more}\r\n`
    const answers = await server.raw(get(1) + get(2) + get(3, 'Connection: close\r\n'))
    expect(answers.match(/"\d"/g)).toEqual(['"1"', '"2"', '"3"'])
  })

  test('with a refused request in the pipeline still gets the answers before it', async () => {
    const server = await edge({ 'GET /': open })
    const answers = await server.raw('GET / HTTP/1.1\r\nHost: a\r\n\r\ngarbage garbage\r\n\r\n')
    expect(answers.match(/HTTP\/1\.1 \d+/g)?.at(0)).toMatch(/200|400/)
    expect((await server.call('GET', '/')).status).toBe(200)
  })

  test('is kept for the next request after an error', async () => {
    const server = await edge({ 'GET /': open, 'POST /': posted })
    const bad =
      'POST / HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello'
    const good = 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'
    const answers = await server.raw(bad + good)
    expect(answers.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 415', 'HTTP/1.1 200'])
  })

  test('that is reset in the middle of anything harms nobody', async () => {
    const server = await edge({
      'GET /': open,
      'POST /': posted,
      'GET /slow': { auth: 'public', run: async () => (await sleep(20), 'x'.repeat(1e6)) },
    })
    const starts = [
      'GET /slow HTTP/1.1\r\nHost: a\r\n\r\n',
      'GET / HT',
      'POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{',
    ]
    await Promise.all(
      Array.from({ length: 60 }, (_, n) => {
        const socket = connect(server.port, '127.0.0.1')
        socket.on('error', () => undefined).write(starts[n % 3] ?? '')
        return sleep(n % 25).then(() => socket.resetAndDestroy())
      }),
    )
    await sleep(50)
    expect((await server.call('GET', '/')).json).toBe('open')
    expect(server.logged.filter(({ level }) => level !== 'debug')).toEqual([])
  })

  test('that cannot be accepted is a line in the log, not the end of the server', async () => {
    const server = await edge({ 'GET /': open })
    // What Node emits when the process has no file descriptor left.
    server.http.server.emit('error', Object.assign(new Error('accept EMFILE'), { code: 'EMFILE' }))
    expect(server.logged).toMatchObject([{ level: 'error', fields: { err: { code: 'EMFILE' } } }])
    expect((await server.call('GET', '/')).json).toBe('open')
  })

  test('is reused by an agent with small bodies that nobody reads', async () => {
    const server = await edge({ 'POST /locked': { run: () => 1 }, 'POST /open': open })
    const { Agent } = await import('node:http')
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    const ports = new Set<number | undefined>()
    const post = (path: string) =>
      new Promise<number | undefined>((resolve, reject) => {
        const request = httpRequest(`${server.url}${path}`, { method: 'POST', agent }, (answer) => {
          ports.add(request.socket?.localPort)
          answer.resume().on('end', () => resolve(answer.statusCode))
        })
        request.on('error', reject).setHeader('Content-Type', 'application/json')
        request.setHeader('Content-Length', 2000)
        request.write('x')
        setTimeout(() => request.end('x'.repeat(1999)), 5)
      })
    expect([await post('/locked'), await post('/open'), await post('/nowhere')]).toEqual([
      401, 200, 404,
    ])
    expect(ports.size).toBe(1)
    agent.destroy()
  })
})
