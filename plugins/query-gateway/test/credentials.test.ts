import { request } from 'node:http'
import { describe, expect, it } from 'vitest'
import { scriptedModel, type TestApp } from '#core/testing'
import type { LedgerCall } from '../fixtures/ledger.ts'
import { aLedger, gatewayTo } from '../../../test/support/gateway.ts'

const keys = {
  API_KEY: 'first:one-key-of-this-test,second:a=b:c;d',
  OPERATOR_TOKEN: 'the-token-of-this-test',
}
const path = '/ledger/token/params'
const standard = ['user-agent', 'grpc-accept-encoding', 'grpc-timeout', 'traceparent']

/** A gateway, and a ledger that records all metadata that it receives. */
async function start(env: Record<string, string> = {}, model?: ReturnType<typeof scriptedModel>) {
  const calls: Record<string, unknown>[] = []
  const note = ({ metadata }: LedgerCall) => {
    const all = Object.keys(metadata.getMap()).map((name) => [
      name,
      metadata.get(name).map(String).join(', '),
    ])
    calls.push(Object.fromEntries(all.filter(([name]) => !standard.includes(String(name)))))
  }
  const ledger = await aLedger({
    handlers: {
      'TokenQuery.Params': (call) => (note(call), {}),
      'TokenQuery.Simulate': (call) => (note(call), {}),
    },
    streams: { 'ClaimsQuery.Watch': (call) => (note(call), []) },
  })
  const app = await gatewayTo(ledger.address, { ...keys, ...env }, { ...(model && { model }) })
  /** The metadata that the ledger received for a request with some headers. */
  const sent = async (headers: Record<string, string>, url = path) => {
    calls.length = 0
    const answer = await app.get(url, { headers })
    expect(answer.status, JSON.stringify(answer.body)).toBe(200)
    expect(calls).toHaveLength(1)
    return calls[0]
  }
  return { app, calls, sent }
}

/** Sends header lines unchanged, because fetch would join lines of the same name. */
function raw(app: TestApp, headers: readonly string[]): Promise<number> {
  return new Promise((resolve, reject) => {
    request(
      `${app.url}${path}`,
      { headers: ['Host', new URL(app.url).host, ...headers] },
      (answer) => answer.resume().once('end', () => resolve(answer.statusCode ?? 0)),
    )
      .on('error', reject)
      .end()
  })
}

