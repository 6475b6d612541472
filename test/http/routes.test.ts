import { describe, expect, test } from 'vitest'
import { type AnyPlugin, createApp, definePlugin, RuntimeError } from '#core'
import type { AnyRoute } from '../../core/plugin.ts'
import { edge, firstOf } from '../support/edge.ts'

const named = (name: string): AnyRoute => ({
  auth: 'public',
  run: (params) => ({ name, params }),
})

const get = (path: string, method = 'GET') =>
  `${method} ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`

describe('a route is found by its method and its raw path', () => {
  test('a literal comes before a parameter, whatever the order of registration', async () => {
    const server = await edge({
      'POST /messages/:sessionId': named('message'),
      'POST /messages/abort': named('abort'),
      'GET /:a/:b': named('anything'),
      'GET /a/:x/c': named('a-x-c'),
      'GET /a/b/:y': named('a-b-y'),
    })
    expect((await server.call('POST', '/messages/abort')).json.name).toBe('abort')
    expect((await server.call('POST', '/messages/7')).json).toEqual({
      name: 'message',
      params: { sessionId: '7' },
    })
    expect((await server.call('GET', '/messages/7')).json.name).toBe('anything')
    expect((await server.call('GET', '/a/b/c')).json.name).toBe('a-b-y')
  })

  test('a literal comes before a parameter among many routes of every length', async () => {
    const names = ['a', 'b', 'c', 'd', 'e', 'f']
    const lengths = (name: string) => [
      `GET /${name}/:x`,
      `GET /${name}`,
      `GET /${name}/:x/one/:y`,
      `GET /${name}/literal`,
      `GET /${name}/:x/one`,
      `GET /${name}/:x/literal/:y`,
      `GET /${name}/:x/one/literal`,
    ]
    const keys = names.flatMap(lengths)
    for (const turned of [keys, keys.toReversed(), keys.toSorted()]) {
      const server = await edge(Object.fromEntries(turned.map((key) => [key, named(key)])))
      for (const name of names) {
        const found = async (path: string) =>
          (await server.call('GET', `/${name}${path}`)).json.name
        expect(await found('/literal')).toBe(`GET /${name}/literal`)
        expect(await found('/other')).toBe(`GET /${name}/:x`)
        expect(await found('/literal/one/literal')).toBe(`GET /${name}/:x/one/literal`)
        expect(await found('/literal/literal/literal')).toBe(`GET /${name}/:x/literal/:y`)
      }
    }
  })

  test('a parameter takes one whole segment: colons, slashes in disguise, spaces, umlauts', async () => {
    const server = await edge({ 'GET /1.0/identifiers/:did': named('did') })
    const did = async (spelling: string) =>
      (await server.call('GET', `/1.0/identifiers/${spelling}`)).json.params?.did
    expect(await did('did:key:z6Mkabc')).toBe('did:key:z6Mkabc')
    expect(await did('did%3Akey%3Az6Mkabc')).toBe('did:key:z6Mkabc')
    expect(await did('did:ixo:entity%2Fdevice-123')).toBe('did:ixo:entity/device-123')
    expect(await did('a%20b%C3%BC')).toBe('a bü')
    expect(await did('a+b')).toBe('a+b')
    expect(await did('.hidden')).toBe('.hidden')
    expect((await server.call('GET', '/1.0/identifiers/a/b')).status).toBe(404)
    expect((await server.call('GET', '/1x0/identifiers/a')).status).toBe(404)
  })

  test('raw bytes above ASCII are no URL', async () => {
    const server = await edge({ 'GET /notes/:id': named('note') })
    for (const spelling of [
      Buffer.from(get('/notes/São')),
      Buffer.from(get('/notes/S\xe3o'), 'latin1'),
    ])
      expect(firstOf(await server.raw(spelling))).toMatchObject({
        status: 400,
        json: { code: 'BAD_REQUEST' },
      })
  })

  test.each([
    ['an invalid percent-encoding', '/notes/%zz', 'BAD_REQUEST'],
    ['a cut percent-encoding', '/notes/%e2%82', 'BAD_REQUEST'],
    ['an overlong encoding of a slash', '/notes/%c0%af', 'BAD_REQUEST'],
    ['half a surrogate pair', '/notes/%ed%a0%80', 'BAD_REQUEST'],
    ['U+0000', '/notes/a%00b', 'UNSAFE_TEXT'],
  ])('%s in a parameter is 400', async (_, path, code) => {
    const server = await edge({ 'GET /notes/:id': named('note') })
    expect(firstOf(await server.raw(get(path)))).toMatchObject({ status: 400, json: { code } })
  })

  test.each([
    '//notes/1',
    '/notes//1',
    '/notes/../notes/1',
    '/notes/./1',
    '/notes/..',
    '/notes/%2e%2e',
    '/notes/.%2E',
    '/x/..%2fnotes/1',
    '/%6eotes/1',
    '/NOTES/1',
    '/notes/1/',
    '/notes/1;a=b/c',
  ])('%s reaches nothing, not even with a good token', async (path) => {
    let runs = 0
    const server = await edge({ 'GET /notes/:id': { run: () => ({ runs: ++runs }) } })
    const authorised = get(path).replace('Host', 'Authorization: Bearer good\r\nHost')
    expect(firstOf(await server.raw(authorised))).toMatchObject({
      status: 404,
      json: { statusCode: 404, code: 'NOT_FOUND' },
    })
    expect(runs).toBe(0)
  })

  test('every spelling that does reach a locked route meets its lock', async () => {
    const server = await edge({ 'GET /secret/:id': { run: () => 'told' } })
    for (const path of ['/secret/1', '/secret/%31', '/secret/1?x=//', '/secret/%2F..%2Fpublic'])
      expect(firstOf(await server.raw(get(path)))).toMatchObject({ status: 401 })
  })

  test('150 routes are found each by its own path', async () => {
    const keys = Array.from({ length: 150 }, (_, n) => `GET /p${n % 7}/:id/t${n}/x`)
    const server = await edge(Object.fromEntries(keys.map((key) => [key, named(key)])))
    for (const [n, key] of keys.entries()) {
      const answer = await server.call('GET', `/p${n % 7}/me/t${n}/x`)
      expect(answer.json).toEqual({ name: key, params: { id: 'me' } })
    }
  })
})

