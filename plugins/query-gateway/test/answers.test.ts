import * as grpc from '@grpc/grpc-js'
import { describe, expect, it } from 'vitest'
import type { LedgerCall, LedgerOptions } from '../fixtures/ledger.ts'
import { aLedger, gatewayTo } from '../../../test/support/gateway.ts'

async function start(options: LedgerOptions = {}, env: Record<string, string> = {}) {
  const ledger = await aLedger(options)
  const app = await gatewayTo(ledger.address, env)
  const get = (path: string, headers: Record<string, string> = {}) => app.get(path, { headers })
  return { ledger, app, get }
}
const path = '/ledger/token/params'
const at7 = { 'x-cosmos-block-height': '7' }
const trace = (nth: number) => ({ traceparent: `00-${'0'.repeat(31)}${nth}-${'0'.repeat(15)}1-01` })

describe('an answer at a height', () => {
  it('may be kept for a year and is asked for again without the upstream, whoever traces it', async () => {
    const { ledger, get } = await start()
    const first = await get(path, { ...at7, ...trace(1) })
    expect(first.headers.get('cache-control')).toBe('public, max-age=31536000, immutable')
    expect(first.headers.get('vary')).toContain('x-cosmos-block-height')
    const etag = first.headers.get('etag')!
    for (const given of [etag, `W/${etag}`, `"other", ${etag}`])
      expect((await get(path, { ...at7, ...trace(2), 'if-none-match': given })).status).toBe(304)
    expect(ledger.calls['TokenQuery.Params']).toBe(1)
    expect((await get(path, { ...at7, 'if-none-match': '"other"' })).status).toBe(200)
  })

  it('has another name at another height, for other questions and for other callers', async () => {
    const { get } = await start()
    const tag = async (url: string, headers = {}) =>
      (await get(url, { ...at7, ...headers })).headers.get('etag')
    const tags = [
      await tag(path),
      await tag(path, { 'x-cosmos-block-height': '8' }),
      await tag(`${path}?a=1`),
      await tag('/ledger/entity/params'),
      await tag(path, { authorization: 'Bearer a' }),
      await tag(path, { 'grpc-metadata-tenant': 'a' }),
    ]
    expect(new Set(tags).size).toBe(tags.length)
    expect(tags).not.toContain(null)
  })

  it('is private where a caller brought something of their own, or a gate let them in', async () => {
    const { get } = await start()
    const cache = async (headers: Record<string, string>) =>
      (await get(path, { ...at7, ...headers })).headers
    expect((await cache({ authorization: 'Bearer a' })).get('cache-control')).toMatch(/^private/)
    const own = await cache({ 'grpc-metadata-tenant': 'a' })
    expect(own.get('cache-control')).toMatch(/^private/)
    expect(own.get('vary')).toContain('grpc-metadata-tenant')
    const gated = await start({}, { GATEWAY_REQUIRED_HEADERS: 'x-client' })
    const behind = await gated.get(path, { ...at7, 'x-client': 'a' })
    expect(behind.headers.get('cache-control')).toMatch(/^private/)
    const etag = behind.headers.get('etag')!
    expect((await gated.get(path, { ...at7, 'if-none-match': etag })).status).toBe(401)
  })

  it('is the same under both names of the height, and says its height under both', async () => {
    const { ledger, get } = await start()
    const other = { 'grpc-metadata-x-cosmos-block-height': '7' }
    const first = await get(path, at7)
    const second = await get(path, other)
    for (const { status, headers } of [first, second]) {
      expect(status).toBe(200)
      expect(headers.get('x-cosmos-block-height')).toBe('7')
      expect(headers.get('grpc-metadata-x-cosmos-block-height')).toBe('7')
      expect(headers.get('cache-control')).toMatch(/^public/)
      expect(headers.get('vary')).toContain('grpc-metadata-x-cosmos-block-height')
    }
    const etag = first.headers.get('etag')!
    expect(second.headers.get('etag')).toBe(etag)
    expect((await get(path, { ...other, 'if-none-match': etag })).status).toBe(304)
    expect(ledger.calls['TokenQuery.Params']).toBe(2)
    expect((await get(path, { ...at7, ...other })).status).toBe(200)
    for (const height of ['x', '-1', '8'])
      expect(
        await get(path, { ...at7, 'grpc-metadata-x-cosmos-block-height': height }),
      ).toMatchObject({ status: 400, body: { code: 3 } })
  })

  it('is not kept where the upstream does not say for which height it answered', async () => {
    const { get } = await start({ namesHeight: false })
    const { status, headers } = await get(path, at7)
    expect(status).toBe(200)
    expect(headers.get('etag')).toBeNull()
    expect(headers.get('cache-control')).toBeNull()
  })

  it('is not kept when there is no pin, when it failed, or when the upstream answered for another height', async () => {
    const other = ({ call }: LedgerCall) => {
      const metadata = new grpc.Metadata()
      metadata.set('x-cosmos-block-height', '9')
      call.sendMetadata(metadata)
      return {}
    }
    const { get } = await start({ handlers: { 'EntityQuery.Params': other } })
    for (const headers of [undefined, { 'x-cosmos-block-height': '0' }])
      expect((await get(path, headers)).headers.get('etag')).toBeNull()
    const elsewhere = await get('/ledger/entity/params', at7)
    expect(elsewhere.headers.get('etag')).toBeNull()
    expect(elsewhere.headers.get('x-cosmos-block-height')).toBe('9')
    const failed = await get('/ledger/entity/nobody', at7)
    expect(failed.status).toBe(404)
    expect(failed.headers.get('etag')).toBeNull()
    expect(failed.headers.get('cache-control')).toBe('no-store')
    for (const height of ['-1', '1e3', '7.0', '0x7', ' ', '99999999999999999999'])
      expect((await get(path, { 'x-cosmos-block-height': height })).status, height).toBe(400)
  })
})

