import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { createParser, type EventSourceMessage } from 'eventsource-parser'
import { describe, expect, test } from 'vitest'
import { RuntimeError } from '../../core/errors.ts'
import type { AnyRoute, RouteContext } from '../../core/plugin.ts'
import { edge, firstOf } from '../support/edge.ts'

const streaming = (run: (ctx: RouteContext) => unknown): AnyRoute => ({
  auth: 'public',
  run: (_, ctx) => run(ctx),
})

function parse(text: string): EventSourceMessage[] {
  const events: EventSourceMessage[] = []
  createParser({ onEvent: (event) => events.push(event) }).feed(text)
  return events
}

async function* items(...all: unknown[]) {
  yield* all
}

/** A feed that counts how it is used. */
class Feed implements AsyncIterableIterator<unknown> {
  nexts = 0
  returns = 0
  #next: (n: number) => unknown

  constructor(next: (n: number) => unknown) {
    this.#next = next
  }
  [Symbol.asyncIterator]() {
    return this
  }
  async next() {
    const value = await this.#next(this.nexts++)
    return { done: false as const, value }
  }
  async return() {
    this.returns++
    return { done: true as const, value: undefined }
  }
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await sleep(2)
}

const request = (path: string, method = 'GET') => `${method} ${path} HTTP/1.1\r\nHost: a\r\n\r\n`

