import { beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { AnyRoute } from '../../core/plugin.ts'
import { definePlugin } from '#core'
import { testApp } from '#core/testing'
import { faultOf } from '../support/answers-as-described.ts'

type Json = Record<string, unknown>
interface Document extends Json {
  readonly paths: Record<string, Json>
  readonly components: { readonly schemas: Record<string, Json>; readonly [part: string]: unknown }
}

const run = () => 1
/** The document that an app of these routes serves. */
async function document(routes: Record<string, Partial<AnyRoute>>, web = {}): Promise<Document> {
  const declared = Object.entries(routes).map(([key, route]) => [key, { run, ...route }])
  const more: object = { routes: Object.fromEntries(declared), web }
  const notes = definePlugin({ name: 'notes', summary: 'Notes.', ...more })
  const env = { PUBLIC_URL: 'https://oracle.example' }
  await using app = await testApp({ plugins: [notes], env })
  return (await app.get('/openapi.json')).body
}
/** The operations of the plugin's own routes. */
const own = (doc: Document) =>
  Object.entries(doc.paths).flatMap(([path, item]) =>
    (Object.values(item) as Operation[])
      .filter(({ tags }) => tags.includes('notes'))
      .map((one) => ({ path, one })),
  )
interface Operation extends Json {
  readonly tags: string[]
  readonly parameters?: { name: string; in: string; required: boolean }[]
}

/** Every `$ref` of a document, so that none of them leads nowhere. */
function refsOf(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, item]) =>
    key === '$ref' && typeof item === 'string' ? [item] : refsOf(item),
  )
}
function at(root: unknown, ref: string): unknown {
  return ref
    .slice(2)
    .split('/')
    .reduce<unknown>((node, key) => (node as Record<string, unknown> | undefined)?.[key], root)
}

// any: the tests walk into it and fail where something is missing
const operation = (doc: Document, path: string, method: string): any => doc.paths[path]?.[method]

interface Category {
  name: string
  children: Category[]
}
const category: z.ZodType<Category> = z.lazy(() =>
  z.object({ name: z.string(), children: z.array(category) }),
)

