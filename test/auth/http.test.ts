import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { fakeFetch, scriptedModel, testApp, type TestApp } from '#core/testing'
import { createWallet } from '../../core/testing/wallet.ts'
import preferences from '../../plugins/preferences/index.ts'
import { startServer } from '../support/process.ts'
import { attacks, bearer, forgedInvocation } from '../support/tokens.ts'

const mnemonic = 'a mnemonic that only this suite of tests knows'
const keys = {
  API_KEY: 'first:key-number-one,second:key-number-two',
  OPERATOR_TOKEN: 'the-operators-own-token',
}

const locked = definePlugin({
  name: 'locked',
  summary: 'Routes behind each kind of lock.',
  routes: {
    'GET /locked': { run: (_, { user }) => ({ did: user.did }) },
    'POST /locked/:id': {
      input: z.object({ id: z.string(), n: z.number() }),
      run: (input) => input,
    },
    'GET /keyed': { auth: 'bearer', run: (_, { caller }) => ({ caller }) },
    'GET /operated': { auth: 'operator', run: (_, { caller }) => ({ caller }) },
    'GET /granted': {
      can: { can: 'locked/read' },
      run: () => ({ granted: true }),
    },
    'GET /open': { auth: 'public', run: () => ({ open: true }) },
  },
  web: {
    '/module': (ctx) => {
      ctx.body = { did: (ctx as { user?: { did: string } }).user?.did ?? null }
    },
  },
})

