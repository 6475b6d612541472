import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createServer as createHttpServer } from 'node:http'
import { createServer as createHttp2Server } from 'node:http2'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import * as grpc from '@grpc/grpc-js'
import { describe, expect, it, onTestFinished } from 'vitest'
import { startLedger } from '../fixtures/ledger.ts'
import { aLedger, gatewayTo } from '../../../test/support/gateway.ts'

async function listening(server: Server): Promise<string> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined) // the other side may leave at any time
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    return new Promise<void>((resolve) => server.close(() => resolve()))
  })
  return `127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** A key that was made for these tests and protects nothing. */
const pem = (what: 'key' | 'certificate') => join(import.meta.dirname, `tls-${what}.pem`)

const path = '/ledger/token/params'

describe('every status, by an upstream that does that thing', () => {
  it.each([
    [1, 499],
    [2, 500],
    [3, 400],
    [4, 504],
    [5, 404],
    [6, 409],
    [7, 403],
    [8, 429],
    [9, 400],
    [10, 409],
    [11, 400],
    [12, 501],
    [13, 500],
    [14, 503],
    [15, 500],
    [16, 401],
  ])('gRPC status %i is %i', async (code, status) => {
    const fail = () => {
      throw Object.assign(new Error('x'), { code, details: 'said at 10.1.2.3:9090: ümläut' })
    }
    const app = await gatewayTo(
      (await aLedger({ handlers: { 'TokenQuery.Params': fail } })).address,
    )
    const answer = await app.get(path)
    expect(answer.status).toBe(status)
    expect(answer.body).toEqual({ code, message: 'said at upstream: ümläut', details: [] })
    expect(answer.headers.get('retry-after')).toBe(code === 14 ? '1' : null)
  })

  it('OK with no bytes at all is the message with its defaults', async () => {
    const app = await gatewayTo(
      (await aLedger({ handlers: { 'TokenQuery.Params': () => ({}) } })).address,
    )
    expect((await app.get(path)).body).toEqual({ contract_code: '', max_supply: '0' })
  })

  it('a method that is not compiled in, a service switched off, and a stream of requests are 501', async () => {
    const { address } = await aLedger({ handlers: { 'TokenQuery.Params': null } })
    const app = await gatewayTo(address, { GATEWAY_DISABLED: 'ledger.v1.EntityQuery' })
    expect(await app.get(path)).toMatchObject({ status: 501, body: { code: 12 } })
    expect(await app.get('/ledger/entity/x')).toMatchObject({ status: 501, body: { code: 12 } })
    expect(await app.post('/ledger/claims/import', {})).toMatchObject({
      status: 501,
      body: { code: 12 },
    })
  })

  it('a refused connection is 503 with Retry-After, and the upstream may come back', async () => {
    const first = await startLedger()
    const app = await gatewayTo(first.address)
    expect((await app.get(path)).status).toBe(200)
    await first.close()
    const away = await app.get(path)
    expect(away).toMatchObject({ status: 503, body: { code: 14 } })
    expect(away.headers.get('retry-after')).toBe('1')
    expect(JSON.stringify(away.body)).not.toContain(first.address.split(':')[1])
    await aLedger({ port: Number(first.address.split(':')[1]) })
    await expect.poll(async () => (await app.get(path)).status).toBe(200)
  })

  it('a connection that is reset is 503', async () => {
    const app = await gatewayTo(await listening(createServer((socket) => socket.resetAndDestroy())))
    expect(await app.get(path)).toMatchObject({ status: 503, body: { code: 14, details: [] } })
  })

  it('TLS towards a server without it, none towards one with it, or an unknown authority is 502', async () => {
    const credentials = grpc.ServerCredentials.createSsl(null, [
      { private_key: readFileSync(pem('key')), cert_chain: readFileSync(pem('certificate')) },
    ])
    const secure = await aLedger({ credentials })
    const wrong = [
      await gatewayTo((await aLedger()).address, { GATEWAY_TLS: 'true' }),
      await gatewayTo(secure.address),
      await gatewayTo(secure.address, { GATEWAY_TLS: 'true' }),
    ]
    for (const app of wrong)
      expect(await app.get(path)).toMatchObject({ status: 502, body: { code: 14, details: [] } })
    const right = await gatewayTo(secure.address, {
      GATEWAY_TLS: 'true',
      GATEWAY_TLS_CA: pem('certificate'),
    })
    expect((await right.get(path)).status).toBe(200)
  })

  it('a server that speaks HTTP/1, or HTTP/2 without gRPC, is 502', async () => {
    const old = await gatewayTo(await listening(createHttpServer((_, res) => res.end('hello'))))
    expect(await old.get(path)).toMatchObject({ status: 502 })
    const page = createHttp2Server((_, res) => {
      res.setHeader('content-type', 'text/html')
      res.end('hello from 127.0.0.1')
    })
    const app = await gatewayTo(await listening(page as unknown as Server)) // an HTTP/2 server has the same `listen` as a Server
    const answer = await app.get(path)
    expect(answer.status).toBe(502)
    expect(answer.body.message).toBe('The upstream did not answer as a gRPC server does.')
  })

  it('a deadline that passes is 504, and the client may shorten it', async () => {
    const never = () => new Promise<never>(() => undefined)
    const { address } = await aLedger({ handlers: { 'TokenQuery.Params': never } })
    const app = await gatewayTo(address, { GATEWAY_DEADLINE_MS: '60000' })
    const answer = await app.get(path, { headers: { 'grpc-timeout': '50m' } })
    expect(answer).toMatchObject({ status: 504, body: { code: 4 } })
    expect((await app.get(path, { headers: { 'grpc-timeout': 'soon' } })).status).toBe(400)
  })

  it('a deadline that no timer holds stops the boot', async () => {
    await expect(gatewayTo('127.0.0.1:1', { GATEWAY_DEADLINE_MS: '3000000000' })).rejects.toThrow(
      'GATEWAY_DEADLINE_MS',
    )
  })

  it('a client that leaves cancels its call', async () => {
    const cancelled = Promise.withResolvers<void>()
    const started = Promise.withResolvers<void>()
    const wait = ({
      call,
    }: {
      call: { on(event: 'cancelled', listener: () => void): unknown }
    }) => {
      call.on('cancelled', () => cancelled.resolve())
      started.resolve()
      return new Promise<never>(() => undefined)
    }
    const { address } = await aLedger({ handlers: { 'TokenQuery.Params': wait } })
    const app = await gatewayTo(address)
    const leaving = new AbortController()
    const asked = fetch(app.url + path, { signal: leaving.signal })
    await started.promise
    leaving.abort()
    await expect(asked).rejects.toThrow()
    await cancelled.promise
  })

  it('missing credentials are 401 and wrong ones 403, before anything is asked', async () => {
    const ledger = await aLedger()
    const app = await gatewayTo(ledger.address, {
      GATEWAY_API_KEY: 'the-key-of-this-test',
      GATEWAY_REQUIRED_HEADERS: 'X-Client, x-kind=mobile',
    })
    const ask = (headers: Record<string, string>) => app.get(path, { headers })
    const own = { 'x-client': 'a', 'x-kind': 'mobile' }
    expect(await ask({})).toMatchObject({ status: 401, body: { code: 16, details: [] } })
    expect(await ask(own)).toMatchObject({ status: 401, body: { code: 16 } })
    expect(await ask({ ...own, 'x-kind': 'desk', 'x-api-key': 'x' })).toMatchObject({ status: 403 })
    expect(await ask({ ...own, 'x-api-key': 'wrong' })).toMatchObject({
      status: 403,
      body: { code: 7 },
    })
    expect(ledger.calls).toEqual({})
    expect((await ask({ ...own, 'x-api-key': 'the-key-of-this-test' })).status).toBe(200)
    expect((await ask({ ...own, authorization: 'Bearer the-key-of-this-test' })).status).toBe(200)
    expect((await app.get('/ledger/openapi.json')).status).toBe(401)
    expect(app.log.join('\n')).not.toContain('the-key-of-this-test')
  })
})

describe('metadata', () => {
  it('goes in by name, a height both ways, and the key of the gate nowhere', async () => {
    let seen: grpc.Metadata | undefined
    const look = ({
      metadata,
      call,
    }: {
      metadata: grpc.Metadata
      call: { sendMetadata(m: grpc.Metadata): void }
    }) => {
      seen = metadata
      const out = new grpc.Metadata()
      out.set('x-cosmos-block-height', '7')
      out.set('x-node', 'n1')
      call.sendMetadata(out)
      return {}
    }
    const { address } = await aLedger({ handlers: { 'TokenQuery.Params': look } })
    const app = await gatewayTo(address, { GATEWAY_API_KEY: 'k-of-this-test' })
    const answer = await app.get(path, {
      headers: {
        'grpc-metadata-tenant': 'a',
        'grpc-metadata-grpc-timeout': '1n',
        authorization: 'Bearer k-of-this-test',
        traceparent: '00-1-2-01',
        'x-cosmos-block-height': '7',
      },
    })
    expect(answer.status).toBe(200)
    expect(seen?.getMap()).toMatchObject({
      tenant: 'a',
      traceparent: '00-1-2-01',
      'x-cosmos-block-height': '7',
    })
    expect(seen?.getMap()).not.toHaveProperty('authorization')
    expect(answer.headers.get('x-cosmos-block-height')).toBe('7')
    expect(answer.headers.get('grpc-metadata-x-node')).toBe('n1')
    expect(answer.headers.get('cache-control')).toContain('immutable')
    const etag = answer.headers.get('etag')!
    seen = undefined
    const again = await app.get(path, {
      headers: {
        'x-api-key': 'k-of-this-test',
        'grpc-metadata-tenant': 'a',
        traceparent: '00-1-2-01',
        'x-cosmos-block-height': '7',
        'if-none-match': etag,
      },
    })
    expect(again.status).toBe(304)
    expect(seen).toBeUndefined()
    const wrong = { 'x-api-key': 'k-of-this-test', 'x-cosmos-block-height': 'seven' }
    expect((await app.get(path, { headers: wrong })).status).toBe(400)
  })

  it('opens the gateway to pages of other origins only where the operator says so', async () => {
    const { address } = await aLedger()
    const headers = { origin: 'https://app.example', 'access-control-request-method': 'GET' }
    const closed = await gatewayTo(address)
    expect(
      (await closed.get(path, { headers })).headers.get('access-control-allow-origin'),
    ).toBeNull()
    const open = await gatewayTo(address, { GATEWAY_CORS_ORIGINS: 'https://app.example' })
    const answer = await open.get(path, { headers })
    expect(answer.headers.get('access-control-allow-origin')).toBe('https://app.example')
    const preflight = (app: { url: string }) =>
      fetch(app.url + path, { method: 'OPTIONS', headers })
    expect((await preflight(open)).headers.get('access-control-allow-headers')).toContain(
      'X-Cosmos-Block-Height',
    )
    expect((await preflight(closed)).headers.get('access-control-allow-origin')).toBeNull()
  })
})

describe('a stream', () => {
  const claim = { claim_id: 'c', agent_did: 'd', amount: '1' }

  it('ends with an error line when it fails on the way, and with a status when it fails at once', async () => {
    function* failing() {
      yield claim
      throw Object.assign(new Error('x'), { code: 10, details: 'lost the block' })
    }
    const midway = await gatewayTo(
      (await aLedger({ streams: { 'ClaimsQuery.Watch': failing } })).address,
    )
    const text = await (await fetch(`${midway.url}/ledger/claims/watch`)).text()
    const lines = text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(lines).toEqual([
      { result: claim },
      { error: { code: 10, message: 'lost the block', details: [] } },
    ])
    const never = () => {
      throw Object.assign(new Error('x'), { code: 5, details: 'no claims' })
    }
    const atOnce = await gatewayTo(
      (await aLedger({ streams: { 'ClaimsQuery.Watch': never } })).address,
    )
    expect(await atOnce.get('/ledger/claims/watch')).toMatchObject({
      status: 404,
      body: { code: 5 },
    })
  })

  it('is cancelled upstream when its reader leaves', async () => {
    const cancelled = Promise.withResolvers<void>()
    async function* endless({
      call,
    }: {
      call: { on(event: 'cancelled', listener: () => void): unknown }
    }) {
      call.on('cancelled', () => cancelled.resolve())
      yield claim
      await cancelled.promise
    }
    const app = await gatewayTo(
      (await aLedger({ streams: { 'ClaimsQuery.Watch': endless } })).address,
    )
    const response = await fetch(`${app.url}/ledger/claims/watch`)
    const reader = response.body!.getReader()
    expect(Buffer.from((await reader.read()).value!).toString()).toContain('"result"')
    await reader.cancel()
    await cancelled.promise
  })
})