describe('equal questions at the same time', () => {
  it('share one call when all that counts is equal, and only then', async () => {
    const gate = Promise.withResolvers<void>()
    const seen: string[] = []
    const hold = async ({ metadata }: LedgerCall) => {
      seen.push(String(metadata.get('authorization')[0] ?? 'nobody'))
      await gate.promise
      return {}
    }
    const { app, get } = await start({
      handlers: { 'TokenQuery.Params': hold, 'TokenQuery.Simulate': hold },
    })
    const asked = [
      ...[1, 2, 3].map((nth) => get(path, trace(nth))),
      get(path, { authorization: 'Bearer a' }),
      get(path, { authorization: 'Bearer b' }),
      get(path, at7),
      ...[1, 2].map(() => app.post('/ledger/token/simulate', {})),
    ]
    await expect.poll(() => seen.length).toBe(6)
    gate.resolve()
    for (const answer of await Promise.all(asked)) expect(answer.status).toBe(200)
    expect(seen.toSorted()).toEqual([
      'Bearer a',
      'Bearer b',
      'nobody',
      'nobody',
      'nobody',
      'nobody',
    ])
  })

  it('share a failure too, and nothing of it is left for those who ask later', async () => {
    let fails = true
    const gate = Promise.withResolvers<void>()
    const answer = async () => {
      await gate.promise
      if (fails) throw Object.assign(new Error('x'), { code: 14, details: 'syncing' })
      return {}
    }
    const { app, ledger, get } = await start({ handlers: { 'TokenQuery.Params': answer } })
    const asked = [1, 2, 3].map(() => get(path))
    await expect.poll(() => ledger.calls['TokenQuery.Params']).toBe(1)
    // The other requests were sent with the first one, so they have arrived when the server has answered later requests.
    for (let n = 0; n < 10; n++) await app.get('/health')
    gate.resolve()
    const failed = await Promise.all(asked)
    expect(failed.map(({ status }) => status)).toEqual([503, 503, 503])
    expect(ledger.calls['TokenQuery.Params']).toBe(1)
    fails = false
    expect((await get(path)).status).toBe(200)
  })
})

