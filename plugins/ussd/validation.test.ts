import { request } from 'node:http'
import { describe, expect, it } from 'vitest'
import { testApp, type TestApp } from '#core/testing'
import ussd from './index.ts'

const invalid = 'END Invalid input. Please try again.'
const fields = { sessionId: 's', serviceCode: '*384#', phoneNumber: '+254711000111', text: '' }
const form = { 'content-type': 'application/x-www-form-urlencoded' }
const json = { 'content-type': 'application/json' }
const unlimited = { USSD_RATE_LIMIT_PER_MINUTE: '1000000' }
const start = (env: Record<string, string> = {}) =>
  testApp({ plugins: [ussd], env: { ...unlimited, ...env } })

let sessions = 0
async function both(app: TestApp, changes: Record<string, string>) {
  const body = { ...fields, sessionId: `both-${++sessions}`, ...changes }
  const asForm = await app.post('/api/ussd', new URLSearchParams(body).toString(), form)
  const asJson = await app.post('/api/ussd', { ...body, ignored: { by: 'us' } })
  for (const { status, headers } of [asForm, asJson]) {
    expect(status).toBe(200)
    expect(headers.get('content-type')).toMatch(/^text\/plain/)
  }
  expect(asForm.body).toBe(asJson.body)
  return asJson.body as string
}

/** The cases of the specification's rules: each tests one boundary of one field. */
const allowed: Record<string, string[]> = {
  sessionId: ['x', 'x'.repeat(100), '💧'.repeat(100), 'a b', 'ATUid_0f-1.2:3', '0', 'ü', ' '],
  serviceCode: ['*1#', '*384#', '*384*1#', '*384*1*22#', `*${'9'.repeat(40)}#`],
  phoneNumber: ['+1234567', '+254711000111', '+123456789012345', '+9999999'],
  text: ['', '1', '1*2', '*', '1**2', '1*two * three', 'é'.repeat(182), '1'.repeat(182), '日本'],
}
const refused: Record<string, string[]> = {
  sessionId: [
    '',
    'x'.repeat(101),
    '💧'.repeat(101),
    'a\nb',
    'a\n',
    '\t',
    'a\u007f',
    'a\u0085',
    '\u0000',
  ],
  serviceCode: [
    ...['', '#', '*', '*#', '**#', '384#', '*384', '*384*#', '**384#', '*384##', '*384#1', '#384*'],
    ...['*38a#', '*384#\n', '\n*384#', ' *384#', '*384# ', '*3 84#', '*３８４#', '*384*1', '*-1#'],
  ],
  phoneNumber: [
    ...['', '+', '254711000111', '0711000111', '00254711000111', '+0254711000', '+00000000'],
    ...['+123456', '+1234567890123456', '+254711000111\n', '\n+254711000111', '+254711000111 '],
    ...[
      '+254 711000111',
      '+254-711-000',
      '++254711000111',
      '+25471100011a',
      '+２５４７１１０００１１１',
    ],
    ...['＋254711000111', 'tel:+254711000111', '+254711000111,+254711000112', '+2547110001;11'],
  ],
  text: ['1'.repeat(183), 'é'.repeat(183), `${'1'.repeat(182)}\n`, '1*'.repeat(92)],
}
const cases = (table: Record<string, string[]>) =>
  Object.entries(table).flatMap(([field, values]) => values.map((value) => ({ [field]: value })))
const wrongTypes: unknown[] = [7, 0, null, true, false, [], {}, ['+254711000111'], { $ne: '' }]

