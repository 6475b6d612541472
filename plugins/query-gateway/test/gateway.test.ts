import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { testApp, type TestApp } from '#core/testing'
import { descriptorFile, startLedger, type Ledger } from '../fixtures/ledger.ts'
import gateway from '../index.ts'

let ledger: Ledger
let app: TestApp

const env = () => ({
  GATEWAY_UPSTREAM: ledger.address,
  GATEWAY_DESCRIPTORS: descriptorFile,
  GATEWAY_LEGACY_PREFIXES: 'old-ledger, older',
})

beforeEach(async () => {
  ledger = await startLedger()
  app = await testApp({ plugins: [gateway], env: env() })
  await expect.poll(() => app.report.plugins[0]?.state).toBe('available')
})
afterEach(async () => {
  await app.close()
  await ledger.close()
})

describe('the three paths of the specification', () => {
  it('answer with proto names, all defaults, and 64-bit numbers as text', async () => {
    const { status, body } = await app.get('/ledger/entity/did:x:entity:1')
    expect(status).toBe(200)
    expect(body).toEqual({
      entity: {
        id: 'did:x:entity:1',
        type: 'asset/cookstove',
        status: 'STATUS_ACTIVE',
        start_date: '2026-01-01T00:00:00Z',
        end_date: null,
        credentials: null,
        context: ['https://w3id.org/cookstove'],
        metadata: { model: 'SuperStove 3' },
        version: '18446744073709551615',
        account: null,
      },
    })
    expect((await app.get('/ledger/token/params')).body).toEqual({
      contract_code: '7',
      max_supply: '9007199254740993',
    })
    expect((await app.get('/ledger/claims/claims')).body.claims).toHaveLength(5)
  })

  it('take a DID with colons, an id with an encoded slash, and a literal beside the variable', async () => {
    expect((await app.get('/ledger/entity/stove%2F7')).body.entity.id).toBe('stove/7')
    expect((await app.get('/ledger/entity/did%3Ax%3Aentity%3A2')).body.entity.id).toBe(
      'did:x:entity:2',
    )
    expect((await app.get('/ledger/entity/params')).body.create_enabled).toBe(true)
  })

  it('take enums in the path by name and by number', async () => {
    expect((await app.get('/ledger/entity/status/STATUS_ACTIVE')).body.entities).toHaveLength(3)
    expect((await app.get('/ledger/entity/status/1')).body.entities).toHaveLength(3)
    expect((await app.get('/ledger/entity/status/2')).body).toEqual({ entities: [] })
    const wrong = await app.get('/ledger/entity/status/NOBODY')
    expect(wrong.status).toBe(400)
    expect(wrong.body).toMatchObject({
      code: 3,
      message: expect.stringContaining('NOBODY'),
      details: [],
    })
  })

  it('go from page to page by key, in both spellings of base64', async () => {
    const first = (await app.get('/ledger/claims/claims?pagination.limit=2')).body
    const key: string = first.pagination.next_key
    expect(key).toMatch(/[+/]/)
    for (const spelling of [
      encodeURIComponent(key),
      key.replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, ''),
      key,
    ]) {
      const { body } = await app.get(
        `/ledger/claims/claims?pagination.limit=2&pagination.key=${spelling}`,
      )
      expect(body.claims.map((claim: { claim_id: string }) => claim.claim_id)).toEqual([
        'claim-3',
        'claim-4',
      ])
    }
    const counted = await app.get(
      '/ledger/claims/claims?pagination.countTotal=true&agentDid=did:x:agent:2',
    )
    expect(counted.body.pagination).toEqual({ next_key: null, total: '2' })
  })

  it('are led to by old prefixes, which say so; any other prefix is a 404 that names the right one', async () => {
    const old = await app.get('/old-ledger/token/params')
    expect(old.status).toBe(200)
    expect(old.headers.get('deprecation')).toMatch(/^@\d{10}$/)
    expect(old.headers.get('link')).toBe('</ledger/token/params>; rel="successor-version"')
    expect((await app.get('/older/entity/stove%2F7')).body.entity.id).toBe('stove/7')
    const wrong = await app.get('/elsewhere/token/params')
    expect(wrong.status).toBe(404)
    expect(wrong.body).toEqual({
      code: 5,
      message: 'This deployment serves its queries under /ledger.',
      details: [],
    })
    expect((await app.get('/elsewhere/nothing')).body.code).toBe('NOT_FOUND')
    expect((await app.get('/ledger/nothing')).body.code).toBe(5)
  })

  it('take a body, a body field, additional bindings and verbs', async () => {
    const tx = { memo: 'hello', gas: '18446744073709551615', unknown: { deep: true } }
    expect((await app.post('/ledger/token/simulate', { denom: 'carbon', tx })).body).toEqual({
      gas_used: '18446744073709551615',
      memo: 'hello',
      denom: 'carbon',
    })
    expect((await app.post('/ledger/token/carbon:simulate', tx)).body.denom).toBe('carbon')
    expect(
      (await app.post('/ledger/token/simulate', '{"tx":', { 'content-type': 'application/json' }))
        .status,
    ).toBe(400)
    expect((await app.post('/ledger/token/simulate', { tx: { gas: '-1' } })).status).toBe(400)
  })

  it('refuse a body that is too large, however it comes, and one that nests too deep', async () => {
    const large = JSON.stringify({ denom: 'x'.repeat(1024 * 1024) })
    const known = await app.post('/ledger/token/simulate', large)
    expect(known).toMatchObject({ status: 413, body: { code: 8 } })
    const streamed = await fetch(`${app.url}/ledger/token/simulate`, {
      method: 'POST',
      body: new Blob([large]).stream(),
      duplex: 'half',
    } as RequestInit & { duplex: 'half' }) // fetch requires `duplex` for a stream, but its types do not have it
    expect(streamed.status).toBe(413)
    const deep = '['.repeat(100) + ']'.repeat(100)
    expect((await app.post('/ledger/token/simulate', deep)).status).toBe(400)
  })

  it('refuse another method with 405 and Allow, and answer HEAD', async () => {
    const wrong = await app.post('/ledger/token/params', {})
    expect(wrong.status).toBe(405)
    expect(wrong.headers.get('allow')).toBe('GET, HEAD, OPTIONS')
    const options = await fetch(`${app.url}/ledger/token/params`, { method: 'OPTIONS' })
    expect(options.headers.get('allow')).toBe('GET, HEAD, OPTIONS')
    const head = await fetch(`${app.url}/ledger/token/params`, { method: 'HEAD' })
    expect(head.status).toBe(200)
    expect(Number(head.headers.get('content-length'))).toBeGreaterThan(10)
  })

  it('stream NDJSON lines, or events where those are accepted', async () => {
    const text = await (await fetch(`${app.url}/ledger/claims/watch`)).text()
    const parsed = text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(parsed).toHaveLength(5)
    expect(parsed[0]).toEqual({
      result: { claim_id: 'claim-1', agent_did: 'did:x:agent:1', amount: '1000' },
    })
    const events = await app.get('/ledger/claims/watch', {
      headers: { accept: 'text/event-stream' },
    })
    expect(events.headers.get('content-type')).toBe('text/event-stream')
    expect(String(events.body).match(/^data: \{/gm)).toHaveLength(5)
  })

  it('describe themselves, and what the upstream does not implement', async () => {
    expect((await app.get('/ledger/claims/disputes')).status).toBe(501)
    const { body } = await app.get('/ledger/openapi.json')
    expect(body.openapi).toBe('3.1.0')
    expect(body.paths['/ledger/entity/{id}'].get.parameters[0]).toMatchObject({
      name: 'id',
      in: 'path',
    })
    expect(body.paths['/ledger/claims/disputes'].get['x-not-implemented']).toBe(true)
    expect(body.paths['/ledger/claims/claims'].get['x-not-implemented']).toBeUndefined()
  })
})

describe('the agent', () => {
  it('asks the ledger with query_ledger once it is loaded', async () => {
    const thread = app.thread()
    await expect(thread.call('query_ledger', {})).rejects.toThrow('not loaded')
    thread.load('query-gateway')
    const listed = (await thread.call('query_ledger', {})) as { methods: { method: string }[] }
    expect(listed.methods).toContainEqual({
      method: 'ledger.v1.EntityQuery.Entity',
      request: { id: 'string' },
    })
    expect(
      await thread.call('query_ledger', {
        method: 'ledger.v1.EntityQuery.Entity',
        request: { id: 'did:x:entity:1' },
      }),
    ).toMatchObject({ entity: { type: 'asset/cookstove' } })
    await expect(
      thread.call('query_ledger', { method: 'ledger.v1.EntityQuery.Entity', request: { id: 'x' } }),
    ).rejects.toThrow('no entity x')
    await expect(
      thread.call('query_ledger', { method: 'ledger.v1.TokenQuery.Simulate' }),
    ).rejects.toThrow('no query called')
  })
})
