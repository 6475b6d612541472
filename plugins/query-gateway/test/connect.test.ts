import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { readFileSync } from 'node:fs'
import { ClientRequest } from 'node:http'
import { type DescService, type Message } from '@bufbuild/protobuf'
import type { GenMessage, GenService } from '@bufbuild/protobuf/codegenv2'
import { MethodOptions_IdempotencyLevel as Idempotency } from '@bufbuild/protobuf/wkt'
import { Code, ConnectError, createClient } from '@connectrpc/connect'
import { createConnectTransport } from '@connectrpc/connect-node'
import { Metadata } from '@grpc/grpc-js'
import { create, toBinary } from '@bufbuild/protobuf'
import { AnySchema, DurationSchema } from '@bufbuild/protobuf/wkt'
import { describe, expect, it, onTestFinished } from 'vitest'
import { testApp } from '#core/testing'
import { aLedger, gatewayTo } from '../../../test/support/gateway.ts'
import { readDescriptorSet, registryOf } from '../descriptors/descriptors.ts'
import { descriptorFile } from '../fixtures/ledger.ts'
import gateway from '../index.ts'

type EntityRequest = Message<'ledger.v1.EntityRequest'> & { id: string }
type Entity = Message<'ledger.v1.Entity'> & { id: string; version: bigint; status: number }
type EntityResponse = Message<'ledger.v1.EntityResponse'> & { entity?: Entity }
type EntityQuery = GenService<{
  entity: {
    methodKind: 'unary'
    input: GenMessage<EntityRequest>
    output: GenMessage<EntityResponse>
  }
}>
type Claim = Message<'ledger.v1.Claim'> & { claimId: string; amount: bigint }
type ClaimsRequest = Message<'ledger.v1.ClaimsRequest'> & { agentDid: string }
type ClaimsQuery = GenService<{
  watch: {
    methodKind: 'server_streaming'
    input: GenMessage<ClaimsRequest>
    output: GenMessage<Claim>
  }
  import: {
    methodKind: 'client_streaming'
    input: GenMessage<Claim>
    output: GenMessage<Message<'ledger.v1.ClaimsResponse'>>
  }
}>

const files = () => readDescriptorSet(readFileSync(descriptorFile))

/** A service of the ledger as generated code would have it; `idempotency` is the option of its methods. */
function serviceOf<T extends DescService>(name: string, idempotency?: Idempotency): T {
  const given = files()
  for (const { method } of given.flatMap(({ service }) => service))
    for (const { options } of method)
      if (options && idempotency) options.idempotencyLevel = idempotency
  return registryOf(given).getService(`ledger.v1.${name}`) as T
}

/** Published clients of a gateway. */
function clientsOf(url: string, useBinaryFormat: boolean, useHttpGet = false) {
  const transport = createConnectTransport({
    baseUrl: url,
    httpVersion: '1.1',
    useBinaryFormat,
    useHttpGet,
  })
  const idempotency = useHttpGet ? Idempotency.NO_SIDE_EFFECTS : undefined
  return {
    entities: createClient(serviceOf<EntityQuery>('EntityQuery', idempotency), transport),
    claims: createClient(serviceOf<ClaimsQuery>('ClaimsQuery'), transport),
  }
}

const verbOf = (request: unknown) => (request instanceof ClientRequest ? request.method : undefined)

const failureOf = async (call: Promise<unknown>): Promise<ConnectError> =>
  ConnectError.from(
    await call.then(
      () => new Error('the call did not fail'),
      (thrown) => thrown,
    ),
  )

async function all<T>(messages: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = []
  for await (const message of messages) found.push(message)
  return found
}

const forms = [
  ['JSON', false],
  ['protobuf', true],
] as const

