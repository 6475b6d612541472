import { createHash } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { createApp, definePlugin } from '#core'
import { testApp } from '#core/testing'
import type { AnyRoute } from '../../core/plugin.ts'

const sha = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')
const input = z.object({ a: z.coerce.number() })

const keeping = (more: Partial<AnyRoute>) =>
  definePlugin({
    name: 'keeping',
    summary: 'Keeps bytes.',
    routes: {
      'POST /kept': {
        auth: 'public',
        raw: true,
        run: (input: unknown, { raw }: { raw: Buffer }) => ({
          input,
          sha: sha(raw),
          bytes: raw.length,
        }),
        ...more,
      } as AnyRoute,
    },
  })

async function app(more: Partial<AnyRoute>) {
  const app = await testApp({ plugins: [keeping(more)] })
  onTestFinished(() => app.close())
  return app
}

test.each([
  ['JSON with odd spaces', '{ "a" :  1.0 }', 'application/json'],
  ['a form', 'a=1&b=%20x', 'application/x-www-form-urlencoded'],
])('ctx.raw holds the very bytes of %s beside the input', async (_, body, type) => {
  const at = await app({ input })
  const answer = await at.post('/kept', body, { 'content-type': type })
  expect(answer.body).toEqual({ input: { a: 1 }, sha: sha(Buffer.from(body)), bytes: body.length })
})

test('a route without input keeps a body of any type, up to its cap', async () => {
  const at = await app({ body: { maxBytes: 1000 } })
  const send = (body: Uint8Array<ArrayBuffer>) =>
    fetch(`${at.url}/kept`, { method: 'POST', body, headers: { 'content-type': 'image/png' } })
  const bytes = new Uint8Array([0, 255, 10, 13])
  expect(await (await send(bytes)).json()).toMatchObject({ sha: sha(Buffer.from(bytes)) })
  expect((await send(new Uint8Array(1001))).status).toBe(413)
})

test('the cap is one mebibyte where the route says nothing', async () => {
  const at = await app({})
  const send = (length: number) =>
    fetch(`${at.url}/kept`, { method: 'POST', body: 'x'.repeat(length) })
  expect((await send(1024 * 1024)).status).toBe(200)
  expect((await send(1024 * 1024 + 1)).status).toBe(413)
})

test.each<[string, Partial<AnyRoute>]>([
  ['a public route', {}],
  ['a route with an input', { input }],
  ['a route that authenticates by itself', { auth: 'own', verify: () => ({ caller: 'anybody' }) }],
])('two mebibytes are refused, announced or not, by %s', async (_, more) => {
  const at = await app(more)
  const size = 2 * 1024 * 1024
  const piece = new Uint8Array(64 * 1024).fill(32)
  const unannounced = () =>
    new ReadableStream({
      start(body) {
        for (let sent = 0; sent < size; sent += piece.length) body.enqueue(piece)
        body.close()
      },
    })
  const headers = { 'content-type': 'application/json' }
  for (const body of [new Uint8Array(size).fill(32), unannounced()]) {
    // The server may cut the rest of a body off that it has refused.
    const status = await fetch(`${at.url}/kept`, {
      method: 'POST',
      body,
      headers,
      duplex: 'half',
    } as RequestInit).then(
      async (answer) => (await answer.text(), answer.status),
      (error: Error & { cause?: { code?: string } }) => error.cause?.code,
    )
    expect([413, 'ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET']).toContain(status)
    expect((await at.post('/kept', '{"a":1}', headers)).body).toMatchObject({ bytes: 7 })
  }
})

test('no body is no bytes', async () => {
  const at = await app({})
  expect((await at.post('/kept')).body).toMatchObject({ bytes: 0 })
})

test('a repeat with the same key and other bytes is refused', async () => {
  const at = await app({})
  const key = { 'idempotency-key': 'k', 'content-type': 'application/octet-stream' }
  expect(await at.post('/kept', 'one', key)).toMatchObject({ status: 200 })
  expect((await at.post('/kept', 'one', key)).headers.get('idempotency-replayed')).toBe('true')
  expect(await at.post('/kept', 'two', key)).toMatchObject({ status: 422 })
})

test('without raw, reading ctx.raw is a fault that says what to add', async () => {
  const at = await app({ raw: undefined, input })
  expect(await at.post('/kept', { a: 1 })).toMatchObject({
    status: 500,
    body: { code: 'RAW_NOT_KEPT' },
  })
})

test.each<Partial<AnyRoute>>([{ body: 'ndjson' }, { body: { json: 10, ndjson: 10 } }])(
  'a route that takes lines keeps no bytes: the boot says so, %j',
  async (more) => {
    const booting = createApp({
      plugins: [keeping(more)],
      env: { DATA_DIR: ':memory:' },
      log: () => {},
    })
    await expect(booting).rejects.toThrow(/"raw" is for a route that takes one whole body/)
  },
)
