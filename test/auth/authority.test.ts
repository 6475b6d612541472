import { Delegation } from '@ucanto/core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { scriptedModel, testApp, type TestApp, type TestUser } from '#core/testing'
import { dice } from '../support/dice.ts'
import { onEachDatabase, onPostgres } from '../support/each-database.ts'
import { everyPlugin, everyPluginEnv } from '../support/every-plugin.ts'
import { Hostile, type Shape } from '../support/hostile.ts'

// Every route of every plugin, as the app itself tells them: none is listed here by hand.

const env = {
  ...everyPluginEnv,
  ORACLE_MNEMONIC: 'a mnemonic that only the walk over all routes knows',
  API_KEY: 'a-key-for-this-test',
  OPERATOR_TOKEN: 'a-token-for-this-test',
}
const operator = { authorization: `Bearer ${env.OPERATOR_TOKEN}` }
/** Whoever comes through a proxy is not at this machine. */
const fromAfar = { 'x-forwarded-for': '203.0.113.9' }

/** What changes nothing and is asked with a body, because its question is too long for an address. */
const asksInItsBody = ['/v1/query']

interface Known {
  readonly method: string
  readonly path: string
  readonly kind: 'public' | 'own' | 'bearer' | 'operator'
  readonly ability: string
  /** Whether a personal key opens it. */
  readonly takesKeys: boolean
  /** The path with its parameters. */
  readonly template: string
  readonly body: Shape | undefined
}

type Security = readonly Readonly<Record<string, readonly string[]>>[]

async function routesOf(app: TestApp): Promise<Known[]> {
  const { paths } = (await app.get('/openapi.json')).body as {
    paths: Record<
      string,
      Record<
        string,
        {
          security: Security
          requestBody?: { content: Record<string, { schema?: Shape }> }
        }
      >
    >
  }
  return Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, { security, requestBody }]): Known => {
      const schemes = security.flatMap((each) => Object.keys(each))
      const kind = schemes.includes('operator')
        ? 'operator'
        : schemes.includes('bearer')
          ? 'bearer'
          : schemes.includes('ucan')
            ? 'own'
            : 'public'
      return {
        method: method.toUpperCase(),
        path: path.replaceAll(/\{\w+\}/g, 'x'),
        template: path,
        kind,
        takesKeys: schemes.includes('key'),
        body: requestBody?.content['application/json']?.schema,
        ability: security.flatMap((each) => each.ucan ?? [])[0] ?? '',
      }
    }),
  )
}

/** The status and the code of a refusal; a stream is left at once. */
async function call(app: TestApp, { method, path }: Known, headers: Record<string, string>) {
  const response = await fetch(app.url + path, { method, headers })
  const json = /json/.test(response.headers.get('content-type') ?? '')
  const code =
    json && response.status >= 400 ? ((await response.json()) as { code: string }).code : undefined
  if (!response.bodyUsed) await response.body?.cancel()
  return { status: response.status, code }
}

/** Eight at once: the walks are long. */
async function overAll<T>(all: readonly T[], look: (one: T) => Promise<unknown>): Promise<void> {
  const left = [...all]
  const walk = async () => {
    for (let one = left.shift(); one !== undefined; one = left.shift()) await look(one)
  }
  await Promise.all(Array.from({ length: 8 }, walk))
}

const start = (databaseUrl?: string, more: Record<string, string> = {}) =>
  testApp({
    plugins: everyPlugin,
    env: { ...env, ...(databaseUrl && { DATABASE_URL: databaseUrl }), ...more },
  })

