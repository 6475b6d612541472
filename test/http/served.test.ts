import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import { describe, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { definePlugin, reply } from '#core'
import { testApp } from '#core/testing'
import type { AnyRoute } from '../../core/plugin.ts'
import { edge } from '../support/edge.ts'

const everyStatus = Object.fromEntries(
  [200, 201, 202, 203, 204, 304, 402, 418].map((status) => [
    status,
    [204, 304].includes(status)
      ? []
      : ['text/plain', 'text/csv', 'application/json', 'text/html', 'application/octet-stream'],
  ]),
)

async function serving(run: AnyRoute['run'], more: Partial<AnyRoute> = {}) {
  const app = await testApp({
    plugins: [
      definePlugin({
        name: 'serving',
        summary: 'Serves what a test says.',
        routes: {
          'GET /served': { auth: 'public', answers: everyStatus, run, ...more } as AnyRoute,
          'POST /served': { auth: 'public', answers: everyStatus, run, ...more } as AnyRoute,
        },
      }),
    ],
  })
  onTestFinished(() => app.close())
  return app
}

describe('reply()', () => {
  test('answers with a status, headers and JSON', async () => {
    const app = await serving(() => reply(202, { queued: true }, { headers: { 'X-Place': '3' } }))
    const { status, body, headers } = await app.post('/served', {})
    expect({ status, body }).toEqual({ status: 202, body: { queued: true } })
    expect(headers.get('x-place')).toBe('3')
    expect(headers.get('content-type')).toBe('application/json; charset=utf-8')
  })

  test('answers with text of a type of its own', async () => {
    const app = await serving(() => reply(200, 'a,b\n1,2\n', { type: 'text/csv; charset=utf-8' }))
    const { body, headers } = await app.get('/served')
    expect(body).toBe('a,b\n1,2\n')
    expect(headers.get('content-type')).toBe('text/csv; charset=utf-8')
  })

  test('passes JSON through the output of the route, and text by it', async () => {
    const output = z.object({ seen: z.number() })
    const fits = await serving(() => reply(201, { seen: 1, secret: 2 }), { output })
    expect(await fits.get('/served')).toMatchObject({ status: 201, body: { seen: 1 } })
    const differs = await serving(() => reply(201, { seen: 'x' }), { output })
    expect(await differs.get('/served')).toMatchObject({ status: 500 })
    const empty = await serving(() => reply(204), { output })
    expect(await empty.get('/served')).toMatchObject({ status: 204 })
  })

  test('is stored for repeats with its status and headers', async () => {
    let runs = 0
    const app = await serving(() =>
      reply(202, { run: ++runs }, { headers: { 'X-Run': `${runs}` } }),
    )
    const key = { 'idempotency-key': 'one' }
    await app.post('/served', {}, key)
    const again = await app.post('/served', {}, key)
    expect(again).toMatchObject({ status: 202, body: { run: 1 } })
    expect(again.headers.get('x-run')).toBe('1')
    expect(again.headers.get('idempotency-replayed')).toBe('true')
  })

  test.each<[string, () => unknown, RegExp]>([
    ['a status that is none', () => reply(99, {}), /status/],
    ['a status that announces another answer', () => reply(101, {}), /status/],
    ['a header with a line break', () => reply(200, {}, { headers: { a: 'b\r\nc: d' } }), /"a"/],
    ['a header of the connection', () => reply(200, {}, { headers: { Upgrade: 'x' } }), /Upgrade/],
    [
      'a length other than that of the body, whose rest would pass for the next answer',
      () => reply(200, {}, { headers: { 'content-length': '1' } }),
      /content-length/,
    ],
    ['a cookie', () => reply(200, {}, { headers: { 'Set-Cookie': 'x' } }), /Set-Cookie/],
    [
      'the rights of other origins',
      () => reply(200, {}, { headers: { 'access-control-allow-origin': '*' } }),
      /access-control-allow-origin/,
    ],
    [
      'a header that is undefined',
      () => reply(200, {}, { headers: { 'X-Own': undefined as unknown as string } }),
      /"X-Own"/,
    ],
    [
      'Headers, of which nothing would be sent',
      () => reply(200, {}, { headers: new Headers({ a: 'b' }) as never }),
      /Object\.fromEntries/,
    ],
    ['an object as text', () => reply(200, {}, { type: 'text/html' }), /type/],
  ])('refuses %s where it is made', (_, make, sentence) => {
    expect(make).toThrow(sentence)
  })
})

describe('a Response', () => {
  test('is served with status, headers and body', async () => {
    const app = await serving(
      () =>
        new Response('<p>short</p>', {
          status: 418,
          headers: { 'content-type': 'text/html', 'x-own': 'a' },
        }),
    )
    const { status, body, headers } = await app.get('/served')
    expect({ status, body }).toEqual({ status: 418, body: '<p>short</p>' })
    expect(headers.get('content-type')).toBe('text/html')
    expect(headers.get('x-own')).toBe('a')
    expect(headers.get('x-request-id')).toBeTruthy()
  })

  test('loses what belongs to the connection, to cookies and to CORS', async () => {
    const app = await serving(
      () =>
        new Response('x', {
          headers: [
            ['content-type', 'text/plain'],
            ['connection', 'x-hop'],
            ['x-hop', '1'],
            ['keep-alive', 'timeout=9'],
            ['transfer-encoding', 'chunked'],
            ['upgrade', 'h2c'],
            ['access-control-allow-origin', 'https://evil.example'],
            ['set-cookie', 'a=b'],
            ['x-request-id', 'forged'],
          ],
        }),
    )
    const answer = await app.get('/served', { headers: { origin: 'https://page.example' } })
    for (const name of ['x-hop', 'upgrade', 'set-cookie'])
      expect(answer.headers.get(name), name).toBeNull()
    expect(answer.headers.get('access-control-allow-origin')).not.toBe('https://evil.example')
    expect(answer.headers.get('x-request-id')).not.toBe('forged')
    expect(answer.body).toBe('x')
  })

  test('streams its body, and cancels the source when the reader leaves', async () => {
    const cancelled = Promise.withResolvers<void>()
    const app = await serving(
      () =>
        new Response(
          new ReadableStream({
            start: (controller) => controller.enqueue(new TextEncoder().encode('first')),
            cancel: () => cancelled.resolve(),
          }),
          { headers: { 'content-type': 'text/plain' } },
        ),
    )
    const answer = await fetch(`${app.url}/served`)
    const reader = answer.body!.getReader()
    expect(new TextDecoder().decode((await reader.read()).value)).toBe('first')
    await reader.cancel()
    await cancelled.promise
  })

  test('that breaks in the middle is cut off, and not ended as if it were whole', async () => {
    const app = await serving(
      () =>
        new Response(
          new ReadableStream({
            start: (controller) => controller.enqueue(new TextEncoder().encode('half')),
            pull: (controller) => controller.error(new Error('the source broke')),
          }),
          { headers: { 'content-type': 'text/plain' } },
        ),
    )
    await expect(fetch(`${app.url}/served`).then((answer) => answer.text())).rejects.toThrow()
    expect(app.log.join('\n')).toContain('the source broke')
    expect((await app.get('/health')).status).toBe(200)
  })

  test('that breaks before its first byte is a fault like any other', async () => {
    const app = await serving(
      () => new Response(new ReadableStream({ start: (body) => body.error(new Error('broke')) })),
    )
    expect(await app.get('/served')).toMatchObject({ status: 500, body: { code: 'INTERNAL' } })
    expect(app.log.join('\n')).toContain('broke')
  })

  test('is cancelled when its reader left before it was made', async () => {
    const asked = Promise.withResolvers<void>()
    const cancelled = Promise.withResolvers<void>()
    const app = await serving(async (_, { koa }) => {
      asked.resolve()
      await once(koa.res, 'close')
      return new Response(new ReadableStream({ cancel: () => cancelled.resolve() }))
    })
    const leaving = new AbortController()
    const asking = fetch(`${app.url}/served`, { signal: leaving.signal })
    await asked.promise
    leaving.abort()
    await expect(asking).rejects.toThrow()
    await cancelled.promise
  })

  test('with a header that HTTP cannot carry is a fault, and its source is cancelled', async () => {
    const cancelled = Promise.withResolvers<void>()
    const app = await serving(
      () =>
        new Response(
          new ReadableStream({
            start: (body) => body.enqueue(new TextEncoder().encode('x')),
            cancel: () => cancelled.resolve(),
          }),
          { headers: { 'x-own': 'a\x01b' } },
        ),
    )
    expect(await app.get('/served')).toMatchObject({ status: 500, body: { code: 'INTERNAL' } })
    await cancelled.promise
  })

  test('that cannot be served leaves none of its headers to the answer of onFault', async () => {
    const app = await serving(
      () => new Response('x', { headers: { 'content-type': 'text/html', 'x-own': 'a\x01b' } }),
      { onFault: () => ({ sorry: true }) },
    )
    const { body, headers } = await app.get('/served')
    expect(body).toEqual({ sorry: true })
    expect(headers.get('content-type')).toBe('application/json; charset=utf-8')
  })

  test('loses a reader who takes nothing any more', async () => {
    const cancelled = Promise.withResolvers<void>()
    const run = () =>
      new Response(
        new ReadableStream({
          pull: (body) => body.enqueue(new Uint8Array(1024 * 1024)),
          cancel: () => cancelled.resolve(),
        }),
      )
    const { port } = await edge(
      { 'GET /served': { auth: 'public', run } },
      { times: { readMs: 200 } },
    )
    const socket = connect(port, '127.0.0.1').pause()
    onTestFinished(() => void socket.destroy())
    socket.write('GET /served HTTP/1.1\r\nHost: localhost\r\n\r\n')
    await cancelled.promise
  })

  test('that was read already is a fault of the plugin', async () => {
    const app = await serving(async () => {
      const used = new Response('x')
      await used.text()
      return used
    })
    expect(await app.get('/served')).toMatchObject({ status: 500, body: { code: 'INTERNAL' } })
    expect(app.log.join('\n')).toMatch(/body .* read/)
  })

  test('without a status that can be sent is a fault of the plugin', async () => {
    const app = await serving(() => Response.error())
    expect(await app.get('/served')).toMatchObject({ status: 500 })
  })

  test('with the status 101 is a fault of the plugin, and its source is cancelled', async () => {
    // Where fetch keeps to its standard, no such Response can be made.
    const honest = await serving(() => new Response(null, { status: 101 }))
    expect(await honest.get('/served')).toMatchObject({ status: 500, body: { code: 'INTERNAL' } })
    const cancelled = Promise.withResolvers<void>()
    const body = new ReadableStream({ cancel: () => cancelled.resolve() })
    const claiming = await serving(() =>
      Object.defineProperty(new Response(body), 'status', { value: 101 }),
    )
    expect(await claiming.get('/served')).toMatchObject({ status: 500, body: { code: 'INTERNAL' } })
    expect(claiming.log.join('\n')).toContain('a Response with status 101, which is no answer')
    await cancelled.promise
    expect((await claiming.get('/health')).status).toBe(200)
  })

  test('has no body for HEAD, 204 and 304', async () => {
    const app = await serving((_, { koa }) => {
      const status = Number(koa.query.status ?? 200)
      return new Response(status === 200 ? 'long' : null, { status })
    })
    expect(await (await fetch(`${app.url}/served`, { method: 'HEAD' })).text()).toBe('')
    expect(await app.get('/served?status=204')).toMatchObject({ status: 204, body: '' })
    expect(await app.get('/served?status=304')).toMatchObject({ status: 304, body: '' })
  })

  test('that was fetched arrives decoded, as fetch handed it out', async () => {
    const upstream = createServer((_, res) => {
      res.setHeader('content-type', 'text/plain')
      res.setHeader('content-encoding', 'gzip')
      res.end(gzipSync('packed words'))
    })
    await once(upstream.listen(0, '127.0.0.1'), 'listening')
    onTestFinished(() => void upstream.close())
    const { port } = upstream.address() as AddressInfo
    const app = await serving(() => fetch(`http://127.0.0.1:${port}/`))
    const { body, headers } = await app.get('/served')
    expect(body).toBe('packed words')
    expect(headers.get('content-encoding')).toBeNull()
  })

  test('that announces another length than it has ends no other answer of its connection', async () => {
    const app = await serving(
      () =>
        new Response('four', { headers: { 'content-length': '2', 'content-type': 'text/plain' } }),
    )
    const socket = connect(Number(new URL(app.url).port), '127.0.0.1')
    onTestFinished(() => void socket.destroy())
    const request = 'GET /served HTTP/1.1\r\nHost: localhost\r\n\r\n'
    socket.write(
      request +
        request.replace('/served', '/health').replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n'),
    )
    let heard = ''
    socket.on('data', (piece) => (heard += piece))
    await once(socket, 'close')
    expect(heard).toContain('four')
    expect(heard.match(/HTTP\/1\.1 200/g)).toHaveLength(2)
  })

  test('is not kept for repeats', async () => {
    let runs = 0
    const app = await serving(
      () => new Response(`${++runs}`, { headers: { 'content-type': 'text/plain' } }),
    )
    const key = { 'idempotency-key': 'one' }
    expect((await app.post('/served', {}, key)).body).toBe('1')
    expect((await app.post('/served', {}, key)).body).toBe('2')
  })
})
