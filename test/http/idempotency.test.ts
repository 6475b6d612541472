import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { RuntimeError } from '../../core/errors.ts'
import { created, text } from '#core'
import type { AnyRoute, Database } from '../../core/plugin.ts'
import {
  type TestDatabase,
  postgresDatabase,
  sqliteDatabase,
  withIdempotencyTable,
} from '../support/databases.ts'
import { edge, json } from '../support/edge.ts'
import { describeWith } from '../support/services.ts'

const input = z.object({ name: z.string(), id: z.string().optional() })

function suite(makeDatabase: () => TestDatabase | Promise<TestDatabase>) {
  let database: TestDatabase
  let db: Database
  beforeAll(async () => {
    database = await makeDatabase()
    db = await withIdempotencyTable(await database.open())
  })
  afterAll(() => database.drop())

  let keys = 0
  const newKey = () => `key-${++keys}`
  const keyed = (key: string, body: unknown = { name: 'a' }) =>
    json(body, { 'Idempotency-Key': key })

  /** A route that counts its runs. */
  function counting(
    run: (runs: number, koa: { set(name: string, value: string): void }) => unknown,
  ) {
    const counted = { runs: 0, route: undefined as unknown as AnyRoute }
    counted.route = { auth: 'public', input, run: (_, { koa }) => run(++counted.runs, koa) }
    return counted
  }

  test('the same request again has the same answer, and runs once', async () => {
    const notes = counting((n, koa) => {
      koa.set('ETag', '"1"')
      return created(`/notes/${n}`, { n })
    })
    const server = await edge({ 'POST /notes': notes.route }, { db })
    const key = newKey()
    const first = await server.call('POST', '/notes', keyed(key))
    const again = await server.call('POST', '/notes', keyed(key))
    expect(notes.runs).toBe(1)
    expect(again).toMatchObject({ status: 201, text: first.text })
    for (const name of ['location', 'etag', 'content-type'])
      expect(again.headers.get(name)).toBe(first.headers.get(name))
    expect(first.headers.get('idempotency-replayed')).toBeNull()
    expect(again.headers.get('idempotency-replayed')).toBe('true')
    expect(again.headers.get('x-request-id')).not.toBe(first.headers.get('x-request-id'))
    await server.call('POST', '/notes', keyed(newKey()))
    await server.call('POST', '/notes', json({ name: 'a' }))
    expect(notes.runs).toBe(3)
  })

  test('another request under the key is 422: another body, another path, another query', async () => {
    const notes = counting((n) => ({ n }))
    const routes = { 'PUT /notes/:id': notes.route, 'DELETE /notes/:id': notes.route }
    const server = await edge(routes, { db })
    const key = newKey()
    expect((await server.call('PUT', '/notes/1', keyed(key))).status).toBe(200)
    for (const call of [
      server.call('PUT', '/notes/1', keyed(key, { name: 'b' })),
      server.call('PUT', '/notes/2', keyed(key)),
      server.call('PUT', '/notes/1?x=1', keyed(key)),
    ])
      expect((await call).json).toMatchObject({ statusCode: 422, code: 'IDEMPOTENCY_MISMATCH' })
    const headers = { 'Idempotency-Key': key }
    expect((await server.call('DELETE', '/notes/1?name=a', { headers })).json).toEqual({ n: 2 })
    expect((await server.call('DELETE', '/notes/1?name=a', { headers })).json).toEqual({ n: 2 })
    expect((await server.call('DELETE', '/notes/2?name=a', { headers })).status).toBe(422)
  })

  describe('over a body that streams in', () => {
    const lines = (key: string, body: string) => ({
      body,
      headers: { 'Content-Type': 'application/x-ndjson', 'Idempotency-Key': key },
    })
    const taking = (most: number, run = () => Promise.resolve()) => {
      const counted = { runs: 0, route: undefined as unknown as AnyRoute }
      counted.route = {
        auth: 'public',
        body: 'ndjson',
        async run(_, { lines }) {
          counted.runs++
          await run()
          let read = 0
          for await (const { value, fault } of lines) {
            if (fault) throw new RuntimeError('INVALID_JSON', fault.message)
            if (value === 'bad') throw new RuntimeError('BAD_REQUEST', 'This is bad.')
            if (++read === most) break
          }
          return { runs: counted.runs, read }
        },
      }
      return counted
    }

    test('the same bytes have the same answer, and run once; other bytes are 422', async () => {
      const upload = taking(Infinity)
      const server = await edge({ 'POST /b': upload.route }, { db })
      const key = newKey()
      const body = '{"n":1}\n'.repeat(100_000)
      const first = await server.call('POST', '/b', lines(key, body))
      expect(first.json).toEqual({ runs: 1, read: 100_000 })
      const again = await server.call('POST', '/b', lines(key, body))
      expect(again.json).toEqual(first.json)
      expect(again.headers.get('idempotency-replayed')).toBe('true')
      for (const other of [
        body.replace('1', '2'),
        `${body}1`,
        body.slice(0, -1),
        body.slice(0, 100),
        '',
      ])
        expect((await server.call('POST', '/b', lines(key, other))).json.code).toBe(
          'IDEMPOTENCY_MISMATCH',
        )
      expect((await server.call('POST', '/b?x=1', lines(key, body))).status).toBe(422)
      expect(upload.runs).toBe(1)
      expect((await server.call('POST', '/b', lines(newKey(), body))).json.runs).toBe(2)
    })

    test('a refusal is repeated, whatever comes behind what was read', async () => {
      const upload = taking(Infinity)
      const server = await edge({ 'POST /b': upload.route }, { db })
      const key = newKey()
      const body = '1\n"bad"\n'
      expect((await server.call('POST', '/b', lines(key, body))).status).toBe(400)
      expect((await server.call('POST', '/b', lines(key, body))).status).toBe(400)
      expect((await server.call('POST', '/b', lines(key, '2\n"bad"\n'))).status).toBe(422)
      expect(upload.runs).toBe(1)

      const some = taking(1)
      const other = await edge({ 'POST /b': some.route }, { db })
      const long = '1\n'.repeat(1_000_000)
      const early = newKey()
      expect((await other.call('POST', '/b', lines(early, long))).json).toEqual({
        runs: 1,
        read: 1,
      })
      expect((await other.call('POST', '/b', lines(early, long))).json).toEqual({
        runs: 1,
        read: 1,
      })
      expect((await other.call('POST', '/b', lines(early, '1\n'))).status).toBe(422)
    })

    test('while the first one runs a repeat is 409, whatever it brings', async () => {
      let release = () => undefined as void
      const held = new Promise<void>((resolve) => (release = resolve))
      const upload = taking(Infinity, () => held)
      const server = await edge({ 'POST /b': upload.route }, { db })
      const key = newKey()
      const first = server.call('POST', '/b', lines(key, '1\n2'))
      while (upload.runs === 0) await sleep(5)
      for (const body of ['1\n2', '3'])
        expect((await server.call('POST', '/b', lines(key, body))).json.code).toBe(
          'IDEMPOTENCY_IN_PROGRESS',
        )
      release()
      expect((await first).json).toEqual({ runs: 1, read: 2 })
      expect((await server.call('POST', '/b', lines(key, '1\n2'))).json).toEqual({
        runs: 1,
        read: 2,
      })
    })
  })

  test('a key belongs to its caller', async () => {
    const notes = counting((n) => ({ n }))
    const locked = { 'POST /notes': { ...notes.route, auth: 'bearer' as const } }
    const server = await edge(locked, { db })
    const key = newKey()
    const as = (token: string) => ({
      ...json({ name: 'a' }, { 'Idempotency-Key': key, Authorization: `Bearer ${token}` }),
    })
    expect((await server.call('POST', '/notes', as('good'))).json).toEqual({ n: 1 })
    expect((await server.call('POST', '/notes', as('key'))).json).toEqual({ n: 2 })
    expect((await server.call('POST', '/notes', as('good'))).json).toEqual({ n: 1 })
    expect((await server.call('POST', '/notes', as('bad'))).status).toBe(401)
  })

  test('while the first one runs, a repeat is 409 and is told when to come back', async () => {
    let finish = (_: unknown) => undefined as void
    const held = new Promise((resolve) => (finish = resolve))
    const notes = counting(async (n) => (await held, { n }))
    const server = await edge({ 'POST /notes': notes.route }, { db })
    const key = newKey()
    const first = server.call('POST', '/notes', keyed(key))
    while (notes.runs === 0) await sleep(2)
    const early = await server.call('POST', '/notes', keyed(key))
    expect(early.json).toMatchObject({ statusCode: 409, code: 'IDEMPOTENCY_IN_PROGRESS' })
    expect(early.headers.get('retry-after')).toBe('1')
    expect((await server.call('POST', '/notes', keyed(key, { name: 'b' }))).status).toBe(422)
    finish(undefined)
    expect((await first).json).toEqual({ n: 1 })
    expect((await server.call('POST', '/notes', keyed(key))).json).toEqual({ n: 1 })
  })

  test('of many at once on two replicas one runs', async () => {
    const notes = counting(async (n) => (await sleep(20), { n }))
    const replicas = [
      await edge({ 'POST /notes': notes.route }, { db }),
      await edge({ 'POST /notes': notes.route }, { db: (await database.open()).db }),
    ]
    const key = newKey()
    const calls = Array.from({ length: 20 }, (_, n) =>
      replicas[n % 2]?.call('POST', '/notes', keyed(key)),
    )
    const answers = await Promise.all(calls)
    expect(notes.runs).toBe(1)
    expect(answers.filter((answer) => answer?.status === 200).length).toBeGreaterThanOrEqual(1)
    expect(answers.every((answer) => answer?.status === 200 || answer?.status === 409)).toBe(true)
    for (const replica of replicas)
      expect((await replica.call('POST', '/notes', keyed(key))).json).toEqual({ n: 1 })
  })

  test.each<[string, boolean, () => unknown]>([
    [
      'a conflict is kept',
      true,
      () => {
        throw new RuntimeError('CONFLICT', 'It exists.')
      },
    ],
    [
      'a fault of ours is not',
      false,
      () => {
        throw new Error('disk')
      },
    ],
    [
      'an upstream that is away is not',
      false,
      () => {
        throw new RuntimeError('UPSTREAM_FAILED', 'Away.')
      },
    ],
    [
      'a limit is not',
      false,
      () => {
        throw new RuntimeError('RATE_LIMITED', 'Slow down.')
      },
    ],
    ['text is kept', true, () => text('CON Welcome')],
    ['text that says 503 is not', false, () => text('later', 503)],
    ['a value that is no JSON is not', false, () => ({ n: 1n })],
    [
      'a stream is not',
      false,
      () =>
        (async function* () {
          yield 1
        })(),
    ],
  ])('of the outcomes, %s', async (_, kept, outcome) => {
    const notes = counting(outcome)
    const server = await edge({ 'POST /notes': notes.route }, { db })
    const key = newKey()
    const first = await server.call('POST', '/notes', keyed(key))
    const again = await server.call('POST', '/notes', keyed(key))
    expect(notes.runs).toBe(kept ? 1 : 2)
    expect(again.status).toBe(first.status)
    if (kept) expect(again.text).toBe(first.text)
    expect(again.headers.get('content-type')).toBe(first.headers.get('content-type'))
  })

  test('a request that never ran does not use up its key', async () => {
    const notes = counting((n) => ({ n }))
    const server = await edge({ 'POST /notes': notes.route }, { db })
    const key = newKey()
    expect((await server.call('POST', '/notes', keyed(key, { name: 1 }))).status).toBe(400)
    expect((await server.call('POST', '/notes', keyed(key))).json).toEqual({ n: 1 })
  })

  test.each(['', 'x'.repeat(256), 'a\tb', 'ä'])('the key %j is 400', async (key) => {
    const notes = counting((n) => ({ n }))
    const server = await edge(
      { 'POST /notes': notes.route, 'GET /notes': { auth: 'public', run: () => 1 } },
      { db },
    )
    expect((await server.call('POST', '/notes', keyed(key))).json).toMatchObject({
      statusCode: 400,
      code: 'BAD_REQUEST',
    })
    expect(notes.runs).toBe(0)
    expect(
      (await server.call('GET', '/notes', { headers: { 'Idempotency-Key': key } })).status,
    ).toBe(200)
  })
}