describe('pages of other origins', () => {
  const from = { origin: 'https://app.example' }

  it('may read nothing unless the operator says so, whatever the runtime allows', async () => {
    const { app, get } = await start({}, { CORS_ORIGIN: '*' })
    for (const url of [path, '/ledger/entity/nobody', '/ledger/nothing', '/ledger/openapi.json'])
      expect((await get(url, from)).headers.get('access-control-allow-origin'), url).toBeNull()
    expect(
      (await app.get('/health', { headers: from })).headers.get('access-control-allow-origin'),
    ).toBe('*')
  })

  it('may read answers and errors where they are named, and preflights say what they may send', async () => {
    const { app, get } = await start(
      {},
      { GATEWAY_CORS_ORIGINS: 'https://app.example,https://b.example' },
    )
    for (const url of [path, '/ledger/entity/nobody', '/ledger/openapi.json']) {
      const { headers } = await get(url, from)
      expect(headers.get('access-control-allow-origin'), url).toBe('https://app.example')
      expect(headers.get('vary')).toContain('Origin')
      expect(headers.get('access-control-expose-headers')).toContain('X-Cosmos-Block-Height')
    }
    expect(
      (await get(path, { origin: 'https://evil.example' })).headers.get(
        'access-control-allow-origin',
      ),
    ).toBeNull()
    const preflight = (origin: string, method: string, url: string) =>
      fetch(app.url + url, {
        method: 'OPTIONS',
        headers: { origin, 'access-control-request-method': method },
      })
    const fine = await preflight('https://b.example', 'POST', '/ledger/token/simulate')
    expect(fine.status).toBe(204)
    expect(fine.headers.get('access-control-allow-methods')).toBe('POST')
    expect(fine.headers.get('access-control-allow-origin')).toBe('https://b.example')
    const evil = await preflight('https://evil.example', 'POST', '/ledger/token/simulate')
    expect(evil.headers.get('access-control-allow-origin')).toBeNull()
    expect(evil.headers.get('access-control-allow-methods')).toBeNull()
  })

  it('may all read where the operator says *', async () => {
    const { get } = await start({}, { GATEWAY_CORS_ORIGINS: '*' })
    expect((await get(path, from)).headers.get('access-control-allow-origin')).toBe('*')
  })
})

describe('prefixes', () => {
  it('may be several words long, and lead to everything that is served', async () => {
    const { app, get } = await start({}, { GATEWAY_LEGACY_PREFIXES: '/v1/old/, older=2026-01-31' })
    expect((await get('/v1/old/entity/stove%2F7')).body.entity.id).toBe('stove/7')
    expect((await get('/v1/old/openapi.json')).body.openapi).toBe('3.1.0')
    const posted = await app.post('/older/token/carbon:simulate', { gas: '1' })
    expect(posted.body.denom).toBe('carbon')
    expect(posted.headers.get('deprecation')).toBe('@1769817600')
    expect((await get('/older/nothing')).status).toBe(404)
    expect((await get('/olderly/token/params')).body).toMatchObject({
      code: 5,
      message: expect.stringContaining('/ledger'),
    })
    expect((await get('/v1/token/params')).status).toBe(404)
    expect((await app.post('/elsewhere/token/simulate', {})).body.code).toBe(5)
    expect((await get('/token/params')).status).toBe(404)
  })

  it('are asked about by the gate as well', async () => {
    const { get } = await start(
      {},
      { GATEWAY_API_KEY: 'secret-of-this-test', GATEWAY_LEGACY_PREFIXES: 'old' },
    )
    expect((await get('/old/token/params')).status).toBe(401)
    expect((await get('/old/token/params', { 'x-api-key': 'secret-of-this-test' })).status).toBe(
      200,
    )
  })
})

describe('a query', () => {
  it('may hold what nobody knows, unless the operator is strict', async () => {
    const { get } = await start()
    expect((await get(`${path}?utm_source=a&agentDid=b`)).status).toBe(200)
    const strict = await start({}, { GATEWAY_STRICT_QUERY: 'true' })
    const refused = await strict.get(`${path}?utm_source=a`)
    expect(refused).toMatchObject({
      status: 400,
      body: { code: 3, message: expect.stringContaining('utm_source') },
    })
    expect((await strict.get('/ledger/claims/claims?agentDid=did:x:agent:1')).status).toBe(200)
  })
})