describe('a request', () => {
  it('is taken at the edges of what is allowed, as JSON and as a form', async () => {
    await using app = await start()
    for (const changes of cases(allowed))
      expect(await both(app, changes), JSON.stringify(changes)).toMatch(/^CON |^END Thank you/)
  })

  it('is refused just beyond them, with the exact words and HTTP 200', async () => {
    await using app = await start()
    for (const changes of cases(refused))
      expect(await both(app, changes), JSON.stringify(changes)).toBe(invalid)
  })

  it('is refused likewise without one of its fields, or with one of another type', async () => {
    await using app = await start()
    for (const field of Object.keys(fields))
      for (const value of [undefined, ...wrongTypes]) {
        const { status, body } = await app.post('/api/ussd', { ...fields, [field]: value })
        expect([status, body], `${field} ${JSON.stringify(value)}`).toEqual([200, invalid])
      }
    for (const field of Object.keys(fields)) {
      const without = new URLSearchParams(fields)
      without.delete(field)
      expect((await app.post('/api/ussd', `${without}`, form)).body, field).toBe(invalid)
    }
  })

  it('is taken as Africa’s Talking sends it, and what a form can have beside it', async () => {
    await using app = await start()
    const call = {
      sessionId: 'ATUid_9c8d6a7b',
      serviceCode: '*384*123#',
      phoneNumber: '+254711000111',
      networkCode: '63902',
    }
    const utf8 = { 'content-type': 'application/x-www-form-urlencoded; charset=UTF-8' }
    const send = async (text: string, headers = utf8) => {
      const { status, body } = await app.post(
        '/api/ussd',
        `${new URLSearchParams({ ...call, text })}`,
        headers,
      )
      expect(status).toBe(200)
      return body
    }
    expect(await send('')).toMatch(/^CON Welcome to the oracle\n1\. Know more/)
    expect(await send('2')).toMatch(/^CON Your account/)
    expect(await send('2*1', form)).toBe('CON Your name:\n0. Back')
    // Libraries of Java name a charset of their own beside forms; their letters are ASCII, with escapes in UTF-8.
    const latin = { 'content-type': 'application/x-www-form-urlencoded;charset=ISO-8859-1' }
    expect(await send('2*1*Wanjirũ & sons = 100%', latin)).toMatch(/^CON Your e-mail/)
    const shouted = { 'content-type': 'Application/X-WWW-Form-URLEncoded;CHARSET="utf-8"' }
    expect(await send('2*1*Wanjirũ & sons = 100%*1', shouted)).toMatch(/^CON Choose a PIN/)
    // Gateways may send the asterisks of a code encoded or not; a plus in a form means a space.
    const raw = (phone: string, more = '') =>
      `sessionId=raw&serviceCode=*384*123%23&phoneNumber=${phone}&text=${more}`
    for (const [body, answer] of [
      [raw('%2B254711000111'), /^CON Welcome/],
      [raw('%2b254711000111', '&empty&=&x=%20'), /^CON Welcome/],
      [raw('+254711000111'), /^END Invalid input\. Please try again\.$/],
      [raw('%2B254711000111').replace('384*123%23', '384*123#'), /^CON Welcome/],
      [raw('%2B254711000111', '&text=1'), /^END Invalid/],
      [raw('%2B254711000111').replace('*384*123%23', ''), /^END Invalid/],
      [raw('%2B254711000111', '%E0%A4%A'), /^(END Invalid input|CON Not an option)/],
    ] as const)
      expect((await app.post('/api/ussd', body, form)).body, body).toMatch(answer)
  })

  it('is refused with the same words when it is no such request at all', async () => {
    await using app = await start()
    const bodies: [string, Record<string, string>][] = [
      ['{"sessionId":', json],
      ['not json', json],
      ['[]', json],
      ['null', json],
      ['"text"', json],
      ['', json],
      ['{}', {}],
      ['<xml/>', { 'content-type': 'text/xml' }],
      ['{"__proto__":{}}', json],
      [JSON.stringify({ ...fields, text: '\u0000' }), json],
      [JSON.stringify({ ...fields, sessionId: 'a' }).replace('"a"', '"\\ud800"'), json],
      [JSON.stringify({ ...fields, text: 'x'.repeat(2_000_000) }), json],
      ['sessionId=a&sessionId=b&serviceCode=*1%23&phoneNumber=%2B254711000111&text=', form],
    ]
    for (const [body, headers] of bodies) {
      const answer = await app.post('/api/ussd', body, headers)
      expect([answer.status, answer.body], body.slice(0, 80)).toEqual([200, invalid])
    }
    expect((await app.get('/api/ussd/sessions')).body.count).toBe(0)
  })

  it('is never answered with a status that a phone cannot show, whatever headers come with it', async () => {
    await using app = await start()
    const keys = ['one', 'one', 'x'.repeat(5000), '"', 'é'].map((key) => ({
      'idempotency-key': key,
    }))
    const others = [{ accept: 'application/json' }, { 'if-match': '"1"' }]
    for (const [nth, header] of [...keys, ...others].entries()) {
      const session = { ...fields, sessionId: `header-${nth}` }
      const { status, body } = await app.post(
        '/api/ussd',
        session,
        header as Record<string, string>,
      )
      expect([status, body.slice(0, 11)], JSON.stringify(header).slice(0, 60)).toEqual([
        200,
        'CON Welcome',
      ])
    }
  })

  it('is welcomed by a plain menu with numbers and an exit', async () => {
    await using app = await start()
    const { body, headers } = await app.post('/api/ussd', fields)
    expect(body).toBe(
      'CON Welcome to the oracle\n1. Know more\n2. Account\n3. Ask the oracle\n*. Exit',
    )
    expect(headers.get('content-type')).toBe('text/plain; charset=utf-8')
  })
})

