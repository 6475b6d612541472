import { Readable } from 'node:stream'
import createHttpError from 'http-errors'
import { describe, expect, test } from 'vitest'
import { RuntimeError } from '../../core/errors.ts'
import type { AnyRoute } from '../../core/plugin.ts'
import { edge } from '../support/edge.ts'

const throwing = (error: unknown): AnyRoute => ({
  auth: 'public',
  run: () => {
    throw error
  },
})

describe('an error', () => {
  test('has one shape: the status, the code, the sentence, what to do, the facts, the request', async () => {
    const server = await edge({
      'GET /e': throwing(
        new RuntimeError('CONFLICT', 'The entity "1" exists.', {
          hint: 'Take another did.',
          details: { did: '1' },
          headers: { 'X-Extra': 'yes' },
        }),
      ),
    })
    const answer = await server.call('GET', '/e', { headers: { 'X-Request-Id': 'my.id-1' } })
    expect(answer.json).toEqual({
      statusCode: 409,
      code: 'CONFLICT',
      message: 'The entity "1" exists.',
      hint: 'Take another did.',
      details: { did: '1' },
      requestId: 'my.id-1',
    })
    expect(answer.status).toBe(409)
    expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8')
    expect(answer.headers.get('x-extra')).toBe('yes')
    expect(server.logged).toEqual([])
  })

  test.each<[string, unknown]>([
    ['an Error', new Error('password=1234')],
    ['a string', 'password=1234'],
    ['undefined', undefined],
    ['null', null],
    ['an object', { password: '1234', status: 400, expose: true }],
    [
      'an error of a library with a status',
      Object.assign(new Error('password=1234'), { status: 418 }),
    ],
    [
      'an exposed server error',
      Object.assign(new Error('password=1234'), { status: 500, expose: true }),
    ],
  ])('that nobody knows, %s, is INTERNAL to the caller and whole in the log', async (_, thrown) => {
    const server = await edge({
      'GET /e': throwing(thrown),
      'GET /p': { auth: 'public', run: () => Promise.reject(thrown) },
    })
    for (const path of ['/e', '/p']) {
      const answer = await server.call('GET', path)
      expect(answer.json).toMatchObject({ statusCode: 500, code: 'INTERNAL' })
      expect(answer.text).not.toContain('1234')
      const line = server.logged.at(-1)
      expect(line).toMatchObject({ level: 'error', fields: { requestId: answer.json.requestId } })
      if (thrown !== undefined && thrown !== null) expect(line?.fields.err).toBe(thrown)
    }
  })

  test('of a foreign Koa handler keeps its status and sentence where it may be shown', async () => {
    const server = await edge({
      'GET /a': throwing(createHttpError(404, 'No such page')),
      'GET /b': throwing(createHttpError(418, 'Teapot')),
      'GET /c': { auth: 'public', run: (_, { koa }) => koa.throw(403, 'Not you') },
    })
    expect((await server.call('GET', '/a')).json).toMatchObject({
      code: 'NOT_FOUND',
      message: 'No such page',
    })
    expect((await server.call('GET', '/b')).json).toMatchObject({
      statusCode: 418,
      code: 'BAD_REQUEST',
    })
    expect((await server.call('GET', '/c')).json).toMatchObject({
      statusCode: 403,
      code: 'FORBIDDEN',
    })
  })

  test('of a plugin with a code of its own has its own status, and 500 when that is none', async () => {
    const server = await edge({
      'GET /a': throwing(new RuntimeError('STRATA_OVERLAP', 'They overlap.', { status: 409 })),
      'GET /b': throwing(new RuntimeError('ODD', 'Odd.', { status: 200 })),
      'GET /c': throwing(new RuntimeError('ODD', 'Odd.', { status: 4096 })),
    })
    expect((await server.call('GET', '/a')).json).toMatchObject({
      statusCode: 409,
      code: 'STRATA_OVERLAP',
    })
    expect((await server.call('GET', '/b')).json).toMatchObject({ statusCode: 500, code: 'ODD' })
    expect((await server.call('GET', '/c')).status).toBe(500)
  })

  test('of a database that is away is 503, and its cause stays in the log', async () => {
    const away = Object.assign(new Error('connect ECONNREFUSED 10.0.0.7:5432'), {
      code: 'ECONNREFUSED',
    })
    const server = await edge(
      { 'GET /e': throwing(away) },
      { isUnreachable: (error) => error === away },
    )
    const answer = await server.call('GET', '/e')
    expect(answer.json).toMatchObject({ statusCode: 503, code: 'DATABASE_UNREACHABLE' })
    expect(answer.text).not.toContain('10.0.0.7')
    expect(answer.headers.get('retry-after')).toBe('2')
    // By this code the log knows what it need not say of every request.
    const fields = { err: away, code: 'DATABASE_UNREACHABLE' }
    expect(server.logged).toMatchObject([{ level: 'warn', fields }])
  })

  test('of payment carries its claims beside the code', async () => {
    const details = { claims: ['1'], outstandingClaims: ['1'] }
    const server = await edge({
      'GET /e': throwing(new RuntimeError('PAYMENT_REQUIRED', 'Pay first.', { details })),
    })
    expect((await server.call('GET', '/e')).json).toEqual({
      statusCode: 402,
      code: 'PAYMENT_REQUIRED',
      error: 'Payment Required',
      message: 'Pay first.',
      requestId: expect.any(String),
      ...details,
    })
  })

  test('is told even when its details are no JSON', async () => {
    const details: Record<string, unknown> = { big: 1n }
    details.self = details
    const server = await edge({
      'GET /e': throwing(new RuntimeError('CONFLICT', 'No.', { details })),
    })
    expect((await server.call('GET', '/e')).json).toMatchObject({
      code: 'CONFLICT',
      message: 'No.',
    })
  })

  test('drops what the handler had set for the answer that never came', async () => {
    const server = await edge({
      'GET /e': {
        auth: 'public',
        run: (_, { koa }) => {
          koa.status = 201
          koa.set({
            ETag: '"1"',
            Location: '/x',
            'Cache-Control': 'max-age=9',
            'Content-Type': 'image/png',
          })
          koa.body = 'half'
          throw new RuntimeError('NOT_FOUND', 'It is gone.')
        },
      },
    })
    const answer = await server.call('GET', '/e')
    expect(answer.json.message).toBe('It is gone.')
    expect(answer.headers.get('content-type')).toContain('json')
    for (const name of ['etag', 'location', 'cache-control'])
      expect(answer.headers.get(name)).toBeNull()
    expect(answer.headers.get('access-control-allow-origin')).toBe('*')
  })

  test('of a value that is no JSON is INTERNAL', async () => {
    const circular: Record<string, unknown> = {}
    circular.self = circular
    const server = await edge({
      'GET /circle': { auth: 'public', run: () => circular },
      'GET /bigint': { auth: 'public', run: () => ({ n: 1n }) },
      'GET /function': { auth: 'public', run: () => () => 1 },
    })
    expect((await server.call('GET', '/circle')).json.code).toBe('INTERNAL')
    expect((await server.call('GET', '/bigint')).json.code).toBe('INTERNAL')
    expect((await server.call('GET', '/function')).json).toEqual({})
  })

  test('in the middle of a streamed body cuts the connection, so that the half is not taken for all', async () => {
    const server = await edge({
      'GET /s': {
        auth: 'public',
        run: (_, { koa }) => {
          koa.body = Readable.from(
            (async function* () {
              yield 'half'
              await new Promise((resolve) => setTimeout(resolve, 20))
              throw new Error('disk')
            })(),
          )
        },
      },
    })
    await expect(server.call('GET', '/s')).rejects.toThrow()
    expect(server.logged).toMatchObject([{ level: 'error', fields: { err: { message: 'disk' } } }])
    expect((await server.call('GET', '/nowhere')).status).toBe(404)
  })
})

