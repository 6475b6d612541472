import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Delegation } from '@ucanto/core'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { scriptedModel, testApp, type TestApp } from '#core/testing'
import { Delegations } from '../../core/runtime/auth/grants/delegations.ts'
import { Grants } from '../../core/runtime/auth/grants/grants.ts'
import { signerFromMnemonic } from '../../core/runtime/auth/did/signer.ts'
import { grantWithoutServer } from '../../core/runtime/grant-without-server.ts'
import { kernelMigrations } from '../../core/runtime/kernel-tables.ts'
import { createWallet } from '../../core/testing/wallet.ts'
import { onEachDatabase } from '../support/each-database.ts'
import { freshDatabase } from '../support/database.ts'
import { postgresDatabase, sqliteDatabase, type TestDatabase } from '../support/databases.ts'
import { root } from '../support/process.ts'
import { describeWith } from '../support/services.ts'
import { silent } from '../support/silent-log.ts'

const env = {
  ORACLE_MNEMONIC: 'a mnemonic that only the tests of grants know',
  API_KEY: 'a-key-for-this-test',
  OPERATOR_TOKEN: 'a-token-for-this-test',
}
const operator = { authorization: `Bearer ${env.OPERATOR_TOKEN}` }
const fromAfar = { 'x-forwarded-for': '203.0.113.9' }

/** Takes the grant away between two calls of a turn; see below. */
let between = async () => {}

const shelf = definePlugin({
  name: 'shelf',
  summary: 'Keeps things behind each verb.',
  visibility: 'always',
  setup: ({ oracle }) => oracle.did,
  tools: ({ self: oracleDid }) => ({
    put_on_shelf: {
      description: 'Puts something on the shelf.',
      input: z.object({}),
      can: { can: 'shelf/write', with: () => oracleDid },
      async run() {
        await between()
        return 'done'
      },
    },
    stock_shelf: {
      description: 'Asks for an ability of its own.',
      input: z.object({}),
      can: { can: 'shelf/stock', with: () => oracleDid },
      run: () => 'stocked',
    },
  }),
  routes: {
    'GET /shelf': { auth: 'bearer', run: (_, { caller }) => ({ caller }) },
    'POST /shelf': { auth: 'bearer', run: () => ({ put: true }) },
    'DELETE /shelf': { auth: 'bearer', can: { can: 'shelf/admin' }, run: () => ({ gone: true }) },
    'GET /shelf/mine': {
      run: (_, { user, self }) => ({
        may: user.can('shelf/read', self),
        why: user.denial('shelf/write', self),
      }),
    },
  },
})

