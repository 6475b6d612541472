import { Readable } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { AnyRoute } from '../../core/plugin.ts'
import { created, matchesEtag, text } from '#core'
import { edge, fakeUser, json } from '../support/edge.ts'

const answering = (run: AnyRoute['run'], more: Partial<AnyRoute> = {}): AnyRoute => ({
  auth: 'public',
  run,
  ...more,
})

describe('what a handler returns', () => {
  test.each<[string, unknown, unknown]>([
    ['an object', { a: 1 }, { a: 1 }],
    ['a list', [1, 2], [1, 2]],
    ['a string', 'hello', 'hello'],
    ['a number', 0, 0],
    ['false', false, false],
    ['null', null, null],
    ['nothing', undefined, {}],
    ['a date', new Date(0), '1970-01-01T00:00:00.000Z'],
    ['half of an emoji', { ['a\ud83c']: '\ud83c' }, { 'a\ufffd': '\ufffd' }],
    ['a map, which JSON cannot show', new Map([[1, 2]]), {}],
  ])('is JSON with 200: %s', async (_, value, body) => {
    const server = await edge({
      'GET /v': answering(() => value),
      'GET /p': answering(async () => value),
    })
    for (const path of ['/v', '/p']) {
      const answer = await server.call('GET', path)
      expect(answer.status).toBe(200)
      expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8')
      expect(answer.json).toEqual(body)
      expect(answer.headers.get('x-content-type-options')).toBe('nosniff')
    }
  })

  test('text() is plain text with its status', async () => {
    const server = await edge({
      'POST /a': answering(() => text('CON Wählen')),
      'POST /b': answering(() => text('no', 503)),
    })
    const a = await server.call('POST', '/a')
    expect(a.text).toBe('CON Wählen')
    expect(a.headers.get('content-type')).toBe('text/plain; charset=utf-8')
    expect(await server.call('POST', '/b')).toMatchObject({ status: 503, text: 'no' })
  })

  test('created() is 201 with a Location that fits a header', async () => {
    const server = await edge({
      'POST /a': answering(() => created('/v1/entities/did:ixo:entity%2F1', { did: 1 })),
      'POST /b': answering(() => created('/notes/żółw\r\nX-Evil: 1', undefined)),
    })
    const a = await server.call('POST', '/a')
    expect(a).toMatchObject({ status: 201, json: { did: 1 } })
    expect(a.headers.get('location')).toBe('/v1/entities/did:ixo:entity%2F1')
    const b = await server.call('POST', '/b')
    expect(b.headers.get('location')).toBe('/notes/%C5%BC%C3%B3%C5%82w%0D%0AX-Evil:%201')
    expect(b.headers.get('x-evil')).toBeNull()
    expect(b.json).toEqual({})
  })

  test('keeps the status, headers and type that the handler set', async () => {
    const server = await edge({
      'POST /later': answering((_, { koa }) => {
        koa.status = 202
        koa.set('X-Run-Id', '7')
        koa.type = 'application/did-resolution'
        return { a: 1 }
      }),
      'DELETE /gone': answering((_, { koa }) => {
        koa.status = 204
      }),
    })
    const later = await server.call('POST', '/later')
    expect(later).toMatchObject({ status: 202, json: { a: 1 } })
    expect(later.headers.get('x-run-id')).toBe('7')
    expect(later.headers.get('content-type')).toContain('application/did-resolution')
    expect(await server.call('DELETE', '/gone')).toMatchObject({ status: 204, text: '' })
  })

  test('is left to Koa where the handler set a body: text, bytes, a stream', async () => {
    const server = await edge({
      'GET /html': answering((_, { koa }) => {
        koa.body = '<b>hi</b>'
      }),
      'GET /bytes': answering((_, { koa }) => {
        koa.type = 'image/png'
        koa.body = Buffer.from([1, 2, 3])
      }),
      'GET /stream': answering((_, { koa }) => {
        koa.type = 'application/x-ndjson'
        koa.body = Readable.from(['{"a":1}\n', '{"a":2}\n'])
      }),
      'GET /returned': answering(() => Readable.from(['a', 'b'])),
      'GET /web': answering(() => new Blob(['ab']).stream()),
      'GET /blob': answering(() => new Blob(['ab'])),
      'GET /buffer': answering(() => Buffer.from('ab')),
      'GET /moved': answering((_, { koa }) => koa.redirect('/html')),
      'GET /raw': answering((_, { koa }) => {
        koa.respond = false
        koa.res.end('raw')
      }),
    })
    expect((await server.call('GET', '/html')).text).toBe('<b>hi</b>')
    expect((await server.call('GET', '/bytes')).headers.get('content-type')).toBe('image/png')
    expect((await server.call('GET', '/stream')).text).toBe('{"a":1}\n{"a":2}\n')
    for (const path of ['/returned', '/web', '/blob', '/buffer'])
      expect((await server.call('GET', path)).text).toBe('ab')
    expect((await server.call('GET', '/raw')).text).toBe('raw')
    const moved = await server.call('GET', '/moved', { redirect: 'manual' })
    expect(moved.status).toBe(302)
    for (const path of ['/html', '/stream', '/raw'])
      expect((await server.call('GET', path)).headers.get('x-request-id')).toBeTruthy()
  })

  test('passes through the output schema, and a mismatch is ours, not the caller’s', async () => {
    const output = z.object({ temp: z.number() })
    const server = await edge({
      'GET /good': answering(() => ({ temp: 1, secret: 'x' }), { output }),
      'POST /made': answering(() => created('/1', { temp: 2, secret: 'x' }), { output }),
      'GET /bad': answering(() => ({ temp: 'hot, secret' }), { output }),
    })
    expect((await server.call('GET', '/good')).json).toEqual({ temp: 1 })
    expect(await server.call('POST', '/made')).toMatchObject({ status: 201, json: { temp: 2 } })
    const bad = await server.call('GET', '/bad')
    expect(bad.json).toMatchObject({ statusCode: 500, code: 'INTERNAL' })
    expect(bad.text).not.toContain('temp')
    expect(server.logged.at(-1)).toMatchObject({
      level: 'error',
      fields: { err: { faults: [{ path: 'temp' }] } },
    })
  })
})

