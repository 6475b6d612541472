import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { describe, expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import {
  call,
  fakeFetch,
  resultOf,
  scriptedModel,
  testApp,
  type TestApp,
  type TestAppOptions,
} from '#core/testing'
import { describeWith } from '../support/services.ts'

/** A promise that a test keeps open for as long as it wants. */
function held() {
  const reached = Promise.withResolvers<void>()
  const released = Promise.withResolvers<void>()
  onTestFinished(() => released.resolve())
  return {
    reached: reached.promise,
    release: () => released.resolve(),
    async here() {
      reached.resolve()
      await released.promise
    },
  }
}

/** A ledger whose work can be held half-way. */
function ledger() {
  const within = held()
  const inJob = held()
  const attempts: string[] = []
  const closed: string[] = []
  let life = 0
  const plugin = definePlugin({
    name: 'ledger',
    summary: 'Keeps entries.',
    visibility: 'always',
    migrations: {
      '001-entries': async (db) => {
        await sql`create table ledger_entries (text text not null)`.execute(db)
      },
    },
    setup({ onClose }) {
      const mine = ++life
      onClose(() => void closed.push(`life ${mine}`))
    },
    jobs: {
      slow: {
        input: z.string(),
        async run(_, { job }) {
          attempts.push(`${job.key} ${job.attempt}`)
          if (job.attempt === 1) await inJob.here()
        },
      },
    },
    tools: {
      look: {
        description: 'Looks.',
        input: z.object({}),
        effect: 'read',
        async run() {
          if (life === 1) await within.here()
          return { life }
        },
      },
    },
    routes: {
      'POST /entries': {
        auth: 'public',
        input: z.object({ text: z.string() }),
        async run({ text }, { db }) {
          await sql`insert into ledger_entries values (${text})`.execute(db)
          return {}
        },
      },
      'POST /half': {
        auth: 'public',
        async run(_, { db, fetch }) {
          await sql`insert into ledger_entries values ('before')`.execute(db)
          await db.transaction().execute(async (trx) => {
            await sql`insert into ledger_entries values ('within')`.execute(trx)
            await within.here()
            await fetch('https://world.example/told')
          })
          return {}
        },
      },
      'POST /jobs': {
        auth: 'public',
        run: (_, { jobs }) => jobs.later('slow', 'x', { key: 'one' }),
      },
      'GET /entries': {
        auth: 'public',
        async run(_, { db }) {
          const { rows } = await sql<{ text: string }>`select text from ledger_entries`.execute(db)
          return { entries: rows.map(({ text }) => text) }
        },
      },
    },
  })
  return { plugin, within, inJob, attempts, closed }
}

const patience = { timeout: 30_000 }

function suite(more: () => Partial<TestAppOptions>) {
  const start = (options: TestAppOptions): Promise<TestApp> =>
    testApp({ ...options, ...more(), env: { ...options.env, ...more().env } })

  it('resets what clients wait for, and undoes what was not committed', async () => {
    const { plugin, within } = ledger()
    const network = fakeFetch({ 'https://world.example/told': {} })
    await using app = await start({ plugins: [plugin], fetch: network })
    const half = app.post('/half').then(
      () => 'answered',
      () => 'reset',
    )
    await within.reached
    const { url } = app
    await app.crash()
    expect(await half).toBe('reset')
    await expect(fetch(`${url}/entries`)).rejects.toThrow()
    await app.again()
    // What the handler of the life before still does reaches neither the network nor the database.
    within.release()
    await app.post('/entries', { text: 'after' })
    expect((await app.get('/entries')).body).toEqual({ entries: ['before', 'after'] })
    expect(network.calls).toEqual([])
  })

  it('leaves a job to the next life, which counts the attempt', async () => {
    const { plugin, inJob, attempts } = ledger()
    await using app = await start({ plugins: [plugin] })
    await app.post('/jobs')
    await inJob.reached
    await app.crash()
    await app.again()
    await expect.poll(() => attempts, patience).toEqual(['one 1', 'one 2'])
    inJob.release()
    await expect
      .poll(() => app.log.some((line) => line.includes('outcome=done')), patience)
      .toBe(true)
    expect(attempts).toHaveLength(2)
  })

  it('leaves a turn to the next life, for the same user in the same session', async () => {
    const { plugin, within } = ledger()
    const steps = [
      call('look'),
      call('look'),
      (request: Parameters<typeof resultOf>[0]) => JSON.stringify(resultOf(request, 'look')),
    ]
    await using app = await start({ plugins: [plugin], model: scriptedModel(steps) })
    const amina = await app.user('amina')
    const { oracleDid } = app
    const { sessionId } = (await amina.post('/sessions', {})).body
    const said = amina.say('Look', { sessionId }).catch(() => 'reset')
    await within.reached
    await app.crash()
    await said
    await app.again()
    expect(await app.user('amina')).toBe(amina)
    expect(app.oracleDid).toBe(oracleDid)
    const texts = async () => {
      const { body } = await amina.get(`/sessions/${sessionId}/messages`)
      return JSON.stringify(body)
    }
    await expect.poll(texts, patience).toContain('{\\"life\\":2}')
    expect((await amina.get(`/sessions/${sessionId}/run`)).body.run).toBeNull()
  })

  it('closes no plugin and says no goodbye; the end of the test closes what is left', async () => {
    const { plugin, closed } = ledger()
    const app = await start({ plugins: [plugin] })
    await app.crash()
    expect(closed).toEqual([])
    expect(app.log.filter((line) => line.includes('stopping'))).toEqual([])
    await expect(app.crash()).rejects.toThrow('does not run')
    await app.again()
    await app.close()
    expect(closed.sort()).toEqual(['life 1', 'life 2'])
  })

  it('boots again after an orderly end as well, with other options', async () => {
    const { plugin, closed } = ledger()
    await using app = await start({ plugins: [plugin] })
    await app.post('/entries', { text: 'kept' })
    const extra = definePlugin({
      name: 'extra',
      summary: 'Says more.',
      routes: { 'GET /extra': { auth: 'public', run: () => ({ more: true }) } },
    })
    expect(await app.again({ plugins: [plugin, extra] })).toBe(app)
    expect(closed).toEqual(['life 1'])
    expect((await app.get('/extra')).body).toEqual({ more: true })
    expect((await app.get('/entries')).body).toEqual({ entries: ['kept'] })
  })
}

describe('an app that crashes, in memory', () => suite(() => ({})))

describe('an app that crashes, in a folder', () =>
  suite(() => {
    const folder = mkdtempSync(join(tmpdir(), 'oracle-crash-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    return { env: { DATA_DIR: folder } }
  }))

await describeWith('postgres', 'an app that crashes, on PostgreSQL', () =>
  suite(() => ({ database: 'postgres' })),
)
