import { connect } from 'node:net'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { AnyRoute } from '../../core/plugin.ts'
import { text } from '#core'
import { edge, firstOf, json } from '../support/edge.ts'

const echo = (input: AnyRoute['input'], more: Partial<AnyRoute> = {}): AnyRoute => ({
  auth: 'public',
  ...(input && { input }),
  run: (given) => ({ given }),
  ...more,
})
const anything = z.record(z.string(), z.unknown())
const form = (body: string) => ({
  body,
  headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
})

describe('the query of a GET or DELETE', () => {
  test('is merged with the path, and the path wins', async () => {
    const server = await edge({
      'GET /notes/:id': echo(z.object({ id: z.string(), q: z.string().optional() })),
      'DELETE /notes/:id': echo(z.object({ id: z.string(), q: z.string() })),
    })
    expect((await server.call('GET', '/notes/1?id=2&q=a%20b+c')).json).toEqual({
      given: { id: '1', q: 'a b c' },
    })
    expect((await server.call('DELETE', '/notes/1?q=')).json).toEqual({ given: { id: '1', q: '' } })
  })

  test('gives a list for a name that comes twice, which a string field refuses by name', async () => {
    const server = await edge({ 'GET /weather': echo(z.object({ city: z.string() })) })
    const twice = await server.call('GET', '/weather?city=a&city=b')
    expect(twice.status).toBe(400)
    expect(twice.json).toMatchObject({
      code: 'INVALID_INPUT',
      details: [{ path: 'city', message: expect.stringContaining('expected string') }],
    })
    expect(twice.json.message).toMatch(/^"city" is not valid/)
  })

  test.each([
    ['plain', z.object({ tag: z.array(z.string()) })],
    ['optional', z.object({ tag: z.array(z.string()).optional() })],
    ['with a default', z.object({ tag: z.array(z.string()).default([]) })],
    ['refined', z.object({ tag: z.array(z.string()).min(1).readonly() })],
    ['in a transformed object', z.object({ tag: z.array(z.string()) }).transform((all) => all)],
    ['in an intersection', z.intersection(z.object({ tag: z.array(z.string()) }), z.object({}))],
    ['lazy', z.lazy(() => z.object({ tag: z.lazy(() => z.array(z.string())) }))],
    ['transformed itself', z.object({ tag: z.array(z.string()).transform((all) => all) })],
  ])('wraps a single value for a list field: %s', async (_, schema) => {
    const server = await edge({ 'GET /notes': echo(schema), 'POST /notes': echo(schema) })
    expect((await server.call('GET', '/notes?tag=a')).json).toEqual({ given: { tag: ['a'] } })
    expect((await server.call('GET', '/notes?tag=a&tag=b')).json.given.tag).toEqual(['a', 'b'])
    expect((await server.call('POST', '/notes', form('tag=a'))).json).toEqual({
      given: { tag: ['a'] },
    })
    // JSON can say "a list of one", so there it must.
    expect((await server.call('POST', '/notes', json({ tag: 'a' }))).status).toBe(400)
  })

  test.each([
    ['__proto__=1', 'UNSAFE_KEY'],
    ['constructor=1', 'UNSAFE_KEY'],
    ['%5F_proto__=1', 'UNSAFE_KEY'],
    ['constructo%72=1', 'UNSAFE_KEY'],
    ['a=%00', 'UNSAFE_TEXT'],
    ['a%00=1', 'UNSAFE_TEXT'],
    ['a=%ff', 'BAD_REQUEST'],
    ['a=%', 'BAD_REQUEST'],
    ['a=%ed%a0%80', 'BAD_REQUEST'],
  ])('%s is refused with %s', async (query, code) => {
    const server = await edge({ 'GET /q': echo(anything), 'POST /q': echo(anything) })
    expect((await server.call('GET', `/q?${query}`)).json).toMatchObject({ statusCode: 400, code })
    expect((await server.call('POST', '/q', form(query))).json).toMatchObject({
      statusCode: 400,
      code,
    })
  })

  test('names of inherited properties are names like any other', async () => {
    const server = await edge({ 'GET /q': echo(anything) })
    const given = (await server.call('GET', '/q?toString=1&hasOwnProperty=2&valueOf=3&valueOf=4'))
      .json
    expect(given).toEqual({ given: { toString: '1', hasOwnProperty: '2', valueOf: ['3', '4'] } })
  })

  test('is left alone without a schema, and so is the body of a GET', async () => {
    const server = await edge({ 'GET /notes/:id': echo(undefined) })
    expect((await server.call('GET', '/notes/1?__proto__=1')).json).toEqual({ given: { id: '1' } })
    const body = 'GET /notes/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n{[x'
    const next = 'GET /notes/2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'
    const answers = await server.raw(body + next)
    expect(answers.match(/HTTP\/1\.1 200/g)).toHaveLength(2)
    expect(answers).toContain('"id":"2"')
  })
})