describe('over HTTP', () => {
  let app: TestApp
  const secrets: string[] = [mnemonic, 'key-number-one', 'key-number-two', keys.OPERATOR_TOKEN]
  beforeAll(async () => {
    app = await testApp({
      plugins: [preferences, locked],
      env: { ORACLE_MNEMONIC: mnemonic, LOG_LEVEL: 'trace', NODE_ENV: 'production', ...keys },
    })
  })
  afterAll(() => app.close())
  const call = (path: string, headers: object, method = 'GET') =>
    fetch(app.url + path, { method, headers: headers as Record<string, string> })

  it('a valid invocation is let in', async () => {
    const user = await app.user()
    expect(await user.get('/user-preferences')).toMatchObject({
      status: 200,
      body: { userPreferences: {} },
    })
    expect((await user.get('/locked')).body).toEqual({ did: user.did })
  })

  it('every attack is answered 401 in one shape, with nothing of the token or the reason', async () => {
    const user = await createWallet()
    const all = await attacks(app.oracleDid, user)
    expect(all.length).toBeGreaterThan(40)
    // A line break cannot be sent in a header at all.
    const sendable = all.filter(
      ({ headers }) => !Object.values(headers).some((value) => /[\r\n]/.test(value)),
    )
    expect(sendable.length).toBeGreaterThan(all.length - 5)
    for (const { name, headers, reason } of sendable) {
      const response = await call('/locked', headers)
      expect(response.status, name).toBe(401)
      const body = await response.text()
      expect(response.headers.get('www-authenticate'), name).toBe(
        'Bearer realm="oracle", error="invalid_token"',
      )
      expect(response.headers.get('cache-control'), name).toBe('no-store')
      expect(JSON.parse(body), name).toMatchObject({ statusCode: 401, code: 'UNAUTHORIZED' })
      expect(body, name).not.toContain(reason)
      for (const value of Object.values(headers)) {
        const token = value.replace(/^bearer /i, '')
        if (token.length > 20) secrets.push(token)
        if (token.length > 8) expect(body, name).not.toContain(token)
      }
    }
  })

  it('a token that is too large for the headers never reaches a handler', async () => {
    const response = await call('/locked', bearer('A'.repeat(20_000))).catch(
      (error: unknown) => error,
    )
    if (response instanceof Response) expect(response.status).toBe(431)
    else expect(String(response)).toContain('fetch failed')
  })

  it('no spelling of a path or a request reaches a locked handler', async () => {
    const host = new URL(app.url).host
    const say = (lines: string[]) =>
      new Promise<string>((resolve) => {
        let text = ''
        const socket = connect(Number(new URL(app.url).port), '127.0.0.1', () =>
          socket.write([...lines, `Host: ${host}`, 'Connection: close', '', ''].join('\r\n')),
        )
        socket
          .on('data', (chunk) => (text += chunk))
          .on('close', () => resolve(text))
          .on('error', () => resolve(text))
      })
    const spellings = [
      '/locked',
      '/locked/',
      '//locked',
      '/./locked',
      '/x/../locked',
      '/%6cocked',
      '/locked%2F',
      '/locked;a=b',
      '/LOCKED',
      '/locked?x=/open',
      '/open/../locked',
      '/open/..%2flocked',
      '/locked#',
      '/locked%00',
      '\\locked',
      `http://${host}/locked`,
      'http://other.example/locked',
    ]
    for (const path of spellings)
      for (const method of ['GET', 'HEAD']) {
        const answer = await say([`${method} ${path} HTTP/1.1`])
        expect(answer, `${method} ${path}`).toMatch(/^HTTP\/1\.1 4\d\d /)
        expect(answer, `${method} ${path}`).not.toContain('did:key')
      }
    for (const header of [
      'X-Original-URL: /open',
      'X-Rewrite-URL: /open',
      'X-HTTP-Method-Override: OPTIONS',
      'X-Forwarded-Prefix: /open',
    ])
      expect(await say(['GET /locked HTTP/1.1', header]), header).toMatch(/^HTTP\/1\.1 401 /)
    const good = await (await app.user()).wallet.headers(app.oracleDid)
    const both = [
      'GET /locked HTTP/1.1',
      'Authorization: Bearer nothing',
      `Authorization: ${good.authorization}`,
      'X-Auth-Type: ucan',
    ]
    expect(await say(both)).toMatch(/^HTTP\/1\.1 40[01] /)
    expect(
      await say([
        'GET /locked HTTP/1.1',
        `Authorization:`,
        ` ${good.authorization}`,
        'X-Auth-Type: ucan',
      ]),
    ).toMatch(/^HTTP\/1\.1 4\d\d /)
    expect(
      await say(['GET /locked HTTP/1.1', 'Upgrade: websocket', 'Connection: Upgrade']),
    ).toMatch(/^HTTP\/1\.1 4\d\d /)
    expect(
      await say([
        'GET /locked HTTP/1.1',
        `aUTHORIZATION: bEARER ${good.authorization!.slice(7)}`,
        'x-AUTH-type: UCAN',
      ]),
    ).toMatch(/^HTTP\/1\.1 200 /)
  })

  it('a bound token serves its own request once, body included', async () => {
    const { createHash } = await import('node:crypto')
    const wallet = await createWallet()
    const body = JSON.stringify({ n: 1 })
    const fact = {
      htm: 'POST',
      htu: '/locked/a',
      bh: createHash('sha256').update(body).digest('base64url'),
    }
    const mint = async () =>
      bearer(
        (
          await wallet.invoke({
            audience: app.oracleDid,
            facts: [fact],
            nonce: String(Math.random()),
          })
        ).text,
      )
    const post = (path: string, headers: object, sent = body) =>
      fetch(app.url + path, {
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/json' },
        body: sent,
      })
    const headers = await mint()
    const first = await post('/locked/a', headers)
    expect(await first.json()).toEqual({ id: 'a', n: 1 })
    expect((await post('/locked/a', headers)).status).toBe(401)
    expect((await post('/locked/b', await mint())).status).toBe(401)
    expect((await post('/locked/a', await mint(), '{"n":2}')).status).toBe(401)
    expect((await call('/locked', await mint())).status).toBe(401)
  })

  it('bearer routes take each named key, or a user who was granted the plugin; operator routes their own', async () => {
    const keyed = (key: string, path = '/keyed') => call(path, { authorization: `Bearer ${key}` })
    expect(await (await keyed('key-number-one')).json()).toEqual({ caller: 'key:first' })
    expect(await (await keyed('key-number-two')).json()).toEqual({ caller: 'key:second' })
    for (const wrong of [
      'key-number',
      'key-number-one ',
      'first:key-number-one',
      keys.API_KEY,
      keys.OPERATOR_TOKEN,
    ])
      expect((await keyed(wrong)).status, wrong).toBe(wrong === 'key-number-one ' ? 200 : 401)
    expect((await keyed(keys.OPERATOR_TOKEN, '/operated')).status).toBe(200)
    for (const headers of [
      {},
      { authorization: 'Bearer key-number-one' },
      { 'x-forwarded-for': '127.0.0.1' },
    ])
      expect((await call('/operated', headers)).status).toBe(401)

    // What a user grants on his own DID opens what is his, and nothing of the oracle's.
    const user = await app.user()
    expect(await user.get('/keyed')).toMatchObject({
      status: 403,
      body: {
        code: 'NOT_GRANTED',
        message: expect.stringContaining('"locked/read"'),
        hint: `The operator of the oracle grants it: npm run grant -- ${user.did} 'locked/read' --days 90`,
        details: { ability: 'locked/read', resource: app.oracleDid },
      },
    })
    await user.granted('locked/read')
    expect((await user.get('/keyed')).body).toEqual({ caller: user.did })
  })

  it('a route’s capability is asked of the delegation, with the causes of a denial', async () => {
    const user = await app.user()
    expect((await user.get('/granted')).status).toBe(200)
    const identity = await user.wallet.delegate({
      audience: app.oracleDid,
      capabilities: [{ can: '*', with: 'ixo:oracle' }],
    })
    const refused = await user.get('/granted', { headers: { 'x-ucan-delegation': identity.text } })
    expect(refused).toMatchObject({
      status: 403,
      body: { code: 'FORBIDDEN', message: expect.stringContaining('locked/read') },
    })
    expect(refused.body.details.causes.length).toBeGreaterThan(0)
  })

  it('a web module learns who calls, and serves nobody in particular without a token', async () => {
    const user = await app.user()
    expect((await user.get('/module')).body).toEqual({ did: user.did })
    expect((await app.get('/module')).body).toEqual({ did: null })
    expect(
      (await app.get('/module', { headers: bearer('nonsense') as Record<string, string> })).body,
    ).toEqual({ did: null })
  })

  it('/delegation keeps what verifies, whatever the body claims, and revokes it', async () => {
    const user = await app.user()
    const other = await createWallet()
    const invocation = bearer((await user.wallet.invoke({ audience: app.oracleDid })).text)
    const post = (raw: string, more: object = {}) =>
      app.post('/delegation', { raw, ...more }, invocation as Record<string, string>)
    const claims = { issuer: user.did, audience: app.oracleDid, expiration: 9_999_999_999 }

    expect((await user.get('/delegation')).body).toEqual({ authorized: false })
    const wrong = [
      await other.delegate({ audience: app.oracleDid }),
      await user.wallet.delegate({ audience: other.did }),
      await user.wallet.delegate({ audience: app.oracleDid, lifetime: -10 }),
      await user.wallet.delegate({ audience: app.oracleDid, lifetime: Infinity }),
    ]
    for (const { text } of wrong) expect((await post(text, claims)).status).toBe(400)
    expect((await post('bm9uc2Vuc2U=')).status).toBe(400)
    expect((await user.get('/delegation')).body).toEqual({ authorized: false })

    const good = await user.wallet.delegate({ audience: app.oracleDid, lifetime: 3600 })
    const kept = await post(good.text, { expiration: 1 })
    expect(kept).toMatchObject({ status: 200, body: { ok: true, expiration: expect.any(Number) } })
    expect((await user.get('/delegation')).body).toEqual({
      authorized: true,
      expiration: kept.body.expiration,
    })
    // The stored one grants what a header without a delegation does not.
    expect((await call('/granted', invocation)).status).toBe(200)

    const alone = { 'x-ucan-delegation': good.text }
    expect((await call('/locked', alone)).status).toBe(200)
    expect(
      (
        await app.post(
          '/delegation',
          { raw: (await user.wallet.delegate({ audience: app.oracleDid })).text },
          alone,
        )
      ).status,
    ).toBe(401)
    expect(
      (await app.delete('/delegation', { headers: invocation as Record<string, string> })).body,
    ).toEqual({ ok: true })
    expect((await call('/locked', alone)).status).toBe(401)
    expect((await call('/granted', invocation)).status).toBe(403)
  })

  it('a thousand bad signatures in flight trouble nobody else', async () => {
    const bad = await Promise.all(Array.from({ length: 20 }, () => forgedInvocation(app.oracleDid)))
    const flood = Array.from({ length: 1000 }, (_, i) =>
      call('/locked', bearer(bad[i % bad.length]!)).then((response) => response.status),
    )
    const user = await app.user()
    const served = await Promise.all(Array.from({ length: 20 }, () => user.get('/locked')))
    expect(served.map(({ status }) => status)).toEqual(served.map(() => 200))
    expect(new Set(await Promise.all(flood))).toEqual(new Set([401]))
    expect((await app.get('/open')).status).toBe(200)
  }, 60_000)

  it('no secret and no token of this suite is in the log at any level, nor in /health', async () => {
    const log = app.log.join('') + JSON.stringify((await app.get('/health')).body)
    expect(app.log.length).toBeGreaterThan(50)
    expect(secrets.length).toBeGreaterThan(40)
    for (const secret of secrets) expect(log.includes(secret), secret.slice(0, 40)).toBe(false)
    expect(log).toContain('first')
  })
})