describe('an Idempotency-Key in SQLite', () => suite(sqliteDatabase))
await describeWith('postgres', 'an Idempotency-Key in PostgreSQL', (url) =>
  suite(() => postgresDatabase(url)),
)

describe('a database that is away', () => {
  test('refuses a keyed request before it runs, and spares the others', async () => {
    const database = await sqliteDatabase()
    onTestFinished(() => database.drop())
    let runs = 0
    const server = await edge(
      { 'POST /notes': { auth: 'public', input, run: () => ({ runs: ++runs }) } },
      // No migration ran, so every statement fails.
      { db: (await database.open()).db, isUnreachable: () => true },
    )
    const keyed = json({ name: 'a' }, { 'Idempotency-Key': 'k' })
    expect((await server.call('POST', '/notes', keyed)).json).toMatchObject({
      statusCode: 503,
      code: 'DATABASE_UNREACHABLE',
    })
    expect((await server.call('POST', '/notes', json({ name: 'a' }))).json).toEqual({ runs: 1 })
  })

  test('does not cost the client an answer that is made', async () => {
    const database = await sqliteDatabase()
    onTestFinished(() => database.drop())
    const db = await withIdempotencyTable(await database.open())
    const server = await edge(
      {
        'POST /notes': {
          auth: 'public',
          input,
          run: async () => (await db.schema.dropTable('kernel_idempotency').execute(), 'done'),
        },
      },
      { db },
    )
    const keyed = json({ name: 'a' }, { 'Idempotency-Key': 'k' })
    expect((await server.call('POST', '/notes', keyed)).json).toBe('done')
    expect(server.logged).toMatchObject([
      { level: 'error', message: 'idempotent outcome not stored' },
    ])
  })
})