describe('the body', () => {
  const schema = z.object({ name: z.string(), n: z.number().optional(), id: z.string().optional() })

  test('is JSON in any of its types, or a form, merged with the path, which wins', async () => {
    const server = await edge({ 'POST /notes/:id': echo(schema) })
    for (const type of [
      'application/json',
      'application/json; charset=utf-8',
      'Application/JSON;charset="UTF-8"',
      'application/merge-patch+json',
      'application/vnd.api+json; profile=x',
    ]) {
      const init = { body: '{"name":"a","id":"9"}', headers: { 'Content-Type': type } }
      expect((await server.call('POST', '/notes/1', init)).json).toEqual({
        given: { name: 'a', id: '1' },
      })
    }
    expect((await server.call('POST', '/notes/1', form('name=a+b&id=9'))).json.given).toEqual({
      name: 'a b',
      id: '1',
    })
  })

  test('may be missing: then the path is the input', async () => {
    const optional = z.object({ id: z.string(), name: z.string().default('none') })
    const server = await edge({ 'POST /notes/:id': echo(optional), 'POST /notes': echo(schema) })
    expect((await server.call('POST', '/notes/1')).json).toEqual({
      given: { id: '1', name: 'none' },
    })
    const empty = await server.call('POST', '/notes/1', json(''))
    expect(empty.json).toEqual({ given: { id: '1', name: 'none' } })
    expect((await server.call('POST', '/notes')).json.details).toEqual([
      { path: 'name', message: expect.any(String) },
    ])
  })

  test('may be a list or a lone value where the schema says so and the path says nothing', async () => {
    const server = await edge({
      'POST /all': echo(z.array(z.number())),
      'POST /null': echo(z.null()),
      'POST /some/:id': echo(z.object({ id: z.string() })),
    })
    expect((await server.call('POST', '/all', json([1, 2]))).json).toEqual({ given: [1, 2] })
    expect((await server.call('POST', '/null', json('null'))).json).toEqual({ given: null })
    for (const body of ['[1]', 'null', '"a"', '1'])
      expect((await server.call('POST', '/some/1', json(body))).json.code).toBe('INVALID_INPUT')
  })

  test('lists every fault with its dotted path', async () => {
    const deep = z.object({
      a: z.object({ list: z.array(z.object({ w: z.number() })) }),
      b: z.string(),
    })
    const server = await edge({ 'POST /d': echo(deep) })
    const { json: body } = await server.call(
      'POST',
      '/d',
      json({ a: { list: [{ w: 1 }, { w: 'x' }] } }),
    )
    expect(body.details.map(({ path }: { path: string }) => path)).toEqual(['a.list.1.w', 'b'])
    expect(body.message).toMatch(/^"a\.list\.1\.w" is not valid: expected number.* And 1 more\.$/)
  })

  test('goes through its schema exactly once, an asynchronous one too', async () => {
    let sync = 0
    let async = 0
    const server = await edge({
      'POST /sync': echo(z.object({ a: z.string().transform((s) => (sync++, s)) })),
      'POST /async': echo(
        z.object({ a: z.string().refine(async (s) => (async++, s !== 'no'), 'not "no"') }),
      ),
    })
    expect((await server.call('POST', '/sync', json({ a: 'x' }))).status).toBe(200)
    expect((await server.call('POST', '/async', json({ a: 'x' }))).status).toBe(200)
    expect({ sync, async }).toEqual({ sync: 1, async: 1 })
    expect((await server.call('POST', '/async', json({ a: 'no' }))).json.details).toEqual([
      { path: 'a', message: 'not "no"' },
    ])
  })

  test.each([
    ['no type', undefined],
    ['text', 'text/plain'],
    ['a type that begins like JSON', 'application/jsonx'],
    ['a multipart form', 'multipart/form-data; boundary=x'],
    ['NDJSON', 'application/x-ndjson'],
    ['another charset', 'application/json; charset=iso-8859-1'],
  ])('with %s is 415 and says what is read', async (_, type) => {
    const server = await edge({ 'POST /notes': echo(schema) })
    const header = type === undefined ? '' : `Content-Type: ${type}\r\n`
    const answer = await server.raw(
      `POST /notes HTTP/1.1\r\nHost: a\r\n${header}Content-Length: 12\r\nConnection: close\r\n\r\n{"name":"a"}`,
    )
    expect(firstOf(answer)).toMatchObject({ status: 415, json: { code: 'UNSUPPORTED_MEDIA_TYPE' } })
    expect(firstOf(answer).json.hint).toBeDefined()
  })

  test.each(['gzip', 'br', 'x-unknown'])('with Content-Encoding %s is 415', async (encoding) => {
    const server = await edge({ 'POST /notes': echo(schema) })
    const refused = await server.call(
      'POST',
      '/notes',
      json({ name: 'a' }, { 'Content-Encoding': encoding }),
    )
    expect(refused.json).toMatchObject({ statusCode: 415, code: 'UNSUPPORTED_MEDIA_TYPE' })
  })

  test.each([
    ['{"name": }', 9],
    ['{"name":"a"', 11],
    ['{name:1}', 1],
    ['[1,]', 3],
    ['{"a":1,}', 7],
    ['"open', 0],
    ['{"a":"\t"}', 5],
    ['nul', 0],
    ['01', 1],
    ['1 2', 2],
    ['[1 2]', 3],
    ['{"a" 1}', 5],
    ['}', 0],
    ['[}', 1],
    ['{"a":1]', 6],
    [',', 0],
    [' \n', 2],
    ["{'a':1}", 1],
    ['{"a":\n  tru}', 8],
    ['{"secret":"p4ss" oops}', 17],
  ])(
    'that is no JSON, %j, is INVALID_JSON at position %i and is not quoted',
    async (body, position) => {
      const server = await edge({ 'POST /j': echo(z.unknown()) })
      const { json: answer } = await server.call('POST', '/j', json(body))
      expect(answer).toMatchObject({ statusCode: 400, code: 'INVALID_JSON' })
      expect(answer.message).toContain(`position ${position}`)
      expect(answer.message).not.toContain('p4ss')
    },
  )

  test('says the line and column of a break', async () => {
    const server = await edge({ 'POST /j': echo(z.unknown()) })
    expect((await server.call('POST', '/j', json('{\n  "a": x\n}'))).json.message).toContain(
      'position 9 (line 2, column 8)',
    )
  })

  test('must be UTF-8; a byte order mark is dropped', async () => {
    const server = await edge({ 'POST /j': echo(z.unknown()) })
    const post = (bytes: Buffer) =>
      server.call('POST', '/j', { body: bytes, headers: { 'Content-Type': 'application/json' } })
    expect((await post(Buffer.from('"\xe4"', 'latin1'))).json).toMatchObject({
      code: 'UNSAFE_TEXT',
    })
    expect((await post(Buffer.from([0x22, 0xc0, 0xaf, 0x22]))).json.code).toBe('UNSAFE_TEXT')
    expect((await post(Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]))).json.code).toBe('UNSAFE_TEXT')
    expect((await post(Buffer.from('\ufeff{"a":1}'))).json).toEqual({ given: { a: 1 } })
    expect((await post(Buffer.from('"żółw 🐢"'))).json).toEqual({ given: 'żółw 🐢' })
  })

  test.each([
    ['{"__proto__":{"admin":true}}', 'UNSAFE_KEY'],
    ['{"a":[{"b":{"__proto__":1}}]}', 'UNSAFE_KEY'],
    ['{"\\u005f_proto__":1}', 'UNSAFE_KEY'],
    ['{"__pr\\u006fto__":1}', 'UNSAFE_KEY'],
    ['{"constructor":{"prototype":{}}}', 'UNSAFE_KEY'],
    ['[{"c\\u006Fnstructor":1}]', 'UNSAFE_KEY'],
    ['{"a":"x\\u0000y"}', 'UNSAFE_TEXT'],
    ['["\\u0000"]', 'UNSAFE_TEXT'],
    ['{"\\u0000":1}', 'UNSAFE_TEXT'],
    ['"\\ud800"', 'UNSAFE_TEXT'],
    ['{"a":"\\udc00\\ud800"}', 'UNSAFE_TEXT'],
    ['{"a":1e309}', 'INVALID_INPUT'],
    ['{"a":-1E+999}', 'INVALID_INPUT'],
    [`{"a":${'9'.repeat(310)}}`, 'INVALID_INPUT'],
  ])('%s is refused with %s', async (body, code) => {
    const server = await edge({ 'POST /j': echo(z.unknown()) })
    expect((await server.call('POST', '/j', json(body))).json).toMatchObject({
      statusCode: 400,
      code,
    })
    expect(({} as { admin?: boolean }).admin).toBeUndefined()
  })

  test('may speak of prototypes and constructors in its values', async () => {
    const server = await edge({ 'POST /j': echo(z.unknown()) })
    const body = {
      say: '__proto__ constructor \u00e9',
      list: ['constructor'],
      n: 1e300,
      e: '\ud83d\ude00',
    }
    const escaped = JSON.stringify(body).replace('é', '\\u00e9').replace('😀', '\\ud83d\\ude00')
    expect((await server.call('POST', '/j', json(escaped))).json).toEqual({ given: body })
  })

  test('nests 64 levels and no deeper, whatever stands in its strings', async () => {
    const server = await edge({ 'POST /j': echo(z.unknown(), { body: { maxBytes: 8e6 } }) })
    const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)
    const status = async (body: string) => (await server.call('POST', '/j', json(body))).json
    expect(await status(nested(64))).toHaveProperty('given')
    expect(await status(nested(65))).toMatchObject({ statusCode: 400, code: 'TOO_DEEP' })
    expect(await status(`{"a":${nested(64)}}`)).toMatchObject({ code: 'TOO_DEEP' })
    expect(await status(JSON.stringify({ a: '['.repeat(1000), b: '\\"[[{{' }))).toHaveProperty(
      'given',
    )
    expect(await status(`["${']'.repeat(100)}",${nested(64)}]`)).toMatchObject({ code: 'TOO_DEEP' })
    expect(await status(`["\\\\",${nested(64)}]`)).toMatchObject({ code: 'TOO_DEEP' })
    expect(await status(nested(1_000_000))).toMatchObject({ code: 'TOO_DEEP' })
    expect(await status('{"a":'.repeat(1_000_000))).toMatchObject({ code: 'TOO_DEEP' })
    expect(await status(`[${'[],'.repeat(100_000)}[]]`)).toHaveProperty('given')
  })
})

