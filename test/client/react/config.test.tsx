import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll, expect, it, onTestFinished, vi } from 'vitest'
import { scriptedModel, testApp, type TestApp } from '#core/testing'
import { createOracleClient, OraclesProvider, useOraclesConfig } from '../../../client/index.ts'
import payments from '../../../plugins/payments/index.ts'
import registry from '../../../plugins/registry/index.ts'
import { apiKeys, asKey } from '../../support/registry.ts'
import { testWallet } from '../oracle.ts'
import { goOnline, hook, until } from '../page.ts'

const twin = 'did:ixo:entity:the-oracle'

let app: TestApp
let asked: string[] = []
/** Documents of hosts that are not there; a number is a status, a function decides at each request. */
let elsewhere: Record<string, unknown> = {}
const realFetch = globalThis.fetch

beforeAll(async () => {
  app = await testApp({
    plugins: [registry, payments],
    model: scriptedModel(['Yes.', 'And again.']),
    env: { API_KEY: apiKeys, ORACLE_ENTITY_DID: twin, ORACLE_PRICE: '3 IXO' },
  })
  const protocol = (await app.post('/v1/protocols', { type: 'Protocol', properties: {} }, asKey))
    .body.did
  const register = (did: string, services: readonly object[]) =>
    app.post('/v1/entities', { type: 'Oracle', protocol, properties: {}, did, services }, asKey)
  for (const [did, services] of [
    [twin, [{ id: '#main', type: 'oracleService', endpoint: app.url }]],
    ['did:ixo:entity:impostor', [{ id: '#api', type: 'Api', endpoint: app.url }]],
    ['did:ixo:entity:mute', []],
  ] as const)
    expect((await register(did, services)).status).toBe(201)
  const gone = `/v1/entities/${encodeURIComponent('did:ixo:entity:gone')}`
  await register('did:ixo:entity:gone', [{ id: '#api', type: 'Api', endpoint: app.url }])
  expect((await app.delete(gone, { headers: { ...asKey, 'if-match': '"1"' } })).status).toBe(200)
})
afterAll(() => app?.close())
afterEach(() => {
  globalThis.fetch = realFetch
  vi.useRealTimers()
})

const { initialWallet, ...mint } = await testWallet()

let count = 0
/** A client with a resolver that no other test of this file has asked. */
function clientWith(resolverUrl: string | undefined = undefined) {
  asked = []
  globalThis.fetch = async (input, init) => {
    const url = String(input)
    asked.push(url)
    const named = elsewhere[url]
    const found = typeof named === 'function' ? named() : named
    if (found instanceof Error) throw found
    if (typeof found === 'number') return new Response('{}', { status: found })
    return found ? Response.json(found) : realFetch(input, init)
  }
  return createOracleClient({ wallet: initialWallet, ...mint, resolverUrl })
}
const config = (did: string, resolverUrl?: string) => clientWith(resolverUrl).config(did).read()

/** A document at a resolver of its own, with these services. */
function documented(did: string, service: readonly object[]): string {
  const resolver = `https://resolver-${++count}.example`
  elsewhere = { [`${resolver}/1.0/identifiers/${did}`]: { didDocument: { id: did, service } } }
  return resolver
}

it('did:ixo is found by this server’s own resolver, where its twin is registered', async () => {
  expect(await config(twin, app.url)).toMatchObject({
    apiUrl: app.url,
    wsUrl: expect.stringMatching(/^ws/),
    model: 'scripted',
    price: '3 IXO',
    did: app.oracleDid,
    entityDid: twin,
  })
  expect(asked).toEqual([
    `${app.url}/1.0/identifiers/${twin}`,
    `${app.url}/.well-known/oracle.json`,
  ])
  // Another client of the page asks nobody for five minutes.
  expect(await config(twin, app.url)).toMatchObject({ apiUrl: app.url })
  expect(asked).toEqual([])
})

it('the provider takes the resolver, and the hook has the fields of the page', async () => {
  clientWith()
  const seen = hook(
    () => useOraclesConfig(twin),
    (child) => (
      <OraclesProvider
        {...mint}
        initialWallet={initialWallet}
        resolverUrl={`${app.url}/1.0/identifiers/`}
      >
        {child}
      </OraclesProvider>
    ),
  )
  await until(() => seen.now.isReady)
  expect(seen.now).toEqual({
    config: {
      apiUrl: app.url,
      socketUrl: expect.stringMatching(/^ws/),
      model: 'scripted',
      price: '3 IXO',
      authConfig: {
        granteeAddress: expect.stringMatching(/^dev1[a-z0-9]{38}$/),
        oracleName: app.oracleDid,
        requiredPermissions: ['/cosmos.bank.v1beta1.MsgSend', '/ixo.claims.v1beta1.MsgSubmitClaim'],
        expirationDays: 30,
      },
    },
    isLoading: false,
    isReady: true,
    isStale: false,
    error: null,
  })
})

