import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { z } from 'zod'
import type { AnyRoute } from '../../core/plugin.ts'
import { text } from '#core'
import { dice } from '../support/dice.ts'
import { edge, raw } from '../support/edge.ts'

const requests = 2000
const seed = Number(process.env.FUZZ_SEED ?? 20_260_101)

const next = dice(seed)
const upTo = (max: number) => Math.floor(next() * max)
const pick = <T>(...all: T[]): T => all[upTo(all.length)] as T
const maybe = (chance: number) => next() < chance
const some = (max: number, make: () => string) => Array.from({ length: upTo(max) }, make).join('')
const noise = () => String.fromCharCode(upTo(256))

const segment = () =>
  pick(
    'x',
    '..',
    '.',
    '',
    '%2e%2e',
    '%2F',
    '%00',
    '%',
    '%zz',
    '%c0%af',
    '%ed%a0%80',
    'did:key:z6Mk',
    '__proto__',
    'constructor',
    ':id',
    '*',
    ';a=b',
    '\\',
    'x'.repeat(upTo(3000)),
    some(6, noise),
  )
const first = () => pick('notes', 'notes', 'lines', 'ussd', 'stream', 'tagged', 'page', segment())
const path = () =>
  maybe(0.9)
    ? `/${first()}/${maybe(0.5) ? 'id' : segment()}${maybe(0.1) ? `/${segment()}` : ''}`
    : `${pick('http://h', 'ftp://h', '/', '\\', '')}/${first()}/${segment()}`
const pair = () =>
  `${pick('q', 'n', 'tag', '__proto__', 'a[b]', segment())}${pick('=', '==', '')}${segment()}`
const query = () => (maybe(0.5) ? `?${pair()}${some(4, () => `&${pair()}`)}` : '')

const header = () =>
  pick(
    'Content-Type: application/json',
    'Content-Type: application/x-www-form-urlencoded',
    'Content-Type: application/x-ndjson',
    `Content-Type: ${segment()}`,
    'Content-Encoding: gzip',
    'Authorization: Bearer good',
    `Authorization: ${segment()}`,
    'X-Forwarded-For: 1.2.3.4, x',
    `X-Request-Id: ${segment()}`,
    `Idempotency-Key: ${segment()}`,
    'If-None-Match: *',
    `If-None-Match: ${segment()}`,
    'Origin: null',
    'Origin: https://a.example',
    'Access-Control-Request-Method: POST',
    'Expect: 100-continue',
    'Upgrade: websocket\r\nConnection: Upgrade',
    'Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAAP__',
    'Transfer-Encoding: chunked',
    'Content-Length: 5',
    'Range: bytes=0-1',
    'Accept: ,;q=x',
    maybe(0.2) ? `${some(10, noise)}: ${some(10, noise)}` : 'Accept: */*',
  )

const value = (depth = 0): string =>
  pick(
    () => 'null',
    () => '1e999',
    () => `${upTo(1e9) * 1e9}`,
    () => `"${pick('\\u0000', '\\ud800', '__proto__', 'x', '\\', '\u0001', 'é')}"`,
    () => '['.repeat(upTo(100)),
    () => (depth > 4 ? '{}' : `[${value(depth + 1)},${value(depth + 1)}]`),
    () =>
      depth > 4
        ? '[]'
        : `{"${pick('q', 'n', 'tag', '__proto__', 'constructor', '\\u005f_proto__', 'id')}":${value(depth + 1)}}`,
  )()
const body = () =>
  pick(
    () => value(),
    () => `${value()}\n${value()}\n`,
    () => `${pair()}&${pair()}`,
    () => some(200, noise),
    () => `${pick('5', 'ffffffffff', '-1', 'zz', '0')}\r\nhello\r\n0\r\n\r\n`,
    () => 'x'.repeat(upTo(5000)),
  )()