describe('the OpenAPI document', () => {
  const everything = {
    'GET /weather/now': {
      auth: 'public',
      input: z.object({ city: z.string().describe('A city.') }),
    },
    'GET /notes/:id': { summary: 'One note.', output: z.object({ id: z.string() }) },
    'POST /notes/:id': { auth: 'bearer', input: z.object({ id: z.string(), text: z.string() }) },
    'PUT /tree': { input: category, output: category },
    'POST /lines': {
      auth: 'operator',
      body: 'ndjson',
      input: z.object({ atomic: z.string().optional() }),
    },
    'DELETE /notes/:id': {},
    'PATCH /odd/:a/x/:b': {
      input: z.object({
        a: z.string(),
        when: z.date(),
        big: z.bigint(),
        fn: z.custom(() => true),
        up: z.string().transform(Number),
      }),
      output: z.map(z.string(), z.symbol()),
    },
  } as const satisfies Record<string, Partial<AnyRoute>>
  let doc: Document
  beforeAll(async () => void (doc = await document(everything)))

  test('is whole: version, info, servers, tags, and no reference that leads nowhere', () => {
    expect(doc).toMatchObject({
      openapi: '3.1.0',
      info: { title: 'Oracle', version: expect.stringMatching(/^\d+\.\d+\.\d+$/) },
      servers: [{ url: 'https://oracle.example' }],
      tags: [{ name: 'the kernel' }, { name: 'notes' }],
    })
    const refs = refsOf(doc)
    expect(refs).toContain('#/components/schemas/Error')
    for (const ref of refs) expect([ref, at(doc, ref)]).toEqual([ref, expect.any(Object)])
  })

  test('has an operation for every route, each with an id of its own and what OpenAPI requires', () => {
    const operations = own(doc)
    expect(operations).toHaveLength(Object.keys(everything).length)
    const all = Object.values(doc.paths).flatMap((item) => Object.values(item)) as Json[]
    expect(new Set(all.map(({ operationId }) => operationId)).size).toBe(all.length)
    const schemes = Object.keys(doc.components.securitySchemes as Json)
    for (const { one } of operations) {
      expect(one.tags).toEqual(['notes'])
      expect(one.responses).toMatchObject({
        200: { description: expect.any(String) },
        429: expect.any(Object),
      })
      for (const entry of one.security as Json[])
        for (const scheme of Object.keys(entry)) expect(schemes).toContain(scheme)
    }
    for (const [path, item] of Object.entries(doc.paths)) {
      const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name)
      for (const one of Object.values(item) as Operation[]) {
        const inPath = (one.parameters ?? []).filter((parameter) => parameter.in === 'path')
        expect(inPath.map(({ name }) => name)).toEqual(names)
        expect(inPath.every(({ required }) => required)).toBe(true)
      }
    }
  })

  test('promises no body for errors that are told in the words of another protocol', async () => {
    const told = ({ message }: { message: string }) => ({ fault: message })
    const notes = definePlugin({
      name: 'notes',
      summary: 'Notes.',
      errors: { '/notes/v1': told },
      routes: {
        'GET /notes': { auth: 'public', run },
        'GET /notes/v1': { auth: 'public', run },
        'GET /notes/v1/:id': { run },
        'GET /notes/v10': { auth: 'public', run },
        'GET /other': { auth: 'public', onError: told, run },
      },
    })
    await using app = await testApp({ plugins: [notes] })
    expect((await app.get('/notes/v1/1')).body).toEqual({ fault: expect.any(String) })
    const doc: Document = (await app.get('/openapi.json')).body
    const errorsOf = (path: string) => {
      const { 200: _, ...errors } = operation(doc, path, 'get').responses
      const schemas = Object.values<Json>(errors).map(({ $ref }) =>
        JSON.stringify((at(doc, String($ref)) as Json).content),
      )
      return [...new Set(schemas)]
    }
    const usual = ['{"application/json":{"schema":{"$ref":"#/components/schemas/Error"}}}']
    expect(errorsOf('/notes')).toEqual(usual)
    expect(errorsOf('/notes/v10')).toEqual(usual)
    const own = ['{"application/json":{"schema":{}}}']
    for (const path of ['/notes/v1', '/notes/v1/{id}', '/other'])
      expect(errorsOf(path)).toEqual(own)
    const limit = operation(doc, '/other', 'get').responses[429]
    expect(at(doc, limit.$ref)).toMatchObject({ headers: { 'Retry-After': expect.any(Object) } })
  })

  test('names operations by what they do', () => {
    expect(operation(doc, '/weather/now', 'get').operationId).toBe('getWeatherNow')
    expect(operation(doc, '/notes/{id}', 'delete').operationId).toBe('deleteNotesById')
    expect(operation(doc, '/', 'get').operationId).toBe('getRoot')
    expect(operation(doc, '/.well-known/oracle.json', 'get').operationId).toBe(
      'getWellKnownOracleJson',
    )
  })

  test('describes the query, with what is required and what it means', () => {
    expect(operation(doc, '/weather/now', 'get')).toMatchObject({
      parameters: [
        {
          name: 'city',
          in: 'query',
          required: true,
          description: 'A city.',
          schema: { type: 'string' },
        },
      ],
      security: [],
    })
    expect(operation(doc, '/weather/now', 'get').requestBody).toBeUndefined()
    expect(operation(doc, '/lines', 'post')).toMatchObject({
      parameters: [{ name: 'atomic', in: 'query', required: false }],
      requestBody: { content: { 'application/x-ndjson': {} } },
    })
  })

  test('takes out of the body what stands in the path', () => {
    const post = operation(doc, '/notes/{id}', 'post')
    expect(post.requestBody.content['application/json'].schema).toMatchObject({
      type: 'object',
      properties: { text: { type: 'string' } },
      required: ['text'],
    })
    expect(post.requestBody.content['application/json'].schema.properties.id).toBeUndefined()
    expect(post.parameters).toMatchObject([{ name: 'id', in: 'path', schema: { type: 'string' } }])
  })

  test('says which credential a route takes', () => {
    const security = (path: string, method: string) => operation(doc, path, method).security
    expect(security('/notes/{id}', 'get')).toEqual([{ ucan: [] }, { delegation: [] }, { key: [] }])
    expect(security('/notes/{id}', 'post')).toEqual([{ bearer: [] }, { ucan: ['notes/write'] }])
    expect(security('/lines', 'post')).toEqual([{ operator: [] }])
    expect(operation(doc, '/weather/now', 'get').responses[401]).toBeUndefined()
    expect(operation(doc, '/notes/{id}', 'get').responses[401]).toBeDefined()
  })

  test('follows a schema into itself', () => {
    const { $ref } = operation(doc, '/tree', 'put').requestBody.content['application/json'].schema
    const tree = at(doc, $ref)
    const child = refsOf(tree)
    expect(child.length).toBeGreaterThan(0)
    for (const ref of child) expect(JSON.stringify(at(doc, ref))).toContain('children')
  })

  test('has room for shared schemas and for paths that sound alike', async () => {
    const city = z.object({ name: z.string() }).meta({ id: 'A city/of ours' })
    const input = z.object({ from: city, to: city })
    const alike = await document({ 'POST /a-b': { input }, 'POST /a/b': { input } })
    const refs = refsOf(alike)
    for (const ref of refs) expect([ref, at(alike, ref)]).toEqual([ref, expect.any(Object)])
    for (const name of Object.keys(alike.components.schemas))
      expect(name).toMatch(/^[A-Za-z0-9._-]+$/)
    expect([alike.paths['/a-b']?.post, alike.paths['/a/b']?.post]).toMatchObject([
      { operationId: 'postAB' },
      { operationId: 'postAB2' },
    ])
  })

  test('degrades where JSON Schema has no words, and never throws', async () => {
    const { requestBody } = operation(doc, '/odd/{a}/x/{b}', 'patch')
    expect(requestBody.content['application/json'].schema.properties).toMatchObject({
      when: {},
      big: {},
      up: { type: 'string' },
    })
    const thrower = z.lazy((): z.ZodType => {
      throw new Error('not yet')
    })
    const output = z.object({ a: thrower })
    const odd = await document({ 'GET /t': { output } })
    expect(operation(odd, '/t', 'get').responses[200].content['application/json'].schema).toEqual(
      {},
    )
  })
})