describe('a body that is too large', () => {
  const routes = {
    'POST /j': echo(z.unknown()),
    'POST /small': echo(z.unknown(), { body: { maxBytes: 100 } }),
  }

  test('is 413 by its announced length, before it is read', async () => {
    const server = await edge(routes)
    const head = 'POST /small HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n'
    const answer = firstOf(await server.raw(`${head}Content-Length: 101\r\n\r\n`, 500))
    expect(answer).toMatchObject({ status: 413, json: { code: 'BODY_TOO_LARGE' } })
  })

  test('is 413 when it turns out to be, and 1 MiB is the default', async () => {
    const server = await edge(routes)
    const fits = JSON.stringify('x'.repeat(1024 * 1024 - 2))
    expect((await server.call('POST', '/j', json(fits))).status).toBe(200)
    const chunked = new Blob([fits, ' ']).stream()
    const init = { ...json('', {}), body: chunked, duplex: 'half' } as RequestInit
    expect((await server.call('POST', '/j', init)).json).toMatchObject({ code: 'BODY_TOO_LARGE' })
    expect((await server.call('POST', '/small', json('x'.repeat(101)))).status).toBe(413)
  })

  test('lets the client read the answer while it is still sending', async () => {
    const server = await edge(routes)
    // The client writes everything before it reads, as a simple one does.
    const answer = await new Promise<string>((resolve, reject) => {
      let received = ''
      const socket = connect(server.port, '127.0.0.1')
      socket.on('error', reject).on('close', () => resolve(received))
      socket.write(
        'POST /small HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 20000000\r\n\r\n',
      )
      const block = Buffer.alloc(1_000_000, 0x20)
      let left = 20
      const more = () => {
        if (left-- > 0) socket.write(block, more)
        else socket.setEncoding('latin1').on('data', (chunk: string) => (received += chunk))
      }
      more()
    })
    expect(firstOf(answer)).toMatchObject({ status: 413, json: { code: 'BODY_TOO_LARGE' } })
    expect(answer.toLowerCase()).toContain('connection: close')
  })

  test('is answered in place of a 100 Continue', async () => {
    const server = await edge({ ...routes, 'POST /locked': { auth: 'ucan', run: () => ({}) } })
    const head = (path: string, length: number) =>
      `POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n` +
      `Expect: 100-continue\r\nContent-Length: ${length}\r\n\r\n`
    // Whether the client goes on with its body then cannot be known, so the connection ends with each refusal.
    for (const [path, length, status] of [
      ['/small', 1e9, 413],
      ['/locked', 2, 401],
      ['/nowhere', 2, 404],
    ] as const) {
      const said = await server.raw(head(path, length), 3_000)
      expect(said).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
      expect(said.toLowerCase()).toContain('connection: close')
    }
    const fits = await server.raw(`${head('/small', 2)}{}${head('/small', 2)}{}`, 500)
    expect(fits.match(/HTTP\/1\.1 \d+ \w+/g)).toEqual(
      ['100 Continue', '200 OK', '100 Continue', '200 OK'].map((line) => `HTTP/1.1 ${line}`),
    )
    expect(fits.toLowerCase()).not.toContain('connection: close')
  })
})