await onEachDatabase('a walk over every route', (where) => {
  let app: TestApp
  let routes: Known[]
  beforeAll(async () => {
    app = await start(where.databaseUrl)
    routes = await routesOf(app)
  })
  afterAll(() => app?.close())
  const of = (kind: Known['kind']) => routes.filter((route) => route.kind === kind)
  const headersOf = (user: TestUser) => user.wallet.headers(app.oracleDid)

  it('finds routes of each kind, and an ability on each that is shared out', () => {
    expect(of('bearer').length).toBeGreaterThan(25)
    expect(of('operator').length).toBeGreaterThan(3)
    expect(of('own').length).toBeGreaterThan(10)
    const paths = new Set(routes.map(({ path }) => path))
    for (const one of ['/v1/entities', '/memory', '/calls', '/mcp', '/messaging/links', '/usage'])
      expect(paths).toContain(one)
    for (const { method, path, ability } of of('bearer'))
      expect(ability).toMatch(
        method === 'GET' || asksInItsBody.includes(path) ? /\/read$/ : /\/(write|admin)$/,
      )
  })

  it('opens nothing of the oracle’s to whoever grants himself everything, and all that is his own', async () => {
    const user = await app.user()
    const { text } = await user.wallet.delegate({
      audience: app.oracleDid,
      capabilities: [
        { can: '*', with: 'ixo:oracle' },
        { can: '*', with: user.did },
        { can: '*', with: app.oracleDid },
        { can: '*', with: 'ucan:*' },
      ],
    })
    for (const headers of [
      await headersOf(user),
      { ...(await headersOf(user)), 'x-ucan-delegation': text },
    ]) {
      await overAll(of('bearer'), async (route) =>
        expect({ ...route, ...(await call(app, route, headers)) }).toMatchObject({
          status: 403,
          code: 'NOT_GRANTED',
        }),
      )
      await overAll(of('operator'), async (route) =>
        expect((await call(app, route, { ...headers, ...fromAfar })).status, route.path).toBe(403),
      )
      await overAll(of('own'), async (route) =>
        expect([401, 403], `${route.method} ${route.path}`).not.toContain(
          (await call(app, route, headers)).status,
        ),
      )
    }
    expect((await user.get('/sessions')).status).toBe(200)
  })

  it('opens to a personal key what the description says, and no service, no operator’s route', async () => {
    const user = await app.user()
    const { key } = (await user.post('/keys', { name: 'a walk' })).body
    const headers = { authorization: `Bearer ${key}` }
    await overAll([...of('bearer'), ...of('operator'), ...of('own')], async (route) => {
      const told = await call(app, route, { ...headers, ...fromAfar })
      if (route.kind === 'own' && route.takesKeys)
        expect([401, 403], `${route.method} ${route.path}`).not.toContain(told.status)
      else expect({ ...route, ...told }).toMatchObject({ status: 403, code: 'KEY_TOO_WEAK' })
    })
    expect(of('own').filter(({ takesKeys }) => !takesKeys).length).toBeGreaterThan(10)
  })

  it('answers a stranger of another’s things as of things that are not there', async () => {
    const [owner, stranger] = [await app.user(), await app.user()]
    const { sessionId, runId } = await owner.say('Hello')
    await owner.patch(`/sessions/${sessionId}`, { title: 'Mine' })
    const headers = await headersOf(owner)
    const file = await fetch(`${app.url}/files`, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'text/plain', 'x-filename': 'mine.txt' },
      body: 'mine',
    })
    await owner.put('/memory/settings', { mode: 'on' })
    const ids: string[] = [
      sessionId,
      runId,
      ((await file.json()) as { fileId: string }).fileId,
      (await owner.post('/keys', { name: 'mine' })).body.id,
      (await owner.post('/memory', { text: 'I like blue doors.' })).body.id,
    ]
    expect(ids).not.toContain(undefined)
    const mine = async () =>
      Promise.all(
        [
          '/sessions',
          `/messages/${sessionId}`,
          `/runs/${runId}`,
          '/keys',
          '/memory',
          '/notices',
        ].map(async (path) => (await owner.get(path)).body),
      )
    const before = await mine()
    const hostile = new Hostile(dice(7))
    const withIds = of('own').filter(({ template }) => template.includes('{'))
    expect(withIds.length).toBeGreaterThan(20)
    await overAll(withIds, async ({ method, template, body }) => {
      const sent = body && JSON.stringify(hostile.sound(body))
      const asked = async (id: string) => {
        const response = await fetch(app.url + template.replaceAll(/\{\w+\}/g, id), {
          method,
          headers: {
            ...(await headersOf(stranger)),
            ...(sent && { 'content-type': 'application/json' }),
          },
          ...(sent && { body: sent }),
        })
        const isJson = /json/.test(response.headers.get('content-type') ?? '')
        const answer = isJson ? ((await response.json()) as Record<string, unknown>) : {}
        if (!response.bodyUsed) await response.body?.cancel()
        return { status: response.status, code: answer.code, text: JSON.stringify(answer) }
      }
      for (const id of ids) {
        // Of the same form, and nobody's.
        const absent = await asked(id.replaceAll(/[0-9a-f]/g, '0'))
        const { text, status, code } = await asked(id)
        expect([method, template, id, status, code]).toEqual([
          ...[method, template, id],
          ...[absent.status, absent.code],
        ])
        expect(text).not.toContain('blue doors')
      }
    })
    expect(await mine()).toEqual(before)
  })

  it('opens what a grant says, verb by verb, until it is taken back', async () => {
    const user = await app.user()
    const shown = async () => {
      const headers = await headersOf(user)
      const opened: string[] = []
      await overAll(of('bearer'), async (route) => {
        if ((await call(app, route, headers)).code !== 'NOT_GRANTED')
          opened.push(`${route.method} ${route.path}`)
      })
      return opened.toSorted()
    }
    const named = (wanted: (route: Known) => boolean) =>
      of('bearer')
        .filter(wanted)
        .map(({ method, path }) => `${method} ${path}`)
        .toSorted()
    const plugins = [...new Set(of('bearer').map(({ ability }) => ability.split('/')[0]!))]
    expect(plugins.length).toBeGreaterThan(1)
    for (const plugin of plugins) {
      const read = await user.granted(`${plugin}/read`)
      expect(await shown()).toEqual(named(({ ability }) => ability === `${plugin}/read`))
      const write = await user.granted(`${plugin}/write`)
      const both = ({ ability }: Known) => [`${plugin}/read`, `${plugin}/write`].includes(ability)
      expect(await shown()).toEqual(named(both))
      for (const { id } of [read, write]) await app.delete(`/grants/${id}`, { headers: operator })
      expect(await shown()).toEqual([])
    }
    const { id } = await user.granted('*')
    expect(await shown()).toEqual(named(() => true))
    for (const route of of('operator'))
      expect(await call(app, route, { ...(await headersOf(user)), ...fromAfar })).toEqual({
        status: 403,
        code: 'FORBIDDEN',
      })
    expect((await app.delete(`/grants/${id}`, { headers: operator })).body.state).toBe('revoked')
    expect(await shown()).toEqual([])
  })
})