describe('the request id', () => {
  test.each(['a', 'A.b_c-1', 'x'.repeat(128)])(
    'is the client’s where it is well formed: %s',
    async (id) => {
      const server = await edge({
        'GET /ok': { auth: 'public', run: (_, { requestId }) => requestId },
      })
      const answer = await server.call('GET', '/ok', { headers: { 'X-Request-Id': id } })
      expect(answer.headers.get('x-request-id')).toBe(id)
      expect(answer.json).toBe(id)
    },
  )

  test('is what the handler named it, in the header and in the error', async () => {
    const server = await edge({
      'GET /e': {
        auth: 'public',
        run: (_, { koa }) => {
          koa.set('X-Request-Id', 'run-7')
          throw new RuntimeError('CONFLICT', 'No.')
        },
      },
    })
    const answer = await server.call('GET', '/e')
    expect([answer.headers.get('x-request-id'), answer.json.requestId]).toEqual(['run-7', 'run-7'])
  })

  test.each(['', 'a b', 'x'.repeat(129), 'a,b', '<script>', 'ä'])(
    'is a new one where it is not: %j',
    async (id) => {
      const server = await edge({})
      const answer = await server.call('GET', '/', { headers: { 'X-Request-Id': id } })
      expect(answer.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/)
      expect(answer.json.requestId).toBe(answer.headers.get('x-request-id'))
    },
  )
})
