import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { AnyRoute } from '../../core/plugin.ts'
import { describeApi, type Json } from '../../core/runtime/http/routes/openapi.ts'
import { faultOf } from '../support/answers-as-described.ts'

const run = () => 1
const document = (routes: Record<string, Partial<AnyRoute>>) =>
  describeApi({
    routes: Object.entries(routes).map(([key, route]) => ({
      key,
      owner: 'notes',
      route: { run, ...route },
    })),
    name: 'Oracle',
    version: '1.2.3',
    publicUrl: 'https://oracle.example',
  })

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
const operation = (routes: Record<string, Partial<AnyRoute>>, path: string, method: string): any =>
  document(routes).paths[path]?.[method]

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
    'GET /': { auth: 'public' },
    'GET /.well-known/oracle.json': { auth: 'public' },
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

  test('is whole: version, info, servers, tags, and no reference that leads nowhere', () => {
    const doc = document(everything)
    expect(doc).toMatchObject({
      openapi: '3.1.0',
      info: { title: 'Oracle', version: '1.2.3' },
      servers: [{ url: 'https://oracle.example' }],
      tags: [{ name: 'notes' }],
    })
    const refs = refsOf(doc)
    expect(refs).toContain('#/components/schemas/Error')
    for (const ref of refs) expect([ref, at(doc, ref)]).toEqual([ref, expect.any(Object)])
    expect(JSON.parse(JSON.stringify(doc))).toEqual(doc)
  })

  test('has an operation for every route, each with an id of its own and what OpenAPI requires', () => {
    const doc = document(everything)
    const operations = Object.values(doc.paths).flatMap((item) => Object.values(item)) as Json[]
    expect(operations).toHaveLength(Object.keys(everything).length)
    expect(new Set(operations.map(({ operationId }) => operationId)).size).toBe(operations.length)
    const schemes = Object.keys(doc.components.securitySchemes as Json)
    for (const one of operations) {
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
      for (const one of Object.values(item) as {
        parameters?: { name: string; in: string; required: boolean }[]
      }[]) {
        const inPath = (one.parameters ?? []).filter((parameter) => parameter.in === 'path')
        expect(inPath.map(({ name }) => name)).toEqual(names)
        expect(inPath.every(({ required }) => required)).toBe(true)
      }
    }
  })

  test('names operations by what they do', () => {
    expect(operation(everything, '/weather/now', 'get').operationId).toBe('getWeatherNow')
    expect(operation(everything, '/notes/{id}', 'delete').operationId).toBe('deleteNotesById')
    expect(operation(everything, '/', 'get').operationId).toBe('getRoot')
    expect(operation(everything, '/.well-known/oracle.json', 'get').operationId).toBe(
      'getWellKnownOracleJson',
    )
  })

  test('describes the query, with what is required and what it means', () => {
    expect(operation(everything, '/weather/now', 'get')).toMatchObject({
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
    expect(operation(everything, '/weather/now', 'get').requestBody).toBeUndefined()
    expect(operation(everything, '/lines', 'post')).toMatchObject({
      parameters: [{ name: 'atomic', in: 'query', required: false }],
      requestBody: { content: { 'application/x-ndjson': {} } },
    })
  })

  test('takes out of the body what stands in the path', () => {
    const post = operation(everything, '/notes/{id}', 'post')
    expect(post.requestBody.content['application/json'].schema).toMatchObject({
      type: 'object',
      properties: { text: { type: 'string' } },
      required: ['text'],
    })
    expect(post.requestBody.content['application/json'].schema.properties.id).toBeUndefined()
    expect(post.parameters).toMatchObject([{ name: 'id', in: 'path', schema: { type: 'string' } }])
  })

  test('says which credential a route takes', () => {
    const security = (path: string, method: string) => operation(everything, path, method).security
    expect(security('/notes/{id}', 'get')).toEqual([{ ucan: [] }, { delegation: [] }])
    expect(security('/notes/{id}', 'post')).toEqual([{ bearer: [] }, { ucan: ['notes/write'] }])
    expect(security('/lines', 'post')).toEqual([{ operator: [] }])
    expect(operation(everything, '/weather/now', 'get').responses[401]).toBeUndefined()
    expect(operation(everything, '/notes/{id}', 'get').responses[401]).toBeDefined()
  })

  test('follows a schema into itself', () => {
    const doc = document(everything)
    const { $ref } = operation(everything, '/tree', 'put').requestBody.content['application/json']
      .schema
    const tree = at(doc, $ref)
    const child = refsOf(tree)
    expect(child.length).toBeGreaterThan(0)
    for (const ref of child) expect(JSON.stringify(at(doc, ref))).toContain('children')
  })

  test('has room for shared schemas and for paths that sound alike', () => {
    const city = z.object({ name: z.string() }).meta({ id: 'A city/of ours' })
    const input = z.object({ from: city, to: city })
    const doc = document({ 'POST /a-b': { input }, 'POST /a/b': { input } })
    for (const ref of refsOf(doc)) expect([ref, at(doc, ref)]).toEqual([ref, expect.any(Object)])
    for (const name of Object.keys(doc.components.schemas))
      expect(name).toMatch(/^[A-Za-z0-9._-]+$/)
    expect([doc.paths['/a-b']?.post, doc.paths['/a/b']?.post]).toMatchObject([
      { operationId: 'postAB' },
      { operationId: 'postAB2' },
    ])
  })

  test('degrades where JSON Schema has no words, and never throws', () => {
    const { requestBody } = operation(everything, '/odd/{a}/x/{b}', 'patch')
    expect(requestBody.content['application/json'].schema.properties).toMatchObject({
      when: {},
      big: {},
      up: { type: 'string' },
    })
    const thrower = z.lazy((): z.ZodType => {
      throw new Error('not yet')
    })
    const output = z.object({ a: thrower })
    expect(
      operation({ 'GET /t': { output } }, '/t', 'get').responses[200].content['application/json']
        .schema,
    ).toEqual({})
  })
})

describe('answers', () => {
  const routes = {
    'POST /notes': { output: z.object({ id: z.string() }), answers: { 201: ['application/json'] } },
    'GET /notes/:id': { answers: { 200: ['application/json', 'text/plain'], 304: [] } },
    'GET /feed': { answers: { 200: ['text/event-stream'] } },
    'GET /plain': {},
  } as const satisfies Record<string, Partial<AnyRoute>>
  const responses = (path: string, method: string) => operation(routes, path, method).responses

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
    const { paths } = document(routes)
    const path = '/notes'
    const item = paths[path] as Parameters<typeof faultOf>[1][0]['item']
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
  const doc = describeApi({
    routes: [{ key: 'GET /notes', owner: 'notes', route: { run } }],
    modules: [module],
    version: '1',
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
