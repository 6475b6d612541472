import { sql } from 'kysely'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { created, definePlugin, RuntimeError, text } from '#core'
import { scriptedModel, testApp, type TestApp } from '#core/testing'
import { AuditTable } from '../../core/runtime/audit/table.ts'
import { auditMigrations } from '../../core/runtime/audit/tables.ts'
import { openStore, type Store } from '../../core/runtime/store/store.ts'
import { grantedUser } from '../support/granted-user.ts'
import { onEachDatabase } from '../support/each-database.ts'
import { silent } from '../support/silent-log.ts'

const operator = { authorization: 'Bearer op-secret-token' }
const key = { authorization: 'Bearer the-amina-key' }
const keys = { API_KEY: 'amina:the-amina-key', OPERATOR_TOKEN: 'op-secret-token' }

const notes = definePlugin({
  name: 'notes',
  summary: 'Notes.',
  visibility: 'always',
  tools: {
    write_note: {
      description: 'Writes.',
      input: z.object({ words: z.string() }),
      run({ words }, { audit }) {
        if (words === 'full') throw new RuntimeError('CONFLICT', 'No room.')
        if (words === 'broken') throw new Error('a bug')
        audit({ note: 'n-7', room: 3, nothing: undefined })
        return 'written'
      },
    },
    pay: {
      description: 'Pays.',
      input: z.object({ amount: z.number() }),
      can: { can: 'notes/pay', with: () => 'account:1' },
      run: () => 'paid',
    },
    ask_first: {
      description: 'Asks.',
      input: z.object({ words: z.string() }),
      approve: true,
      run: () => 'done',
    },
    look: { description: 'Reads.', effect: 'read', input: z.object({}), run: () => 'seen' },
    peek: {
      description: 'Reads, and that is told.',
      effect: 'read',
      input: z.object({}),
      run: (_, { audit }) => (audit({ file: 'f-1' }), 'seen'),
    },
  },
  routes: {
    'POST /notes': {
      auth: 'bearer',
      answers: { 201: ['application/json'] },
      input: z.object({ words: z.string() }),
      run: () => created('/notes/n-1', { id: 'n-1', words: 'never in a line' }),
    },
    'PUT /notes/:id': { input: z.object({ id: z.string() }), run: ({ id }) => ({ id, did: 'd' }) },
    'PATCH /notes/:id': {
      run(_, { audit }) {
        audit({ version: 4 })
        throw new RuntimeError('PRECONDITION_FAILED', 'It changed.')
      },
    },
    'DELETE /notes/:id': {
      auth: 'operator',
      run() {
        throw new Error('a bug')
      },
    },
    'POST /many': {
      answers: { 200: ['text/event-stream'] },
      body: 'ndjson',
      async *run(_, { lines, audit }) {
        for await (const { number } of lines) {
          audit({ line: number })
          yield { number }
        }
      },
    },
    'GET /notes': { run: () => [] },
    'GET /secret': { run: (_, { audit }) => (audit({ opened: 'safe' }), {}) },
    'POST /phone': {
      answers: { 200: ['text/plain'] },
      auth: 'public',
      input: z.object({ pin: z.string() }),
      run({ pin }, { audit }) {
        if (pin === '1234') audit({ who: 'phone:…789', account: 'a-1', ['x'.repeat(60)]: 'no' })
        return text('END Thank you.')
      },
    },
  },
})

/** The audit lines of the log. */
const logged = (app: TestApp) =>
  app.log.flatMap((line) => {
    if (!line.includes('audit')) return []
    const { audit, level: _, time: __, msg, ...rest } = JSON.parse(line)
    return audit === true ? [rest] : []
  })

/** The lines of the table after one, as the operator reads them. */
async function kept(app: TestApp, query = '') {
  const { status, body, headers } = await app.get(`/audit${query}`, { headers: operator })
  expect(status, body).toBe(200)
  expect(headers.get('content-type')).toMatch(/^application\/x-ndjson/)
  return (body as string)
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line))
}

