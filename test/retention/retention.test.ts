import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { testApp, TestClock, type TestApp } from '#core/testing'
import { onEachDatabase } from '../support/each-database.ts'
import { modelScript } from '../support/model-script.ts'

const operator = { Authorization: 'Bearer the-operators-own-token' }
const start = '2027-01-01T00:00:00Z'

/** A plugin that pays when somebody has said yes, and lets a test look into the database. */
const bank = definePlugin({
  name: 'bank',
  summary: 'Pays.',
  visibility: 'always',
  tools: {
    pay: { description: 'Pays.', input: z.object({}), approve: true, run: () => 'paid' },
  },
  routes: {
    'POST /sql': {
      auth: 'public',
      input: z.object({ text: z.string() }),
      run: async ({ text }, { db }) => ({ rows: (await sql.raw(text).execute(db)).rows }),
    },
  },
})

await onEachDatabase('what is too old', ({ databaseUrl }) => {
  const open = (env: Record<string, string> = {}): Promise<TestApp> => {
    const folder = mkdtempSync(join(tmpdir(), 'retention-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    return testApp({
      plugins: [bank],
      model: modelScript(({ messages }) => {
        const last = messages.at(-1)
        const isAsked = last?.role === 'user' && last.content === 'Pay'
        return isAsked ? { calls: [{ name: 'pay', args: {} }] } : `Well. ${'word '.repeat(200)}`
      }),
      clock: new TestClock(start),
      database: databaseUrl === undefined ? undefined : 'postgres',
      env: {
        NODE_ENV: 'test',
        OPERATOR_TOKEN: 'the-operators-own-token',
        ...(databaseUrl === undefined && { DATA_DIR: folder }),
        ...env,
      },
    })
  }
  const rowsOf = async (app: TestApp, text: string): Promise<Record<string, unknown>[]> =>
    (await app.post('/sql', { text })).body.rows
  const storageOf = async (app: TestApp) => {
    const { status, body } = await app.get('/storage', { headers: operator })
    expect(status).toBe(200)
    return body
  }

  it('ends a run that nobody decided about, once, with a notice and an answer for the model', async () => {
    await using app = await open()
    const user = await app.user()
    const asked = await user.say('Pay')
    expect(asked.status).toBe('waiting')
    await app.clock.advance('29d')
    expect((await user.get(`/sessions/${asked.sessionId}/run`)).body.waiting).toBeDefined()
    expect((await user.notices()).notices).toEqual([])
    await app.clock.advance('2d')
    await app.clock.advance('1d')
    expect((await user.get(`/sessions/${asked.sessionId}/run`)).body).not.toHaveProperty('waiting')
    const { notices } = await user.notices()
    expect(notices).toMatchObject([{ kind: 'failed', plugin: 'bank', sessionId: asked.sessionId }])
    expect(notices[0]?.text).toBe('Nobody decided within 30 days, so this was not done.')
    const late = await user.post(`/runs/${asked.runId}/resume`, { decision: 'approve' })
    expect(late.status).toBe(409)
    const { messages } = (await user.get(`/messages/${asked.sessionId}`)).body
    expect(messages.at(-1).toolCalls).toMatchObject([{ name: 'pay', status: 'error' }])
    // The conversation goes on, and the model reads that it was not done.
    expect((await user.say('Well?', { sessionId: asked.sessionId })).status).toBe('finished')
  })

  it('deletes sessions that nobody uses, and none in which somebody may go on', async () => {
    await using app = await open({ SESSION_RETENTION_DAYS: '10' })
    const user = await app.user()
    const old = await user.say('Hello')
    const used = await user.say('Hello')
    const waits = await user.say('Pay')
    await app.clock.advance('8d')
    await user.say('Again', { sessionId: used.sessionId })
    await app.clock.advance('3d')
    const { sessions } = (await user.get('/sessions')).body
    const left = sessions.map(({ sessionId }: { sessionId: string }) => sessionId)
    expect(left.toSorted()).toEqual([used.sessionId, waits.sessionId].toSorted())
    for (const [table, column] of [
      ['kernel_steps', 'session_id'],
      ['kernel_runs', 'session_id'],
      ['checkpoints', 'thread_id'],
    ])
      expect(
        await rowsOf(app, `select 1 from ${table} where ${column} = '${old.sessionId}'`),
      ).toEqual([])
    expect((await user.get(`/messages/${old.sessionId}`)).status).toBe(404)
  })

  it('comes back to the size of before, and /storage says what the database says', async () => {
    await using app = await open({ SESSION_RETENTION_DAYS: '10', NOTICE_RETENTION_DAYS: '5' })
    const user = await app.user()
    await user.say('Hello')
    await app.clock.advance('20d')
    const before = await storageOf(app)
    for (let session = 0; session < 20; session++) {
      const { sessionId } = await user.say('Hello')
      for (let turn = 0; turn < 2; turn++) await user.say('And then?', { sessionId })
    }
    const full = await storageOf(app)
    const rows = ({ kinds }: typeof before, kind: string) =>
      kinds.find((each: { kind: string }) => each.kind === kind)?.rows
    expect(rows(full, 'runs')).toBeGreaterThanOrEqual(60)
    // An empty database of PostgreSQL is larger than these turns.
    if (full.database === 'sqlite') expect(full.bytes).toBeGreaterThan(before.bytes * 1.1)
    // The database was noted once a day, and has grown since the first of these days.
    await app.clock.advance('1d')
    const grown = await storageOf(app)
    expect(grown.growthPerDay).toEqual(expect.any(Number))
    if (grown.database === 'sqlite') {
      expect(grown.growthPerDay).toBeGreaterThan(0)
      expect(grown.daysLeft).toBe(
        Math.floor((grown.diskFreeBytes + grown.freeBytes) / grown.growthPerDay),
      )
    } else expect(grown).not.toHaveProperty('daysLeft')
    await app.clock.advance('20d')
    const after = await storageOf(app)
    for (const kind of ['events', 'runs', 'transcripts', 'sessions', 'checkpoints'])
      expect([kind, rows(after, kind)]).toEqual([kind, rows(before, kind)])
    const own = { rows: 0, bytes: 0 }
    for (const table of after.tables) {
      own.bytes += table.bytes
      const [counted] = await rowsOf(app, `select count(*) as n from "${table.name}"`)
      if (table.kind === 'runs') expect(Number(counted?.n)).toBe(table.rows)
    }
    if (after.database === 'sqlite') {
      expect(after.bytes).toBeLessThanOrEqual(before.bytes * 1.1)
      const [pages] = await rowsOf(
        app,
        `select page_count * page_size as bytes
        from pragma_page_count, pragma_page_size`,
      )
      expect(after.bytes).toBe(pages?.bytes)
      // What is left is the map by which SQLite finds the parents of pages.
      expect(after.bytes - own.bytes - after.freeBytes).toBeLessThanOrEqual(3 * 4096)
    } else {
      const [steps] = await rowsOf(app, `select pg_total_relation_size('kernel_steps') as bytes`)
      const table = after.tables.find(({ name }: { name: string }) => name === 'kernel_steps')
      expect(table.bytes).toBe(Number(steps?.bytes))
      expect(own.bytes).toBeLessThan(after.bytes)
    }
  })

  it('keeps one checkpoint of a run that waited, and the conversation goes on from it', async () => {
    await using app = await open({ RUN_RETENTION_HOURS: '72' })
    const user = await app.user()
    const asked = await user.say('Pay')
    const { sessionId } = asked
    const resumed = await user.post(`/runs/${asked.runId}/resume`, { decision: 'approve' })
    expect(resumed.status).toBe(200)
    await user.say('And then?', { sessionId })
    const waits = await user.say('Pay')
    const checkpoints = (session: string) =>
      rowsOf(app, `select id from checkpoints where thread_id = '${session}' order by id`)
    const before = await checkpoints(sessionId)
    const named = async () => {
      const rows = await rowsOf(
        app,
        `select checkpoint from kernel_runs where session_id = '${sessionId}' and checkpoint is not null order by turn`,
      )
      return rows.map(({ checkpoint }) => ({ id: checkpoint }))
    }
    // A turn that changes nothing of the state leaves no checkpoint: these are where the run waited, and where it ended.
    expect(before).toHaveLength(2)
    expect(await named()).toEqual(before)
    await app.clock.advance('2d')
    expect(await checkpoints(sessionId)).toEqual(before)
    await app.clock.advance('2d')
    expect(await checkpoints(sessionId)).toEqual(before.slice(1))
    expect(await named()).toEqual(before.slice(1))
    for (const table of ['checkpoint_writes', 'checkpoint_values']) {
      const [left] = await rowsOf(
        app,
        `select count(*) as n from ${table} where thread_id = '${sessionId}'`,
      )
      expect([table, Number(left?.n) <= 2]).toEqual([table, true])
    }
    // One that waits keeps what it waits at.
    expect(await checkpoints(waits.sessionId)).toHaveLength(1)
    expect((await user.say('Go on', { sessionId })).status).toBe('finished')
    const late = await user.post(`/runs/${waits.runId}/resume`, { decision: 'approve' })
    expect(late.status).toBe(200)
  })

  if (databaseUrl !== undefined)
    it('ends nothing while another process is at it', async () => {
      await using app = await open()
      const user = await app.user()
      const { sessionId } = await user.say('Pay')
      const waiting = async () => (await user.get(`/sessions/${sessionId}/run`)).body.waiting
      await rowsOf(
        app,
        `insert into kernel_leases (plugin, name, owner, holder, epoch, lease_until)
      values ('kernel', 'retention', 'another', 'host:1', 7, 9000000000000)
      on conflict (plugin, name) do update set owner = 'another', epoch = 7, lease_until = 9000000000000
      returning epoch`,
      )
      await app.clock.advance('31d')
      expect(await waiting()).toBeDefined()
      await rowsOf(app, `update kernel_leases set lease_until = 0 returning epoch`)
      await app.clock.advance('1d')
      expect(await waiting()).toBeUndefined()
    })

  it('shows what takes room to the operator alone', async () => {
    await using app = await open()
    const user = await app.user()
    expect((await app.get('/storage')).status).toBe(401)
    expect([401, 403]).toContain((await user.get('/storage')).status)
  })
})

it.each([
  ['APPROVAL_RETENTION_DAYS', '0'],
  ['SESSION_RETENTION_DAYS', '-1'],
  ['JOB_RETENTION_DAYS', 'week'],
  ['NOTICE_RETENTION_DAYS', '1.5'],
])('a boot stops for %s=%s', async (name, value) => {
  await expect(testApp({ plugins: [], env: { [name]: value } })).rejects.toThrow(name)
})