describe('an async iterable', () => {
  test('writes nothing more to a client that was refused for what it sent behind its request', async () => {
    const asked = Promise.withResolvers<void>()
    const refused = Promise.withResolvers<void>()
    const feed = new Feed(async (n) => {
      asked.resolve()
      await refused.promise
      return n
    })
    const server = await edge({ 'GET /s': streaming(() => feed) })
    const socket = connect(server.port, '127.0.0.1')
    // A client that reads nothing and keeps its side open.
    socket.on('error', () => {})
    socket.write(request('/s'))
    await asked.promise
    socket.write('no request at all\r\n\r\n')
    await new Promise<void>((resolve) => socket.once('readable', resolve))
    refused.resolve()
    await until(() => feed.returns === 1)
    socket.destroy()
    expect(String(socket.read())).toMatch(/^HTTP\/1\.1 400 /)
    expect(server.logged.filter(({ level }) => level === 'error')).toEqual([])
  })

  test('is Server-Sent Events, with the headers that keep proxies out of the way', async () => {
    const server = await edge({
      'GET /s': streaming(({ koa }) => {
        koa.set('X-Run-Id', '7')
        return items(
          { id: 1, event: 'message', data: { content: 'a\nb', n: 1 } },
          { id: 2, data: 'two\nlines\r\nand three\r' },
          { event: 'done', data: null },
          'bare',
          { seq: 1 },
        )
      }),
    })
    const answer = await server.call('GET', '/s')
    expect(answer.status).toBe(200)
    expect(answer.headers.get('content-type')).toBe('text/event-stream')
    expect(answer.headers.get('cache-control')).toBe('no-cache, no-transform')
    expect(answer.headers.get('x-accel-buffering')).toBe('no')
    expect(answer.headers.get('x-run-id')).toBe('7')
    expect(answer.headers.get('access-control-expose-headers')).toMatch(/X-Request-Id, X-Run-Id/)
    expect(parse(answer.text)).toEqual([
      { id: '1', event: 'message', data: '{"content":"a\\nb","n":1}' },
      { id: '2', event: undefined, data: 'two\nlines\nand three\n' },
      { id: undefined, event: 'done', data: 'null' },
      { id: undefined, event: undefined, data: 'bare' },
      { id: undefined, event: undefined, data: '{"seq":1}' },
    ])
  })

  test('keeps every letter of every alphabet, chunk by chunk', async () => {
    const words = [
      'plain',
      'Ä und ß',
      'ночь',
      '水',
      '🌍👩🏽‍🌾',
      'e\u0301',
      '\u0000\u007f\u0080\u00ff',
      'plain',
    ]
    const said = [...words, 'x🌍'.repeat(20_000), ...words]
    const server = await edge({ 'GET /s': streaming(() => items(...said)) })
    const answer = await server.call('GET', '/s')
    expect(parse(answer.text).map(({ data }) => data)).toEqual(said)
  })

  test('waits for its turn on a connection that asks twice', async () => {
    const server = await edge({
      'GET /slow': streaming(async function* () {
        for (let n = 0; n < 3; n++) {
          yield `slow ${n}`
          await sleep(30)
        }
      }),
      'GET /fast': streaming(() => items('fast 0', 'fast 1', 'fast 2')),
    })
    const last = 'GET /fast HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'
    const received = await server.raw(request('/slow') + last)
    const [, slow = '', fast = ''] = received.split(/HTTP\/1.1 200 OK\r\n/)
    expect(slow.match(/data: .*/g)).toEqual(['data: slow 0', 'data: slow 1', 'data: slow 2'])
    expect(fast.match(/data: .*/g)).toEqual(['data: fast 0', 'data: fast 1', 'data: fast 2'])
    for (const answer of [slow, fast]) expect(answer.endsWith('\r\n0\r\n\r\n')).toBe(true)
  })

  test('goes piece by piece through a write that somebody put in place', async () => {
    const written: string[] = []
    const server = await edge({
      'GET /s': streaming(({ koa: { res } }) => {
        const { write } = res
        res.write = (piece: string) => {
          written.push(piece)
          return write.call(res, piece, 'utf8')
        }
        return items('one', 'two', 'three')
      }),
    })
    const { text } = await server.call('GET', '/s')
    expect(written).toEqual(['data: one\n\n', 'data: two\n\n', 'data: three\n\n'])
    expect(text).toBe(written.join(''))
  })

  test('cannot smuggle a field through an id or a name', async () => {
    const textOf = async (item: unknown) => {
      const server = await edge({ 'GET /s': streaming(() => items(item)) })
      return (await server.call('GET', '/s')).text
    }
    expect(await textOf({ id: '1\ndata: x', event: 'a\r\nid: 2', data: '\0' })).toBe(
      'id: 1 data: x\nevent: a id: 2\ndata: \0\n\n',
    )
    expect(await textOf({ data: undefined })).toBe('data: null\n\n')
    expect(await textOf(undefined)).toBe('data: null\n\n')
  })

  test('may follow headers that the handler sent itself', async () => {
    const server = await edge({
      'GET /s': streaming(({ koa }) => {
        koa.set('Content-Type', 'text/event-stream; charset=utf-8')
        koa.res.flushHeaders()
        return items(1)
      }),
    })
    expect((await server.call('GET', '/s')).text).toBe('data: 1\n\n')
  })

  test('is never started by a HEAD', async () => {
    let started = 0
    const feed = new Feed(() => started++)
    const server = await edge({
      'GET /g': streaming(async function* () {
        started++
        yield 1
      }),
      'GET /f': streaming(() => feed),
    })
    const head = await server.call('HEAD', '/g')
    expect(head.headers.get('content-type')).toBe('text/event-stream')
    expect((await server.call('HEAD', '/f')).status).toBe(200)
    expect(started).toBe(0)
    expect(feed.returns).toBe(1)
  })

  test('that fails before its first item is a normal error', async () => {
    const server = await edge({
      'GET /e': streaming(async function* () {
        throw new RuntimeError('CONFLICT', 'Not now.')
      }),
      'GET /odd': streaming(() => ({
        [Symbol.asyncIterator]: () => ({
          next: () => {
            throw new Error('odd')
          },
        }),
      })),
      'GET /none': streaming(() => items()),
    })
    expect((await server.call('GET', '/e')).json).toMatchObject({
      statusCode: 409,
      code: 'CONFLICT',
    })
    expect((await server.call('GET', '/odd')).json.code).toBe('INTERNAL')
    const none = await server.call('GET', '/none')
    expect(none).toMatchObject({ status: 200, text: '' })
    expect(none.headers.get('content-type')).toBe('text/event-stream')
  })

  test('that fails later ends with an error event in the one shape', async () => {
    const server = await edge({
      'GET /known': streaming(async function* () {
        yield 1
        throw new RuntimeError('CONFLICT', 'Not now.')
      }),
      'GET /unknown': streaming(async function* () {
        yield 1
        throw new Error('password=1234')
      }),
      'GET /untold': streaming(async function* () {
        yield 1
        throw new RuntimeError('CONFLICT', 'Not now.', { details: { n: 1n } })
      }),
      'GET /circular': streaming(() => {
        const circular: Record<string, unknown> = {}
        circular.self = circular
        return items(1, circular, 3)
      }),
    })
    const [one, error, ...rest] = parse((await server.call('GET', '/known')).text)
    expect(one?.data).toBe('1')
    expect(error?.event).toBe('error')
    expect(JSON.parse(error?.data ?? '')).toEqual({
      statusCode: 409,
      code: 'CONFLICT',
      message: 'Not now.',
      requestId: expect.any(String),
    })
    expect(rest).toEqual([])
    const unknown = await server.call('GET', '/unknown')
    expect(unknown.text).toContain('"code":"INTERNAL"')
    expect(unknown.text).not.toContain('1234')
    expect((await server.call('GET', '/untold')).text).toContain('"message":"Not now."')
    expect((await server.call('GET', '/circular')).text).toContain('"code":"INTERNAL"')
    expect(server.logged.map(({ level }) => level)).toEqual(['error', 'error'])
  })

  test('that says nothing for a while opens all the same, and then beats', async () => {
    let speak = (_: string) => undefined as void
    const said = new Promise<string>((resolve) => (speak = resolve))
    const server = await edge(
      {
        'GET /s': streaming(async function* () {
          yield await said
        }),
      },
      { sse: { openAfterMs: 10, heartbeatMs: 15 } },
    )
    const response = await fetch(`${server.url}/s`)
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
    expect((await reader?.read())?.value).toMatch(/^: heartbeat\n\n/)
    speak('at last')
    let text = ''
    for (let part = await reader?.read(); part && !part.done; part = await reader?.read())
      text += part.value
    expect(text).toContain('data: at last\n\n')
  })
})