await onPostgres('a grant that is taken back', (where) => {
  it('is over on another server too, at once, with the CAR in hand and re-delegated', async () => {
    await using here = await start(where.databaseUrl)
    await using there = await start(where.databaseUrl)
    const user = await here.user()
    const friend = await there.user()
    const asked = { did: user.did, capabilities: ['registry/write'], days: 3 }
    const { id, car } = (await here.post('/grants', asked, operator)).body
    const carried = { ...(await user.wallet.headers(here.oracleDid)), 'x-ucan-delegation': car }
    const status = async (app: TestApp, headers: Record<string, string>) =>
      (await app.get('/v1/protocols', { headers })).status
    const plain = await user.wallet.headers(here.oracleDid)
    for (const app of [here, there])
      for (const headers of [carried, plain]) expect(await status(app, headers)).toBe(200)
    expect(await status(there, await friend.wallet.headers(here.oracleDid))).toBe(403)
    for (let round = 0; round < 5; round++) expect(await status(there, plain)).toBe(200)

    // Handed on, a part of it, with the grant as the proof; to be carried as it is, or wrapped by the friend.
    const parent = await Delegation.extract(Buffer.from(car, 'base64'))
    if (parent.error) throw parent.error
    const handed = await user.wallet.delegate({
      audience: friend.did,
      capabilities: [{ can: 'registry/read', with: here.oracleDid }],
      proofs: [{ text: car, delegation: parent.ok }],
    })
    const wrapped = await friend.wallet.delegate({
      audience: here.oracleDid,
      capabilities: [{ can: 'registry/read', with: here.oracleDid }],
      proofs: [handed],
    })
    const identity = await friend.wallet.headers(here.oracleDid)
    const lent = [handed, wrapped].map(({ text }) => ({ ...identity, 'x-ucan-delegation': text }))
    for (const headers of lent) expect(await status(there, headers)).toBe(200)
    const more = await there.post('/v1/protocols', { type: 'Protocol' }, lent[1])
    expect(more).toMatchObject({ status: 403, body: { details: { ability: 'registry/write' } } })
    // Somebody else's grant opens nothing: its audience is another.
    expect(await status(here, { ...identity, 'x-ucan-delegation': car })).toBe(401)
    expect((await here.delete(`/grants/${id}`, { headers: operator })).status).toBe(200)
    for (const app of [there, here])
      for (const headers of [plain, carried, ...lent]) expect(await status(app, headers)).toBe(403)
  })
})