describe.each(forms)('the published client, in %s', (_, binary) => {
  it('asks, streams, and reads what went wrong', async () => {
    const detail = create(AnySchema, {
      typeUrl: 'type.googleapis.com/google.protobuf.Duration',
      value: toBinary(DurationSchema, create(DurationSchema, { seconds: 7n })),
    })
    const ledger = await aLedger({
      handlers: {
        'EntityQuery.Entity': async ({ request: { id }, metadata }) => {
          if (id === 'slow') await new Promise((resolve) => setTimeout(resolve, 20_000).unref())
          if (id === 'detailed') {
            const trailers = new Metadata()
            const any = toBinary(AnySchema, detail)
            const status = Buffer.from([0x08, 9, 0x1a, any.length, ...any])
            trailers.set('grpc-status-details-bin', status)
            throw Object.assign(new Error('x'), {
              code: 9,
              details: `not yet, says ${ledger.address}`,
              metadata: trailers,
            })
          }
          if (id === 'none') throw Object.assign(new Error('x'), { code: 5, details: 'no entity' })
          const [tenant = ''] = metadata.get('tenant')
          return {
            entity: { id: `${id}${String(tenant)}`, version: '18446744073709551615', status: 1 },
          }
        },
      },
      streams: {
        'ClaimsQuery.Watch': function* ({ request: { agentDid } }) {
          if (agentDid === 'refused')
            throw Object.assign(new Error('x'), { code: 7, details: 'no' })
          yield { claim_id: 'a', amount: '9007199254740993' }
          yield { claim_id: 'b', amount: '2' }
          if (agentDid === 'breaks')
            throw Object.assign(new Error('x'), { code: 15, details: 'lost' })
        },
      },
    })
    const app = await gatewayTo(ledger.address)
    const { entities, claims } = clientsOf(app.url, binary)

    const headers = new Headers()
    const answer = await entities.entity(
      { id: 'did:x:1' },
      {
        headers: { 'x-cosmos-block-height': '7', 'Grpc-Metadata-Tenant': '/t' },
        onHeader: (given) => given.forEach((value, name) => headers.set(name, value)),
      },
    )
    expect(answer.entity).toMatchObject({
      id: 'did:x:1/t',
      version: 18446744073709551615n,
      status: 1,
    })
    expect(headers.get('x-cosmos-block-height')).toBe('7')
    expect(headers.get('content-type')).toBe(binary ? 'application/proto' : 'application/json')

    const streamed = await all(claims.watch({ agentDid: '' }))
    expect(streamed.map(({ claimId, amount }) => [claimId, amount])).toEqual([
      ['a', 9007199254740993n],
      ['b', 2n],
    ])

    const none = await failureOf(entities.entity({ id: 'none' }))
    expect([none.code, none.rawMessage]).toEqual([Code.NotFound, 'no entity'])
    const detailed = await failureOf(entities.entity({ id: 'detailed' }))
    expect([detailed.code, detailed.rawMessage]).toEqual([
      Code.FailedPrecondition,
      'not yet, says upstream',
    ])
    expect(detailed.findDetails(DurationSchema)).toMatchObject([{ seconds: 7n }])
    const late = await failureOf(entities.entity({ id: 'slow' }, { timeoutMs: 100 }))
    expect(late.code).toBe(Code.DeadlineExceeded)

    expect((await failureOf(all(claims.watch({ agentDid: 'refused' })))).code).toBe(
      Code.PermissionDenied,
    )
    const seen: string[] = []
    const broken = await failureOf(
      (async () => {
        for await (const { claimId } of claims.watch({ agentDid: 'breaks' })) seen.push(claimId)
      })(),
    )
    expect([broken.code, broken.rawMessage, seen]).toEqual([Code.DataLoss, 'lost', ['a', 'b']])
    const sends = failureOf(claims.import((async function* () {})()))
    expect((await sends).code).toBe(Code.Unimplemented)
  })

  it('asks by GET what has no side effects', async () => {
    const ledger = await aLedger()
    const app = await gatewayTo(ledger.address)
    const { entities } = clientsOf(app.url, binary, true)
    const verbs: unknown[] = []
    const note = (event: unknown) =>
      verbs.push(event instanceof Object && 'request' in event && verbOf(event.request))
    subscribe('http.client.request.start', note)
    onTestFinished(() => void unsubscribe('http.client.request.start', note))
    expect((await entities.entity({ id: 'stove/7' })).entity?.id).toBe('stove/7')
    expect(verbs).toEqual(['GET'])
    expect((await failureOf(entities.entity({ id: 'none' }))).code).toBe(Code.NotFound)
  })
})

const path = '/ledger.v1.EntityQuery/Entity'
const stream = '/ledger.v1.ClaimsQuery/Watch'
const envelope = (flags: number, text: string, length = text.length) => {
  const head = Buffer.alloc(5)
  head.writeUInt8(flags, 0)
  head.writeUInt32BE(length, 1)
  return Buffer.concat([head, Buffer.from(text)])
}