describe('the context of a handler', () => {
  test('names the caller, and holds the user of a ucan route', async () => {
    const seen = (
      _: unknown,
      { caller, user, requestId }: { caller: string; user: unknown; requestId: string },
    ) => ({
      caller,
      user: user !== undefined,
      requestId,
    })
    const server = await edge({
      'GET /public': answering(seen),
      'GET /ucan': { run: seen },
      'GET /bearer': { auth: 'bearer', run: seen },
    })
    const as = (token: string) => ({
      headers: { Authorization: `Bearer ${token}`, 'X-Request-Id': 'r-1' },
    })
    expect((await server.call('GET', '/public', as('good'))).json).toEqual({
      caller: '127.0.0.1',
      user: false,
      requestId: 'r-1',
    })
    expect((await server.call('GET', '/ucan', as('good'))).json).toMatchObject({
      caller: fakeUser.did,
      user: true,
    })
    expect((await server.call('GET', '/bearer', as('key'))).json.caller).toBe('api-key')
    expect((await server.call('GET', '/ucan', as('bad'))).json).toMatchObject({
      code: 'UNAUTHORIZED',
    })
  })

  test('is refused to a user without the capability, with the causes', async () => {
    const server = await edge({
      'GET /read': { can: { can: 'notes/read' }, run: () => 'read' },
      'POST /write/:id': {
        can: { can: 'notes/write', with: (input) => `note:${(input as { id: string }).id}` },
        run: () => 'written',
      },
    })
    const as = (token: string) => ({ headers: { Authorization: `Bearer ${token}` } })
    expect((await server.call('GET', '/read', as('good'))).json).toBe('read')
    expect((await server.call('POST', '/write/1', as('good'))).json).toMatchObject({
      statusCode: 403,
      code: 'FORBIDDEN',
      details: { causes: ['no delegation grants notes/write'] },
    })
    expect((await server.call('POST', '/write/1', as('key'))).json).toBe('written')
  })

  test('has a signal that fires when the client leaves, and not when it is answered', async () => {
    const signals: AbortSignal[] = []
    const server = await edge({
      'GET /quick': answering((_, { signal }) => (signals.push(signal), 'done')),
      'GET /slow': answering(
        (_, { signal }) =>
          new Promise((_, reject) => {
            signals.push(signal)
            signal.addEventListener('abort', () => reject(signal.reason))
          }),
      ),
    })
    await server.call('GET', '/quick')
    const leaving = new AbortController()
    const slow = server.call('GET', '/slow', { signal: leaving.signal })
    while (signals.length < 2) await new Promise(setImmediate)
    leaving.abort()
    await expect(slow).rejects.toThrow()
    await new Promise((resolve) => signals[1]?.addEventListener('abort', resolve, { once: true }))
    expect(signals.map(({ aborted }) => aborted)).toEqual([false, true])
    while (server.logged.length === 0) await new Promise(setImmediate)
    expect(server.logged.map(({ level }) => level)).toEqual(['debug'])
  })
})

describe('ETags', () => {
  const tagged = (etag: string) =>
    answering((_, { koa }) => {
      koa.set('ETag', etag)
      return { a: 1 }
    })

  test.each([
    ['"1"', '"1"', 304],
    ['"1"', 'W/"1"', 304],
    ['W/"1"', '"1"', 304],
    ['"1"', '"0", "1" , "2"', 304],
    ['"1"', '*', 304],
    ['"a,b"', '"x", "a,b"', 304],
    ['"1"', '"2"', 200],
    ['"1"', '1', 200],
    ['"1"', '', 200],
  ])('%s against If-None-Match %j is %i', async (etag, header, status) => {
    const server = await edge({ 'GET /t': tagged(etag), 'POST /t': tagged(etag) })
    const headers = { 'If-None-Match': header }
    const answer = await server.call('GET', '/t', { headers })
    expect(answer.status).toBe(status)
    expect(answer.headers.get('etag')).toBe(etag)
    expect(answer.text).toBe(status === 304 ? '' : '{"a":1}')
    expect((await server.call('HEAD', '/t', { headers })).status).toBe(status)
    expect((await server.call('POST', '/t', { ...json({}), headers })).status).toBe(200)
  })

  test.each([
    ['"1"', '"1"', true],
    ['"0","1"', '"1"', true],
    [' * ', '"1"', true],
    ['W/"1"', '"1"', false],
    ['"1"', 'W/"1"', false],
    ['*', undefined, false],
    ['"2"', '"1"', false],
    ['1', '"1"', false],
    ['"a", "b,c"', '"b,c"', true],
    ['', '"1"', false],
  ])('If-Match %j against %j is %s', (header, etag, matches) => {
    expect(matchesEtag(header, etag)).toBe(matches)
  })
})
