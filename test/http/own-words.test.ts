import { expect, test } from 'vitest'
import { z } from 'zod'
import { RuntimeError } from '../../core/errors.ts'
import type { AnyRoute, ToldError } from '../../core/plugin.ts'
import { definePlugin, text } from '#core'
import { testApp } from '#core/testing'
import { edge } from '../support/edge.ts'

const json = { 'content-type': 'application/json' }

const failing = (run: AnyRoute['run']): AnyRoute => ({
  auth: 'public',
  input: z.object({ name: z.string() }),
  onInvalid: () => text('NO not like this'),
  onFault: ({ code }) => text(`NO our fault ${code}`),
  run,
})
const named = { headers: json, body: '{"name":"a"}' }

test('a route says a fault of ours in its own words, and the log has it', async () => {
  const server = await edge({
    'POST /a': failing(() => {
      throw new Error('the disk is full')
    }),
    'POST /b': failing(() => {
      throw new RuntimeError('DATABASE_UNREACHABLE', 'The database does not answer.')
    }),
  })
  const broken = await server.call('POST', '/a', named)
  expect(broken).toMatchObject({ status: 200, text: 'NO our fault INTERNAL' })
  expect(broken.headers.get('content-type')).toMatch(/^text\/plain/)
  expect(await server.call('POST', '/b', named)).toMatchObject({
    status: 200,
    text: 'NO our fault DATABASE_UNREACHABLE',
  })
  expect(JSON.stringify(server.logged.map(({ message }) => message))).toContain('a request failed')
})

test('what the caller did wrong keeps its own answer', async () => {
  const server = await edge({
    'POST /a': failing(() => {
      throw new RuntimeError('NOT_FOUND', 'There is no such thing.')
    }),
  })
  expect((await server.call('POST', '/a', named)).status).toBe(404)
  expect(await server.call('POST', '/a', { headers: json, body: '{"name":7}' })).toMatchObject({
    status: 200,
    text: 'NO not like this',
  })
})

test('a limit counts by what the route reads from the body, else by the address', async () => {
  const by: NonNullable<AnyRoute['limit']>['by'] = async (_, body) => {
    const value = await body().catch(() => undefined)
    return (value as { name?: string } | undefined)?.name
  }
  const server = await edge({
    'POST /a': { ...failing(() => text('OK')), limit: { max: 2, perMs: 60_000, by } },
  })
  const statuses = async (body: string, count: number) => {
    const found = []
    for (let call = 0; call < count; call++)
      found.push((await server.call('POST', '/a', { headers: json, body })).status)
    return found
  }
  expect(await statuses('{"name":"amina"}', 3)).toEqual([200, 200, 429])
  expect(await statuses('{"name":"brian"}', 3)).toEqual([200, 200, 429])
  // Named like an address, still not counted with it.
  expect(await statuses('{"name":"127.0.0.1"}', 2)).toEqual([200, 200])
  expect(await statuses('not json', 3)).toEqual([200, 200, 429])
})

test.each<[string, Record<string, string>, string]>([
  ['JSON', json, '{"name":"amina"}'],
  ['a form', { 'content-type': 'application/x-www-form-urlencoded' }, 'name=amina'],
])(
  'an input as %s that a limit counts by is checked by its schema once',
  async (_, headers, body) => {
    let checks = 0
    const seen: unknown[] = []
    const input = z
      .object({ name: z.string() })
      .transform((value) => ({ ...value, check: ++checks }))
    const by: NonNullable<AnyRoute['limit']>['by'] = async (_, read) => {
      seen.push(await read(), await read())
      return 'amina'
    }
    const server = await edge({
      'POST /a': {
        auth: 'public',
        input,
        limit: { max: 9, perMs: 60_000, by },
        run: (value) => (seen.push(value), text('OK')),
      },
    })
    expect(await server.call('POST', '/a', { headers, body })).toMatchObject({ status: 200 })
    expect(checks).toBe(1)
    // The limit and the route have the very same value.
    expect(seen).toEqual([
      { name: 'amina', check: 1 },
      { name: 'amina', check: 1 },
      { name: 'amina', check: 1 },
    ])
  },
)