// Lines of JSON, as in production: pretty ones are for people.
const start = (env: Record<string, string | undefined> = {}, model = scriptedModel([])) =>
  testApp({ plugins: [notes], model, env: { ...production, ...keys, ...env } })
const production = { NODE_ENV: 'production', ORACLE_MNEMONIC: 'an oracle for its audit lines only' }

/** The table without a server around it. */
async function databaseOf({ databaseUrl }: { readonly databaseUrl?: string }) {
  const opened: Store[] = []
  return {
    async store() {
      const store = await openStore({ databaseUrl, log: silent })
      opened.push(store)
      await store.migrate('kernel-audit', auditMigrations)
      const at = Date.now()
      const young = { who: 'did:young', route: 'POST /x', what: {}, outcome: 'accepted' } as const
      const table = new AuditTable({ store, log: silent, retentionDays: 2 })
      await table.keep({ ...young, at })
      await table.close()
      return store
    },
    [Symbol.asyncDispose]: async () => void (await Promise.all(opened.map((each) => each.close()))),
  }
}

describe('the audit line of a route', () => {
  it('names the key, the route, the new thing and the outcome, and nothing that was said', async () => {
    await using app = await start()
    const { headers } = await app.post('/notes', { words: 'my PIN is 4711' }, key)
    expect(logged(app)).toEqual([
      {
        who: 'key:amina',
        route: 'POST /notes',
        what: { location: '/notes/n-1' },
        outcome: 'accepted',
        status: 201,
        requestId: headers.get('x-request-id'),
      },
    ])
    expect(app.log.join()).not.toMatch(/4711|never in a line|the-amina-key/)
  })

  it('has the parameters of the path, and ids of the answer where it has no Location', async () => {
    await using app = await start()
    const user = await app.user()
    await user.put('/notes/a%20b', {})
    expect(logged(app)).toMatchObject([
      { who: user.did, route: 'PUT /notes/:id', what: { id: 'a b', did: 'd' }, status: 200 },
    ])
  })

  it('tells of writes that the handler, the input or the right refused', async () => {
    await using app = await start()
    const user = await app.user()
    await user.patch('/notes/n-1', {})
    await app.post('/notes', { words: 5 }, key)
    await user.post('/notes', { words: 'x' })
    expect(logged(app)).toMatchObject([
      {
        route: 'PATCH /notes/:id',
        what: { id: 'n-1', version: 4 },
        outcome: 'refused',
        status: 412,
        code: 'PRECONDITION_FAILED',
      },
      { who: 'key:amina', outcome: 'refused', status: 400, code: 'INVALID_INPUT' },
      { who: user.did, route: 'POST /notes', outcome: expect.stringMatching(/accepted|refused/) },
    ])
  })

  it('tells a fault of ours from a refusal', async () => {
    await using app = await start()
    await app.delete('/notes/n-1', { headers: operator })
    expect(logged(app)).toMatchObject([
      { who: 'key:default', outcome: 'failed', status: 500, code: 'INTERNAL', what: { id: 'n-1' } },
    ])
  })

  it('is missing where nobody was let in, nothing is written, or a public handler says nothing', async () => {
    await using app = await start()
    const user = await app.user()
    await app.post('/notes', { words: 'x' })
    await app.post('/notes', { words: 'x' }, { authorization: 'Bearer guessed' })
    await user.get('/notes')
    await app.post('/phone', { pin: '0000' })
    await app.get('/audit', { headers: operator })
    expect(logged(app)).toEqual([])
  })

  it('is there for a public route or a read whose handler asks for it', async () => {
    await using app = await start()
    const user = await app.user()
    await app.post('/phone', { pin: '1234' })
    await user.get('/secret')
    expect(logged(app)).toMatchObject([
      { who: 'phone:…789', route: 'POST /phone', what: { account: 'a-1' }, outcome: 'accepted' },
      { who: user.did, route: 'GET /secret', what: { opened: 'safe' } },
    ])
    expect(app.log.join()).not.toMatch(/1234|xxxx/)
  })

  it('holds a bounded length of every id, whatever stands in the path', async () => {
    await using app = await start()
    const user = await app.user()
    await user.put(`/notes/${'t'.repeat(5000)}`, {})
    expect(logged(app)[0].what).toEqual({ id: '(5000 characters)', did: 'd' })
  })

  it('marks the repeat of an idempotent request, which writes nothing again', async () => {
    await using app = await start()
    const once = { ...key, 'idempotency-key': 'k-1' }
    await app.post('/notes', { words: 'x' }, once)
    await app.post('/notes', { words: 'x' }, once)
    expect(logged(app).map(({ what }) => what)).toEqual([
      { location: '/notes/n-1' },
      { replayed: 'true' },
    ])
  })

  it('of a stream stands before its first byte; what is added later has a line of its own', async () => {
    await using app = await start()
    const user = await app.user()
    const type = { 'content-type': 'application/x-ndjson' }
    await user.post('/many', '{}\n{}\n', type)
    expect(logged(app).map(({ what }) => what)).toEqual([{}, { line: 1 }, { line: 2 }])
  })
})