describe('without a signing key', () => {
  it('every authenticated route is 401 with its own code, and the public ones serve', async () => {
    await using app = await testApp({
      plugins: [preferences, locked],
      env: { NODE_ENV: 'production', API_KEY: 'one-key-alone' },
    })
    const headers = await (
      await createWallet()
    ).headers('did:key:z6MkhVbv65GzMdnpD16CDxr7GYW3VR66cDoV1hKMqVf5BdF1')
    for (const path of ['/user-preferences', '/locked', '/granted', '/delegation'])
      for (const sent of [headers, {}])
        expect(await app.get(path, { headers: sent })).toMatchObject({
          status: 401,
          body: {
            code: 'SIGNING_KEY_NOT_LOADED',
            hint: expect.stringContaining('ORACLE_MNEMONIC'),
          },
        })
    expect((await app.get('/open')).status).toBe(200)
    expect(
      (await app.get('/keyed', { headers: { authorization: 'Bearer one-key-alone' } })).status,
    ).toBe(200)
    expect((await app.get('/health')).body).toMatchObject({
      status: 'degraded',
      signingKey: 'missing',
    })
    expect((await app.get('/.well-known/did.json')).status).toBe(404)
  })
})

describe('the two buckets', () => {
  it('failures become 429 for the failing alone; calls are counted per DID', async () => {
    await using app = await testApp({
      plugins: [locked],
      env: { AUTH_FAILURES_PER_MINUTE: '5', CALLS_PER_MINUTE: '7' },
    })
    const statuses: number[] = []
    for (let i = 0; i < 8; i++) statuses.push((await app.get('/locked')).status)
    expect(statuses).toEqual([401, 401, 401, 401, 401, 429, 429, 429])
    const limited = await app.get('/locked')
    expect(limited.body.code).toBe('RATE_LIMITED')
    expect(Number(limited.headers.get('retry-after'))).toBeGreaterThan(0)
    expect((await app.get('/open')).status).toBe(200)

    const [one, two] = await Promise.all([app.user(), app.user()])
    const called: number[] = []
    for (let i = 0; i < 9; i++) called.push((await one.get('/locked')).status)
    expect(called).toEqual([200, 200, 200, 200, 200, 200, 200, 429, 429])
    expect((await two.get('/locked')).status).toBe(200)
  })
})