function hostile(): string {
  const method = pick(
    'GET',
    'POST',
    'PUT',
    'DELETE',
    'HEAD',
    'OPTIONS',
    'PATCH',
    'TRACE',
    'CONNECT',
    'get',
    'FOO',
  )
  const sent = maybe(0.6) ? body() : ''
  const length =
    sent !== '' && maybe(0.8) ? `Content-Length: ${Buffer.byteLength(sent, 'latin1')}\r\n` : ''
  const host = maybe(0.95) ? 'Host: a\r\n' : ''
  const head = `${method} ${path()}${query()} HTTP/1.1\r\n${host}${length}${some(6, () => `${header()}\r\n`)}`
  const whole = `${head}Connection: close\r\n\r\n${sent}`
  // Now and then something is broken off or twisted on the way.
  if (maybe(0.1)) return whole.slice(0, upTo(whole.length))
  if (maybe(0.1)) {
    const where = upTo(whole.length)
    return whole.slice(0, where) + noise() + whole.slice(where + 1)
  }
  return whole
}

test(`${requests} hostile requests never find a fault of ours (seed ${seed})`, async () => {
  const open = { auth: 'public' } as const
  const input = z.object({
    id: z.string().optional(),
    q: z.string().max(20).optional(),
    n: z.coerce.number().optional(),
    tag: z.array(z.string()).optional(),
  })
  const echo = (given: unknown) => ({ given })
  const lines: AnyRoute = {
    ...open,
    body: 'ndjson',
    async run(_, { lines }) {
      let count = 0
      for await (const line of lines) count += line.number
      return { count }
    },
  }
  const server = await edge(
    {
      'GET /notes/:id': { ...open, input, run: echo },
      'POST /notes/:id': { ...open, input, run: echo },
      'PUT /notes/:id': { input, run: echo },
      'DELETE /notes/:id': { ...open, run: echo },
      'POST /lines/:id': lines,
      'POST /ussd/:id': {
        ...open,
        input,
        onInvalid: () => text('END Invalid input. Please try again.'),
        run: () => text('CON'),
      },
      'GET /stream/:id': {
        ...open,
        run: async function* () {
          yield 1
        },
      },
      'GET /tagged/:id': { ...open, run: (_, { koa }) => (koa.set('ETag', '"1"'), 1) },
    },
    {
      limits: { ratePerMinute: 1e9, trustProxy: true },
      times: { headersMs: 200, bodyMs: 300, checkMs: 20 },
      web: [{ mount: '/page', owner: 'pages', handler: (koa) => void (koa.body = koa.path) }],
    },
  )
  const statuses = new Map<number, number>()
  let sent = 0
  const worker = async () => {
    while (sent++ < requests) {
      const bytes = Buffer.from(hostile(), 'latin1')
      const received = await raw(server.port, bytes, 5000)
      for (const [, status] of received.matchAll(/HTTP\/1\.1 (\d{3}) /g))
        statuses.set(Number(status), (statuses.get(Number(status)) ?? 0) + 1)
      if (/HTTP\/1\.1 5\d\d/.test(received))
        throw new Error(`answered ${received}\nto ${JSON.stringify(bytes.toString('latin1'))}`)
    }
  }
  await Promise.all(Array.from({ length: 32 }, worker))
  expect([...statuses.keys()].filter((status) => status >= 500)).toEqual([])
  // The dice must reach more than the front door.
  for (const status of [200, 204, 400, 401, 404, 405, 408, 415])
    expect([status, statuses.get(status) ?? 0]).toEqual([
      status,
      expect.toSatisfy((n: number) => n > 0),
    ])
  await sleep(50)
  expect(server.logged.filter(({ level }) => level === 'error' || level === 'warn')).toEqual([])
  // The clocks of this edge are short: on a busy machine a good request may be late, as 408 says.
  let last = await server.call('GET', '/notes/1?q=still')
  for (let tries = 1; last.status === 408 && tries < 20; tries++)
    last = await server.call('GET', '/notes/1?q=still')
  expect(last.json).toEqual({ given: { id: '1', q: 'still' } })
})