describe('a reader', () => {
  test('who leaves fires the signal, then return() runs once', async () => {
    const order: string[] = []
    let context: RouteContext | undefined
    const feed = new Feed((n) => (n === 0 ? 'hello' : new Promise(() => {})))
    const server = await edge({
      'GET /s': streaming((ctx) => {
        context = ctx
        ctx.signal.addEventListener('abort', () => order.push(`abort ${feed.returns}`))
        return feed
      }),
    })
    const leaving = new AbortController()
    const response = await fetch(`${server.url}/s`, { signal: leaving.signal })
    await response.body?.getReader().read()
    leaving.abort()
    await until(() => feed.returns > 0)
    expect(order).toEqual(['abort 0'])
    expect(context?.signal.aborted).toBe(true)
    await sleep(20)
    expect(feed.returns).toBe(1)
  })

  test('who leaves before the first item is noticed too', async () => {
    const feed = new Feed(() => new Promise(() => {}))
    const server = await edge({ 'GET /s': streaming(() => feed) })
    const leaving = new AbortController()
    const call = fetch(`${server.url}/s`, { signal: leaving.signal })
    await until(() => feed.nexts > 0)
    leaving.abort()
    await expect(call).rejects.toThrow()
    await until(() => feed.returns === 1)
  })

  test('ends a generator where it waits, so that its finally runs', async () => {
    let cleaned = false
    const server = await edge({
      'GET /s': streaming(async function* ({ signal }) {
        try {
          for (let n = 0; ; n++) {
            yield n
            await sleep(1, undefined, { signal })
          }
        } finally {
          cleaned = true
        }
      }),
    })
    const leaving = new AbortController()
    const response = await fetch(`${server.url}/s`, { signal: leaving.signal })
    await response.body?.getReader().read()
    leaving.abort()
    await until(() => cleaned)
    expect(server.logged.filter(({ level }) => level === 'error')).toEqual([])
  })

  test('whose source fails while it cleans up leaves a line in the log', async () => {
    const server = await edge({
      'GET /s': streaming(() =>
        Object.assign(new Feed((n) => (n === 0 ? 1 : new Promise(() => {}))), {
          return: () => Promise.reject(new Error('stuck')),
        }),
      ),
    })
    const leaving = new AbortController()
    const response = await fetch(`${server.url}/s`, { signal: leaving.signal })
    await response.body?.getReader().read()
    leaving.abort()
    await until(() => server.logged.length > 0)
    expect(server.logged).toMatchObject([{ level: 'warn', fields: { err: { message: 'stuck' } } }])
  })

  /** Asks for a stream and reads nothing of it. */
  async function stalled(port: number): Promise<Socket> {
    const socket = connect(port, '127.0.0.1')
    socket.pause()
    socket.write(request('/s'))
    return socket
  }

  test('who stalls stops the source, and is cut off after a while', async () => {
    const feed = new Feed(() => 'x'.repeat(10_000))
    const server = await edge({ 'GET /s': streaming(() => feed) }, { sse: { stallMs: 150 } })
    const socket = await stalled(server.port)
    let asked = -1
    await until(() => {
      const still = asked === feed.nexts && feed.nexts > 0
      asked = feed.nexts
      return still
    })
    // What the two kernels' socket buffers hold, and no more.
    expect(feed.nexts * 10_000).toBeLessThan(16 * 1024 * 1024)
    await until(() => feed.returns === 1)
    expect(server.logged).toMatchObject([
      {
        level: 'info',
        fields: { requestId: expect.any(String) },
        message: 'An event stream was cut off: its reader does not read what it is sent',
      },
    ])
    socket.destroy()
  })

  test('who is slow but reads gets everything', async () => {
    const server = await edge({
      'GET /s': streaming(() =>
        items(...Array.from({ length: 300 }, (_, n) => `${n} ${'x'.repeat(50_000)}`)),
      ),
    })
    const socket = await stalled(server.port)
    await sleep(100)
    let seen = ''
    for await (const chunk of socket.setEncoding('latin1')) {
      seen += chunk
      if (seen.endsWith('0\r\n\r\n')) break
    }
    expect(seen.match(/data: \d+ x/g)).toHaveLength(300)
  })

  test('for whom one item is more than the cap is cut off at once', async () => {
    const feed = new Feed((n) => (n === 0 ? 'small' : 'x'.repeat(32 * 1024 * 1024)))
    const server = await edge(
      { 'GET /s': streaming(() => feed) },
      { sse: { maxBufferedBytes: 1024 * 1024 } },
    )
    const socket = await stalled(server.port)
    await until(() => feed.returns === 1)
    expect(feed.nexts).toBe(2)
    socket.destroy()
  })

  test('of HTTP/1.0 gets the stream until the connection closes', async () => {
    const server = await edge({ 'GET /s': streaming(() => items(1, 2)) })
    const answer = await server.raw('GET /s HTTP/1.0\r\n\r\n')
    expect(firstOf(answer).status).toBe(200)
    expect(answer.endsWith('\r\n\r\ndata: 1\n\ndata: 2\n\n')).toBe(true)
  })
})
