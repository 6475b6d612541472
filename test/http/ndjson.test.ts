import { connect } from 'node:net'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { z } from 'zod'
import type { AnyRoute, BodyLine } from '../../core/plugin.ts'
import { edge, firstOf, json } from '../support/edge.ts'

const collect: AnyRoute = {
  auth: 'public',
  body: 'ndjson',
  async run(input, { lines }) {
    const all: BodyLine[] = []
    for await (const line of lines)
      all.push(line.fault ? line : { number: line.number, value: line.value })
    return { input, all }
  },
}

const ndjson = (body: RequestInit['body']): RequestInit & { duplex: 'half' } => ({
  body,
  headers: { 'Content-Type': 'application/x-ndjson' },
  duplex: 'half',
})

test('the lines of an NDJSON body are parsed one by one', async () => {
  const server = await edge({ 'POST /b': collect })
  const { json: body } = await server.call('POST', '/b', ndjson('{"a":1}\r\n\n[2]\n  \n"drei ü"'))
  expect(body.all).toEqual([
    { number: 1, value: { a: 1 } },
    { number: 3, value: [2] },
    { number: 5, value: 'drei ü' },
  ])
})

test('a line that cannot be read carries its fault, and the rest goes on', async () => {
  const server = await edge({ 'POST /b': collect })
  const lines = [
    '{"a":1}',
    '{oops',
    '{"__proto__":1}',
    '"\\u0000"',
    '['.repeat(100),
    `"${'x'.repeat(1024 * 1024)}"`,
    '{"a":2}',
  ].join('\n')
  const { json: body } = await server.call(
    'POST',
    '/b',
    ndjson(Buffer.concat([Buffer.from(`${lines}\n`), Buffer.from([0xff, 0x0a]), Buffer.from('1')])),
  )
  expect(body.all).toEqual([
    { number: 1, value: { a: 1 } },
    { number: 2, fault: { path: '', message: expect.stringContaining('position 1') } },
    { number: 3, fault: { path: '', message: expect.stringContaining('__proto__') } },
    { number: 4, fault: { path: '', message: expect.stringContaining('U+0000') } },
    { number: 5, fault: { path: '', message: expect.stringContaining('64 levels') } },
    { number: 6, fault: { path: '', message: expect.stringContaining('1048576 bytes') } },
    { number: 7, value: { a: 2 } },
    { number: 8, fault: { path: '', message: expect.stringContaining('UTF-8') } },
    { number: 9, value: 1 },
  ])
})

test('a line may arrive in any number of pieces', async () => {
  const server = await edge({ 'POST /b': collect })
  const bytes = Buffer.from('{"name":"żółw"}\n{"n":1}\n{"n":2}')
  const pieces = Array.from(bytes, (byte) => Buffer.from([byte]))
  const { json: body } = await server.call(
    'POST',
    '/b',
    ndjson(Readable.toWeb(Readable.from(pieces)) as ReadableStream),
  )
  expect(body.all.map((line: BodyLine) => line.value)).toEqual([
    { name: 'żółw' },
    { n: 1 },
    { n: 2 },
  ])
})

test('lines that arrive together keep their own faults, numbers and marks', async () => {
  const server = await edge({ 'POST /b': collect })
  const digits = '9'.repeat(309)
  const lines = ['\ufeff1', '2\u00fc', digits, `"${digits}"`, '', '1e309', '{"constructor":1}', '3']
  const { json: body } = await server.call('POST', '/b', ndjson(`${lines.join('\n')}\n`))
  expect(body.all).toEqual([
    { number: 1, value: 1 },
    { number: 2, fault: { path: '', message: expect.stringContaining('position 1') } },
    { number: 3, fault: { path: '', message: expect.stringContaining('too large') } },
    { number: 4, value: digits },
    { number: 6, fault: { path: '', message: expect.stringContaining('too large') } },
    { number: 7, fault: { path: '', message: expect.stringContaining('constructor') } },
    { number: 8, value: 3 },
  ])
})

test('the input of such a route is its path and query', async () => {
  const input = z.object({ kind: z.string(), atomic: z.stringbool().default(false) })
  const server = await edge({ 'POST /b/:kind': { ...collect, input } })
  const { json: body } = await server.call('POST', '/b/x?atomic=true', ndjson('1'))
  expect(body).toEqual({ input: { kind: 'x', atomic: true }, all: [{ number: 1, value: 1 }] })
})

