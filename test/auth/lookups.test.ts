import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, onTestFinished, test } from 'vitest'
import { WebSocket } from 'ws'
import { definePlugin } from '#core'
import { testApp } from '#core/testing'
import { createWallet } from '../../core/testing/wallet.ts'
import { inTheNameOf, token } from '../support/tokens.ts'

const closers: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close()
})

const me = definePlugin({
  name: 'me',
  summary: 'Says who calls.',
  routes: { 'GET /who': { auth: 'ucan', run: (_, { user }) => ({ did: user.did }) } },
})

/** An app and the resolver that it asks; the resolver does what it is told. */
async function appWith(env: Record<string, string> = {}) {
  const key = await createWallet()
  const waiting: ServerResponse[] = []
  const does: { now: 'answer' | 'wait' | 'fail' | 'garbage' | 'deny' } = { now: 'answer' }
  const resolver = createServer(({ url = '' }, response) => {
    if (does.now === 'wait') return void waiting.push(response)
    if (does.now === 'fail') return void response.writeHead(500).end()
    if (does.now === 'deny') return void response.writeHead(404).end()
    if (does.now === 'garbage') return void response.end('<html>')
    const id = decodeURIComponent(url.split('/').at(-1)!)
    const method = {
      id: `${id}#k`,
      type: 'Ed25519VerificationKey2018',
      publicKeyMultibase: key.did.slice('did:key:'.length),
    }
    response.end(JSON.stringify({ id, verificationMethod: [method], authentication: [method.id] }))
  })
  await new Promise<void>((resolve) => resolver.listen(0, '127.0.0.1', resolve))
  closers.push(() => (resolver.closeAllConnections(), resolver.close()))
  const app = await testApp({
    plugins: [me],
    fetch,
    env: { RESOLVER_URL: `http://127.0.0.1:${(resolver.address() as AddressInfo).port}`, ...env },
  })
  closers.push(() => app.close())
  const credential = async (did: string) => {
    const text = await token(inTheNameOf(key, did), { audience: app.oracleDid })
    return { authorization: `Bearer ${text}`, 'x-auth-type': 'ucan' }
  }
  return { app, does, waiting, credential }
}
const unknownOnes = (count: number) =>
  Array.from({ length: count }, (_, i) => `did:ixo:ixo1unknown${i}`)

describe('issuers that cannot be looked up', () => {
  test.each(['wait', 'fail', 'garbage'] as const)(
    'are told 503 with Retry-After and never 401 by a resolver that does "%s"; those who are known go on',
    async (what) => {
      const { app, does, credential } = await appWith()
      const known = await credential('did:ixo:ixo1known')
      expect((await app.get('/who', { headers: known })).body.did).toBe('did:ixo:ixo1known')
      does.now = what
      const unknown = await credential('did:ixo:ixo1unknown')
      const answer = await app.get('/who', { headers: unknown })
      expect(answer).toMatchObject({ status: 503, body: { code: 'ISSUER_LOOKUP_UNAVAILABLE' } })
      expect(answer.headers.get('retry-after')).toMatch(/^[1-5]$/)
      expect((await app.get('/who', { headers: known })).status).toBe(200)
      expect((await (await app.user()).get('/who')).status).toBe(200)
    },
  )

  test('are told 401 where the resolver knows that there is no such DID', async () => {
    const { app, does, credential } = await appWith()
    does.now = 'deny'
    const headers = await credential('did:ixo:ixo1nobody')
    expect(await app.get('/who', { headers })).toMatchObject({
      status: 401,
      body: { code: 'UNAUTHORIZED' },
    })
  })

  test('may be a thousand at once, and all others are answered meanwhile', async () => {
    const { app, does, waiting, credential } = await appWith()
    const known = await credential('did:ixo:ixo1known')
    await app.get('/who', { headers: known })
    const user = await app.user()
    const credentials = await Promise.all(unknownOnes(1_000).map(credential))
    does.now = 'wait'
    const flood = Promise.all(credentials.map((headers) => app.get('/who', { headers })))
    flood.catch(() => undefined) // a fault of one call is seen where all are awaited
    await expect.poll(() => waiting.length).toBeGreaterThan(0)
    for (let i = 0; i < 20; i++) {
      expect((await user.get('/who')).status).toBe(200)
      expect((await app.get('/who', { headers: known })).status).toBe(200)
    }
    expect(waiting.length).toBeLessThanOrEqual(64)
    for (const { status, headers } of await flood) {
      expect(status).toBe(503)
      expect(headers.get('retry-after')).toBeTruthy()
    }
    // When the resolver is back, so are they.
    does.now = 'answer'
    await expect
      .poll(async () => (await app.get('/who', { headers: credentials[999]! })).status)
      .toBe(200)
  }, 60_000)

  test('cost their address something, which is not a failure to authenticate', async () => {
    const { app, does, credential } = await appWith({ AUTH_FAILURES_PER_MINUTE: '5' })
    does.now = 'fail'
    const statuses: number[] = []
    for (const did of unknownOnes(7))
      statuses.push((await app.get('/who', { headers: await credential(did) })).status)
    expect(statuses).toEqual([503, 503, 503, 503, 503, 429, 429])
    // Bad credentials have their own count, and good ones get in.
    expect((await app.get('/who')).status).toBe(401)
    expect((await (await app.user()).get('/who')).status).toBe(200)
  })

  test('are told to come again on a socket, too', async () => {
    const { app, does, credential } = await appWith()
    does.now = 'fail'
    const { authorization } = await credential('did:ixo:ixo1unknown')
    const ws = new WebSocket(`${app.url.replace('http', 'ws')}/ws`)
    onTestFinished(() => ws.terminate())
    ws.once('open', () => {
      const auth = { invocation: authorization.slice('Bearer '.length) }
      ws.send(JSON.stringify({ type: 'auth', sessionId: 'any', auth }))
    })
    const code = await new Promise((resolve) => ws.once('close', resolve))
    expect(code).toBe(1013)
  })
})