const inWords = ({ status, code, message }: ToldError) => ({ error: { status, code, message } })

test('a route tells every refusal in the words of its protocol, with the status and the headers', async () => {
  const server = await edge({
    'POST /a': {
      auth: 'public',
      input: z.object({ name: z.string() }),
      limit: { max: 3, perMs: 60_000 },
      onError: inWords,
      run: () => {
        throw new RuntimeError('PAYMENT_REQUIRED', 'Pay first.')
      },
    },
    'GET /mine': { auth: 'ucan', onError: inWords, run: () => ({}) },
  })
  const told = async (method: 'GET' | 'POST', path: string, body = '') => {
    const { status, text: said, headers } = await server.call(method, path, { headers: json, body })
    return { status, headers, body: JSON.parse(said) }
  }
  expect(await told('POST', '/a', '{"name":7}')).toMatchObject({
    status: 400,
    body: { error: { status: 400, code: 'INVALID_INPUT' } },
  })
  expect(await told('POST', '/a', '{"name":')).toMatchObject({ status: 400 })
  expect(await told('POST', '/a', '{"name":"a"}')).toMatchObject({
    status: 402,
    body: { error: { code: 'PAYMENT_REQUIRED', message: 'Pay first.' } },
  })
  const limited = await told('POST', '/a', '{"name":"a"}')
  expect(limited).toMatchObject({ status: 429, body: { error: { code: 'RATE_LIMITED' } } })
  expect(Number(limited.headers.get('retry-after'))).toBeGreaterThan(0)
})

test('what is kept for repeats is told in the same words', async () => {
  const server = await edge({
    'POST /a': {
      auth: 'public',
      onError: inWords,
      run: () => {
        throw new RuntimeError('NOT_FOUND', 'There is no such thing.')
      },
    },
  })
  const headers = { ...json, 'idempotency-key': 'once' }
  const first = await server.call('POST', '/a', { headers, body: '{}' })
  const again = await server.call('POST', '/a', { headers, body: '{}' })
  expect(JSON.parse(first.text)).toMatchObject({ error: { code: 'NOT_FOUND' } })
  expect(again.text).toBe(first.text)
})

test('a plugin tells the errors of everything below an address, unknown routes too', async () => {
  const words = definePlugin({
    name: 'words',
    summary: 'Says errors in words of its own.',
    errors: { '/words/v1': inWords, '/words/v1/deep': () => ({ deep: true }) },
    routes: {
      'GET /words/v1/mine': { run: () => ({}) },
      'GET /words/v1/broken': {
        auth: 'public',
        run: () => {
          throw new Error('secret cause')
        },
      },
    },
  })
  await using app = await testApp({ plugins: [words] })
  const told = async (path: string) => {
    const answer = await fetch(`${app.url}${path}`)
    return { status: answer.status, body: await answer.json() }
  }
  const unauthorized = { status: 401, body: { error: { status: 401, code: 'UNAUTHORIZED' } } }
  expect(await told('/words/v1/mine')).toMatchObject(unauthorized)
  expect(await told('/words/v1/nothing')).toMatchObject({
    status: 404,
    body: { error: { code: 'NOT_FOUND' } },
  })
  expect(await told('/words/v1/deep/er')).toEqual({ status: 404, body: { deep: true } })
  expect(JSON.stringify(await told('/words/v1/broken'))).not.toContain('secret')
  // Another address that begins with the same letters is nobody's.
  expect(await told('/words/v10')).toMatchObject({ body: { statusCode: 404, code: 'NOT_FOUND' } })
})

test('an address without a function is a fault of the boot', async () => {
  const wrong = definePlugin({
    name: 'wrong',
    summary: 'Has a word where a function should be.',
    errors: { '/wrong': 'text' as never },
  })
  await expect(testApp({ plugins: [wrong] })).rejects.toThrow(/the address "\/wrong" is a text/)
})