describe('onInvalid', () => {
  const ussd: AnyRoute = {
    auth: 'public',
    input: z.object({ text: z.string().max(5) }),
    body: { maxBytes: 200 },
    onInvalid: (faults, { requestId }) =>
      text(`END ${faults.length} ${faults[0]?.path} ${requestId}`),
    run: () => text('CON'),
  }

  test.each<[string, RequestInit]>([
    ['a failed schema', json({ text: 'too long' })],
    ['malformed JSON', json('{')],
    ['a wrong type', { body: 'text=a', headers: { 'Content-Type': 'text/plain' } }],
    ['unsafe text', json('{"text":"\\u0000"}')],
    ['an unsafe key', json('{"__proto__":1}')],
    ['an oversized body', json(`{"text":"${'x'.repeat(300)}"}`)],
  ])('renders %s like any value', async (_, init) => {
    const server = await edge({ 'POST /ussd': ussd })
    const answer = await server.call('POST', '/ussd', init)
    expect(answer.status).toBe(200)
    expect(answer.headers.get('content-type')).toBe('text/plain; charset=utf-8')
    expect(answer.text).toMatch(/^END 1 (text)? ?\S+$/)
  })

  test('sees the faults with their paths', async () => {
    const seen: unknown[] = []
    const server = await edge({
      'POST /f': {
        ...ussd,
        onInvalid: (faults) => (seen.push(faults), { faults }),
      },
    })
    await server.call('POST', '/f', json({ text: 1 }))
    await server.call('POST', '/f', json('{'))
    expect(seen).toEqual([
      [{ path: 'text', message: expect.any(String) }],
      [{ path: '', message: expect.stringContaining('position 1') }],
    ])
  })

  test('does not see a missing credential or a fault of the handler', async () => {
    const server = await edge({
      'POST /locked': { ...ussd, auth: 'ucan' },
      'POST /broken': {
        ...ussd,
        run: () => {
          throw new Error('x')
        },
      },
    })
    expect((await server.call('POST', '/locked', json('{'))).status).toBe(401)
    expect((await server.call('POST', '/broken', json({ text: 'a' }))).json.code).toBe('INTERNAL')
  })
})
