import { expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { call } from '../../core/testing/scripted-model.ts'
import { scriptedModel, testApp } from '#core/testing'
import { sql } from 'kysely'
import type { Database } from '../../core/plugin.ts'
import { onEachDatabase } from '../support/each-database.ts'

const operator = { authorization: 'Bearer op-secret-token' }

/** A plugin that asks for jobs wherever a handler may. */
function mailer() {
  const sent: string[] = []
  const opened: { db?: Database } = {}
  const gate = Promise.withResolvers<void>()
  const plugin = definePlugin({
    name: 'mailer',
    summary: 'Sends mail.',
    visibility: 'always',
    setup: async ({ jobs, db }) => {
      opened.db = db
      await jobs.later('send', { to: 'setup' }, { key: 'setup' })
      return { send: (to: string) => sent.push(to) }
    },
    jobs: {
      send: {
        input: z.object({ to: z.string(), secret: z.string().default('none') }),
        attempts: 1,
        async run({ to }, { self, job }) {
          if (to === 'slow') await gate.promise
          if (to === 'leak') job.giveUp('the upstream knows op-secret-token')
          if (to === 'nowhere') job.giveUp('there is no such address')
          self.send(to)
        },
      },
      digest: { cron: '@daily', run: () => undefined },
    },
    tools: {
      send_mail: {
        description: 'Sends mail.',
        input: z.object({ to: z.string() }),
        run: async ({ to }, { jobs }) => (await jobs.later('send', { to })).isNew,
      },
    },
    routes: {
      'POST /mail': {
        auth: 'public',
        input: z.object({
          to: z.string(),
          secret: z.string().optional(),
          user: z.string().optional(),
          inMs: z.number().optional(),
        }),
        run: ({ user, inMs, ...data }, { jobs }) => jobs.later('send', data, { user, inMs }),
      },
    },
  })
  return { plugin, sent, opened, gate }
}

await onEachDatabase('a server with jobs', ({ databaseUrl }) => {
  const start = (plugin: ReturnType<typeof mailer>['plugin'], env = {}) =>
    testApp({
      plugins: [plugin],
      model: scriptedModel([call('send_mail', { to: 'tool' }), 'Sent.']),
      // As in production, where the operator needs the token and the log is JSON.
      env: {
        NODE_ENV: 'production',
        ORACLE_MNEMONIC: 'an oracle for its jobs only',
        OPERATOR_TOKEN: 'op-secret-token',
        DATABASE_URL: databaseUrl,
        ...env,
      },
    })

  it('runs what setup, tools and routes ask for', async () => {
    const { plugin, sent } = mailer()
    await using app = await start(plugin)
    expect((await app.post('/mail', { to: 'route' })).body).toMatchObject({ isNew: true })
    const user = await app.user()
    await user.say('send it')
    await expect.poll(() => [...sent].sort()).toEqual(['route', 'setup', 'tool'])
    expect((await app.post('/mail', { to: 'x', user: 'nobody' })).body).toMatchObject({
      code: 'INPUT_INVALID',
    })
  })

  it('shows the operator every job and nothing of its data, begins dead ones anew and deletes them', async () => {
    const { plugin } = mailer()
    await using app = await start(plugin)
    const user = 'did:key:zAmina'
    const { body: made } = await app.post('/mail', { to: 'nowhere', secret: 'pin 4711', user })
    const dead = async () => (await app.get('/jobs?state=dead', { headers: operator })).body
    await expect.poll(async () => (await dead()).total).toBe(1)
    const list = await dead()
    expect(list.jobs).toEqual([
      {
        id: made.id,
        plugin: 'mailer',
        name: 'send',
        key: made.id,
        state: 'dead',
        orphaned: false,
        user,
        attempts: 1,
        dueAt: expect.stringMatching(/Z$/),
        createdAt: expect.stringMatching(/Z$/),
        startedAt: expect.stringMatching(/Z$/),
        endedAt: expect.stringMatching(/Z$/),
        error: 'there is no such address',
      },
    ])
    expect(JSON.stringify(list)).not.toContain('4711')
    const retried = await app.post(`/jobs/${made.id}/retry`, undefined, operator)
    expect(retried.body).toMatchObject({ id: made.id, state: 'due', attempts: 0 })
    await expect.poll(async () => (await dead()).total).toBe(1)
    expect((await app.delete(`/jobs/${made.id}`, { headers: operator })).status).toBe(200)
    expect((await app.delete(`/jobs/${made.id}`, { headers: operator })).body.code).toBe(
      'NOT_FOUND',
    )
    expect((await app.post('/jobs/none/retry', undefined, operator)).body.code).toBe('NOT_FOUND')
    expect((await dead()).total).toBe(0)
  })

  it('pages the list, and tells the plan of a schedule, which the operator cannot delete', async () => {
    const { plugin } = mailer()
    await using app = await start(plugin)
    for (let i = 0; i < 5; i++) await app.post('/mail', { to: `${i}` })
    const get = async (query: string) =>
      (await app.get(`/jobs?${query}`, { headers: operator })).body
    // A job that ends between two pages would differ between them.
    const planned = async () => (await get('plugin=mailer&state=due')).jobs
    await expect.poll(async () => (await planned()).length).toBe(1)
    await expect.poll(async () => (await get('plugin=mailer&state=running')).total).toBe(0)
    const [digest] = await planned()
    expect(digest).toMatchObject({ name: 'digest', schedule: 'cron UTC @daily', attempts: 0 })
    const deleted = await app.delete(`/jobs/${digest.id}`, { headers: operator })
    expect(deleted.body).toMatchObject({ code: 'CONFLICT' })
    const again = await app.post(`/jobs/${digest.id}/retry`, undefined, operator)
    expect(again.body.code).toBe('CONFLICT')
    const all = await get('plugin=mailer&limit=200')
    const pages = [
      ...(await get('plugin=mailer&limit=3')).jobs,
      ...(await get('plugin=mailer&limit=200&offset=3')).jobs,
    ]
    expect(pages).toEqual(all.jobs)
    expect(all.total).toBe(all.jobs.length)
    expect((await get('plugin=other')).jobs).toEqual([])
    for (const query of ['state=gone', 'limit=0', 'offset=-1'])
      expect((await app.get(`/jobs?${query}`, { headers: operator })).status).toBe(400)
    expect((await app.get('/jobs', { headers: { authorization: 'Bearer wrong' } })).status).toBe(
      401,
    )
  })

  it('keeps the jobs of a plugin that was turned off, and runs them once the plugin is on again', async () => {
    const { plugin, sent } = mailer()
    await using app = await start(plugin)
    const { body: made } = await app.post('/mail', { to: 'whenever', inMs: 400 })
    await app.again({ features: { mailer: false } })
    const job = async () => {
      const { body } = await app.get('/jobs?plugin=mailer&limit=200', { headers: operator })
      return body.jobs.find(({ id }: { id: string }) => id === made.id)
    }
    await expect
      .poll(async () => Date.now() - Date.parse((await job()).dueAt), { interval: 100 })
      .toBeGreaterThan(500)
    expect(await job()).toMatchObject({ state: 'due', attempts: 0, orphaned: true })
    expect((await app.get('/health')).body).not.toHaveProperty('jobs')
    expect((await app.post('/mail', { to: 'nobody' })).status).toBe(404)
    expect(sent).not.toContain('whenever')
    await app.again({ features: {} })
    await expect.poll(() => sent.filter((to) => to === 'whenever')).toHaveLength(1)
    await expect.poll(job).toMatchObject({ state: 'done', attempts: 1, orphaned: false })
  })

  it('counts its jobs in /health, which is degraded while one is a minute late', async () => {
    const { plugin, opened, gate } = mailer()
    await using app = await start(plugin, { JOBS_CONCURRENCY: '1' })
    const health = async () => (await app.get('/health')).body
    const dead = expect.any(Number)
    await expect
      .poll(async () => (await health()).jobs)
      .toEqual({ due: 0, running: 0, dead, lateMs: 0 })
    expect((await health()).status).toBe('ok')
    await app.post('/mail', { to: 'slow' })
    await expect.poll(async () => (await health()).jobs).toMatchObject({ running: 1 })
    await app.post('/mail', { to: 'waits for its turn' })
    await sql`update kernel_jobs set due_at = due_at - 61000 where state = 'due' and name = 'send'`.execute(
      opened.db!,
    )
    await expect.poll(health).toMatchObject({ status: 'degraded', jobs: { due: 1, running: 1 } })
    expect((await health()).jobs.lateMs).toBeGreaterThan(60_000)
    gate.resolve()
    await expect
      .poll(health)
      .toMatchObject({ status: 'ok', jobs: { due: 0, running: 0, lateMs: 0 } })
  })

  it('keeps no secret of the environment in the error of a job', async () => {
    const { plugin } = mailer()
    await using app = await start(plugin)
    const { body: made } = await app.post('/mail', { to: 'leak' })
    const job = async () => {
      const { body } = await app.get('/jobs?state=dead&limit=200', { headers: operator })
      return (body.jobs as { id: string; error: string }[]).find(({ id }) => id === made.id)
    }
    await expect.poll(async () => (await job())?.error).toBe('the upstream knows [secret]')
    expect(app.log.join('')).not.toContain('op-secret-token')
  })

  it('logs one line for each end', async () => {
    const { plugin } = mailer()
    await using app = await start(plugin)
    await app.post('/mail', { to: 'nowhere' })
    const lines = () =>
      app.log.map((line) => JSON.parse(line)).filter(({ msg, outcome }) => msg === 'job' && outcome)
    await expect.poll(() => lines().filter(({ outcome }) => outcome === 'dead')).toHaveLength(1)
    expect(lines().find(({ outcome }) => outcome === 'dead')).toMatchObject({
      plugin: 'mailer',
      name: 'send',
      attempt: 1,
      ms: expect.any(Number),
      lateMs: expect.any(Number),
    })
  })
})

it('a server whose plugins have no jobs says nothing of jobs in /health, and lists what is left', async () => {
  const plain = definePlugin({ name: 'plain', summary: 'Has none.' })
  await using app = await testApp({ plugins: [plain], env: { OPERATOR_TOKEN: 'op-secret-token' } })
  expect((await app.get('/health')).body).not.toHaveProperty('jobs')
  expect((await app.get('/jobs', { headers: operator })).body).toEqual({ jobs: [], total: 0 })
})