await onEachDatabase('grants', (where) => {
  let app: TestApp
  beforeAll(async () => {
    const database = where.databaseUrl ? { DATABASE_URL: where.databaseUrl } : {}
    app = await testApp({ plugins: [shelf], env: { ...env, ...database } })
  })
  afterAll(() => app?.close())
  const grant = (body: unknown) => app.post('/grants', body, operator)
  const list = async (query: string) =>
    (await app.get(`/grants?${query}`, { headers: operator })).body

  it('are made for the operator alone: no API key and no user opens their routes', async () => {
    const user = await app.user()
    await user.granted('*')
    const ucan = await user.wallet.headers(app.oracleDid)
    const key = { authorization: `Bearer ${env.API_KEY}` }
    for (const [headers, refused] of [
      [{}, 401],
      [key, 401],
      [ucan, 403],
    ] as const) {
      const from = { ...headers, ...fromAfar }
      expect((await app.post('/grants', {}, from)).status).toBe(refused)
      expect((await app.get('/grants', { headers: from })).status).toBe(refused)
      expect((await app.delete('/grants/x', { headers: from })).status).toBe(refused)
    }
  })

  it('are delegations that the oracle’s key signed, and open what they say and no more', async () => {
    const user = await app.user()
    const made = await grant({
      did: user.did,
      capabilities: ['shelf/write'],
      days: 2,
      note: 'the survey',
    })
    expect(made).toMatchObject({
      status: 201,
      body: {
        did: user.did,
        capabilities: ['shelf/write'],
        resource: app.oracleDid,
        note: 'the survey',
        state: 'active',
      },
    })
    expect(made.headers.get('location')).toBe(`/grants/${made.body.id}`)
    const { ok: car } = await Delegation.extract(Buffer.from(made.body.car, 'base64'))
    expect(car?.issuer.did()).toBe(app.oracleDid)
    expect(car?.audience.did()).toBe(user.did)
    expect(car?.cid.toString()).toBe(made.body.id)
    expect(car?.expiration).toBe(Date.parse(made.body.expiresAt) / 1000)

    expect((await user.get('/shelf')).body).toEqual({ caller: user.did })
    expect((await user.post('/shelf')).status).toBe(200)
    expect(await user.delete('/shelf')).toMatchObject({
      status: 403,
      body: { code: 'NOT_GRANTED', details: { ability: 'shelf/admin', resource: app.oracleDid } },
    })
    expect((await user.get('/shelf/mine')).body).toEqual({ may: true, why: [] })
    await app.delete(`/grants/${made.body.id}`, { headers: operator })
    expect((await user.get('/shelf/mine')).body).toEqual({
      may: false,
      why: [
        expect.stringContaining('No grant of the operator'),
        ...Array(2).fill(expect.any(String)),
      ],
    })
  })

  it('make nobody the oracle: oracle/call lets its holder talk to it, not be it', async () => {
    const user = await app.user()
    for (const capabilities of [['oracle/call'], ['*']]) {
      const { car } = (await grant({ did: user.did, capabilities, days: 1 })).body
      const { ok: delegation } = await Delegation.extract(Buffer.from(car, 'base64'))
      const posing = await user.wallet.invoke({
        audience: app.oracleDid,
        capability: { can: 'oracle/call', with: app.oracleDid },
        proofs: [{ text: car, delegation: delegation! }],
      })
      const headers = { authorization: `Bearer ${posing.text}`, 'x-auth-type': 'ucan' }
      expect((await app.get('/sessions', { headers })).status).toBe(401)
      expect((await app.get('/sessions', { headers: { 'x-ucan-delegation': car } })).status).toBe(
        401,
      )
    }
    expect(await grant({ did: app.oracleDid, capabilities: ['*'], days: 1 })).toMatchObject({
      status: 400,
      body: { details: [{ path: 'did', message: expect.stringContaining('own DID') }] },
    })
  })

  it('answer the same grant twice with the first, a longer one with another, and end together', async () => {
    const user = await app.user()
    const ask = (days: number, capabilities = ['shelf/read', 'oracle/call']) =>
      grant({ did: user.did, capabilities, days })
    const first = await ask(10)
    expect(await ask(10, ['oracle/call', 'shelf/read'])).toMatchObject({
      status: 200,
      body: { id: first.body.id },
    })
    expect(await ask(5)).toMatchObject({ status: 200, body: { id: first.body.id } })
    const longer = await ask(30)
    expect(longer.status).toBe(201)
    expect(longer.body.id).not.toBe(first.body.id)
    expect((await user.get('/shelf')).status).toBe(200)
    const ended = await app.delete(`/grants/${first.body.id}`, { headers: operator })
    expect(ended).toMatchObject({ status: 200, body: { state: 'revoked' } })
    expect((await user.get('/shelf')).status).toBe(403)
    expect(
      (await list(`did=${user.did}`)).items.map((each: { state: string }) => each.state),
    ).toEqual(['revoked', 'revoked'])
    expect((await app.delete(`/grants/${first.body.id}`, { headers: operator })).status).toBe(200)
    expect((await app.delete('/grants/none', { headers: operator })).status).toBe(404)
    expect((await ask(10)).status).toBe(201)
    expect((await user.get('/shelf')).status).toBe(200)
    // Said again by a client that heard no answer, it ends nothing that came since.
    expect((await app.delete(`/grants/${first.body.id}`, { headers: operator })).status).toBe(200)
    expect((await user.get('/shelf')).status).toBe(200)
  })

  it('asked for several times at once are one grant, which the others find', async () => {
    const user = await app.user()
    // Known before, so that what this server remembers has to be renewed.
    expect((await user.get('/shelf')).status).toBe(403)
    const asked = { did: user.did, capabilities: ['shelf/read'], days: 10 }
    const answers = await Promise.all(Array.from({ length: 8 }, () => grant(asked)))
    expect(answers.map(({ status }) => status).toSorted()).toEqual([...Array(7).fill(200), 201])
    expect(new Set(answers.map(({ body }) => body.id)).size).toBe(1)
    expect((await list(`did=${user.did}`)).items).toHaveLength(1)
    expect((await user.get('/shelf')).status).toBe(200)
  })

  it('are at most 64 in force to one DID; one that ends makes room', async () => {
    const { did } = await createWallet()
    const ask = (days: number, to = did) =>
      grant({ did: to, capabilities: ['shelf/read'], days: days * 2 })
    const made = []
    // Each lasts longer than the one before, so none is the same grant again.
    for (let days = 1; days <= 64; days++) made.push(await ask(days))
    expect(new Set(made.map(({ status }) => status))).toEqual(new Set([201]))
    expect(await ask(65)).toMatchObject({
      status: 409,
      body: {
        code: 'CONFLICT',
        message: expect.stringContaining(`${did} has 64 grants in force`),
        hint: expect.stringContaining('DELETE /grants/:id'),
      },
    })
    expect((await ask(64)).status).toBe(200)
    expect((await ask(65, (await createWallet()).did)).status).toBe(201)
    await app.delete(`/grants/${made[0]?.body.id}`, { headers: operator })
    expect((await ask(65)).status).toBe(201)
  })

  it('are listed newest first, page by page', async () => {
    const { did } = await createWallet()
    const ids: string[] = []
    for (const verb of ['read', 'write', 'admin', '*'])
      ids.unshift((await grant({ did, capabilities: [`shelf/${verb}`], days: 1 })).body.id)
    const pages: string[][] = []
    let cursor = ''
    do {
      const { items, nextCursor } = await list(`did=${did}&limit=3${cursor}`)
      pages.push(items.map(({ id }: { id: string }) => id))
      cursor = nextCursor === undefined ? '' : `&cursor=${nextCursor}`
    } while (cursor !== '')
    expect(pages.map(({ length }) => length)).toEqual([3, 1])
    expect(new Set(pages.flat())).toEqual(new Set(ids))
    for (const query of ['limit=0', 'limit=201', 'limit=ten', 'cursor=x', 'cursor=1.A'])
      expect((await app.get(`/grants?${query}`, { headers: operator })).status, query).toBe(400)
  })

  const good = { did: 'did:ixo:ixo1someone', capabilities: ['shelf/read'], days: 1 }
  it.each<[string, object, string, RegExp]>([
    ['a DID that is none', { did: 'amina' }, 'did', /not a DID/],
    ['a DID of another method', { did: 'did:web:example.org' }, 'did', /not a DID/],
    ['a did:key of another curve', { did: 'did:key:zDnaeXYZ' }, 'did', /not a DID/],
    ['a long DID', { did: `did:ixo:${'a'.repeat(9000)}` }, 'did', /./],
    ['no DID', { did: undefined }, 'did', /./],
    ['no days at all', { days: 0 }, 'days', /at least 1/],
    ['too many days', { days: 10_000 }, 'days', /at most 3650/],
    ['half a day', { days: 0.5 }, 'days', /whole number/],
    ['days in words', { days: 'ninety' }, 'days', /./],
    ['no capabilities', { capabilities: [] }, 'capabilities', /at least one/],
    ['too many', { capabilities: Array(9).fill('shelf/read') }, 'capabilities', /at most 8/],
    ['a word', { capabilities: 'shelf/read' }, 'capabilities', /./],
    [
      'a plugin that is not there',
      { capabilities: ['shelv/read'] },
      'capabilities.0',
      /Did you mean "shelf"/,
    ],
    [
      'an unknown verb',
      { capabilities: ['shelf/rite'] },
      'capabilities.0',
      /no verb of shelf.*"write"/,
    ],
    ['no verb', { capabilities: ['shelf'] }, 'capabilities.0', /no capability/],
    ['a capability twice', { capabilities: ['*', 'shelf/*', '*'] }, 'capabilities.2', /twice/],
    ['a long note', { note: 'n'.repeat(501) }, 'note', /./],
  ])('are refused for %s, with the place', async (_, wrong, path, sentence) => {
    const { status, body } = await grant({ ...good, ...wrong })
    expect([status, body.code]).toEqual([400, 'INVALID_INPUT'])
    const fault = body.details.find((each: { path: string }) => each.path === path)
    expect(fault?.message, JSON.stringify(body.details)).toMatch(sentence)
  })

  it('are given for what tools name on the oracle’s DID too', async () => {
    expect((await grant({ ...good, capabilities: ['shelf/stock'] })).status).toBe(201)
  })
})