describe('the limit', () => {
  const behindProxy = (address: string) => ({ 'x-forwarded-for': address })
  const statuses = async (
    app: TestApp,
    count: number,
    headers: Record<string, string>,
    body = fields,
  ) =>
    (
      await Promise.all(Array.from({ length: count }, () => app.post('/api/ussd', body, headers)))
    ).reduce<Record<number, number>>(
      (seen, { status }) => ({ ...seen, [status]: (seen[status] ?? 0) + 1 }),
      {},
    )

  it('is a hundred requests a minute from one address, then 429 with Retry-After', async () => {
    await using app = await testApp({ plugins: [ussd] })
    expect(await statuses(app, 105, behindProxy('192.0.2.1'))).toEqual({ 200: 100, 429: 5 })
    // Without TRUST_PROXY_ENABLED the server ignores the header, because any client could write it.
    const refused = await app.post('/api/ussd', fields, behindProxy('192.0.2.2'))
    expect(refused.status).toBe(429)
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    expect((await app.get('/api/ussd/sessions')).status).toBe(200)
  })

  it('lets exactly a hundred through, one after the other, and another address as many', async () => {
    await using app = await testApp({ plugins: [ussd] })
    const from = (localAddress: string) =>
      new Promise<number>((resolve, reject) => {
        const headers = {
          ...json,
          'x-forwarded-for': `198.51.100.${Math.floor(Math.random() * 250)}`,
        }
        request(`${app.url}/api/ussd`, { method: 'POST', localAddress, headers }, (response) => {
          response.resume().once('end', () => resolve(response.statusCode ?? 0))
        })
          .on('error', reject)
          .end(JSON.stringify({ ...fields, text: 'invalid or not'.repeat(20) }))
      })
    for (const address of ['127.0.0.1', '127.0.0.2']) {
      for (let nth = 1; nth <= 100; nth++)
        expect(await from(address), `${address} ${nth}`).toBe(200)
      expect(await from(address)).toBe(429)
      expect(await from(address)).toBe(429)
    }
    expect(await from('127.0.0.3')).toBe(200)
  })

  it('counts by the rightmost hop behind a trusted proxy', async () => {
    const env = { TRUST_PROXY_ENABLED: 'true' }
    await using app = await testApp({ plugins: [ussd], env })
    expect(await statuses(app, 103, behindProxy('203.0.113.9, 192.0.2.1'))).toEqual({
      200: 100,
      429: 3,
    })
    expect(await statuses(app, 2, behindProxy('192.0.2.1, 192.0.2.2'))).toEqual({ 200: 2 })
  })

  it('is one per phone number for a trusted gateway', async () => {
    const env = { TRUST_PROXY_ENABLED: 'true', USSD_TRUSTED_GATEWAYS: '192.0.2.0/24, 2001:db8::1' }
    await using app = await testApp({
      plugins: [ussd],
      env: { ...env, USSD_RATE_LIMIT_PER_MINUTE: '5' },
    })
    const of = (phoneNumber: string) => ({ ...fields, sessionId: phoneNumber, phoneNumber })
    for (const phone of ['+254711000111', '+254711000222', '+254711000333'])
      expect(await statuses(app, 6, behindProxy('192.0.2.1'), of(phone))).toEqual({
        200: 5,
        429: 1,
      })
    // Requests of other senders count by their address, whatever the phone number.
    expect(await statuses(app, 3, behindProxy('198.51.100.1'), of('+254711000444'))).toEqual({
      200: 3,
    })
    expect(await statuses(app, 3, behindProxy('198.51.100.1'), of('+254711000555'))).toEqual({
      200: 2,
      429: 1,
    })
  })

  it('stops the boot for a gateway that is no address', async () => {
    await expect(start({ USSD_TRUSTED_GATEWAYS: '192.0.2.300' })).rejects.toThrow('192.0.2.300')
  })
})

