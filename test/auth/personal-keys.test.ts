import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import pg from 'pg'
import { z } from 'zod'
import { definePlugin } from '#core'
import { testApp, type TestApp, type TestUser } from '#core/testing'
import { onEachDatabase, onPostgres, type Where } from '../support/each-database.ts'
import { openStream } from '../support/event-stream.ts'
import { heldModel } from '../support/held-model.ts'
import { connect } from '../support/sockets.ts'

const env = {
  ORACLE_MNEMONIC: 'a mnemonic that only the tests of personal keys know',
  API_KEY: 'an-api-key-of-this-test',
  OPERATOR_TOKEN: 'a-token-of-this-test',
  NODE_ENV: 'test',
}

const desk = definePlugin({
  name: 'desk',
  summary: 'Has a route of each kind.',
  setup: ({ holdsCredential }) => holdsCredential,
  routes: {
    'GET /desk/mine': { run: (_, { user }) => ({ did: user.did }) },
    'POST /desk/pay': { signed: true, run: () => ({ paid: true }) },
    'POST /desk/in-person': { signed: 'self', run: () => ({ done: true }) },
    'POST /desk/tools': { can: { can: 'tools/call' }, run: () => ({ called: true }) },
    'GET /desk/service': { auth: 'bearer', run: (_, { caller }) => ({ caller }) },
    'POST /desk/holds': {
      auth: 'public',
      input: z.object({ text: z.string() }),
      run: ({ text }, { self }) => ({ holds: self(text), said: text.length }),
    },
    'POST /desk/log': {
      auth: 'public',
      input: z.object({ text: z.string() }),
      run: ({ text }, { log }) => {
        log.info({ text }, `somebody said ${text}`)
        return { logged: true }
      },
    },
  },
})

const inDatabase = ({ databaseUrl }: Where) => (databaseUrl ? { DATABASE_URL: databaseUrl } : {})
const bearer = (key: string) => ({ authorization: `Bearer ${key}` })
const make = async (user: TestUser, body: object = { name: 'my editor' }) => {
  const made = await user.post('/keys', body)
  expect(made.status).toBe(201)
  return made.body as { id: string; key: string; can: string[]; expiresAt: string }
}