test('a route may take JSON as well, each up to a limit of its own', async () => {
  const either: AnyRoute = {
    auth: 'public',
    body: { json: 100, ndjson: 1000 },
    input: z.object({ id: z.string(), a: z.coerce.number().optional() }),
    async run(input, { lines }) {
      if ((input as { a?: number }).a === 1) return { input }
      const all = []
      for await (const { value } of lines) all.push(value)
      return { input, all }
    },
  }
  const server = await edge({ 'POST /b/:id': either })
  const call = async (path: string, init: RequestInit) =>
    (await server.call('POST', path, init)).json
  expect(await call('/b/x', json({ a: 1 }))).toEqual({ input: { id: 'x', a: 1 } })
  expect(await call('/b/x?a=2', ndjson('1\n2'))).toEqual({ input: { id: 'x', a: 2 }, all: [1, 2] })
  expect(await call('/b/x', json({ a: 1, b: 'x'.repeat(100) }))).toMatchObject({ statusCode: 413 })
  expect(await call('/b/x', ndjson('1\n'.repeat(501)))).toMatchObject({ statusCode: 413 })
  expect(await call('/b/x?a=2', ndjson('1\n'.repeat(500)))).toMatchObject({ all: { length: 500 } })
  expect(await call('/b/x', json({ a: 2 }))).toMatchObject({
    statusCode: 415,
    hint: expect.stringContaining('x-ndjson'),
  })
  expect(await call('/b/x', { body: '1', headers: { 'Content-Type': 'text/csv' } })).toMatchObject({
    statusCode: 415,
  })
})

test('no body is no lines, and another type is 415 before the handler runs', async () => {
  const server = await edge({ 'POST /b': collect })
  expect((await server.call('POST', '/b')).json.all).toEqual([])
  expect((await server.call('POST', '/b', json({ a: 1 }))).json.code).toBe('UNSUPPORTED_MEDIA_TYPE')
})

test('a body over its limit is 413, announced or not', async () => {
  let runs = 0
  const small: AnyRoute = {
    ...collect,
    body: { kind: 'ndjson', maxBytes: 1000 },
    run: (input, ctx) => (runs++, collect.run(input, ctx)),
  }
  const server = await edge({ 'POST /b': small })
  const line = '{"a":1}\n'
  expect((await server.call('POST', '/b', ndjson(line.repeat(125)))).json.all).toHaveLength(125)
  expect((await server.call('POST', '/b', ndjson(line.repeat(126)))).json.code).toBe(
    'BODY_TOO_LARGE',
  )
  expect(runs).toBe(1)
  const chunked = Readable.toWeb(
    Readable.from(Array.from({ length: 500 }, () => line)),
  ) as ReadableStream
  expect((await server.call('POST', '/b', ndjson(chunked))).json.code).toBe('BODY_TOO_LARGE')
  expect(runs).toBe(2)
})

test('a slow handler slows the sender down', async () => {
  let release = () => undefined as void
  const held = new Promise<void>((resolve) => (release = resolve))
  let read = 0
  const server = await edge({
    'POST /b': {
      ...collect,
      async run(_, { lines }) {
        for await (const _line of lines) if (read++ === 0) await held
        return { read }
      },
    },
  })
  const line = `"${'x'.repeat(9_997)}"\n`
  const total = 4000 // 40 MB
  const socket = connect(server.port, '127.0.0.1')
  let answer = ''
  socket.setEncoding('latin1').on('data', (chunk: string) => (answer += chunk))
  socket.write(
    'POST /b HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-ndjson\r\n' +
      `Content-Length: ${total * line.length}\r\nConnection: close\r\n\r\n`,
  )
  let sent = 0
  const more = () => {
    while (sent < total && socket.write(line)) sent++
    sent++
    if (sent < total) socket.once('drain', more)
  }
  more()
  let before = -1
  while (before !== sent || read === 0) {
    before = sent
    await sleep(50)
  }
  // It stands still, with most of the body not yet sent.
  expect(sent).toBeLessThan(total / 2)
  expect(read).toBe(1)
  release()
  await new Promise((resolve) => socket.once('close', resolve))
  expect(firstOf(answer).status).toBe(200)
  expect(answer).toContain(`{"read":${total}}`)
})

test('a handler may stop in the middle and still answer', async () => {
  const server = await edge({
    'POST /b': {
      ...collect,
      async run(_, { lines }) {
        for await (const { value } of lines) return { first: value }
      },
    },
  })
  const body = '{"a":1}\n'.repeat(100_000)
  expect((await server.call('POST', '/b', ndjson(body))).json).toEqual({ first: { a: 1 } })
  expect((await server.call('POST', '/b', ndjson('2'))).json).toEqual({ first: 2 })
})

test('results may stream out while lines stream in', async () => {
  const server = await edge({
    'POST /b': {
      ...collect,
      run(_, { koa, lines }) {
        koa.type = 'application/x-ndjson'
        koa.body = Readable.from(
          (async function* () {
            for await (const { number } of lines) yield `${JSON.stringify({ number })}\n`
          })(),
        )
      },
    },
  })
  expect((await server.call('POST', '/b', ndjson('1\n2\n3'))).text).toBe(
    '{"number":1}\n{"number":2}\n{"number":3}\n',
  )
})

test('lines that a route did not ask for are a fault of the route', async () => {
  const server = await edge({ 'POST /b': { auth: 'public', run: collect.run } })
  expect((await server.call('POST', '/b', ndjson('1'))).json.code).toBe('INTERNAL')
})