describe('a page of another origin', () => {
  it('cannot call, neither with a script nor with a form, and is answered with 403 in JSON', async () => {
    await using app = await start()
    const body = new URLSearchParams(fields).toString()
    const foreign: Record<string, string>[] = [
      { origin: 'https://evil.example' },
      { origin: 'null' },
      { origin: `${app.url}.evil.example` },
      { 'sec-fetch-site': 'cross-site' },
    ]
    for (const headers of foreign)
      for (const [sent, type] of [
        [body, form],
        [JSON.stringify(fields), json],
        [JSON.stringify(fields), { 'content-type': 'text/plain' }],
      ] as const) {
        const answer = await app.post('/api/ussd', sent, { ...type, ...headers })
        expect(answer, JSON.stringify(headers)).toMatchObject({
          status: 403,
          body: { statusCode: 403, code: 'FORBIDDEN' },
        })
        expect(answer.headers.get('access-control-allow-origin')).toBeNull()
      }
    expect((await app.get('/api/ussd/sessions')).body.count).toBe(0)
    const asked = await fetch(`${app.url}/api/ussd`, {
      method: 'OPTIONS',
      headers: { origin: 'https://evil.example', 'access-control-request-method': 'POST' },
    })
    expect(asked.headers.get('access-control-allow-origin')).toBeNull()
  })

  it('is another one than the page of this server, which has a phone', async () => {
    await using app = await start()
    for (const headers of [
      { origin: app.url },
      { origin: app.url, 'sec-fetch-site': 'same-origin' },
    ])
      expect((await app.post('/api/ussd', fields, headers as Record<string, string>)).body).toMatch(
        /^CON Welcome/,
      )
  })
})

describe('with USSD_TRUSTED_GATEWAYS_ONLY', () => {
  const only = {
    USSD_TRUSTED_GATEWAYS: '192.0.2.0/24, 2001:db8::1',
    USSD_TRUSTED_GATEWAYS_ONLY: 'true',
  }

  it('everybody else is refused with 403 in JSON, whatever they send', async () => {
    await using app = await start({ ...only, TRUST_PROXY_ENABLED: 'true' })
    const behind = (address: string) => ({ 'x-forwarded-for': address })
    for (const address of [
      '192.0.2.7',
      '198.51.100.1, 192.0.2.7',
      '2001:db8::1',
      '::ffff:192.0.2.9',
    ])
      expect(await app.post('/api/ussd', fields, behind(address)), address).toMatchObject({
        status: 200,
        body: expect.stringMatching(/^CON Welcome/),
      })
    const sent = [fields, 'not json', '', 'x'.repeat(2_000_000), { ...fields, phoneNumber: '7' }]
    for (const address of ['192.0.3.7', '192.0.2.7, 198.51.100.1', '2001:db8::2', 'nonsense'])
      for (const body of sent)
        expect(
          await app.post('/api/ussd', body, { ...json, ...behind(address) }),
          address,
        ).toMatchObject({ status: 403, body: { code: 'FORBIDDEN', hint: expect.any(String) } })
    // Without a trusted proxy the server ignores the header.
    await using direct = await start(only)
    expect(await direct.post('/api/ussd', fields, behind('192.0.2.7'))).toMatchObject({
      status: 403,
    })
    expect((await direct.get('/api/ussd/sessions')).body.count).toBe(0)
  })

  it.each(['', ' , '])('a list that names nobody (%j) stops the boot', async (list) => {
    await expect(start({ ...only, USSD_TRUSTED_GATEWAYS: list })).rejects.toThrow(
      'USSD_TRUSTED_GATEWAYS lists nobody',
    )
  })

  it('any other word than true and false stops the boot', async () => {
    await expect(start({ ...only, USSD_TRUSTED_GATEWAYS_ONLY: 'yess' })).rejects.toThrow(
      'USSD_TRUSTED_GATEWAYS_ONLY',
    )
  })
})