describe('in development', () => {
  it('operator routes are open to this machine, and to no page that came from elsewhere', async () => {
    await using app = await testApp({ plugins: [locked] })
    const { host, port } = new URL(app.url)
    const ask = (headers: Record<string, string>) =>
      fetch(`${app.url}/operated`, { headers }).then(({ status }) => status)
    expect(await ask({})).toBe(200)
    expect(await ask({ origin: app.url })).toBe(200)
    expect(await ask({ origin: 'https://evil.example' })).toBe(401)
    expect(await ask({ origin: `http://evil.example:${port}` })).toBe(401)
    expect(await ask({ 'x-forwarded-for': '203.0.113.9' })).toBe(401)
    const rebound = await new Promise<string>((resolve) => {
      const socket = connect(Number(port), '127.0.0.1', () =>
        socket.write(
          `GET /operated HTTP/1.1\r\nHost: evil.example:${port}\r\nConnection: close\r\n\r\n`,
        ),
      )
      let text = ''
      socket.on('data', (chunk) => (text += chunk)).on('close', () => resolve(text))
    })
    expect(rebound).toMatch(/^HTTP\/1\.1 401/)
    expect(host).toContain('127.0.0.1')
  })

  it('what the oracle tells of itself never comes from a Host header', async () => {
    await using app = await testApp({
      plugins: [],
      env: { ORACLE_NAME: 'Nyota', ORACLE_PRICE: '5 uixo', MODEL: 'demo' },
    })
    const { body } = await app.get('/.well-known/oracle.json')
    expect(body).toEqual({
      did: app.oracleDid,
      name: 'Nyota',
      apiUrl: app.url,
      wsUrl: app.url.replace('http', 'ws'),
      model: 'demo',
      price: '5 uixo',
      runtime: expect.any(String),
    })
    const model = scriptedModel(['Hello.'], { id: 'house/own' })
    await using own = await testApp({ plugins: [], model })
    expect((await own.get('/.well-known/oracle.json')).body.model).toBe('house/own')
    const document = await app.get('/.well-known/did.json')
    expect(document.headers.get('content-type')).toContain('application/did+json')
    expect(
      document.body.service.map(({ id, serviceEndpoint }: Record<string, string>) => [
        id!.split('#')[1],
        serviceEndpoint,
      ]),
    ).toEqual([
      ['api', app.url],
      ['ws', app.url.replace('http', 'ws')],
    ])
  })
})