describe('a request that the protocol does not allow', () => {
  const json = { 'Content-Type': 'application/json' }
  const streamed = { 'Content-Type': 'application/connect+json' }
  const post = (headers: Record<string, string>, body: string | Buffer) => ({
    method: 'POST',
    headers,
    body,
  })

  it('is refused in the form of the protocol, and reaches no upstream', async () => {
    const ledger = await aLedger()
    const app = await gatewayTo(ledger.address, {
      GATEWAY_DISABLED: 'ledger.v1.TokenQuery',
      GATEWAY_CORS_ORIGINS: 'https://page.example',
    })
    const cases: [string, RequestInit, number, string | undefined, RegExp][] = [
      [
        path,
        post({ 'Content-Type': 'text/plain' }, '{}'),
        415,
        'invalid_argument',
        /application\/proto/,
      ],
      [path, post(streamed, envelope(0, '{}')), 415, 'invalid_argument', /connect\+json/],
      [path, post(json, '{'), 400, 'invalid_argument', /not JSON/],
      [path, post(json, '[]'), 400, 'invalid_argument', /JSON object/],
      [path, post(json, '{"id":7}'), 400, 'invalid_argument', /id/],
      [
        path,
        post(json, `{"id":${'['.repeat(100)}${']'.repeat(100)}}`),
        400,
        undefined,
        /64 levels/,
      ],
      [path, post(json, `"${'x'.repeat(1024 * 1024)}"`), 413, 'resource_exhausted', /larger/],
      [
        path,
        post({ 'Content-Type': 'application/proto' }, Buffer.from([255, 255])),
        400,
        undefined,
        /EntityRequest/,
      ],
      [
        path,
        post({ ...json, 'Connect-Timeout-Ms': '-1' }, '{}'),
        400,
        undefined,
        /Timeout-Ms is "-1"/,
      ],
      [path, post({ ...json, 'Connect-Protocol-Version': '2' }, '{}'), 400, undefined, /is "2"/],
      [path, post({ ...json, 'Content-Encoding': 'gzip' }, '{}'), 501, 'unimplemented', /"gzip"/],
      [path, post({ ...json, 'X-Cosmos-Block-Height': 'x' }, '{}'), 400, undefined, /block height/],
      [path, { method: 'PUT' }, 405, 'unimplemented', /GET and POST/],
      [`${path}?encoding=json&message=%7B%7D`, {}, 400, 'invalid_argument', /connect=v1/],
      [`${path}?connect=v1&encoding=xml&message=a`, {}, 415, undefined, /"xml"/],
      [`${path}?connect=v1&encoding=json`, {}, 400, undefined, /no message/],
      [`${path}?connect=v1&encoding=proto&base64=1&message=!`, {}, 400, undefined, /base64/],
      ['/ledger.v1.TokenQuery/Params', post(json, '{}'), 501, 'unimplemented', /switched off/],
      ['/ledger.v1.ClaimsQuery/Import', post(json, '{}'), 501, 'unimplemented', /takes a stream/],
      ['/ledger.v1.ClaimsQuery/Watch', post(json, '{}'), 415, undefined, /connect\+json/],
    ]
    for (const [at, init, status, code, message] of cases) {
      const response = await fetch(`${app.url}${at}`, init)
      const said: { code?: string; message?: string } = JSON.parse(await response.text())
      expect([at, response.status, said.code]).toEqual([at, status, code ?? 'invalid_argument'])
      expect(said.message).toMatch(message)
    }
    const bodies: [Buffer, string, RegExp][] = [
      [envelope(0, '{}', 9), 'invalid_argument', /names 9 bytes, and 2 follow/],
      [envelope(1, '{}'), 'invalid_argument', /compressed/],
      [envelope(2, '{}'), 'invalid_argument', /flags are 2/],
      [Buffer.from([0, 0]), 'invalid_argument', /has 2 bytes/],
      [Buffer.concat([envelope(0, '{}'), envelope(0, '{}')]), 'invalid_argument', /names 2/],
    ]
    for (const [body, code, message] of bodies) {
      const response = await fetch(`${app.url}${stream}`, post(streamed, body))
      const bytes = Buffer.from(await response.arrayBuffer())
      expect([response.status, bytes[0]]).toEqual([200, 2])
      const { error } = JSON.parse(bytes.subarray(5).toString())
      expect(error).toMatchObject({ code, message: expect.stringMatching(message) })
    }
    expect(ledger.calls).toEqual({})
    expect((await fetch(`${app.url}/ledger.v1.Nobody/Asks`, post(json, '{}'))).status).toBe(404)

    const preflight = await fetch(`${app.url}${path}`, {
      method: 'OPTIONS',
      headers: {
        Origin: 'https://page.example',
        'Access-Control-Request-Method': 'POST',
        'Access-Control-Request-Headers': 'connect-protocol-version,content-type',
      },
    })
    expect(preflight.headers.get('access-control-allow-methods')).toContain('POST')
    expect(preflight.headers.get('access-control-allow-headers')).toContain(
      'Connect-Protocol-Version',
    )
  })

  it('passes the gate and the limit first', async () => {
    const ledger = await aLedger()
    const app = await gatewayTo(ledger.address, {
      GATEWAY_API_KEY: 'key',
      GATEWAY_RATE_PER_MINUTE: '3',
    })
    const asked = post(json, '{"id":"stove/7"}')
    const status = async (headers: Record<string, string>) =>
      (await fetch(`${app.url}${path}`, { ...asked, headers: { ...json, ...headers } })).status
    expect([await status({}), await status({ 'X-Api-Key': 'x' })]).toEqual([401, 403])
    expect(await status({ 'X-Api-Key': 'key' })).toBe(200)
    const { entities } = clientsOf(app.url, true)
    expect((await failureOf(entities.entity({ id: 'stove/7' }))).code).toBe(Code.ResourceExhausted)
  })

  it('hears that the gateway does not know its upstream yet', async () => {
    const app = await testApp({
      plugins: [gateway],
      env: {
        GATEWAY_UPSTREAM: '127.0.0.1:1',
        GATEWAY_REFLECTION: 'true',
        GATEWAY_PREFIX: 'ledger',
      },
    })
    const { entities } = clientsOf(app.url, false)
    const failure = await failureOf(entities.entity({ id: 'stove/7' }))
    await app.close()
    expect([failure.code, failure.rawMessage]).toEqual([
      Code.Unavailable,
      'The gateway does not know its upstream yet.',
    ])
  })
})