describe('a turn under way', () => {
  it('may not do any more what was taken back in the middle of it', async () => {
    const heard: unknown[] = []
    const model = scriptedModel([
      { call: 'put_on_shelf' },
      { call: 'put_on_shelf' },
      ({ messages }) => {
        heard.push(...messages.filter(({ role }) => role === 'tool'))
        return 'That was it.'
      },
    ])
    await using app = await testApp({ plugins: [shelf], model, env })
    const user = await app.user()
    const { id } = await user.granted('shelf/*')
    between = async () => {
      await app.delete(`/grants/${id}`, { headers: operator })
      between = async () => {}
    }
    const said = await user.say('Put two things on the shelf.')
    expect(heard).toMatchObject([{ content: 'done' }, { failed: true }])
    expect(JSON.stringify(heard[1])).toContain('was not granted')
    // A new delegation of the user would not help, so none is asked for.
    expect(said.of('delegation_required')).toEqual([])
  })
})

describe('an oracle with a registered DID', () => {
  it('is owned by its key, by nobody else', async () => {
    const ORACLE_DID = 'did:ixo:entity:0123456789abcdef'
    await using app = await testApp({ plugins: [shelf], env: { ...env, ORACLE_DID } })
    const user = await app.user()
    const forger = await createWallet()
    const forged = await forger.delegate({
      audience: user.did,
      capabilities: [{ can: '*', with: ORACLE_DID }],
    })
    const carried = (text: string) => ({ headers: { 'x-ucan-delegation': text } })
    expect((await user.get('/shelf', carried(forged.text))).status).toBe(403)
    const { car, id, resource } = await user.granted('shelf/read')
    expect(resource).toBe(ORACLE_DID)
    expect((await user.get('/shelf', carried(car))).status).toBe(200)
    expect((await user.get('/shelf')).status).toBe(200)
    await app.delete(`/grants/${id}`, { headers: operator })
    expect((await user.get('/shelf', carried(car))).status).toBe(403)
  })
})