describe('a credential for this server stays at the gateway:', () => {
  it('the invocation and the delegation of a user, by no name and in no dress', async () => {
    const { app, calls, sent } = await start()
    const user = await app.user()
    const { authorization, 'x-ucan-delegation': delegation } = await user.wallet.headers(
      app.oracleDid,
    )
    const invocation = authorization!.slice('Bearer '.length)
    await user.get(path)
    expect(calls).toEqual([{}])
    const asUrl = invocation.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
    const dresses: Record<string, string>[] = [
      { authorization: authorization! },
      { authorization: `bearer  ${invocation}` },
      { authorization: delegation! },
      { 'grpc-metadata-authorization': authorization! },
      { 'Grpc-Metadata-Authorization': `BEARER ${delegation}` },
      { 'GRPC-METADATA-X-UCAN-DELEGATION': delegation! },
      { 'grpc-metadata-x-ucan-delegation': 'anything' },
      { 'grpc-metadata-x-auth-type': 'ucan' },
      { 'grpc-metadata-x-other': `ucan=${invocation}` },
      { 'grpc-metadata-x-other': asUrl },
      { 'grpc-metadata-token-bin': Buffer.from(`Bearer ${invocation}`).toString('base64') },
      { 'x-ucan-delegation': delegation! },
      { tracestate: `a=${invocation}` },
    ]
    for (const headers of dresses)
      expect(await sent(headers), JSON.stringify(headers).slice(0, 60)).toEqual({})
  })

  it('an Authorization beside X-Auth-Type, whatever either says', async () => {
    const { sent } = await start()
    for (const type of ['ucan', 'UCAN', 'other', ''])
      expect(await sent({ authorization: 'Bearer the-ledgers-own', 'x-auth-type': type })).toEqual(
        {},
      )
  })

  it('API keys and operator tokens', async () => {
    const { app, calls, sent } = await start()
    for (const key of ['one-key-of-this-test', 'a=b:c;d', 'the-token-of-this-test']) {
      const dresses: Record<string, string>[] = [
        { authorization: `Bearer ${key}` },
        { authorization: key },
        { authorization: `Token   ${key}` },
        { 'grpc-metadata-authorization': `Bearer ${key}` },
        { 'grpc-metadata-x-api-key': key },
        { 'grpc-metadata-x-api-key': `other, ${key}` },
        { 'grpc-metadata-key-bin': Buffer.from(key).toString('base64') },
        { 'grpc-metadata-keys-bin': `YQ==,${Buffer.from(key).toString('base64')}` },
        { 'grpc-metadata-long': `${'word '.repeat(200)}${key}` },
      ]
      for (const headers of dresses)
        expect(await sent(headers), JSON.stringify(headers).slice(0, 60)).toEqual({})
    }
    calls.length = 0
    const twice = ['Grpc-Metadata-A', 'fine', 'grpc-metadata-a', 'one-key-of-this-test']
    expect(await raw(app, twice)).toBe(200)
    expect(
      await raw(app, ['Authorization', 'Bearer one-key-of-this-test', 'Grpc-Metadata-B', 'b']),
    ).toBe(200)
    expect(calls).toEqual([{}, { b: 'b' }])
  })

  it('cookies and what is for a proxy', async () => {
    const { sent } = await start()
    expect(
      await sent({
        cookie: 'session=1',
        'grpc-metadata-cookie': 'session=1',
        'grpc-metadata-set-cookie': 'session=1',
        'proxy-authorization': 'Basic eA==',
        'grpc-metadata-proxy-authorization': 'Basic eA==',
        'grpc-metadata-grpc-metadata-authorization': 'Bearer x',
        'x-forwarded-for': '192.0.2.1',
        'x-api-key': 'somebodys',
      }),
    ).toEqual({})
  })

  it('what stands in the query is no metadata', async () => {
    const { sent } = await start()
    for (const name of ['authorization', 'grpc-metadata-authorization', 'x-ucan-delegation'])
      expect(
        await sent({}, `${path}?${name}=${encodeURIComponent('Bearer one-key-of-this-test')}`),
      ).toEqual({})
  })

  it('with a POST and with a stream likewise', async () => {
    const { app, calls } = await start()
    const headers = { authorization: 'Bearer one-key-of-this-test', 'grpc-metadata-tenant': 'a' }
    await app.post('/ledger/token/carbon:simulate', { gas: '1' }, headers)
    await app.get('/ledger/claims/watch', { headers })
    expect(calls).toHaveLength(2)
    for (const call of calls) expect(call).toEqual({ tenant: 'a' })
  })

  it('the key of the gate and the values that it asks for, wherever they are sent', async () => {
    const { sent } = await start({
      GATEWAY_API_KEY: 'the-gate-of-this-test',
      GATEWAY_REQUIRED_HEADERS: 'x-kind=mobile, x-client',
    })
    const own = { 'x-api-key': 'the-gate-of-this-test', 'x-kind': 'mobile', 'x-client': 'c' }
    expect(
      await sent({
        ...own,
        authorization: 'Bearer the-gate-of-this-test',
        'grpc-metadata-x-api-key': 'the-gate-of-this-test',
        'grpc-metadata-authorization': 'Bearer the-gate-of-this-test',
        'grpc-metadata-x-kind': 'mobile',
        'grpc-metadata-device': 'mobile',
      }),
    ).toEqual({ device: 'mobile' })
  })
})

describe('a credential of the ledger', () => {
  it('goes through, beside the metadata that a client names', async () => {
    const { sent } = await start()
    for (const authorization of [
      'Bearer the-ledgers-own',
      'Basic dXNlcjpwYXNz',
      'Bearer eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl',
      'one-key-of-this-test-and-more',
    ])
      expect(await sent({ authorization, 'grpc-metadata-tenant': 'a, b' })).toEqual({
        authorization,
        tenant: 'a, b',
      })
    expect(await sent({ 'grpc-metadata-authorization': 'Bearer theirs' })).toEqual({
      authorization: 'Bearer theirs',
    })
  })
})

describe('the tool query_ledger', () => {
  it('asks without any credential of the user', async () => {
    const model = scriptedModel([
      { call: 'load_capability', args: { names: ['query-gateway'] } },
      { call: 'query_ledger', args: { method: 'TokenQuery.Params', request: {} } },
      'Done.',
    ])
    const { app, calls } = await start({}, model)
    const said = await (await app.user()).say('What are the token parameters?')
    expect(said.status).toBe('finished')
    expect(calls).toEqual([{}])
  })
})
