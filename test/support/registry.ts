import { afterAll, beforeAll, expect } from 'vitest'
import { testApp, type TestApp, type TestResponse } from '#core/testing'
import type { Where } from './each-database.ts'
import registry from '../../plugins/registry/index.ts'

const key = 'a-key-for-this-test'
/** The header of a caller with the API key. */
export const asKey = { authorization: `Bearer ${key}` }
/** The key of a second person, who evaluates what the first one claims. */
export const asVerifier = { authorization: 'Bearer the-key-of-the-verifier' }
/** The value of API_KEY for both keys. */
export const apiKeys = `default:${key},verifier:the-key-of-the-verifier`

/** A protocol with a property of each kind that tests need. */
export const stove = {
  type: 'Protocol',
  properties: {
    name: { type: 'string', required: true },
    fuel: { type: 'string', enum: ['ethanol', 'pellets'] },
    power: { type: 'number', min: 0, max: 10 },
    burners: 'integer',
  },
  relationships: { operator: 'OrganisationEntity', verifier: 'OracleEntity' },
}

/** The registry on one of the databases, called with the API key. Call it in the body of a suite. */
export function registryApp(where: Where, env: Record<string, string> = {}) {
  let app: TestApp
  let open: string
  beforeAll(async () => {
    const database = where.databaseUrl ? { DATABASE_URL: where.databaseUrl } : {}
    app = await testApp({ plugins: [registry], env: { API_KEY: apiKeys, ...database, ...env } })
    const made = await app.post(
      '/v1/protocols',
      { type: 'Protocol', properties: { name: 'string', n: 'number' } },
      asKey,
    )
    open = made.body.did
  })
  afterAll(() => app?.close())
  const ok = ({ status, body }: TestResponse) => {
    expect({ status, body }).toMatchObject({ status: expect.toBeOneOf([200, 201]) })
    return body
  }
  const at = (did: string, rest = '') => `/v1/entities/${encodeURIComponent(did)}${rest}`
  const client = {
    at,
    get app() {
      return app
    },
    get oracleDid() {
      return app.oracleDid
    },
    get url() {
      return app.url
    },
    /** A protocol with `name` and `n`, and with every role. */
    get open() {
      return open
    },
    get: (path: string, headers = {}) => app.get(path, { headers: { ...asKey, ...headers } }),
    post: (path: string, body: unknown, headers = {}) =>
      app.post(path, body, { ...asKey, ...headers }),
    put: (path: string, body: unknown, headers = {}) =>
      app.put(path, body, { ...asKey, ...headers }),
    patch: (path: string, body: unknown, headers = {}) =>
      app.patch(path, body, { ...asKey, ...headers }),
    delete: (path: string, headers = {}) => app.delete(path, { headers: { ...asKey, ...headers } }),
    /** Creates a protocol. */
    protocol: async (body: object = stove) => ok(await client.post('/v1/protocols', body)),
    /** Creates an entity; this makes up the fields that are not given. */
    entity: async (body: object = {}) =>
      ok(
        await client.post('/v1/entities', {
          type: 'Thing',
          protocol: open,
          properties: {},
          ...body,
        }),
      ),
    /** Sends entities as lines; strings go as they are. The results, a line each. */
    async batch(lines: readonly unknown[], query = '') {
      const text = lines.map((line) => (typeof line === 'string' ? line : JSON.stringify(line)))
      const answer = await client.post(`/v1/entities/batch${query}`, text.join('\n'), {
        'content-type': 'application/x-ndjson',
      })
      const { status, headers } = answer
      const read = typeof answer.body === 'string' ? answer.body.split('\n').filter(Boolean) : []
      return { status, headers, body: answer.body, results: read.map((line) => JSON.parse(line)) }
    },
    /** An entity as it is now. */
    read: async (did: string) => ok(await client.get(at(did))),
  }
  return client
}
