import { sql } from 'kysely'
import { beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { z } from 'zod'
import { definePlugin, type Database } from '#core'
import { scriptedModel, testApp, type TestApp, type TestUser } from '#core/testing'
import memory from '../../plugins/memory/index.ts'
import payments from '../../plugins/payments/index.ts'
import preferences from '../../plugins/preferences/index.ts'
import registry from '../../plugins/registry/index.ts'
import sampling from '../../plugins/sampling/index.ts'
import usage from '../../plugins/usage/index.ts'
import ussd from '../../plugins/ussd/index.ts'
import { complete } from '../../plugins/sampling/fixtures/complete.ts'
import { small } from '../../plugins/sampling/fixtures/world.ts'
import { heldModel } from '../support/held-model.ts'
import { onEachDatabase } from '../support/each-database.ts'
import { modelScript } from '../support/model-script.ts'
import { png } from '../support/sample-files.ts'

const sentences = [
  'The kingfisher nests under the bridge.',
  'My sister is called Chanda.',
  'Everybody calls me Blue 7.',
] as const

type Note = { id: string; did: string; text: string }

/** A plugin that keeps notes, with a `userData` that a test may bend, and the database for the test to search. */
function keeper(
  bend: { export?: (did: string) => AsyncIterable<never>; erase?: (did: string) => unknown } = {},
) {
  const seen: { db?: Database } = {}
  const plugin = definePlugin({
    name: 'keeper',
    summary: 'Keeps notes.',
    visibility: 'always',
    migrations: {
      '001-notes': (db) =>
        db.schema
          .createTable('keeper_notes')
          .addColumn('id', 'text', (column) => column.primaryKey())
          .addColumn('did', 'text', (column) => column.notNull())
          .addColumn('text', 'text', (column) => column.notNull())
          .execute(),
    },
    setup({ db }) {
      seen.db = db
      return { notes: db.withTables<{ keeper_notes: Note }>() }
    },
    jobs: { remind: { input: z.object({ text: z.string() }), run: () => undefined } },
    userData: {
      async *export(did, { self }) {
        if (bend.export) yield* bend.export(did)
        const rows = await self.notes
          .selectFrom('keeper_notes')
          .selectAll()
          .where('did', '=', did)
          .execute()
        for (const { id, text } of rows) yield { kind: 'note', id, text }
      },
      async erase(did, { self }) {
        await bend.erase?.(did)
        const { numDeletedRows } = await self.notes
          .deleteFrom('keeper_notes')
          .where('did', '=', did)
          .executeTakeFirst()
        return {
          erased: { note: Number(numDeletedRows) },
          kept: [{ what: '1 invoice', why: 'The law asks for it.', until: new Date('2033-01-01') }],
        }
      },
    },
    tools: {
      send: {
        description: 'Sends a letter.',
        input: z.object({ text: z.string() }),
        approve: true,
        run: () => 'sent',
      },
    },
    routes: {
      'POST /notes': {
        input: z.object({ text: z.string() }),
        async run({ text }, { self, user, jobs, sessions }) {
          const { did } = user
          const id = `${did.slice(-8)}-${text.length}`
          await self.notes.insertInto('keeper_notes').values({ id, did, text }).execute()
          await jobs.later('remind', { text }, { inMs: 3_600_000, user: did })
          await sessions.say({ user, text: `Noted: ${text}` })
          return { id }
        },
      },
    },
  })
  return { plugin, seen }
}

/** Every row of the database that holds one of these texts, as `<table>: <row>`. */
async function search(db: Database | undefined, texts: readonly string[]): Promise<string[]> {
  const found: string[] = []
  for (const { name } of (await db!.introspection.getTables()).filter((each) => !each.isView)) {
    const { rows } = await sql<object>`select * from ${sql.table(name)}`.execute(db!)
    for (const row of rows) {
      const text = JSON.stringify(row)
      if (texts.some((each) => text.includes(each))) found.push(`${name}: ${text}`)
    }
  }
  return found.sort()
}

/** Gives a user something of each kind. */
async function fill(app: TestApp, user: TestUser, words: readonly string[]) {
  const session: string = (await user.post('/sessions', { title: words[1] })).body.sessionId
  await user.say(words[0]!, { sessionId: session })
  await user.post('/notes', { text: words[1] })
  await user.post('/files', png(), { 'X-Filename': 'roof.png' })
  await user.put('/notices/muted', { plugins: ['keeper'] })
  const { text } = await user.wallet.delegate({ audience: app.oracleDid })
  await user.post('/delegation', { raw: text })
  return session
}

/** A model that calls a tool which waits for a person, when it is told to. */
const sendsWhenAsked = () =>
  modelScript(({ messages }) => {
    const last = messages.at(-1)
    const isAsked = last?.role === 'user' && last.content === 'Send it'
    return isAsked ? { calls: [{ name: 'send', args: { text: 'A letter.' } }] } : 'Yes.'
  })

const end = async (app: TestApp, erasureId: string) =>
  vi.waitFor(
    async () => {
      const { body } = await app.get(`/me/erasures/${erasureId}`)
      expect(body).toMatchObject({ state: 'done' })
      return body
    },
    { timeout: 60_000, interval: 50 },
  )

const linesOf = (text: string) =>
  text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))