describe('methods', () => {
  test('an unknown path is 404 and a wrong method 405 with Allow', async () => {
    const server = await edge({ 'GET /notes/:id': named('get'), 'PUT /notes/:id': named('put') })
    expect((await server.call('GET', '/nowhere')).json).toMatchObject({ code: 'NOT_FOUND' })
    const wrong = await server.call('DELETE', '/notes/1')
    expect(wrong.status).toBe(405)
    expect(wrong.json.code).toBe('METHOD_NOT_ALLOWED')
    expect(wrong.headers.get('allow')?.split(', ').sort()).toEqual([
      'GET',
      'HEAD',
      'OPTIONS',
      'PUT',
    ])
  })

  test('the methods of one path may come from routes of different shapes', async () => {
    const server = await edge({ 'GET /a/b': named('literal'), 'POST /:x/:y': named('variable') })
    expect((await server.call('POST', '/a/b')).json.name).toBe('variable')
    const allow = (await server.call('PUT', '/a/b')).headers.get('allow')
    expect(allow?.split(', ').sort()).toEqual(['GET', 'HEAD', 'OPTIONS', 'POST'])
  })

  test('HEAD answers like GET, without the body', async () => {
    const server = await edge({ 'GET /notes/:id': named('note') })
    const got = await server.call('GET', '/notes/1')
    const answer = await server.raw(get('/notes/1', 'HEAD'))
    expect(firstOf(answer).status).toBe(200)
    expect(answer.toLowerCase()).toContain(`content-length: ${got.text.length}\r\n`)
    expect(answer.endsWith('\r\n\r\n')).toBe(true)
    expect(firstOf(await server.raw(get('/nowhere', 'HEAD'))).status).toBe(404)
  })

  test('OPTIONS answers everywhere, and says what a path allows', async () => {
    const server = await edge({ 'GET /notes/:id': { run: () => 'locked' } })
    const known = await server.call('OPTIONS', '/notes/1')
    expect(known.status).toBe(204)
    expect(known.headers.get('allow')).toBe('HEAD, GET, OPTIONS')
    const unknown = await server.call('OPTIONS', '/nowhere')
    expect(unknown.status).toBe(204)
    expect(unknown.headers.get('allow')).toBeNull()
    expect(firstOf(await server.raw(get('*', 'OPTIONS'))).status).toBe(204)
  })

  test.each(['TRACE', 'PROPFIND', 'PURGE'])('%s is no method of ours', async (method) => {
    const server = await edge({ 'GET /notes/:id': named('note') })
    expect(firstOf(await server.raw(get('/notes/1', method))).status).toBe(405)
    expect(firstOf(await server.raw(get('/nowhere', method))).status).toBe(404)
  })
})