it('has its routes under their documented names', async () => {
  await using app = await start()
  const routes = app.report.plugins.find(({ name }) => name === 'ussd')?.routes
  expect(routes?.map(({ key, auth }) => `${key} ${auth}`).sort()).toEqual([
    'GET /api/ussd/debug/:sessionId operator',
    'GET /api/ussd/metrics operator',
    'GET /api/ussd/sessions operator',
    'POST /api/ussd public',
  ])
})

it('operators alone see sessions and metrics', async () => {
  await using app = await start({
    OPERATOR_TOKEN: 'operators-only-know-this',
    NODE_ENV: 'production',
    ORACLE_MNEMONIC: 'words of a test',
    API_KEY: 'a-key',
    PIN_ENCRYPTION_KEY: 'ab'.repeat(32),
  })
  const headers = { authorization: 'Bearer operators-only-know-this' }
  for (const path of ['/api/ussd/debug/s', '/api/ussd/sessions', '/api/ussd/metrics'])
    expect((await app.get(path)).status).toBe(401)
  await app.post('/api/ussd', fields)
  expect((await app.get('/api/ussd/sessions', { headers })).body).toEqual({
    activeSessions: ['s'],
    count: 1,
  })
  expect((await app.get('/api/ussd/debug/s', { headers })).body).toEqual({
    sessionId: 's',
    debugInfo: {
      state: 'preMenu',
      context: {
        sessionId: 's',
        phoneNumber: fields.phoneNumber,
        message: expect.stringMatching(/^Welcome/),
        isAuthenticated: false,
      },
      status: 'active',
    },
    activeSessions: ['s'],
  })
  const metrics = (await app.get('/api/ussd/metrics', { headers })).body
  expect(metrics.sessions).toEqual({ started: 1, finished: 0, expired: 0 })
  const counts: { count: number }[] = metrics.replies
  expect(counts.reduce((sum, { count }) => sum + count, 0)).toBe(1)
  const prometheus = (await app.get('/metrics', { headers })).body
  expect(prometheus).toMatch(/^\S*ussd_sessions_total\{outcome="started"\} 1$/m)
  expect(prometheus).toMatch(/^\S*ussd_reply_seconds_count(\{\})? 1$/m)
  expect(await app.get('/api/ussd/debug/unknown', { headers })).toMatchObject({
    status: 404,
    body: { statusCode: 404, code: 'NOT_FOUND' },
  })
})

it('production without a key for PINs leaves the plugin out and names the variable', async () => {
  const env = {
    NODE_ENV: 'production',
    ORACLE_MNEMONIC: 'words of a test',
    OPERATOR_TOKEN: 'x'.repeat(20),
    API_KEY: 'k',
  }
  await using app = await start(env)
  expect(app.log.join('\n')).toContain('Plugin ussd env validation failed for PIN_ENCRYPTION_KEY')
  expect((await app.post('/api/ussd', fields)).status).toBe(404)
})