it('did:web is found by its document, did:key at the page’s origin', async () => {
  elsewhere = {
    'https://oracle.example/.well-known/did.json': {
      service: [{ id: 'did:web:oracle.example#api', serviceEndpoint: 'https://oracle.example' }],
    },
    'https://oracle.example/.well-known/oracle.json': {
      did: 'did:web:oracle.example',
      apiUrl: 'https://oracle.example/',
      wsUrl: 'wss://oracle.example/',
    },
    'https://many.example:8443/of/two/did.json': {
      service: [{ id: '#api', serviceEndpoint: 'https://two.example' }],
    },
    'https://two.example/.well-known/oracle.json': {
      did: 'did:web:many.example%3A8443:of:two',
      apiUrl: 'https://two.example',
      wsUrl: 'wss://two.example',
    },
    'http://localhost/.well-known/oracle.json': {
      did: app.oracleDid,
      apiUrl: app.url,
      wsUrl: app.url,
    },
  }
  expect(await config('did:web:oracle.example')).toMatchObject({ apiUrl: 'https://oracle.example' })
  expect(await config('did:web:many.example%3A8443:of:two')).toMatchObject({
    apiUrl: 'https://two.example',
  })
  expect(await config(app.oracleDid)).toMatchObject({ apiUrl: app.url })
  expect(asked).toEqual(['http://localhost/.well-known/oracle.json'])
})

it.each([
  [
    'a type before an id',
    [
      { id: '#api', type: 'Api', serviceEndpoint: 'https://other.example' },
      { id: '#x', type: ['Z', 'oracleService'], serviceEndpoint: 'HERE' },
    ],
  ],
  ['an id', [{ id: 'did:ixo:x#api', type: 'Api', serviceEndpoint: 'HERE' }]],
  ['a list of endpoints', [{ id: '#api', serviceEndpoint: ['HERE', 'https://other.example'] }]],
  ['an endpoint with a uri', [{ id: '#api', serviceEndpoint: { uri: 'HERE' } }]],
])('a service is chosen by %s', async (_, services) => {
  const service = JSON.parse(JSON.stringify(services).replaceAll('HERE', `${app.url}/`))
  expect(await config(twin, documented(twin, service))).toMatchObject({ apiUrl: app.url })
})