const exportOf = async (app: TestApp, user: TestUser) => {
  const response = await fetch(`${app.url}/me/export`, {
    headers: await user.wallet.headers(app.oracleDid),
  })
  return { response, text: () => response.text() }
}

await onEachDatabase('what is kept of a user', ({ databaseUrl }) => {
  const open = async (bend: Parameters<typeof keeper>[0] = {}) => {
    const { plugin, seen } = keeper(bend)
    const model = scriptedModel(Array.from({ length: 40 }, () => 'Well said.'))
    const app = await testApp({
      plugins: [plugin, preferences, usage],
      model,
      env: { OPERATOR_TOKEN: 'an-operator-token-of-a-test-1234567890' },
      ...(databaseUrl && { database: 'postgres' as const }),
    })
    onTestFinished(() => app.close())
    return { app, seen }
  }

  it('is counted, exported with its counts, and erased, and nothing of anybody else is touched', async () => {
    const { app, seen } = await open()
    const [user, other] = [await app.user(), await app.user()]
    await fill(app, user, sentences)
    await fill(app, other, ['The heron stands in the reeds.', 'My brother is called Mulenga.'])
    await user.patch('/user-preferences', { userName: 'Kingfisher' })

    const counted = (await user.get('/me')).body
    expect(counted).toMatchObject({
      did: user.did,
      kept: {
        kernel: { job: 1, file: 1, delegation: 1, 'muted-plugin': 1 },
        keeper: { note: 1 },
        usage: { usage: 1 },
      },
    })
    const { response, text } = await exportOf(app, user)
    expect(response.status).toBe(200)
    expect(response.headers.get('content-disposition')).toMatch(/^attachment; filename="export-/)
    const lines = linesOf(await text())
    expect(lines[0]).toMatchObject({ kind: 'begin', did: user.did })
    expect(lines.at(-1)).toEqual({ kind: 'end', counts: counted.kept })
    expect(JSON.stringify(lines)).toContain(sentences[0])
    expect(JSON.stringify(lines)).not.toContain('heron')
    expect(lines.find(({ kind }) => kind === 'file').content).toBe(png().toString('base64'))
    const again = await exportOf(app, user)
    expect(again.response.status).toBe(429)
    expect(Number(again.response.headers.get('retry-after'))).toBeGreaterThan(3_000)

    const before = await search(seen.db, [other.did, 'heron', 'Mulenga'])
    expect((await user.delete('/me')).status).toBe(400)
    expect((await user.delete(`/me?confirm=${other.did}`)).body.code).toBe('INVALID_INPUT')
    const first = await user.delete(`/me?confirm=${user.did}`)
    expect(first).toMatchObject({ status: 202 })
    const erased = await end(app, first.body.erasureId)
    expect(erased.erased).toMatchObject({
      keeper: { note: 1 },
      kernel: { session: counted.kept.kernel.session, job: 1 },
    })
    expect(erased.kept).toEqual([
      {
        plugin: 'keeper',
        what: '1 invoice',
        why: 'The law asks for it.',
        until: '2033-01-01T00:00:00.000Z',
      },
    ])
    expect(await search(seen.db, [user.did, ...sentences, 'Kingfisher'])).toEqual([])
    expect(await search(seen.db, [other.did, 'heron', 'Mulenga'])).toEqual(before)
    const listed = await fetch(`${app.url}/erasures`, {
      headers: { authorization: 'Bearer an-operator-token-of-a-test-1234567890' },
    })
    expect(linesOf(await listed.text())).toMatchObject([
      { id: first.body.erasureId, state: 'done' },
    ])
    const forwarded = { headers: { 'X-Forwarded-For': '192.0.2.1' } }
    expect((await app.get('/erasures', forwarded)).status).toBe(401)
    expect((await app.get('/me/erasures/none')).status).toBe(404)
    expect((await app.get('/me')).status).toBe(401)
  })

  it('is erased to its end after a crash in the middle', async () => {
    const { promise: reached, resolve: reach } = Promise.withResolvers<void>()
    let calls = 0
    const { app, seen } = await open({
      erase: () => (calls++ === 0 ? (reach(), new Promise(() => undefined)) : undefined),
    })
    const user = await app.user()
    await fill(app, user, sentences)
    const { erasureId } = (await user.delete(`/me?confirm=${user.did}`)).body
    await reached
    expect((await user.delete(`/me?confirm=${user.did}`)).body).toEqual({ erasureId })
    await app.crash()
    await app.again()
    expect((await end(app, erasureId)).erased).toMatchObject({ keeper: { note: 1 } })
    expect(await search(seen.db, [user.did, ...sentences])).toEqual([])
  })

  it('is exported and erased by the testing kit', async () => {
    const { app, seen } = await open()
    const user = await app.user()
    await fill(app, user, sentences)
    const lines = await user.export()
    expect(lines.filter(({ plugin }) => plugin === 'keeper')).toMatchObject([
      { kind: 'note', text: sentences[1] },
    ])
    expect((await user.erase()).erased).toMatchObject({ keeper: { note: 1 } })
    expect(await search(seen.db, [user.did])).toEqual([])
    expect((await user.erase()).erased).toMatchObject({ keeper: { note: 0 } })
  })

  it('is erased in spite of a plugin that throws or says nothing of what it did, which is called again', async () => {
    let calls = 0
    const { app, seen } = await open({
      erase() {
        if (calls++ === 0) throw new Error('The disk of the notes is away.')
      },
    })
    const user = await app.user()
    await fill(app, user, sentences)
    const { erasureId } = (await user.delete(`/me?confirm=${user.did}`)).body
    await vi.waitFor(
      async () => {
        const { body } = await app.get(`/me/erasures/${erasureId}`)
        expect(body.waitsFor).toEqual(['keeper'])
      },
      { timeout: 30_000 },
    )
    const open_ = await search(seen.db, sentences)
    expect(open_.every((row) => row.startsWith('keeper_notes'))).toBe(true)
    await end(app, erasureId)
    expect(await search(seen.db, [user.did, ...sentences])).toEqual([])
  })
})

describe('a door to what is kept of a user', () => {
  let app: TestApp
  let bend: NonNullable<Parameters<typeof keeper>[0]> = {}
  // An export that hangs ends after half a minute, an erasure after a whole one: the other tests go on meanwhile.
  let hangs: { did: string; heard: Promise<string> }
  const stuck = { did: '', calls: 0, erasureId: '' }
  beforeAll(async () => {
    const { plugin } = keeper({
      export: (did) =>
        did === hangs.did ? never() : (bend.export?.(did) ?? (async function* () {})()),
      erase: (did) =>
        did === stuck.did && stuck.calls++ === 0 ? new Promise(() => undefined) : undefined,
    })
    const model = sendsWhenAsked()
    app = await testApp({ plugins: [plugin, preferences], model })
    const user = await app.user('somebody whose export hangs')
    await fill(app, user, sentences)
    const heard = exportOf(app, user).then(({ text }) => text().catch(() => 'it broke off'))
    hangs = { did: user.did, heard }
    const other = await app.user('somebody whose erasure hangs')
    await fill(app, other, sentences)
    stuck.did = other.did
    stuck.erasureId = (await other.delete(`/me?confirm=${other.did}`)).body.erasureId
    async function* never() {
      yield { kind: 'note', text: 'the first' } as never
      await new Promise(() => undefined)
    }
    return () => app.close()
  })

  it('is closed to whoever may talk in the name of the user', async () => {
    const [user, agent] = [await app.user(), await app.user()]
    const audience = app.oracleDid
    const delegated = await user.wallet.delegate({
      audience: agent.did,
      capabilities: [{ can: 'oracle/call', with: user.did }],
    })
    const { text } = await agent.wallet.invoke({
      audience,
      capability: { can: 'oracle/call', with: user.did },
      proofs: [delegated],
    })
    const headers = { authorization: `Bearer ${text}`, 'x-auth-type': 'ucan' }
    expect((await fetch(`${app.url}/sessions`, { headers })).status).toBe(200)
    for (const [method, path] of [
      ['GET', '/me'],
      ['GET', '/me/export'],
      ['DELETE', `/me?confirm=${user.did}`],
    ]) {
      const answer = await fetch(`${app.url}${path}`, { method: method!, headers })
      expect([path, answer.status, JSON.parse(await answer.text()).code]).toEqual([
        path,
        403,
        'FORBIDDEN',
      ])
    }
  })

  it('hands out no whole export where a plugin throws, or tells of another user', async () => {
    const wrong: [string, () => AsyncIterable<never>][] = [
      [
        'throws',
        async function* () {
          throw new Error('no notes')
        },
      ],
      [
        'tells of another',
        async function* () {
          yield { kind: 'note', did: 'did:key:other' } as never
        },
      ],
      [
        'has no kind',
        async function* () {
          yield { text: 'x' } as never
        },
      ],
    ]
    for (const [what, items] of wrong) {
      const user = await app.user()
      await fill(app, user, sentences)
      bend = { export: items }
      const read = await exportOf(app, user)
        .then(({ text }) => text())
        .catch((error: Error) => error.message)
      expect([what, read.includes('"kind":"end"'), read.includes('did:key:other')]).toEqual([
        what,
        false,
        false,
      ])
      expect((await user.get('/me')).status).toBe(500)
      bend = {}
    }
  })

  it('lets a reader of an export leave', async () => {
    const user = await app.user()
    await fill(app, user, sentences)
    let left = false
    bend = {
      async *export() {
        try {
          for (let i = 0; ; i++) yield { kind: 'note', i, text: 'x'.repeat(10_000) } as never
        } finally {
          left = true
        }
      },
    }
    const { response } = await exportOf(app, user)
    const reader = response.body!.getReader()
    await reader.read()
    await reader.cancel()
    await vi.waitFor(() => expect(left).toBe(true), { timeout: 30_000 })
    bend = {}
  })

  it('ends a turn that is streaming, whose words are gone with it', async () => {
    const held = heldModel(['The first words. '], ['The rest.'])
    await using own = await testApp({ plugins: [keeper().plugin], model: held })
    const user = await own.user()
    const { sessionId } = (await user.post('/sessions', {})).body
    const reading = await fetch(`${own.url}/messages/${sessionId}`, {
      method: 'POST',
      headers: {
        ...(await user.wallet.headers(own.oracleDid)),
        'content-type': 'application/json',
      },
      body: JSON.stringify({ message: sentences[0] }),
    })
    const reader = reading.body!.pipeThrough(new TextDecoderStream()).getReader()
    let read = ''
    while (!read.includes('The first words.')) read += (await reader.read()).value ?? ''
    const { erasureId } = (await user.delete(`/me?confirm=${user.did}`)).body
    await end(own, erasureId)
    // The stream ends without the rest, and the run is gone.
    for (let more = await reader.read(); !more.done; more = await reader.read()) read += more.value
    expect(read).not.toContain('The rest.')
    held.goOn()
    expect((await user.get('/sessions')).body.sessions).toEqual([])
    expect((await user.get('/me')).body.kept).toEqual({})
  })

  it('ends a turn that waits for a person, and closes sockets with 4401', async () => {
    const user = await app.user()
    const said = await user.say('Send it')
    expect(said.status).toBe('waiting')
    const socket = new WebSocket(`${app.url.replace('http', 'ws')}/ws`)
    const closed = new Promise<number>((resolve) => (socket.onclose = ({ code }) => resolve(code)))
    await new Promise((resolve) => (socket.onopen = resolve))
    const { authorization = '', 'x-ucan-delegation': delegation } = await user.wallet.headers(
      app.oracleDid,
    )
    socket.send(
      JSON.stringify({
        type: 'auth',
        auth: { invocation: authorization.slice(7), delegation },
        user: true,
      }),
    )
    await new Promise((resolve) => (socket.onmessage = resolve))
    const { erasureId } = (await user.delete(`/me?confirm=${user.did}`)).body
    expect(await closed).toBe(4401)
    await end(app, erasureId)
    expect((await user.get('/sessions')).body.sessions).toEqual([])
  })

  it('breaks an export off whose plugin hangs, and the log says which', async () => {
    expect(await hangs.heard).toBe('it broke off')
    const lines = app.log.filter((said) => said.includes('an export broke off'))
    expect(lines.join()).toContain('keeper took longer than 30000 ms to export its next item')
  }, 90_000)

  it('gives up a part of an erasure that hangs for a minute, says so, and calls it again to its end', async () => {
    const late = () => app.log.filter((said) => said.includes('A part of an erasure failed')).join()
    await expect
      .poll(late, { timeout: 90_000, interval: 200 })
      .toContain('keeper took longer than 60000 ms to erase')
    expect((await end(app, stuck.erasureId)).erased).toMatchObject({ keeper: { note: 1 } })
    expect(stuck.calls).toBe(2)
  }, 150_000)
})

await onEachDatabase('every bundled plugin with a table of users', ({ databaseUrl }) => {
  it('has its part: nothing of the user is left but what is said to be kept', async () => {
    const { plugin, seen } = keeper()
    const app = await testApp({
      plugins: [plugin, memory, preferences, usage, payments, registry, sampling, ussd],
      model: sendsWhenAsked(),
      env: { PAYMENTS_TURN_PRICE: '5000', PAYMENTS_FIRST_CREDIT: '100000', AUDIT_TABLE: 'on' },
      ...(databaseUrl && { database: 'postgres' as const }),
    })
    onTestFinished(() => app.close())
    const [user, other] = [await app.user(), await app.user()]
    for (const [who, words] of [
      [user, sentences],
      [other, ['The heron stands.', 'Mulenga.', 'Red 9.']],
    ] as const) {
      await who.granted('registry/*', 'sampling/*')
      await fill(app, who, words)
      expect((await who.patch('/user-preferences', { userName: words[2] })).status).toBe(200)
      const definition = { type: 'Protocol', properties: { note: 'string' } }
      const protocol = (await who.post('/v1/protocols', definition)).body.did
      const device = { type: 'DeviceEntity', protocol, properties: { note: words[1] } }
      expect((await who.post('/v1/entities', device)).status).toBe(201)
      const design = { ...small, ...complete, projectId: 'did:ixo:entity:stoves' }
      expect((await who.post('/v1/sampling', design)).status).toBe(201)
      expect((await who.say('Send it')).status).toBe('waiting')
    }
    await sql`insert into ussd_accounts (customer_id, did, name, phone, pin, created_at, used_at)
      values ('123456789', ${user.did}, ${sentences[1]}, '+260971234567', 'sealed', 1, 1)`.execute(
      seen.db!,
    )
    const { body } = await user.get('/me')
    expect(body.kept).toMatchObject({
      kernel: {
        ...{ session: 3, approval: 1, job: 1, file: 1, delegation: 1, grant: 1, notice: 1 },
        ...{ 'muted-plugin': 1, 'turn-count': 1, 'room-state': 1 },
      },
      keeper: { note: 1 },
      registry: { entity: 1 },
      sampling: { design: 1 },
      ussd: { account: 1 },
      payments: { charge: 2, account: 1 },
      usage: { usage: 1 },
    })
    const lines = await user.export()
    expect(lines.at(-1)).toEqual({ kind: 'end', counts: body.kept })
    const counted: Record<string, Record<string, number>> = {}
    for (const { kind, plugin } of lines.slice(1, -1)) {
      const ofPlugin = (counted[String(plugin)] ??= {})
      ofPlugin[kind] = (ofPlugin[kind] ?? 0) + 1
    }
    expect(counted).toEqual(body.kept)
    const before = await search(seen.db, [other.did, 'heron', 'Mulenga', 'Red 9.'])
    const { erasureId } = (await user.delete(`/me?confirm=${user.did}`)).body
    const { kept } = await end(app, erasureId)
    const left = await search(seen.db, [user.did, ...sentences])
    const tables = new Set(left.map((row) => row.split(':')[0]))
    expect([...tables]).toEqual(['kernel_audit', 'payments_accounts', 'payments_claims'])
    expect(left.filter((row) => sentences.some((each) => row.includes(each)))).toEqual([])
    expect(await search(seen.db, [other.did, 'heron', 'Mulenga', 'Red 9.'])).toEqual(before)
    const plugins = kept.map(({ plugin }: { plugin: string }) => plugin)
    expect(plugins.toSorted()).toEqual(['keeper', 'kernel', 'payments', 'payments'])
  })
})

await onEachDatabase('a plugin that is switched off', ({ databaseUrl }) => {
  it('keeps the erasure of its users open until it is on again, and nobody else’s', async () => {
    const { plugin, seen } = keeper()
    const sight = definePlugin({
      name: 'sight',
      summary: 'Sees the database.',
      setup({ db }) {
        seen.db = db
      },
    })
    const model = scriptedModel(Array.from({ length: 40 }, () => 'Well said.'))
    const app = await testApp({
      plugins: [plugin, sight],
      model,
      env: { OPERATOR_TOKEN: 'an-operator-token-of-a-test-1234567890' },
      ...(databaseUrl && { database: 'postgres' as const }),
    })
    onTestFinished(() => app.close())
    const [user, other] = [await app.user('one'), await app.user('other')]
    await fill(app, user, sentences)
    await app.again({ features: { keeper: false } })
    const [same, same2] = [await app.user('one'), await app.user('other')]
    await same2.say('Hello')
    expect((await same.get('/me')).body.kept.keeper).toEqual({ 'left-out': 1 })
    expect((await same.export()).find(({ plugin }) => plugin === 'keeper')).toMatchObject({
      kind: 'left-out',
      rows: 1,
    })
    const { erasureId } = (await same.delete(`/me?confirm=${user.did}`)).body
    const others = (await same2.delete(`/me?confirm=${other.did}`)).body.erasureId
    expect((await end(app, others)).erased).not.toHaveProperty('keeper.note')
    await vi.waitFor(
      async () => {
        const { body } = await app.get(`/me/erasures/${erasureId}`)
        expect(body).toMatchObject({ state: 'running', waitsFor: ['keeper'] })
      },
      { timeout: 30_000 },
    )
    const why = async () => {
      const headers = { authorization: 'Bearer an-operator-token-of-a-test-1234567890' }
      const all = linesOf(await (await fetch(`${app.url}/erasures`, { headers })).text())
      return all.find(({ id }) => id === erasureId).faults.keeper
    }
    await expect.poll(why, { timeout: 30_000 }).toMatch(/keeper is switched off, and 1 rows/)
    expect((await search(seen.db, sentences)).map((row) => row.split(':')[0])).toEqual([
      'keeper_notes',
    ])
    await app.again({ features: {} })
    await end(app, erasureId)
    expect(await search(seen.db, [user.did, ...sentences])).toEqual([])
  })
})
