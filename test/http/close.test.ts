import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import type { AnyRoute, RouteContext } from '../../core/plugin.ts'
import { type Edge, edge, firstOf } from '../support/edge.ts'

const open: AnyRoute = { auth: 'public', run: () => 'open' }
const streaming = (run: (ctx: RouteContext) => AsyncIterable<unknown>): AnyRoute => ({
  auth: 'public',
  run: (_, ctx) => run(ctx),
})

/** A connection that is left open, and everything it receives. */
function dial({ port }: Edge, bytes = '') {
  const dialled = { received: '', closed: false }
  const socket = connect(port, '127.0.0.1', () => socket.write(bytes))
  socket.setEncoding('latin1').on('data', (chunk: string) => (dialled.received += chunk))
  socket.on('error', () => undefined).on('close', () => (dialled.closed = true))
  onTestFinished(() => void socket.destroy())
  return dialled
}
const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`
async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await sleep(2)
}

test('closing refuses new connections and drops idle ones at once', async () => {
  const server = await edge({ 'GET /': open })
  const idle = dial(server, get('/'))
  const silent = dial(server)
  await until(() => idle.received.includes('open'))
  const { onShutdown } = server.http
  expect(onShutdown.aborted).toBe(false)
  // The grace is longer than this test may take: nothing here may use it.
  const closing = server.http.close(60_000)
  expect(onShutdown.aborted).toBe(true)
  await closing
  await until(() => idle.closed && silent.closed)
  await expect(server.call('GET', '/')).rejects.toThrow()
})

test('a request under way is finished, and its connection with it', async () => {
  let finish = () => undefined as void
  const held = new Promise<void>((resolve) => (finish = resolve))
  let begun = false
  const server = await edge({
    'GET /slow': { auth: 'public', run: async () => ((begun = true), await held, 'done') },
  })
  const slow = dial(server, get('/slow'))
  await until(() => begun)
  let closed = false
  const closing = server.http.close().then(() => (closed = true))
  await sleep(60)
  expect(closed).toBe(false)
  finish()
  await closing
  await until(() => slow.closed)
  expect(firstOf(slow.received).status).toBe(200)
  expect(slow.received).toContain('"done"')
})

test('a request that does not end in time is cut off, and its handler told', async () => {
  let begun = false
  let aborted = false
  const server = await edge({
    'GET /stuck': {
      auth: 'public',
      run(_, { signal }) {
        begun = true
        return new Promise(() => signal.addEventListener('abort', () => (aborted = true)))
      },
    },
  })
  const stuck = dial(server, get('/stuck'))
  await until(() => begun)
  await server.http.close(100)
  await until(() => stuck.closed)
  expect(aborted).toBe(true)
  expect(stuck.received).toBe('')
})

test('a body that is still on its way is refused, so that its sender sends it again', async () => {
  const server = await edge({
    'POST /up': { auth: 'public', input: z.unknown(), run: () => 'here' },
  })
  const head = 'POST /up HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n'
  const half = dial(server, `${head}Content-Length: 100\r\n\r\n{`)
  await sleep(100)
  await server.http.close(100)
  await until(() => half.closed)
  expect(firstOf(half.received)).toMatchObject({ status: 503, json: { code: 'UNAVAILABLE' } })
  expect(half.received.toLowerCase()).toContain('connection: close')
})

test('streams are told why, say goodbye, and end whole', async () => {
  const server = await edge({
    'GET /s': streaming(async function* ({ signal }) {
      yield 'hello'
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      yield {
        event: 'run',
        data: { handover: true, why: (signal.reason as { code: string }).code },
      }
    }),
  })
  const streams = Array.from({ length: 5 }, () => dial(server, get('/s')))
  await until(() => streams.every(({ received }) => received.includes('hello')))
  await server.http.close(60_000)
  // What the server has sent may reach the reader a moment after its end.
  await until(() => streams.every(({ closed }) => closed))
  for (const { received } of streams) {
    expect(received).toContain('event: run\ndata: {"handover":true,"why":"UNAVAILABLE"}\n\n')
    expect(received.endsWith('0\r\n\r\n')).toBe(true)
  }
})

test('streams that know no goodbye are ended all the same, and cleaned up once', async () => {
  let cleaned = 0
  const endless = async function* () {
    try {
      for (;;) {
        yield 'tick'
        await sleep(5)
      }
    } finally {
      cleaned++
    }
  }
  const server = await edge({
    'GET /s': streaming(endless),
    'GET /deaf': streaming(() => ({
      [Symbol.asyncIterator]: () => ({
        next: () => new Promise(() => {}),
        return: async () => (cleaned++, { done: true, value: undefined }),
      }),
    })),
    'GET /throws': streaming(async function* ({ signal }) {
      yield 'tick'
      await sleep(60_000, undefined, { signal })
    }),
  })
  const streams = ['/s', '/deaf', '/throws', '/s'].map((path) => dial(server, get(path)))
  await until(() => streams.every(({ received }) => received.includes('text/event-stream')))
  await server.http.close(60_000)
  await until(() => cleaned === 3 && streams.every(({ closed }) => closed))
  expect(streams.every(({ received }) => received.endsWith('0\r\n\r\n'))).toBe(true)
  expect(streams.some(({ received }) => received.includes('event: error'))).toBe(false)
  expect(server.logged.filter(({ level }) => level === 'error')).toEqual([])
})

test('a Response that streams events hears of the closing, says goodbye, ends whole and is cancelled', async () => {
  let cancelled = 0
  const events = (start: (body: ReadableStreamDefaultController, signal: AbortSignal) => void) =>
    ({
      auth: 'public',
      run: (_, { signal }) =>
        new Response(
          new ReadableStream({
            start: (body) => start(body, signal),
            cancel: () => void cancelled++,
          }),
          { headers: { 'content-type': 'text/event-stream' } },
        ),
    }) satisfies AnyRoute
  const write = (body: ReadableStreamDefaultController, text: string) =>
    body.enqueue(new TextEncoder().encode(text))
  let asked = 0
  const server = await edge({
    'GET /polite': events((body, signal) => {
      write(body, 'data: hello\n\n')
      signal.addEventListener('abort', () => write(body, 'event: bye\ndata: {}\n\n'))
    }),
    'GET /deaf': events((body) => write(body, 'data: hello\n\n')),
    'GET /silent': events(() => void asked++),
    'GET /breaks': events((body, signal) => {
      write(body, 'data: hello\n\n')
      signal.addEventListener('abort', () => body.error(signal.reason))
    }),
  })
  const [polite, deaf, silent, breaks] = ['/polite', '/deaf', '/silent', '/breaks'].map((path) =>
    dial(server, get(path)),
  )
  await until(() => [polite, deaf, breaks].every((one) => one?.received.includes('hello')))
  await until(() => asked === 1)
  // The grace is longer than this test may take: nothing here may use it.
  await server.http.close(60_000)
  await until(() => [polite, deaf, silent, breaks].every((one) => one?.closed))
  for (const one of [polite, deaf, silent, breaks]) {
    expect(one?.received).toContain('HTTP/1.1 200')
    expect(one?.received.endsWith('0\r\n\r\n')).toBe(true)
  }
  expect(polite?.received).toContain('event: bye\ndata: {}\n\n')
  // The source that broke off by itself has nothing left to cancel.
  expect(cancelled).toBe(3)
  expect(server.logged.filter(({ level }) => level !== 'debug' && level !== 'info')).toEqual([])
})

test('a Response that streams to a reader who stalls is cancelled when the server closes', async () => {
  let cancelled = 0
  let pulled = 0
  const body = () =>
    new ReadableStream({
      pull: (controller) => {
        pulled++
        controller.enqueue(new Uint8Array(64 * 1024))
      },
      cancel: () => void cancelled++,
    })
  const server = await edge({
    'GET /s': {
      auth: 'public',
      run: () => new Response(body(), { headers: { 'content-type': 'text/event-stream' } }),
    },
  })
  const socket = connect(server.port, '127.0.0.1', () => socket.write(get('/s')))
  socket.pause().on('error', () => undefined)
  onTestFinished(() => void socket.destroy())
  await until(() => pulled > 0)
  const closing = server.http.close(60_000)
  await until(() => cancelled === 1)
  socket.destroy()
  await closing
})

test('closing does not hang on a reader who stalls', async () => {
  let said = 0
  const server = await edge({
    'GET /s': streaming(async function* () {
      for (; ; said++) yield 'x'.repeat(10_000)
    }),
  })
  const socket = connect(server.port, '127.0.0.1', () => socket.write(get('/s')))
  socket.pause().on('error', () => undefined)
  onTestFinished(() => void socket.destroy())
  await until(() => said > 0)
  await sleep(100)
  await server.http.close(500)
})

test('a stream that begins while the server closes is short', async () => {
  let finish = () => undefined as void
  const held = new Promise<void>((resolve) => (finish = resolve))
  let begun = false
  const server = await edge({
    'GET /late': {
      auth: 'public',
      run: async (_, { signal }) => {
        begun = true
        await held
        return (async function* () {
          yield { aborted: signal.aborted }
          await new Promise(() => {})
        })()
      },
    },
  })
  const late = dial(server, get('/late'))
  await until(() => begun)
  const closing = server.http.close()
  finish()
  await closing
  await until(() => late.closed)
  expect(late.received).toContain('data: {"aborted":true}')
})

test('closing twice, at once and again, does not hang', async () => {
  const server = await edge({ 'GET /': open })
  await Promise.all([server.http.close(), server.http.close()])
  await server.http.close()
})

test('a port in use is a fault with a name', async () => {
  const first = await edge({ 'GET /': open })
  const second = await edge({ 'GET /': open })
  await second.http.close()
  await expect(second.http.listen({ port: first.port, host: '127.0.0.1' })).rejects.toMatchObject({
    code: 'PORT_IN_USE',
    message: expect.stringContaining(String(first.port)),
    hint: expect.any(String),
  })
  await expect(second.http.listen({ port: 0, host: '192.0.2.1' })).rejects.toMatchObject({
    code: 'BOOT_FAILED',
  })
})

test('the address it gives can be opened', async () => {
  const server = await edge({ 'GET /': open })
  await server.http.close()
  const { url, port } = await server.http.listen({ port: 0, host: '0.0.0.0' })
  expect(url).toBe(`http://127.0.0.1:${port}`)
  expect(await (await fetch(url)).json()).toBe('open')
  server.http.server.close()
  server.http.server.closeAllConnections()
})