describe('the registered address', () => {
  const did = 'did:ixo:entity:abc123'
  const bootWith = async (registered: string | undefined, env: Record<string, string> = {}) => {
    const document = {
      id: did,
      service: registered
        ? [{ id: `${did}#api`, type: 'oracleService', serviceEndpoint: registered }]
        : [],
    }
    const app = await testApp({
      plugins: [],
      env: { ORACLE_ENTITY_DID: did, RESOLVER_URL: 'http://resolver.example', ...env },
      fetch: fakeFetch({
        [`http://resolver.example/1.0/identifiers/${did}`]: { didDocument: document },
      }),
    })
    await expect.poll(() => app.log.join('')).toContain('registers')
    await app.close()
    return app.log.join('')
  }

  it('is compared at boot, and both ways out are said', async () => {
    const log = await bootWith('http://127.0.0.1:4000')
    expect(log).toContain(`${did} registers its #api at http://127.0.0.1:4000`)
    expect(log).toContain('Set PORT=4000')
    expect(log).toMatch(/or change the registered address to http:\/\/127\.0\.0\.1:\d+/)
    expect(
      await bootWith('https://oracle.example', { PUBLIC_URL: 'https://oracle.example' }),
    ).toContain('which is this server')
    expect(await bootWith(undefined)).toContain('registers no #api service')
  })
})

describe('keys rotate on SIGHUP', () => {
  it('without a restart, from the .env file', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'oracle-keys-'))
    writeFileSync(join(folder, '.env'), 'API_KEY=old:old-key-value\n')
    const rotated = startServer(
      'test/support/keyed-server.ts',
      { DATA_DIR: join(folder, 'data') },
      folder,
    )
    try {
      const url = await rotated.url
      const status = async (key: string) =>
        (await fetch(`${url}/keyed`, { headers: { authorization: `Bearer ${key}` } })).status
      expect([await status('old-key-value'), await status('new-key-value')]).toEqual([200, 401])
      writeFileSync(join(folder, '.env'), 'API_KEY=new:new-key-value\n')
      rotated.child.kill('SIGHUP')
      while (!rotated.output().includes('keys reloaded')) await sleep(20)
      expect([await status('old-key-value'), await status('new-key-value')]).toEqual([401, 200])
      writeFileSync(join(folder, '.env'), 'API_KEY=broken:,also broken\n')
      rotated.child.kill('SIGHUP')
      while (!rotated.output().includes('API_KEY:')) await sleep(20)
      expect(await status('new-key-value')).toBe(200)
      expect(rotated.output()).not.toMatch(/(old|new)-key-value/)
    } finally {
      await rotated.end('SIGKILL')
      rmSync(folder, { recursive: true, force: true })
    }
  })
})

it('the wallet example of the docs is let in', async () => {
  await using app = await testApp({ plugins: [preferences] })
  const { createWallet: exampleWallet } = await import('../../examples/wallet/wallet.ts')
  const wallet = await exampleWallet(crypto.getRandomValues(new Uint8Array(32)))
  const invocation = await wallet.createInvocation(app.oracleDid)
  const delegation = await wallet.createDelegation(app.oracleDid)
  const headers = bearer(invocation.serialized, delegation.serialized) as Record<string, string>
  expect((await app.get('/user-preferences', { headers })).status).toBe(200)
  for (const file of ['node', 'browser', 'wallet'])
    expect(
      readFileSync(`examples/wallet/${file}.ts`, 'utf8').split('\n').length,
    ).toBeLessThanOrEqual(60)
})