describe('the audit line of a tool', () => {
  const call = (name: string, args: object = {}) => ({ call: name, args })

  it('names user, tool, session, run and the ids that the tool adds, and no argument', async () => {
    const model = scriptedModel([call('write_note', { words: 'my PIN is 4711' }), 'Done.'])
    await using app = await start({}, model)
    const user = await app.user()
    const said = await user.say('Write it: 4712')
    const [session, message, tool] = logged(app)
    expect(session).toMatchObject({ route: 'POST /sessions' })
    expect(message).toMatchObject({
      who: user.did,
      route: 'POST /messages/:sessionId',
      what: { sessionId: said.sessionId },
      runId: said.runId,
    })
    expect(tool).toEqual({
      who: user.did,
      tool: 'write_note',
      what: { note: 'n-7', room: 3 },
      outcome: 'accepted',
      requestId: expect.any(String),
      sessionId: said.sessionId,
      runId: said.runId,
      callId: expect.any(String),
    })
    expect(app.log.join()).not.toMatch(/471[12]/)
  })

  it('tells what became of each write, and of reads only when they ask for it', async () => {
    const calls = [
      call('write_note', { words: 'full' }),
      call('write_note', { words: 'broken' }),
      call('look'),
      call('peek'),
    ]
    await using app = await start({}, scriptedModel([calls, 'Done.']))
    const user = await app.user()
    await user.say('Do it all')
    const tools = logged(app).filter(({ tool }) => tool)
    const ends = tools.map(({ tool, outcome, code }) => [tool, outcome, code])
    expect(ends.sort()).toEqual([
      ['peek', 'accepted', undefined],
      ['write_note', 'failed', 'INTERNAL'],
      ['write_note', 'refused', 'CONFLICT'],
    ])
  })

  it('tells that the user’s delegation did not suffice', async () => {
    await using app = await start({}, scriptedModel([call('pay', { amount: 5 }), 'No.']))
    const user = await grantedUser(app, [])
    await user.say('Pay')
    const line = logged(app).find(({ tool }) => tool)
    expect(line).toMatchObject({ tool: 'pay', outcome: 'refused', who: user.did })
    expect(line.code).toMatch(/FORBIDDEN|NOT_GRANTED/)
  })

  it.each([
    ['approve', 'accepted'],
    ['reject', 'rejected'],
  ])('waits for a person in silence, and tells of "%s" as %s', async (decision, outcome) => {
    const model = scriptedModel([call('ask_first', { words: 'x' }), 'Well.'])
    await using app = await start({}, model)
    const user = await app.user()
    const { runId } = await user.say('Do it')
    expect(logged(app).filter(({ tool }) => tool)).toEqual([])
    await user.post(`/runs/${runId}/resume`, { decision })
    const lines = logged(app).slice(-2)
    expect(lines).toContainEqual(
      expect.objectContaining({ route: 'POST /runs/:runId/resume', what: { runId } }),
    )
    expect(lines).toContainEqual(
      expect.objectContaining({ tool: 'ask_first', outcome, what: { decision } }),
    )
  })
})