describe('the boot finds', () => {
  const run = () => 1
  /** What stops the boot of these plugins. */
  async function faultsOf(plugins: readonly AnyPlugin[]): Promise<RuntimeError[]> {
    const env = { DATA_DIR: ':memory:' }
    const app = await createApp({ plugins, env, log: () => undefined }).catch((error) => error)
    if (app instanceof RuntimeError) return (app.details as { faults: RuntimeError[] }).faults
    await app.close()
    return []
  }
  const plugin = (name: string, more: object) => definePlugin({ name, summary: 'Routes.', ...more })
  function faults(...declared: [key: string, owner: string, route?: Partial<AnyRoute>][]) {
    const owners = Map.groupBy(declared, ([, owner]) => owner)
    return faultsOf(
      [...owners].map(([owner, own]) =>
        plugin(owner, {
          routes: Object.fromEntries(own.map(([key, , route]) => [key, { run, ...route }])),
        }),
      ),
    )
  }

  test('two owners of one route, under whatever names, and says both', async () => {
    const [fault, ...rest] = await faults(
      ['GET /a/:x', 'one'],
      ['GET /a/:y', 'two'],
      ['POST /a/:x', 'two'],
    )
    expect(rest).toEqual([])
    expect(fault).toMatchObject({ code: 'ROUTE_CONFLICT', details: { owners: ['one', 'two'] } })
    expect(fault?.message).toContain('one and two both serve "GET /a/:y"')
    expect((await faults(['GET /health', 'two']))[0]?.message).toMatch(/^The kernel and two/)
  })

  test('every fault at once', async () => {
    expect(await faults(['GET a', 'one'], ['FETCH /b', 'two'], ['GET /ok', 'two'])).toHaveLength(2)
  })

  test.each([
    'GET',
    'get /a',
    'HEAD /a',
    'GET a',
    'GET  /a',
    'GET /a/',
    'GET //a',
    'GET /a//b',
    'GET /a/..',
    'GET /a b',
    'GET /a?b',
    'GET /a*',
    'GET /:',
    'GET /:a-b',
    'GET /:x.json',
    'GET /a/:id/:id',
    'GET /:__proto__',
    'GET /:constructor',
    'GET /:1',
    'GET /é',
  ])('the malformed key "%s"', async (key) => {
    const [fault] = await faults([key, 'notes'])
    expect(fault?.code).toBe('ROUTE_INVALID')
    expect(fault?.message).toContain('of notes')
  })

  test.each<[string, string, Partial<AnyRoute>]>([
    ['a limit of nothing', 'GET /a', { limit: { max: 0, perMs: 1000 } }],
    ['a limit per no time', 'GET /a', { limit: { max: 1, perMs: 0 } }],
    ['an origin with a path', 'GET /a', { cors: ['https://example.org/'] }],
    ['a body on a GET', 'GET /a', { body: 'ndjson' }],
    ['a body of no bytes', 'POST /a', { body: { maxBytes: 0 } }],
    ['a capability of nobody', 'POST /a', { auth: 'public', can: { can: 'a/b' } }],
    ['a verb that no plugin has', 'POST /a', { auth: 'bearer', can: { can: 'notes/frobnicate' } }],
    ['a verb of another plugin', 'POST /a', { auth: 'bearer', can: { can: 'a/write' } }],
    [
      'a resource beside a verb',
      'POST /a',
      { auth: 'bearer', can: { can: 'notes/write', with: () => 'did:x:y' } },
    ],
    ['what is one’s own, on a write', 'POST /a', { auth: 'bearer', own: () => true }],
    ['what is one’s own, for everybody', 'GET /a', { auth: 'public', own: () => true }],
    ['what is one’s own, for operators', 'GET /a', { auth: 'operator', own: () => true }],
    ['what is one’s own, where all is', 'GET /a', { own: () => true }],
  ])('%s', async (_, key, route) => {
    expect((await faults([key, 'notes', route]))[0]?.code).toBe('ROUTE_INVALID')
  })

  // As JSON, for the types refuse them: the sentences are for plugins in plain JavaScript.
  test.each([
    [
      '{"auth":"ucann"}',
      '"ucann" is not a kind of auth.',
      `Did you mean "ucan"? It is 'ucan', 'public', 'bearer', 'operator' or 'own'; left out, it is 'ucan'.`,
    ],
    [
      '{"auth":"none"}',
      '"none" is not a kind of auth.',
      `It is 'ucan', 'public', 'bearer', 'operator' or 'own'; left out, it is 'ucan'.`,
    ],
    ['{"auth":"own"}', 'auth "own" needs a "verify".', 'Write verify: (request, ctx) => '],
    ['{"can":"a/read"}', 'it has a "can" of "a/read".', 'It is an object: can: { can: "a/read" }.'],
    ['{"can":{}}', 'it has a "can" of {}.', 'It is an object: can: { can: "notes/read" }.'],
  ])('%s, with what to write instead', async (json, sentence, hint) => {
    const [fault, ...more] = await faults(['GET /a', 'notes', JSON.parse(json)])
    expect(more).toEqual([])
    expect(fault?.code).toBe('ROUTE_INVALID')
    expect(fault?.message).toBe(`The route "GET /a" of notes is malformed: ${sentence}`)
    expect(fault?.hint).toContain(hint)
  })

  test('mounts that are malformed or claimed twice', async () => {
    const found = await faultsOf([
      plugin('one', { web: { '/page': run, '/': run } }),
      plugin('two', { web: { '/page': run } }),
      plugin('three', { web: { '/x/': run, '/:x': run } }),
    ])
    expect(found.map(({ code }) => code)).toEqual([
      'ROUTE_CONFLICT',
      'ROUTE_INVALID',
      'ROUTE_INVALID',
    ])
    expect(found[0]?.message).toContain('one and two')
  })
})
