import { readFileSync } from 'node:fs'
import { request } from 'node:http'
import { toJson, type JsonObject, type Message } from '@bufbuild/protobuf'
import * as grpc from '@grpc/grpc-js'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { testApp, type TestApp } from '#core/testing'
import { readDescriptorSet, registryOf } from '../descriptors/descriptors.ts'
import gateway from '../index.ts'
import { serveFiles, type Handler } from '../fixtures/ledger.ts'

// Tests every rule of google/api/http.proto over HTTP, with a real gRPC server that echoes its requests.
const file = new URL('../fixtures/rules.binpb', import.meta.url).pathname
const files = readDescriptorSet(readFileSync(file))
const registry = registryOf(files)
const ask = registry.getMessage('rules.Ask')!
const full: JsonObject = {
  text: 'a "text"',
  number: '18446744073709551615',
  leaves: [{ text: 'x' }, {}],
  labels: { a: 'b' },
  leaf: { number: '-1' },
  data: '+/8=',
  flag: true,
}

const server = new grpc.Server()
const apps: Record<string, TestApp> = {}
let seen: { method: string; asked: JsonObject } | undefined

beforeAll(async () => {
  const methods = registry.getService('rules.Rules')!.methods
  const handlers = Object.fromEntries(
    methods.map(({ name }): [string, Handler] => [
      `Rules.${name}`,
      ({ request }: { request: Message }) => {
        const asked = toJson(ask, request, { useProtoFieldName: true }) as JsonObject
        seen = { method: name, asked }
        return { asked, ...(asked.page === 1 ? full : {}) }
      },
    ]),
  )
  serveFiles(server, files, handlers, {})
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) =>
      error ? reject(error) : resolve(port),
    ),
  )
  for (const dialect of ['cosmos', 'grpc-gateway', 'proto3']) {
    const app = await testApp({
      plugins: [gateway],
      env: {
        GATEWAY_UPSTREAM: `127.0.0.1:${port}`,
        GATEWAY_DESCRIPTORS: file,
        GATEWAY_DIALECT: dialect,
      },
    })
    await vi.waitFor(() => expect(app.report.plugins[0]?.state).toBe('available'), 15_000)
    apps[dialect] = app
  }
})
afterAll(async () => {
  for (const app of Object.values(apps)) await app.close()
  server.forceShutdown()
})

/** Sends a path unchanged, because fetch would normalise the path. */
function send(
  method: string,
  path: string,
  body?: unknown,
  dialect = 'proto3',
): Promise<{ status: number; body: any; headers: Record<string, unknown> }> {
  seen = undefined
  const text = body === undefined ? undefined : JSON.stringify(body)
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(apps[dialect]!.url)
    request(
      {
        hostname,
        port,
        method,
        path,
        headers: text ? { 'content-length': Buffer.byteLength(text) } : {},
      },
      (response) => {
        let received = ''
        response.setEncoding('utf8').on('data', (chunk: string) => (received += chunk))
        response.on('end', () =>
          resolve({
            status: response.statusCode ?? 0,
            body: received === '' ? undefined : JSON.parse(received),
            headers: response.headers,
          }),
        )
      },
    )
      .on('error', reject)
      .end(text)
  })
}