describe('answers', () => {
  const routes = {
    'POST /notes': { output: z.object({ id: z.string() }), answers: { 201: ['application/json'] } },
    'GET /notes/:id': { answers: { 200: ['application/json', 'text/plain'], 304: [] } },
    'GET /feed': { answers: { 200: ['text/event-stream'] } },
    'GET /plain': {},
  } as const satisfies Record<string, Partial<AnyRoute>>
  let doc: Document
  beforeAll(async () => void (doc = await document(routes)))
  const responses = (path: string, method: string) => operation(doc, path, method).responses

  test('are said by status and media type, with the schema of what is JSON', () => {
    const { 201: made, 200: none } = responses('/notes', 'post')
    expect(made.content['application/json'].schema).toMatchObject({ properties: { id: {} } })
    expect(none).toBeUndefined()
    expect(Object.keys(responses('/notes/{id}', 'get')[200].content)).toEqual([
      'application/json',
      'text/plain',
    ])
    expect(responses('/notes/{id}', 'get')[304]).toEqual({ description: 'Not Modified' })
    expect(responses('/feed', 'get')[200].content).toEqual({
      'text/event-stream': { schema: { type: 'string' } },
    })
  })

  test('are 200 with JSON where a route says nothing', () => {
    expect(Object.keys(responses('/plain', 'get')[200].content)).toEqual(['application/json'])
    expect(responses('/plain', 'get').default).toBeDefined()
  })

  test('of a test that the document does not list are found', () => {
    const path = '/notes'
    const item = doc.paths[path] as Parameters<typeof faultOf>[1][0]['item']
    const described = [{ path, item, pattern: /^\/notes$/ }]
    expect(faultOf('POST /notes 201 application/json', described)).toEqual([])
    expect(faultOf('POST /notes 409 application/json', described)).toEqual([])
    expect(faultOf('POST /notes 200 application/json', described)).toHaveLength(1)
    expect(faultOf('POST /notes 201 text/plain', described)).toHaveLength(1)
    expect(faultOf('POST /notes 500 text/html', described)).toHaveLength(1)
    expect(faultOf('GET /elsewhere 200 text/html', described)).toEqual([])
  })
})

describe('a web module that describes itself', () => {
  const module = {
    paths: {
      '/things': { get: { responses: { default: { $ref: '#/components/schemas/Error' } } } },
      '/notes': { get: { theirs: true }, put: {} },
    },
    schemas: { Error: { type: 'object', own: true } },
  }
  let doc: Document
  beforeAll(async () => {
    const web = { '/things': Object.assign(() => 1, { openapi: () => module }) }
    doc = await document({ 'GET /notes': {} }, web)
  })

  test('has its operations beside those of routes, which come first', () => {
    expect(doc.paths['/notes']).toMatchObject({ get: { operationId: 'getNotes' }, put: {} })
  })

  test('keeps its own schemas, under another name where the name is taken', () => {
    const [ref = ''] = refsOf(doc.paths['/things'])
    expect(at(doc, ref)).toMatchObject({ own: true })
    expect(doc.components.schemas.Error).not.toHaveProperty('own')
  })
})