it('keeps the path of an endpoint, and calls below it', async () => {
  const server = createServer((req, res) => {
    const path = req.url?.replace('/oracles/one', '') ?? ''
    void realFetch(app.url + path).then(async (answer) => {
      res.writeHead(answer.status, { 'content-type': 'application/json' })
      res.end(Buffer.from(await answer.arrayBuffer()))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}/oracles/one`
  const resolver = documented(twin, [
    { id: '#1', type: 'oracleService', serviceEndpoint: `${base}/?from=here#there` },
    { id: '#2', type: 'wsService', serviceEndpoint: 'wss://sockets.example/of/one' },
  ])
  const client = clientWith(resolver)
  expect(await client.config(twin).read()).toMatchObject({
    apiUrl: base,
    wsUrl: 'wss://sockets.example/of/one',
  })
  expect((await client.models(twin).read()).default).toBe('scripted')
  expect(asked.at(-1)).toBe(`${base}/models`)
})

it('overrides look nobody up: what the oracle at that address says of itself comes behind the address', async () => {
  const client = clientWith('https://nobody.example')
  const seen = hook(
    () => useOraclesConfig(twin, { baseUrl: `${app.url}/`, wsUrl: 'wss://x.example' }),
    (child) => (
      <OraclesProvider {...mint} initialWallet={initialWallet}>
        {child}
      </OraclesProvider>
    ),
  )
  await until(() => seen.now.isReady)
  expect(seen.now.config).toMatchObject({ apiUrl: app.url, socketUrl: 'wss://x.example' })
  expect(await client.config('did:ixo:nobody', { baseUrl: app.url }).read()).toEqual({
    apiUrl: app.url,
    wsUrl: app.url,
  })
  await until(() => seen.now.config.price !== null)
  expect(seen.now).toMatchObject({
    config: {
      apiUrl: app.url,
      socketUrl: 'wss://x.example',
      model: 'scripted',
      price: '3 IXO',
      authConfig: { oracleName: app.oracleDid },
    },
    error: null,
  })
  expect(asked).toEqual([`${app.url}/.well-known/oracle.json`])
})

it.each([
  ['is another oracle', 'did:ixo:nobody', () => app.url],
  ['says nothing of itself', twin, () => 'https://silent.example'],
])('an address of the page’s own that %s is used, without model and price', async (_, did, at) => {
  clientWith()
  elsewhere = { 'https://silent.example/.well-known/oracle.json': 404 }
  const seen = hook(
    () => useOraclesConfig(did, { baseUrl: at() }),
    (child) => (
      <OraclesProvider {...mint} initialWallet={initialWallet}>
        {child}
      </OraclesProvider>
    ),
  )
  await until(() => seen.now.isReady && asked.length > 0)
  expect(seen.now).toMatchObject({
    config: { apiUrl: at(), model: null, price: null },
    error: null,
  })
})

it.each([
  ['nobody registered', 'did:ixo:entity:nobody', 404, /nobody knows it/],
  ['is deactivated', 'did:ixo:entity:gone', 410, /is deactivated/],
  ['has no service', 'did:ixo:entity:mute', 0, /names no service/],
  ['leads to another oracle', 'did:ixo:entity:impostor', 0, /is the oracle did:key/],
])('an oracle that %s is an error at once', async (_, did, status, message) => {
  // What was known before does not stand in.
  const key = `oracle-config ${app.url} ${did}`
  localStorage.setItem(key, JSON.stringify({ at: Date.now(), config: { apiUrl: 'https://old' } }))
  await expect(config(did, app.url)).rejects.toMatchObject({
    code: 'config_unresolved',
    status,
    message: expect.stringMatching(message),
  })
  expect(localStorage.getItem(key)).toBeNull()
})

it.each([
  ['an http: endpoint on an https page', 'http://oracle.example', /not encrypted/],
  ['an endpoint that is no address of the web', 'javascript:alert(1)', /no address/],
  ['an endpoint with a password', 'https://a:b@oracle.example', /no address/],
  ['an endpoint that is no address', 'somewhere', /no address/],
])('refuses %s', async (_, serviceEndpoint, message) => {
  const resolver = documented(twin, [{ id: '#api', serviceEndpoint }])
  elsewhere['http://oracle.example/.well-known/oracle.json'] = {
    did: twin,
    apiUrl: 'http://oracle.example',
    wsUrl: 'wss://oracle.example',
  }
  const { location } = globalThis
  const at = new URL('https://page.example/')
  Object.defineProperty(globalThis, 'location', { value: at, configurable: true })
  try {
    await expect(config(twin, resolver)).rejects.toMatchObject({
      code: 'config_unresolved',
      message: expect.stringMatching(message),
    })
  } finally {
    Object.defineProperty(globalThis, 'location', { value: location, configurable: true })
  }
})

it.each([
  ['the browser is online again', goOnline],
  ['the page has the focus', () => window.dispatchEvent(new window.Event('focus'))],
])(
  'where the resolver dies after the first load, the last good configuration serves the chat until %s',
  async (_, returns) => {
    const service = [{ id: '#api', serviceEndpoint: app.url }]
    const resolver = documented(twin, service)
    const [address = ''] = Object.keys(elsewhere)
    expect((await config(twin, resolver)).isStale).toBeUndefined()

    // Six minutes later, in another load of the page.
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 6 * 60_000 })
    elsewhere = { [address]: 503 }
    const client = clientWith(resolver)
    const stale = await client.config(twin).read()
    expect(stale).toMatchObject({ isStale: true, apiUrl: app.url })
    const { sessionId } = await client.sessions(twin).createSession()
    const chat = client.chat({ oracleDid: twin, sessionId })
    onTestFinished(chat.subscribe(() => undefined))
    await chat.sendMessage('Are you there?')
    expect(chat.getSnapshot()).toMatchObject({ status: 'ready', error: null })

    const seen = hook(
      () => useOraclesConfig(twin),
      (child) => (
        <OraclesProvider {...mint} initialWallet={initialWallet} resolverUrl={resolver}>
          {child}
        </OraclesProvider>
      ),
    )
    await until(() => seen.now.isStale)
    expect(seen.now).toMatchObject({ isReady: true, config: { apiUrl: app.url }, error: null })
    elsewhere = { [address]: { didDocument: { service } } }
    returns()
    await until(() => seen.now.isReady && !seen.now.isStale)
  },
)

it('the browser keeps at most twenty, the newest', async () => {
  for (let i = 0; i < 25; i++) {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 1_000 })
    await config(twin, documented(twin, [{ id: '#api', serviceEndpoint: app.url }]))
  }
  const kept = Object.keys(localStorage).filter((key) => key.startsWith('oracle-config '))
  expect(kept).toHaveLength(20)
  expect(kept.some((key) => key.includes(`resolver-${count}.`))).toBe(true)
})

it('works where the page has no storage', async () => {
  const storage = localStorage
  const broken = new Proxy(
    {},
    {
      get: () => () => {
        throw new Error('denied')
      },
    },
  )
  Object.defineProperty(globalThis, 'localStorage', { value: broken, configurable: true })
  try {
    const resolver = documented(twin, [{ id: '#api', serviceEndpoint: app.url }])
    expect(await config(twin, resolver)).toMatchObject({ apiUrl: app.url })
  } finally {
    Object.defineProperty(globalThis, 'localStorage', { value: storage, configurable: true })
  }
})

// The last one: a server in this process that has once seen the time of a week later takes every token for expired.
it('after a week without a good answer nothing stands in', async () => {
  const resolver = documented(twin, [{ id: '#api', serviceEndpoint: app.url }])
  const [address = ''] = Object.keys(elsewhere)
  expect((await config(twin, resolver)).isStale).toBeUndefined()
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 8 * 24 * 3_600_000 })
  elsewhere = { [address]: new TypeError('fetch failed') }
  await expect(config(twin, resolver)).rejects.toMatchObject({ code: 'config_unresolved' })
})