describe('a request becomes the message that its rule says', () => {
  it.each<[string, string, string, JsonObject, unknown?]>([
    ['GET', '/r/one/x', 'One', { name: 'x' }],
    ['GET', '/r/one/fixed', 'Literal', {}],
    ['GET', '/r/one/did:ixo:entity:abc', 'One', { name: 'did:ixo:entity:abc' }],
    ['GET', '/r/one/a%2Fb%2fc', 'One', { name: 'a/b/c' }],
    ['GET', '/r/one/%C3%A9%20%25%3F%23', 'One', { name: 'é %?#' }],
    ['GET', '/r/one/a+b', 'One', { name: 'a+b' }],
    ['GET', '/r/one/x:cancel', 'One', { name: 'x:cancel' }],
    [
      'GET',
      '/r/one/x?page=7&shelf.tags=a&shelf.tags=b',
      'One',
      { name: 'x', page: 7, shelf: { tags: ['a', 'b'] } },
    ],
    ['GET', '/r/one/x?name=y', 'One', { name: 'x' }],
    [
      'GET',
      '/r/one/x?shelf.leaf.number=5&leaf.text=a+b',
      'One',
      { name: 'x', shelf: { leaf: { number: '5' } }, leaf: { text: 'a b' } },
    ],
    ['GET', '/r/one/x?labels[a]=b&labels[c]=d', 'One', { name: 'x', labels: { a: 'b', c: 'd' } }],
    [
      'GET',
      '/r/one/x?labels[__proto__]=b',
      'One',
      { name: 'x', labels: JSON.parse('{"__proto__":"b"}') },
    ],
    [
      'GET',
      '/r/one/x?unknown=1&__proto__.x=1&constructor=2&leaf.__proto__=3',
      'One',
      { name: 'x' },
    ],
    ['GET', '/r/deep/a/5', 'Deep', { shelf: { leaf: { text: 'a', number: '5' } } }],
    [
      'GET',
      '/r/deep/a/5?shelf.tags=t&shelf.leaf.number=6',
      'Deep',
      { shelf: { leaf: { text: 'a', number: '5' }, tags: ['t'] } },
    ],
    ['GET', '/r/shelves/1/books/2', 'Shape', { name: 'shelves/1/books/2' }],
    ['GET', '/r/shelves/a%2Fb/books/c%20d', 'Shape', { name: 'shelves/a%2Fb/books/c d' }],
    ['GET', '/r/files/a/b/c', 'Rest', { name: 'a/b/c' }],
    ['GET', '/r/files', 'Rest', {}],
    ['GET', '/r/files/a/b:list', 'VerbRest', { name: 'a/b' }],
    ['GET', '/r/files/a:b/c', 'Rest', { name: 'a:b/c' }],
    ['GET', '/r/files/a/b%3Alist', 'Rest', { name: 'a/b:list' }],
    ['GET', '/r/any/x/thing', 'Stars', {}],
    ['GET', '/r/any/x/thing/y/z', 'Stars', {}],
    ['POST', '/r/one/x:cancel', 'Verb', { name: 'x', page: 1 }, { page: 1, name: 'y' }],
    ['POST', '/r/one/x:cancel', 'Verb', { name: 'x' }],
    [
      'POST',
      '/r/whole/x?page=9',
      'Whole',
      { name: 'x', leaf: { text: 't' } },
      { leaf: { text: 't' } },
    ],
    [
      'PUT',
      '/r/part/x?page=9&leaf.text=no',
      'Part',
      { name: 'x', page: 9, leaf: { number: '9007199254740993' } },
      { number: '9007199254740993' },
    ],
    ['PATCH', '/r/many/x', 'Many', { name: 'x', leaves: [{ text: 'a' }, {}] }, [{ text: 'a' }, {}]],
    ['DELETE', '/r/gone/x?page=3', 'Gone', { name: 'x', page: 3 }],
    ['REPORT', '/r/custom/x', 'Custom', { name: 'x' }],
    ['GET', '/r/every/x', 'Every', { name: 'x' }],
    ['PUT', '/r/every/x', 'Every', { name: 'x' }],
    ['GET', '/r/more/x', 'More', { name: 'x' }],
    ['GET', '/r/more/x/of/y', 'More', { name: 'x', leaf: { text: 'y' } }],
    ['POST', '/r/more', 'More', { name: 'z' }, { name: 'z' }],
  ])('%s %s is %s %j', async (method, path, name, asked, body) => {
    const answer = await send(method, path, body)
    expect(answer.body).toMatchObject({ asked: {} })
    expect(answer.status).toBe(200)
    expect(seen).toEqual({ method: name, asked })
  })

  it.each([
    ['GET', '/r/one/', 404],
    ['GET', '/r/one/a/b', 404],
    ['GET', '/r/shelves/1/books', 404],
    ['GET', '/r/shelves/1/books/', 404],
    ['GET', '/R/one/x', 404],
    ['GET', '/r/custom/x', 405],
    ['POST', '/r/one/x', 405],
    ['GET', '/r/deep/a/five', 400],
    ['GET', '/r/one/%00', 400],
    ['GET', '/r/one/a%00b', 400],
    ['GET', '/r/one/%C0%AF', 400],
    ['GET', '/r/one/%ED%A0%80', 400],
    ['GET', '/r/one/%', 400],
    ['GET', '/r/one/%zz', 400],
    ['GET', '/r/one/x?page=%C0%AF', 400],
    ['GET', '/r/one/x?leaf.text=%FF', 400],
    ['GET', '/r/one/x?leaf.text=a%00', 400],
    ['GET', '/r/one/x?leaf.text=100%', 400],
    ['GET', '/r/one/x?page=1&page=2', 400],
    ['GET', '/r/one/x?page=-1', 400],
    ['GET', '/r/one/x?page=0x10', 400],
    ['GET', '/r/one/x?page=', 400],
    ['GET', '/r/one/x?leaf=y', 400],
    ['GET', '/r/one/x?leaves=y', 400],
    ['GET', `/r/one/x?${'leaf.'.repeat(2500)}text=y`, 400],
    ['GET', `/r/one/x?${'page.'.repeat(2500)}text=y`, 400],
    ['GET', '/r/one/..', 404],
    ['GET', '/r/one/../../health', 404],
    ['GET', '/r/one/%2e%2e', 404],
    ['GET', '/r/one/%2e%2e%2fetc', 200],
    ['GET', '/r//one/x', 404],
    ['GET', `/${'a/'.repeat(7000)}`, 404],
    ['GET', `/r/one/x?${'a=b&'.repeat(3500)}`, 200],
    ['GET', `/r/one/x?${'a'.repeat(20_000)}`, 431],
  ])('%s %.60s is %i', async (method, path, status) => {
    expect((await send(method, path)).status).toBe(status)
  })

  it('takes no body that holds U+0000, however it is written', async () => {
    expect((await send('POST', '/r/whole/x', { leaf: { text: 'a\0' } })).status).toBe(400)
    expect((await send('POST', '/r/whole/x', { labels: { 'a\0': 'b' } })).status).toBe(400)
    expect((await send('POST', '/r/whole/x', { leaf: { text: 'a\\u0000' } })).status).toBe(200)
    expect(seen?.asked).toEqual({ name: 'x', leaf: { text: 'a\\u0000' } })
  })

  it('keeps OPTIONS to itself, also where a rule takes every method', async () => {
    expect((await send('OPTIONS', '/r/every/x')).status).toBeLessThan(300)
    expect(seen).toBeUndefined()
  })
})