describe('ACCESS=granted', () => {
  it('lets only those talk who were granted it, and leaves everybody what is his', async () => {
    await using app = await start(undefined, { ACCESS: 'granted' })
    const user = await app.user()
    const refused = { status: 403, body: { code: 'NOT_GRANTED' } }
    expect(await user.post('/sessions')).toMatchObject({
      ...refused,
      body: { hint: expect.stringContaining(`npm run grant -- ${user.did} 'oracle/call'`) },
    })
    expect(await user.post('/messages/none', { message: 'Hello' })).toMatchObject(refused)
    expect((await user.get('/sessions')).status).toBe(200)

    const { id } = await user.granted('oracle/call')
    const said = await user.say('Hello')
    expect(said.status).toBe('finished')
    await app.delete(`/grants/${id}`, { headers: operator })
    expect(await user.post(`/messages/${said.sessionId}`, { message: 'More' })).toMatchObject(
      refused,
    )
    expect(await user.post(`/runs/${said.runId}/resume`, { decision: 'approve' })).toMatchObject(
      refused,
    )
    expect((await user.get(`/messages/${said.sessionId}`)).body.messages).toHaveLength(2)
    expect((await user.get(`/runs/${said.runId}`)).status).toBe(200)
    expect((await user.delete(`/sessions/${said.sessionId}`)).status).toBe(200)
  })

  it('refuses a turn that a plugin starts for whoever was not granted it, and makes no session', async () => {
    const clerk = definePlugin({
      name: 'clerk',
      summary: 'Asks the agent on behalf of others.',
      visibility: 'silent',
      setup: ({ turns }) => turns,
      routes: {
        'POST /ask': {
          auth: 'public',
          input: z.object({ did: z.string() }),
          async run({ did }, { self }) {
            const events: string[] = []
            for await (const { event } of self.start({
              user: { did },
              session: `ask-${did}`,
              message: 'Hello',
            }))
              events.push(event)
            return { events }
          },
        },
      },
    })
    const model = scriptedModel(['Good day.'])
    await using app = await testApp({ plugins: [clerk], model, env: { ...env, ACCESS: 'granted' } })
    const user = await app.user()
    const ask = () => app.post('/ask', { did: user.did })
    expect(await ask()).toMatchObject({ status: 403, body: { code: 'NOT_GRANTED' } })
    expect(model.requests).toHaveLength(0)
    expect((await user.get('/sessions')).body.total).toBe(0)
    const { id } = await user.granted('oracle/call')
    expect((await ask()).body.events).toContain('done')
    await app.delete(`/grants/${id}`, { headers: operator })
    expect((await ask()).status).toBe(403)
    expect(model.requests).toHaveLength(1)
  })

  it('keeps the operator from trying the message again of whoever lost the grant', async () => {
    const shelf = definePlugin({
      name: 'shelf',
      summary: 'Reaches into the database.',
      visibility: 'silent',
      setup: ({ db }) => db,
      routes: {
        'POST /set-aside': {
          auth: 'public',
          input: z.object({ runId: z.string(), sessionId: z.string(), did: z.string() }),
          async run({ runId, sessionId, did }, { self: db }) {
            const row = { run_id: runId, session_id: sessionId, did, at: Date.now() }
            await db
              .withTables<{ kernel_quarantine: Record<string, unknown> }>()
              .insertInto('kernel_quarantine')
              .values({ ...row, attempts: 2, steps: 1, retried_as: null })
              .execute()
          },
        },
      },
    })
    const broken = new Error('The model is broken.')
    const model = scriptedModel([{ text: 'Well,', error: broken }, 'I live.'])
    await using app = await testApp({ plugins: [shelf], model, env: { ...env, ACCESS: 'granted' } })
    const user = await app.user()
    const { id } = await user.granted('oracle/call')
    const { runId, sessionId, status } = await user.say('Hello')
    expect(status).toBe('failed')
    await app.post('/set-aside', { runId, sessionId, did: user.did })
    await app.delete(`/grants/${id}`, { headers: operator })
    const retry = () => app.post(`/runs/${runId}/retry`, {}, operator)
    expect(await retry()).toMatchObject({
      status: 403,
      body: {
        code: 'NOT_GRANTED',
        hint: expect.stringContaining(`npm run grant -- ${user.did} 'oracle/call'`),
      },
    })
    expect(model.requests).toHaveLength(1)
    // It stays in the list: once its user has access again, so has the message.
    expect((await app.get('/runs?status=quarantined', { headers: operator })).body.total).toBe(1)
    await user.granted('oracle/call')
    expect(await retry()).toMatchObject({ status: 201, body: { sessionId, retries: runId } })
    await expect.poll(() => model.requests.length).toBe(2)
  })

  it('is a fault of the boot in any other word', async () => {
    await expect(start(undefined, { ACCESS: 'openn' })).rejects.toThrow(/ACCESS.*open or granted/)
  })
})
