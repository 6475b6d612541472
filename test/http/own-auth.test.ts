import { createHmac, randomUUID, timingSafeEqual } from 'node:crypto'
import { describe, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { createApp, definePlugin, RuntimeError } from '#core'
import { testApp } from '#core/testing'
import type { AnyRoute, OwnRequest } from '../../core/plugin.ts'
import { onEachDatabase } from '../support/each-database.ts'

const sign = (body: string, at: number) =>
  createHmac('sha256', 'shared words').update(`${at}.${body}`).digest('hex')

/** Signed as webhooks are: over the bytes and the time. */
function verify({ headers, raw }: OwnRequest) {
  const at = Number(headers['x-at'])
  const wanted = Buffer.from(sign(raw().toString(), at))
  const given = Buffer.from(String(headers['x-signature']))
  const isTheirs = given.length === wanted.length && timingSafeEqual(given, wanted)
  if (!isTheirs || Math.abs(Date.now() - at) > 300_000) return undefined
  return { caller: String(headers['x-account'] ?? 'account') }
}

const hook = (more: Partial<AnyRoute> = {}) =>
  definePlugin({
    name: 'hook',
    summary: 'Takes signed posts.',
    routes: {
      'POST /hook': {
        auth: 'own',
        verify,
        raw: true,
        input: z.object({ a: z.coerce.number() }),
        run: (input: unknown, ctx: { caller: string; raw: Buffer; user?: { did: string } }) => ({
          input,
          caller: ctx.caller,
          bytes: ctx.raw.length,
          did: ctx.user?.did ?? null,
        }),
        ...more,
      } as AnyRoute,
    },
  })

async function app(more: Partial<AnyRoute> = {}, env: Record<string, string> = {}) {
  const app = await testApp({ plugins: [hook(more)], env })
  onTestFinished(() => app.close())
  return app
}

const json = { 'content-type': 'application/json' }
const signed = (body: string, at = Date.now()) => ({
  ...json,
  'x-at': String(at),
  'x-signature': sign(body, at),
})

describe("auth: 'own'", () => {
  const body = '{ "a": 1 }'

  test('lets in whom the plugin knows by the bytes, and parses the body', async () => {
    const at = await app()
    const answer = await at.post('/hook', body, signed(body))
    expect(answer).toMatchObject({
      status: 200,
      body: { input: { a: 1 }, caller: 'account', bytes: 10, did: null },
    })
    const form = await at.post('/hook', 'a=2', {
      ...signed('a=2'),
      'content-type': 'application/x-www-form-urlencoded',
    })
    expect(form).toMatchObject({ status: 200, body: { input: { a: 2 } } })
  })

  test.each<[string, Record<string, string>, string]>([
    ['one bit of the body changed', signed(body), '{ "a": 3 }'],
    ['an old time stamp', signed(body, Date.now() - 301_000), body],
    ['no signature', json, body],
  ])('answers 401 to %s, without a word of the input', async (_, headers, sent) => {
    const at = await app()
    const answer = await at.post('/hook', sent, headers)
    expect(answer).toMatchObject({ status: 401, body: { code: 'UNAUTHORIZED' } })
    expect(answer.headers.get('www-authenticate')).toBe('hook-own')
    // What cannot be parsed is not even tried.
    expect(await at.post('/hook', '{', json)).toMatchObject({ status: 401 })
  })

  test('counts forged requests for their address and never against the limit of the route', async () => {
    const at = await app(
      { limit: { max: 2, perMs: 60_000 } },
      { AUTH_FAILURES_PER_MINUTE: '50', RATE_LIMIT_PER_MINUTE: '10' },
    )
    const statuses = new Map<number, number>()
    for (let n = 0; n < 1_000; n++) {
      const { status } = await at.post('/hook', body, json)
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
    }
    expect(Object.fromEntries(statuses)).toEqual({ 401: 50, 429: 950 })
    expect(await at.post('/hook', body, signed(body))).toMatchObject({ status: 200 })
    expect(await at.post('/hook', body, signed(body))).toMatchObject({ status: 200 })
    expect(await at.post('/hook', body, signed(body))).toMatchObject({ status: 429 })
    const other = { ...signed(body), 'x-account': 'another' }
    expect(await at.post('/hook', body, other)).toMatchObject({ status: 200 })
  })

  test.each<[string, number, string, AnyRoute['verify']]>([
    [
      'a refusal of its own',
      403,
      body,
      () => Promise.reject(new RuntimeError('FORBIDDEN', 'It is forged.')),
    ],
    ['a body over the cap', 413, 'x'.repeat(101), verify],
    ['a check that breaks', 500, body, () => Promise.reject(new Error('broken'))],
  ])('counts %s for the address', async (_, status, sent, check) => {
    const at = await app(
      { verify: check, body: { maxBytes: 100 } },
      { AUTH_FAILURES_PER_MINUTE: '3', RATE_LIMIT_PER_MINUTE: '10' },
    )
    for (const wanted of [status, status, status, 429, 429])
      expect(await at.post('/hook', sent, json)).toMatchObject({ status: wanted })
  })

  test('refuses a body over the cap before it asks the plugin', async () => {
    let asked = 0
    const at = await app({ body: { maxBytes: 100 }, verify: () => void asked++ })
    expect(await at.post('/hook', 'x'.repeat(101), json)).toMatchObject({ status: 413 })
    expect(asked).toBe(0)
  })

  test('a user that it names is ctx.user, and may do nothing by that', async () => {
    const { did } = await (await app()).user()
    const at = await app({
      verify: () => ({ caller: 'bridge', user: { did } }),
      run: (_, { user }) => ({
        did: user?.did,
        can: user?.can('hook/write', user.did),
        why: user?.denial('hook/write', user.did),
      }),
    })
    expect((await at.post('/hook', { a: 1 })).body).toMatchObject({
      did,
      can: false,
      why: [expect.stringContaining('without a delegation')],
    })
  })

  test.each([undefined, null, false])('answers 401 where the check returns %s', async (nobody) => {
    const at = await app({ verify: (() => nobody) as AnyRoute['verify'] })
    expect(await at.post('/hook', { a: 1 })).toMatchObject({ status: 401 })
  })

  test.each([null, undefined, 'text'])(
    'a check that throws %s leaves a sentence in the log',
    async (thrown) => {
      const at = await app({ verify: () => Promise.reject(thrown) })
      expect(await at.post('/hook', { a: 1 })).toMatchObject({ status: 500 })
      expect(at.log.join('\n')).toMatch(new RegExp(`err=${thrown}|was thrown: ${thrown}`))
    },
  )

  test.each<[string, () => unknown]>([
    ['throws', () => Promise.reject(new Error('broken'))],
    ['returns a user that is no DID', () => ({ caller: 'a', user: { did: 'somebody' } })],
    ['returns a user that is null', () => ({ caller: 'a', user: null })],
    ['returns no name', () => ({ caller: '' })],
    ['returns a name of 10 kB', () => ({ caller: 'x'.repeat(10_000) })],
    ['returns a name with a NUL in it', () => ({ caller: 'a\0b' })],
    ['returns a name with half a character', () => ({ caller: 'a\ud800' })],
    ['returns something else', () => true],
  ])('a check that %s is a fault of the plugin', async (_, broken) => {
    const at = await app({ verify: broken as AnyRoute['verify'] })
    expect(await at.post('/hook', { a: 1 })).toMatchObject({
      status: 500,
      body: { code: 'INTERNAL' },
    })
  })

  test('a check that never ends is answered after five seconds', async () => {
    const at = await app({ verify: () => new Promise(() => {}) })
    const answer = await at.post('/hook', { a: 1 })
    expect(answer).toMatchObject({ status: 503 })
    expect(answer.headers.get('retry-after')).toBe('5')
  })

  test('checks that hang do not pile up without end', async () => {
    const at = await app(
      { verify: () => new Promise(() => {}) },
      { AUTH_FAILURES_PER_MINUTE: '1000000' },
    )
    const answers = await Promise.all(Array.from({ length: 300 }, () => at.post('/hook', { a: 1 })))
    expect(answers.every(({ status }) => status === 503)).toBe(true)
    const refused = answers.filter(({ body }) => JSON.stringify(body).includes('too many requests'))
    expect(refused).toHaveLength(44)
    expect((await at.get('/health')).status).toBe(200)
  })

  test('/openapi.json names a scheme of the plugin', async () => {
    const at = await app()
    const { body } = await at.get('/openapi.json')
    const document = body as {
      paths: Record<string, { post: { security: unknown } }>
      components: { securitySchemes: Record<string, unknown> }
    }
    expect(document.paths['/hook']?.post.security).toEqual([{ 'hook-own': [] }])
    expect(document.components.securitySchemes['hook-own']).toMatchObject({ type: 'http' })
  })

  test.each<[string, Partial<AnyRoute>]>([
    ['auth "own" needs a "verify"', { verify: undefined }],
    ['"verify" needs auth "own"', { auth: 'public' }],
    ['auth "own" is for one whole body', { body: 'ndjson', raw: undefined }],
    ['and own callers bring none', { can: { can: 'hook/write' } }],
  ])('the boot says: %s', async (sentence, more) => {
    const booting = createApp({
      plugins: [hook(more)],
      env: { DATA_DIR: ':memory:' },
      log: () => {},
    })
    await expect(booting).rejects.toThrow(sentence)
  })
})

await onEachDatabase("auth: 'own' with an Idempotency-Key", ({ databaseUrl }) => {
  test.each([
    ['JSON', '{ "a": 1 }', 'application/json'],
    ['a form', 'a=1', 'application/x-www-form-urlencoded'],
  ])('repeats the answer of a key to %s, for each caller', async (_, body, type) => {
    const at = await app({}, databaseUrl ? { DATABASE_URL: databaseUrl } : {})
    // The suite shares one database, and a second try in this process must not find the answers of the first.
    const key = { 'idempotency-key': randomUUID(), 'content-type': type }
    const first = await at.post('/hook', body, { ...signed(body), ...key })
    expect(first).toMatchObject({ status: 200, body: { input: { a: 1 }, bytes: body.length } })
    const again = await at.post('/hook', body, { ...signed(body), ...key })
    expect(again).toMatchObject({ status: 200, body: first.body })
    expect(again.headers.get('idempotency-replayed')).toBe('true')
    const other = await at.post('/hook', body, { ...signed(body), ...key, 'x-account': 'b' })
    expect(other).toMatchObject({ status: 200, body: { caller: 'b' } })
    expect(other.headers.get('idempotency-replayed')).toBeNull()
    expect(await at.post('/hook', body, { ...json, ...key })).toMatchObject({ status: 401 })
  })
})