describe('without a signing key', () => {
  it('nothing is granted, and the answer says why', async () => {
    const keyless = { ...env, ORACLE_MNEMONIC: undefined, NODE_ENV: 'production' }
    await using app = await testApp({ plugins: [shelf], env: keyless })
    const asked = { did: 'did:ixo:ixo1someone', capabilities: ['*'], days: 1 }
    expect(await app.post('/grants', asked, operator)).toMatchObject({
      status: 503,
      body: { hint: expect.stringContaining('ORACLE_MNEMONIC') },
    })
  })
})

/** The tables of grants as two servers have them; where there can be one server alone, it is that one twice. */
function atOnce(make: () => Promise<TestDatabase>) {
  const grantors = async () => {
    const database = await make()
    onTestFinished(() => database.drop())
    const signer = signerFromMnemonic(env.ORACLE_MNEMONIC)
    const open = async () => {
      const store = await database.open()
      await store.migrate('kernel', kernelMigrations.kernel)
      const delegations = new Delegations({ db: store.db, kind: store.kind })
      return new Grants({ store, signer, oracleDid: signer.did, delegations, log: silent })
    }
    const first = await open()
    return [first, first, database.kind === 'postgres' ? await open() : first]
  }
  const did = 'did:ixo:ixo1holder'

  it('is made once, and the others find it', async () => {
    const servers = await grantors()
    const made = await Promise.all(
      servers.map((grants) => grants.issue({ did, capabilities: ['shelf/read'], days: 10 })),
    )
    expect(made.filter(({ isNew }) => isNew)).toHaveLength(1)
    expect(new Set(made.map(({ grant }) => grant.id)).size).toBe(1)
    expect((await servers[0]!.list({ did, limit: 10 })).items).toHaveLength(1)
    for (const grants of servers) expect(grants.granted(did, 'shelf/read')).toBe(true)
  })

  it('takes the last place of a DID once', async () => {
    const servers = await grantors()
    for (let days = 1; days <= 63; days++)
      await servers[0]!.issue({ did, capabilities: ['shelf/read'], days: days * 2 })
    const verbs = ['write', 'admin', '*']
    const last = await Promise.allSettled(
      servers.map((grants, at) =>
        grants.issue({ did, capabilities: [`shelf/${verbs[at]}`], days: 1 }),
      ),
    )
    expect(last.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    for (const result of last)
      if (result.status === 'rejected') expect(result.reason).toMatchObject({ code: 'CONFLICT' })
  })
}
describe('a grant that is asked for several times at once, on SQLite', () => atOnce(sqliteDatabase))
await describeWith(
  'postgres',
  'a grant that is asked for several times at once, on PostgreSQL',
  (url) => atOnce(() => postgresDatabase(url)),
)

/** The table of grants, with a clock that is set by hand. */
function sweeping(make: () => Promise<TestDatabase>) {
  it('goes thirty days after its end or its time, and no other does', async () => {
    const database = await make()
    onTestFinished(() => database.drop())
    const store = await database.open()
    await store.migrate('kernel', kernelMigrations.kernel)
    let days = 0
    const now = () => Date.UTC(2030, 0, 1) + days * 86_400_000
    const signer = signerFromMnemonic(env.ORACLE_MNEMONIC)
    const delegations = new Delegations({ db: store.db, kind: store.kind, now })
    const grants = new Grants({
      store,
      signer,
      oracleDid: signer.did,
      delegations,
      log: silent,
      now,
    })
    const did = 'did:ixo:ixo1holder'
    const issue = async (ability: string, lasts: number) =>
      (await grants.issue({ did, capabilities: [ability], days: lasts })).grant.id
    await issue('shelf/read', 10)
    await issue('shelf/*', 200)
    await grants.revoke(await issue('shelf/write', 200))
    const left = async (day: number) => {
      days = day
      await grants.sweep()
      const { items } = await grants.list({ did, limit: 10 })
      return items.map(({ capabilities, state }) => `${capabilities} ${state}`).toSorted()
    }
    expect(await left(29)).toEqual(['shelf/* active', 'shelf/read expired', 'shelf/write revoked'])
    expect(await left(31)).toEqual(['shelf/* active', 'shelf/read expired'])
    expect(await left(41)).toEqual(['shelf/* active'])
  })
}
describe('a grant that ended, on SQLite', () => sweeping(sqliteDatabase))
await describeWith('postgres', 'a grant that ended, on PostgreSQL', (url) =>
  sweeping(() => postgresDatabase(url)),
)

describe('npm run grant', () => {
  const folder = mkdtempSync(join(tmpdir(), 'oracle-grants-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  it('writes the embedded database while nobody has it, and asks the server that has it', async () => {
    const here = { ...env, DATA_DIR: folder, NODE_ENV: 'production' }
    const user = await createWallet()
    const request = { did: user.did, capabilities: ['shelf/read'], days: 5 }
    const offline = await grantWithoutServer(here, [shelf], request)
    expect(offline.isNew).toBe(true)
    await using app = await testApp({ plugins: [shelf], env: here })
    const get = async () =>
      (await app.get('/shelf', { headers: await user.headers(app.oracleDid) })).status
    expect(await get()).toBe(200)
    expect(await grantWithoutServer(here, [shelf], request)).toMatchObject({
      isNew: false,
      grant: { id: offline.grant.id },
    })
    const another = { did: (await createWallet()).did, capabilities: ['shelf/*'] }
    expect((await grantWithoutServer(here, [shelf], another)).isNew).toBe(true)
    const wrong = grantWithoutServer({ ...here, OPERATOR_TOKEN: 'another' }, [shelf], request)
    await expect(wrong).rejects.toMatchObject({ code: 'UNAUTHORIZED' })
    const typo = grantWithoutServer(here, [shelf], { ...request, capabilities: ['shelve/read'] })
    await expect(typo).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringMatching(/Did you mean "shelf"\?$/),
    })
  })

  it('names a number of days that is none as it was typed', () => {
    const { status, stderr } = spawnSync(
      process.execPath,
      [
        '--conditions=oracle-runtime-source',
        'cli/main.ts',
        'grant',
        'did:key:z6MkrJVnaZkeFzdQyMZu1cgjg7k1pZZ6pvBQ7XJPt4swbTQ2',
        'registry/read',
        '--days',
        'ten',
      ],
      { cwd: root, env: { PATH: process.env.PATH, DATA_DIR: folder }, encoding: 'utf8' },
    )
    expect(stderr).toContain('--days is "ten"')
    expect(status).toBe(2)
  }, 30_000)

  it('has granted the author’s own user everything from the start, and ends that where others are served', async () => {
    const here = { ...env, DATA_DIR: folder }
    const words = await (async () => {
      await using app = await testApp({ plugins: [shelf], env: here })
      expect(app.url).toContain('127.0.0.1')
      const { readFileSync } = await import('node:fs')
      const words = readFileSync(join(folder, 'dev-user'), 'utf8')
      const author = await app.user(words)
      expect((await author.delete('/shelf')).status).toBe(200)
      return words
    })()
    await using app = await testApp({ plugins: [shelf], env: { ...here, NODE_ENV: 'production' } })
    const author = await app.user(words)
    const { items } = (await app.get(`/grants?did=${author.did}`, { headers: operator })).body
    expect(items).toMatchObject([{ capabilities: ['*'], state: 'revoked' }])
    expect((await author.get('/shelf')).status).toBe(403)
    const carried = { headers: { 'x-ucan-delegation': items[0].car } }
    expect((await author.get('/shelf', carried)).status).toBe(403)
  })
})

await describeWith('postgres', 'npm run grant, on PostgreSQL', (url) => {
  it('writes the database that servers share', async () => {
    const { url: DATABASE_URL, drop } = await freshDatabase(url)
    try {
      const there = { ...env, DATABASE_URL, NODE_ENV: 'production' }
      await using app = await testApp({ plugins: [shelf], env: there })
      const user = await app.user()
      expect((await user.get('/shelf')).status).toBe(403)
      await grantWithoutServer(there, [shelf], { did: user.did, capabilities: ['shelf/read'] })
      expect((await user.get('/shelf')).status).toBe(200)
    } finally {
      await drop()
    }
  })
})