describe('what does not hurt', () => {
  it('an authorization that is the gate’s own stays at the gate', async () => {
    let seen: grpc.Metadata | undefined
    const look = ({ metadata }: LedgerCall) => ((seen = metadata), {})
    const { get } = await start(
      { handlers: { 'TokenQuery.Params': look } },
      { GATEWAY_REQUIRED_HEADERS: 'authorization=Bearer own' },
    )
    expect((await get(path, { authorization: 'Bearer other' })).status).toBe(403)
    const passed = { authorization: 'Bearer own', 'grpc-metadata-authorization': 'Bearer theirs' }
    expect((await get(path, passed)).status).toBe(200)
    expect(seen?.get('authorization')).toEqual(['Bearer theirs'])
  })

  it('details of an error are told as JSON, of types that nobody knows as well', async () => {
    const any = (type: string, bytes: number[]) => ({
      '@type': `type.googleapis.com/${type}`,
      bytes: Buffer.from(bytes),
    })
    const details = [
      any('ledger.v1.EntityParams', [0x0a, 1, 0x78]),
      any('google.protobuf.Duration', [0x08, 5]),
      any('nobody.Knows', [1, 2]),
    ]
    const piece = (no: number, bytes: Uint8Array) =>
      Buffer.concat([Buffer.of((no << 3) | 2, bytes.length), bytes])
    const status = Buffer.concat([
      Buffer.of(0x08, 9),
      piece(2, Buffer.from('not in this state')),
      ...details.map((one) =>
        piece(3, Buffer.concat([piece(1, Buffer.from(one['@type'])), piece(2, one.bytes)])),
      ),
    ])
    const fail = () => {
      const metadata = new grpc.Metadata()
      metadata.set('grpc-status-details-bin', status)
      throw Object.assign(new Error('x'), { code: 9, details: 'not in this state', metadata })
    }
    const { get } = await start({ handlers: { 'TokenQuery.Params': fail } })
    expect((await get(path)).body).toEqual({
      code: 9,
      message: 'not in this state',
      details: [
        {
          '@type': 'type.googleapis.com/ledger.v1.EntityParams',
          nft_contract_address: 'x',
          create_enabled: false,
        },
        { '@type': 'type.googleapis.com/google.protobuf.Duration', value: '5s' },
        { '@type': 'type.googleapis.com/nobody.Knows', value: 'AQI=' },
      ],
    })
  })

  it('a body that is no UTF-8 is refused', async () => {
    const { app } = await start()
    const body = Buffer.concat([
      Buffer.from('{"denom":"'),
      Buffer.of(0xc0, 0xaf),
      Buffer.from('"}'),
    ])
    const answer = await fetch(`${app.url}/ledger/token/simulate`, { method: 'POST', body })
    expect(answer.status).toBe(400)
  })

  it('an upstream that is away fills no log', async () => {
    const { app, get, ledger } = await start()
    await ledger.close()
    for (let nth = 0; nth < 40; nth++) expect((await get(path)).status).toBe(503)
    const lines = app.log.filter((line) => line.includes('failed with 503'))
    expect(lines.length).toBeGreaterThan(0)
    expect(lines.length).toBeLessThan(10)
    await expect.poll(() => app.log.join()).toMatch(/\d+ more failed with 503/)
  })

  it('a HEAD of a stream opens none', async () => {
    const { app, ledger } = await start()
    const head = await fetch(`${app.url}/ledger/claims/watch`, { method: 'HEAD' })
    expect(head.status).toBe(200)
    expect(head.headers.get('content-type')).toBe('application/x-ndjson')
    expect(ledger.calls).toEqual({})
  })

  it('numbers in brackets and words that are hosts elsewhere stand in a message as they came', async () => {
    const fail = () => {
      throw Object.assign(new Error('x'), {
        code: 3,
        details: 'item [7] of [a, b] at 10.0.0.1:9090, [::1]:90 or [fe80::1%eth0], version 1.2.3',
      })
    }
    const { get } = await start({ handlers: { 'TokenQuery.Params': fail } })
    expect((await get(path)).body.message).toBe(
      'item [7] of [a, b] at upstream, upstream or upstream, version 1.2.3',
    )
  })
})