await onEachDatabase('the audit table', (where) => {
  const env = () => ({ AUDIT_TABLE: 'on', DATABASE_URL: where.databaseUrl })

  const open = async () => {
    await using app = await start(env())
    const last = (await kept(app, '?limit=10000')).at(-1)?.id ?? 0
    return last as number
  }

  it('has every accepted write with its author when its answer is there', async () => {
    const before = await open()
    await using app = await start(env())
    const user = await app.user()
    await Promise.all(Array.from({ length: 40 }, (_, n) => user.put(`/notes/n-${n}`, {})))
    const lines = await kept(app, `?since=${before}`)
    expect(lines).toHaveLength(40)
    expect(new Set(lines.map(({ what }) => what.id)).size).toBe(40)
    expect(lines[0]).toEqual({
      id: before + 1,
      time: expect.stringMatching(/^\d{4}-.*Z$/),
      who: user.did,
      route: 'PUT /notes/:id',
      what: { id: expect.stringMatching(/^n-/), did: 'd' },
      outcome: 'accepted',
      status: 200,
      requestId: expect.any(String),
    })
  })

  it('is read in pages that go on after the last id, or from a time', async () => {
    const before = await open()
    await using app = await start(env())
    const user = await app.user()
    for (let n = 0; n < 5; n++) await user.put(`/notes/p-${n}`, {})
    const first = await kept(app, `?since=${before}&limit=2`)
    expect(first.map(({ what }) => what.id)).toEqual(['p-0', 'p-1'])
    const rest = await kept(app, `?since=${first[1].id}`)
    expect(rest.map(({ what }) => what.id)).toEqual(['p-2', 'p-3', 'p-4'])
    expect(await kept(app, `?since=${rest[0].time}`)).toEqual(expect.arrayContaining(rest))
    expect(await kept(app, '?since=2999-01-01')).toEqual([])
  })

  it('says what is wrong with a since or a limit, and is the operator’s alone', async () => {
    await using app = await start(env())
    for (const query of [
      'since=yesterday',
      'since=-1',
      'since=2026-13-99',
      'limit=0',
      'limit=1e9',
    ]) {
      const { status, body } = await app.get(`/audit?${query}`, { headers: operator })
      expect(status, query).toBe(400)
      expect(body.message).toMatch(/since|limit/)
    }
    const user = await app.user()
    expect((await user.get('/audit')).status).toBe(403)
    expect((await app.get('/audit')).status).toBe(401)
    expect((await app.get('/audit', { headers: key })).status).toBe(401)
  })

  it('keeps no secret of the environment, wherever a caller puts it', async () => {
    const before = await open()
    await using app = await start(env())
    const user = await app.user()
    await user.put('/notes/the-amina-key', {}, { 'x-request-id': 'op-secret-token' })
    const [line] = await kept(app, `?since=${before}`)
    expect(line).toMatchObject({ what: { id: '[secret]' }, requestId: '[secret]' })
  })

  it('is append only: the database itself refuses to change a line or to delete a young one', async () => {
    await using database = await databaseOf(where)
    const { db } = await database.store()
    for (const wrong of [
      'update kernel_audit set who = 0',
      'delete from kernel_audit',
      ...(where.databaseUrl ? ['truncate kernel_audit'] : []),
    ])
      await expect(sql.raw(wrong).execute(db), wrong).rejects.toThrow('append only')
  })

  it('lets lines go when they have had their time, and no other', async () => {
    await using database = await databaseOf(where)
    const store = await database.store()
    const table = new AuditTable({ store, log: silent, retentionDays: 2 })
    const days = (n: number) => Date.now() - n * 86_400_000
    const line = { who: 'did:x', route: 'POST /x', what: {}, outcome: 'accepted' } as const
    await Promise.all([5, 3, 1].map((n) => table.keep({ ...line, at: days(n) })))
    await table.sweep()
    const left = await sql<{ at: number }>`select at from kernel_audit where who = 'did:x'`.execute(
      store.db,
    )
    expect(left.rows.map(({ at }) => at)).toEqual([expect.closeTo(days(1), -4)])
    await table.close()
  })

  it('has one line of a tool call of which a second server tells again', async () => {
    await using database = await databaseOf(where)
    const store = await database.store()
    const table = new AuditTable({ store, log: silent, retentionDays: 2 })
    const line = { who: 'did:y', tool: 'pay', what: {}, outcome: 'accepted' } as const
    const told = { ...line, at: Date.now(), runId: `run-${where.databaseUrl}`, callId: 'call-1' }
    await table.keep(told)
    await table.keep(told)
    await table.keep({ ...told, callId: 'call-2' })
    const all = await sql`select id from kernel_audit where who = 'did:y'`.execute(store.db)
    expect(all.rows).toHaveLength(2)
    await table.close()
  })

  it('holds no answer back while the database fails, and writes the lines once it is well', async () => {
    await using database = await databaseOf(where)
    const store = await database.store()
    const errors: string[] = []
    const log = { ...silent, error: (_: object | string, said = '') => void errors.push(said) }
    let isAway = true
    const gone = () => Promise.reject(new Error('away'))
    const flaky = {
      get unsynced() {
        // Only the transaction is looked at while it is away.
        const away = { transaction: () => ({ execute: gone }) } as unknown as typeof store.db
        return isAway ? away : store.unsynced
      },
      db: store.db,
      synced: () => store.synced(),
    }
    const table = new AuditTable({ store: flaky, log, retentionDays: 2 })
    const line = { who: 'did:z', route: 'POST /z', what: {}, outcome: 'accepted' } as const
    for (let n = 0; n < 300; n++) await table.keep({ ...line, at: Date.now() })
    expect(errors).toEqual(['audit lines wait for the database'])
    isAway = false
    await table.close()
    const all = await sql`select id from kernel_audit where who = 'did:z'`.execute(store.db)
    expect(all.rows).toHaveLength(300)
  })

  it('keeps a bounded number of refusals a minute, and says what it left out', async () => {
    await using database = await databaseOf(where)
    const store = await database.store()
    const told: object[] = []
    const log = { ...silent, error: (fields: object | string) => void told.push(Object(fields)) }
    const table = new AuditTable({ store, log, retentionDays: 2 })
    const line = { who: 'did:w', route: 'POST /w', what: {}, outcome: 'refused' } as const
    for (let n = 0; n < 20_000; n++) void table.keep({ ...line, at: Date.now() })
    await table.keep({ ...line, outcome: 'accepted', at: Date.now() })
    await table.close()
    const all = await sql<{ outcome: string }>`select outcome from kernel_audit
      where who = 'did:w'`.execute(store.db)
    expect(all.rows.length).toBeGreaterThan(5000)
    expect(all.rows.length).toBeLessThanOrEqual(12_001) // the minute may turn in between
    expect(all.rows.filter(({ outcome }) => outcome === 'accepted')).toHaveLength(1)
    expect(told).toEqual([{ lines: 20_001 - all.rows.length }])
  })

  it('is read by nobody while it is off, and says how to switch it on', async () => {
    await using app = await start({ DATABASE_URL: where.databaseUrl })
    const { status, body } = await app.get('/audit', { headers: operator })
    expect(status).toBe(501)
    expect(body.hint).toContain('AUDIT_TABLE=on')
  })

  it('stops the boot over words and numbers that it does not know', async () => {
    const words: Record<string, string>[] = [{ AUDIT_TABLE: 'yes' }, { AUDIT_RETENTION_DAYS: '0' }]
    for (const wrong of words) await expect(start({ ...env(), ...wrong })).rejects.toThrow(/AUDIT_/)
  })
})