await onEachDatabase('personal keys', (where) => {
  let app: TestApp
  const model = heldModel(['Once upon '], ['a time.'])
  beforeAll(async () => {
    app = await testApp({ plugins: [desk], model, env: { ...env, ...inDatabase(where) } })
  })
  afterAll(() => app?.close())

  it('are shown once, listed without the key, and open the routes of their user', async () => {
    const user = await app.user()
    const made = await user.post('/keys', { name: 'my editor', days: 2 })
    expect(made).toMatchObject({
      status: 201,
      body: {
        name: 'my editor',
        can: ['oracle/call'],
        key: expect.stringMatching(/^ok_[\w-]{43}$/),
      },
    })
    expect(made.headers.get('cache-control')).toBe('no-store')
    const { key, id, expiresAt } = made.body
    expect(Date.parse(expiresAt) - Date.now()).toBeGreaterThan(47 * 3_600_000)
    for (const headers of [bearer(key), { 'x-api-key': key }]) {
      expect((await app.get('/desk/mine', { headers })).body).toEqual({ did: user.did })
      expect((await app.post('/sessions', undefined, headers)).status).toBe(201)
    }
    const list = await user.get('/keys')
    expect(list.body.keys).toEqual([
      expect.objectContaining({ id, name: 'my editor', lastUsedAt: expect.any(String) }),
    ])
    expect(JSON.stringify(list.body)).not.toContain(key)
    expect((await (await app.user()).get('/keys')).body.keys).toEqual([])
  })

  it('make no key, delegation or grant, reach nothing signed, and no service or operator', async () => {
    const user = await app.user()
    const { key, id } = await make(user, {
      name: 'all',
      can: ['oracle/call', 'tools/call', 'tools/approve'],
    })
    const headers = bearer(key)
    const refused = [
      app.post('/keys', { name: 'another' }, headers),
      app.get('/keys', { headers }),
      app.delete(`/keys/${id}`, { headers }),
      app.post('/delegation', { raw: 'x' }, headers),
      app.get('/delegation', { headers }),
      app.delete('/delegation', { headers }),
      app.get('/me', { headers }),
      app.get('/me/export', { headers }),
      app.delete(`/me?confirm=${user.did}`, { headers }),
      app.post('/grants', { did: user.did, capabilities: ['*'] }, headers),
      app.get('/grants', { headers }),
      app.post('/desk/pay', {}, headers),
      app.get('/desk/service', { headers }),
    ]
    for (const answer of await Promise.all(refused))
      expect(answer).toMatchObject({ status: 403, body: { code: 'KEY_TOO_WEAK' } })
    expect((await user.post('/desk/pay', {})).status).toBe(200)
  })

  it('open nothing that wants the person, and neither does a delegation', async () => {
    const [user, agent] = [await app.user(), await app.user()]
    const { key } = await make(user)
    const delegated = await user.wallet.delegate({
      audience: agent.did,
      capabilities: [{ can: 'oracle/call', with: user.did }],
    })
    const { text } = await agent.wallet.invoke({
      audience: app.oracleDid,
      capability: { can: 'oracle/call', with: user.did },
      proofs: [delegated],
    })
    const lent = { authorization: `Bearer ${text}`, 'x-auth-type': 'ucan' }
    const alone = (await user.wallet.delegate({ audience: app.oracleDid })).text
    const refused = { status: 403, body: { code: 'FORBIDDEN' } }
    const inPerson = (headers: Record<string, string>) => app.post('/desk/in-person', {}, headers)
    expect(await inPerson(lent)).toMatchObject(refused)
    expect(await inPerson({ 'x-ucan-delegation': alone })).toMatchObject(refused)
    expect(await inPerson(bearer(key))).toMatchObject({ body: { code: 'KEY_TOO_WEAK' } })
    for (const headers of [lent, { 'x-ucan-delegation': alone }])
      expect((await app.post('/desk/pay', {}, headers)).status).toBe(200)
    expect((await user.post('/desk/in-person', {})).body).toEqual({ done: true })
  })

  it('open what they can and no more, and the refusal names the ability', async () => {
    const user = await app.user()
    const talks = await make(user)
    const calls = await make(user, { name: 'tools', can: ['tools/call'] })
    expect(await app.post('/desk/tools', {}, bearer(talks.key))).toMatchObject({
      status: 403,
      body: { code: 'KEY_TOO_WEAK', message: expect.stringContaining('"tools/call"') },
    })
    expect((await app.post('/desk/tools', {}, bearer(calls.key))).status).toBe(200)
    expect(await app.get('/desk/mine', { headers: bearer(calls.key) })).toMatchObject({
      status: 403,
      body: { message: expect.stringContaining('"oracle/call"') },
    })
    // A key that stands for a person who may do everything still does only what it is for.
    await user.post('/delegation', {
      raw: (await user.wallet.delegate({ audience: app.oracleDid })).text,
    })
    expect((await app.post('/desk/tools', {}, bearer(talks.key))).status).toBe(403)
  })

  it('refuse a wrong, an ended and an expired one with the one 401, and bad requests for one', async () => {
    const user = await app.user()
    const { id, key } = await make(user)
    const other = await app.user()
    expect((await other.delete(`/keys/${id}`)).status).toBe(404)
    const tampered = `${key.slice(0, -1)}${key.endsWith('A') ? 'B' : 'A'}`
    const wrong = [tampered, 'ok_', `${key}x`, 'ok_' + 'A'.repeat(43)]
    for (const text of wrong)
      expect((await app.get('/desk/mine', { headers: bearer(text) })).status).toBe(401)
    expect(
      (await app.get('/desk/mine', { headers: { ...bearer(key), 'x-auth-type': 'ucan' } })).status,
    ).toBe(401)
    expect((await user.delete(`/keys/${id}`)).body).toEqual({ ok: true })
    expect((await app.get('/desk/mine', { headers: bearer(key) })).status).toBe(401)
    expect((await user.delete(`/keys/${id}`)).status).toBe(404)
    for (const body of [
      {},
      { name: '' },
      { name: 'x'.repeat(81) },
      { name: 'a\nb' },
      { name: 'x', days: 0 },
      { name: 'x', days: 366 },
      { name: 'x', can: [] },
      { name: 'x', can: ['*'] },
    ])
      expect((await user.post('/keys', body)).status).toBe(400)
  })

  it('are at most 50 of one person, also when many are asked for at once', async () => {
    const user = await app.user()
    const headers = await user.wallet.headers(app.oracleDid)
    const answers = await Promise.all(
      Array.from({ length: 55 }, (_, n) => app.post('/keys', { name: `key ${n}` }, headers)),
    )
    const of = (status: number) => answers.filter((answer) => answer.status === status).length
    expect([of(201), of(409)]).toEqual([50, 5])
  })

  it('are no API key: that one has no user, and the answer says what to do', async () => {
    expect(await app.get('/desk/mine', { headers: bearer(env.API_KEY) })).toMatchObject({
      status: 403,
      body: { code: 'KEY_HAS_NO_USER', hint: expect.stringContaining('POST /keys') },
    })
    expect((await app.get('/desk/service', { headers: bearer(env.API_KEY) })).status).toBe(200)
  })

  it('are in no log line and no answer of the document, and count as credentials', async () => {
    const user = await app.user()
    const { key } = await make(user)
    await app.get('/desk/mine', { headers: bearer(key) })
    await app.post('/desk/log', { text: `my key is ${key}, keep it` })
    expect((await app.post('/desk/holds', { text: `Bearer ${key}` })).body.holds).toBe(true)
    expect((await app.post('/desk/holds', { text: 'Bearer something' })).body.holds).toBe(false)
    const log = app.log.join('\n')
    expect(log).toContain('my key is [secret], keep it')
    expect(log).not.toContain(key)
    const kept = await user.export()
    expect(kept.some((line) => line.kind === 'key')).toBe(true)
    expect(JSON.stringify(kept)).not.toContain(key)
    const { body } = await app.get('/openapi.json')
    expect(body.paths['/desk/mine'].get.security).toContainEqual({ key: [] })
    expect(body.paths['/desk/pay'].post.security).not.toContainEqual({ key: [] })
  })

  it('open sockets and streams, which end with the key', async () => {
    const user = await app.user()
    const { id, key } = await make(user)
    const { body: session } = await app.post('/sessions', undefined, bearer(key))
    const socket = connect(`${app.url}/ws`)
    await socket.opened
    socket.send({ type: 'auth', sessionId: session.sessionId, auth: { invocation: key } })
    await socket.find((text) => (text.includes('connected') ? text : undefined))
    const stream = await openStream(`${app.url}/messages/${session.sessionId}`, bearer(key), {
      message: 'Tell me a story',
    })
    await stream.until(({ event }) => event === 'message')
    await user.delete(`/keys/${id}`)
    const rest = await stream.rest()
    expect(rest.some(({ event }) => event === 'done')).toBe(false)
    expect((await socket.closed).code).toBe(4401)
    // The turn itself was begun with good proof and goes on; its person reads it.
    model.goOn()
    const told = await user.get(`/sessions/${session.sessionId}/run`)
    expect(told.status).toBe(200)
  })

  it('go with everything else of an erased person', async () => {
    const user = await app.user()
    const { key } = await make(user)
    await user.erase()
    expect((await app.get('/desk/mine', { headers: bearer(key) })).status).toBe(401)
  })

  it('expire', async () => {
    const user = await app.user()
    const { id, key } = await make(user, { name: 'short', days: 1 })
    if (where.databaseUrl === undefined) return
    const client = new pg.Client(where.databaseUrl)
    await client.connect()
    onTestFinished(() => client.end())
    const hashes = await client.query('select * from kernel_keys where id = $1', [id])
    expect(JSON.stringify(hashes.rows)).not.toContain(key)
    await client.query('update kernel_keys set expires_at = $1 where id = $2', [Date.now() - 1, id])
    expect((await app.get('/desk/mine', { headers: bearer(key) })).status).toBe(401)
    expect((await user.get('/keys')).body.keys).toEqual([])
  })
})

await onPostgres('personal keys on two replicas', (where) => {
  it('end on the other replica at once, and their open streams there with them', async () => {
    const model = heldModel(['Once '], ['more.'])
    const boot = () => testApp({ plugins: [desk], model, env: { ...env, ...inDatabase(where) } })
    const [one, two] = await Promise.all([boot(), boot()])
    onTestFinished(() => Promise.all([one.close(), two.close()]).then(() => undefined))
    const user = await one.user()
    const { id, key } = await make(user)
    const { body: session } = await two.post('/sessions', undefined, bearer(key))
    const stream = await openStream(`${two.url}/messages/${session.sessionId}`, bearer(key), {
      message: 'Go on',
    })
    await stream.until(({ event }) => event === 'message')
    await user.delete(`/keys/${id}`)
    expect((await two.get('/desk/mine', { headers: bearer(key) })).status).toBe(401)
    const rest = await stream.rest() // ends: nobody reads on with a key that was taken back
    expect(rest.some(({ event }) => event === 'done')).toBe(false)
    model.goOn()
  })
})