describe('response_body', () => {
  it.each([
    ['text', '', full.text],
    ['number', '0', full.number],
    ['list', [], [{ text: 'x' }, {}]],
    ['map', {}, full.labels],
    ['message', null, full.leaf],
    ['flag', false, true],
  ])('is the whole answer for a %s, its default too', async (kind, unset, set) => {
    for (const dialect of ['proto3', 'grpc-gateway']) {
      expect((await send('GET', `/r/as/${kind}`, undefined, dialect)).body).toEqual(unset)
      expect((await send('GET', `/r/as/${kind}?page=1`, undefined, dialect)).body).toEqual(set)
    }
  })

  it('follows the dialect', async () => {
    expect((await send('GET', '/r/as/bytes')).body).toBe('')
    expect((await send('GET', '/r/as/bytes', undefined, 'cosmos')).body).toBeNull()
    expect((await send('GET', '/r/as/bytes?page=1', undefined, 'cosmos')).body).toBe('+/8=')
    expect((await send('GET', '/r/as/list?page=1', undefined, 'cosmos')).body).toEqual([
      { text: 'x', number: '0' },
      { text: '', number: '0' },
    ])
  })
})

it('serves none of the rules that cannot work, and says why of each', async () => {
  const log = apps.proto3!.log.join()
  for (const path of ['one', 'two/x', 'three/x', 'four/x', 'five/x', 'six'])
    expect((await send('GET', `/r/bad/${path}`)).status, path).toBe(404)
  for (const why of [
    'no field nothing in the answer',
    'binds leaves',
    'binds labels',
    'binds leaf,',
    'binds leaf.nothing',
    'takes nothing as its body',
    'GET /r/one/{leaf.text} of rules.Rules/Twice is hidden by /r/one/{name} of rules.Rules/One',
  ])
    expect(log).toContain(why)
})

describe('the OpenAPI document', () => {
  it('has each binding once, with an id of its own, and every reference leads somewhere', async () => {
    const { body } = await send('GET', '/r/openapi.json', undefined, 'cosmos')
    expect(Object.keys(body.paths)).toEqual(
      expect.arrayContaining([
        '/r/one/{name}',
        '/r/deep/{shelf.leaf.text}/{shelf.leaf.number}',
        '/r/one/{name}:cancel',
        '/r/more/{name}/of/{leaf.text}',
      ]),
    )
    expect(Object.keys(body.paths).some((path) => path.includes('/bad/'))).toBe(false)
    expect(Object.keys(body.paths['/r/custom/{name}'])).toEqual(['x-report'])
    expect(Object.keys(body.paths['/r/every/{name}'])).toContain('put')
    const text = JSON.stringify(body)
    for (const [, name] of text.matchAll(/"#\/components\/schemas\/([^"]+)"/g))
      expect(body.components.schemas).toHaveProperty([name!])
    const ids = [...text.matchAll(/"operationId":"([^"]+)"/g)].map(([, id]) => id)
    expect(ids.length).toBeGreaterThan(25)
    expect(new Set(ids).size).toBe(ids.length)
    const answer = (path: string) =>
      body.paths[path].get.responses[200].content['application/json'].schema
    expect(answer('/r/as/list')).toEqual({
      type: 'array',
      items: { $ref: '#/components/schemas/rules.Leaf' },
    })
    const { data, number, text: plain } = body.components.schemas['rules.Told'].properties
    expect(data.anyOf).toContainEqual({ type: 'null' })
    expect(number).toEqual({ type: 'string', pattern: '^-?[0-9]+$' })
    expect(plain).toEqual({ type: 'string' })
  })

  it('names as parameters what the path and the query take', async () => {
    const { body } = await send('GET', '/r/openapi.json')
    const names = (path: string, method = 'get') =>
      body.paths[path][method].parameters.map(
        ({ name, in: place }: { name: string; in: string }) => `${place} ${name}`,
      )
    expect(names('/r/deep/{shelf.leaf.text}/{shelf.leaf.number}')).toEqual([
      'path shelf.leaf.text',
      'path shelf.leaf.number',
      'query name',
      'query shelf.tags',
      'query leaf.text',
      'query leaf.number',
      'query page',
      'header x-cosmos-block-height',
    ])
    expect(names('/r/whole/{name}', 'post')).toEqual(['path name'])
    expect(names('/r/part/{name}', 'put')).not.toContain('query leaf.text')
  })
})
