import { describe, expect, it } from 'vitest'
import { sql } from 'kysely'
import { z } from 'zod'
import { type AnyPlugin, definePlugin, reply } from '#core'
import { testApp, TestClock, type TestApp, type TestAppOptions } from '#core/testing'
import { onEachDatabase, onPostgres } from '../support/each-database.ts'

type Schedule =
  { readonly every: string | number } | { readonly cron: string; readonly timezone?: string }

/** A plugin with a scheduled job, and the times for which and at which it ran. */
function clockwork(name: string, schedule: Schedule) {
  const ticks: string[] = []
  const stood: string[] = []
  const plugin = definePlugin({
    name,
    summary: 'Ticks.',
    jobs: {
      tick: {
        ...schedule,
        run(_, { job, now }) {
          ticks.push(job.dueAt.toISOString())
          stood.push(now().toISOString())
        },
      },
    },
  })
  return { plugin, ticks, stood }
}

const newYear = '2027-01-01T00:00:00.000Z'

await onEachDatabase('the clock of a test app', ({ databaseUrl }) => {
  const database = databaseUrl === undefined ? undefined : ('postgres' as const)
  const appAt = (start: string, options: TestAppOptions): Promise<TestApp> =>
    testApp({ clock: new TestClock(start), database, ...options })

  it('runs a daily job thirty times in thirty days, and a weekday one as often as there are weekdays', async () => {
    const daily = clockwork('daily', { cron: '@daily' })
    const weekday = clockwork('weekday', { cron: '0 12 * * 1-5' })
    const plugins: AnyPlugin[] = [daily.plugin, weekday.plugin]
    await using app = await appAt('2027-03-01T00:00:00Z', { plugins })
    await app.clock.advance('30d')
    expect(daily.ticks).toHaveLength(30)
    expect(daily.ticks[0]).toBe('2027-03-02T00:00:00.000Z')
    expect(daily.ticks.at(-1)).toBe('2027-03-31T00:00:00.000Z')
    expect(weekday.ticks).toHaveLength(22)
    // The clock stood at each due time while the job ran.
    expect(daily.stood).toEqual(daily.ticks)
    expect(weekday.stood).toEqual(weekday.ticks)
    expect(app.clock.now().toISOString()).toBe('2027-03-31T00:00:00.000Z')
  })

  it('runs a job of 02:30 in Berlin once on each day on which the clocks there change', async () => {
    const { plugin, ticks } = clockwork('berlin', { cron: '30 2 * * *', timezone: 'Europe/Berlin' })
    await using app = await appAt('2027-03-27T12:00:00Z', { plugins: [plugin] })
    await app.clock.advance('2d')
    expect(ticks).toEqual(['2027-03-28T01:00:00.000Z', '2027-03-29T00:30:00.000Z'])
    await app.clock.set('2027-10-30T12:00:00Z')
    ticks.length = 0 // what was missed over the summer, once
    await app.clock.advance('2d')
    expect(ticks).toEqual(['2027-10-31T00:30:00.000Z', '2027-11-01T01:30:00.000Z'])
  })

  it('runs every: 15m four times an hour, each time in its place among other jobs', async () => {
    const order: string[] = []
    const plugin = definePlugin({
      name: 'quarters',
      summary: 'Ticks.',
      jobs: {
        tick: { every: '15m', run: (_, { now }) => void order.push(now().toISOString()) },
        once: { run: (_, { now }) => void order.push(`once ${now().toISOString()}`) },
      },
      routes: {
        'POST /once': {
          auth: 'public',
          run: (_, { jobs }) => jobs.later('once', undefined, { inMs: 20 * 60_000 }),
        },
      },
    })
    await using app = await appAt(newYear, { plugins: [plugin] })
    await app.clock.advance(0) // the schedule has its row
    await app.post('/once')
    await app.clock.advance('1h')
    expect(order).toEqual([
      '2027-01-01T00:15:00.000Z',
      'once 2027-01-01T00:20:00.000Z',
      '2027-01-01T00:30:00.000Z',
      '2027-01-01T00:45:00.000Z',
      '2027-01-01T01:00:00.000Z',
    ])
  })

  it('runs what later asked for when its time has come, and not before', async () => {
    const ran: string[] = []
    const plugin = definePlugin({
      name: 'reminders',
      summary: 'Reminds.',
      jobs: {
        remind: {
          input: z.string(),
          run: (what, { now }) => void ran.push(`${what} ${now().toISOString()}`),
        },
      },
      routes: {
        'POST /in': {
          auth: 'public',
          input: z.object({ inMs: z.number() }),
          run: ({ inMs }, { jobs }) => jobs.later('remind', 'in', { inMs }),
        },
        'POST /at': {
          auth: 'public',
          run: (_, { jobs, now }) =>
            jobs.later('remind', 'at', { at: new Date(now().getTime() + 3_600_000) }),
        },
        'GET /time': {
          auth: 'public',
          run: (_, { now }) => reply(200, { now: now().toISOString() }),
        },
      },
    })
    await using app = await appAt(newYear, { plugins: [plugin] })
    await app.post('/in', { inMs: 7_200_000 })
    await app.post('/at')
    await app.clock.advance('59m')
    expect(ran).toEqual([])
    await app.clock.advance('1m')
    expect(ran).toEqual(['at 2027-01-01T01:00:00.000Z'])
    await app.clock.advance('1d')
    expect(ran[1]).toBe('in 2027-01-01T02:00:00.000Z')
    expect((await app.get('/time')).body).toEqual({ now: '2027-01-02T01:00:00.000Z' })
    // What is due at once needs no move of the clock.
    await app.post('/in', { inMs: 0 })
    await expect.poll(() => ran.length).toBe(3)
  })

  it('tries a job again as time passes, with the waits that grow', async () => {
    const tried: number[] = []
    const plugin = definePlugin({
      name: 'stubborn',
      summary: 'Fails.',
      jobs: {
        send: {
          attempts: 4,
          run(_, { now }) {
            tried.push(now().getTime())
            throw new Error('not yet')
          },
        },
      },
      routes: { 'POST /send': { auth: 'public', run: (_, { jobs }) => jobs.later('send') } },
    })
    await using app = await appAt(newYear, { plugins: [plugin] })
    await app.post('/send')
    await app.clock.advance(0)
    expect(tried).toHaveLength(1)
    await app.clock.advance('1h')
    expect(tried).toHaveLength(4)
    const waits = tried.slice(1).map((at, i) => at - (tried[i] ?? 0))
    for (const [i, wait] of waits.entries()) {
      expect(wait).toBeGreaterThanOrEqual(800 * 2 ** i)
      expect(wait).toBeLessThanOrEqual(1_200 * 2 ** i)
    }
  })

  it('makes up once what a jump ahead missed, for the newest time', async () => {
    const { plugin, ticks } = clockwork('hourly', { every: '1h' })
    await using app = await appAt(newYear, { plugins: [plugin] })
    await app.clock.advance('1h')
    await app.clock.set('2027-01-01T09:30:00Z')
    expect(ticks).toEqual(['2027-01-01T01:00:00.000Z', '2027-01-01T09:00:00.000Z'])
    await app.clock.advance('30m')
    expect(ticks.at(-1)).toBe('2027-01-01T10:00:00.000Z')
    expect(ticks).toHaveLength(3)
  })

  it('can be turned back: schedules go on from there', async () => {
    const { plugin, ticks } = clockwork('back', { every: '1h' })
    await using app = await appAt('2027-01-02T10:05:00Z', { plugins: [plugin] })
    await app.clock.advance('1h')
    await app.clock.set('2027-01-01T11:35:00Z')
    await app.clock.advance('30m')
    expect(ticks).toEqual(['2027-01-02T11:05:00.000Z', '2027-01-01T12:05:00.000Z'])
  })

  it('goes on after again(), where a changed plan is a new plan', async () => {
    const before = clockwork('plans', { every: '1d' })
    await using app = await appAt(newYear, { plugins: [before.plugin] })
    await app.clock.advance('36h')
    expect(before.ticks).toEqual(['2027-01-02T00:00:00.000Z'])
    const after = clockwork('plans', { cron: '0 9 * * *' })
    await app.again({ plugins: [after.plugin] })
    expect(app.clock.now().toISOString()).toBe('2027-01-02T12:00:00.000Z')
    await app.clock.advance('24h')
    expect(before.ticks).toHaveLength(1)
    expect(after.ticks).toEqual(['2027-01-03T09:00:00.000Z'])
  })

  it('moves retention: the events of an old run can be read no more, those of a new one can', async () => {
    const { scriptedModel } = await import('#core/testing')
    await using app = await appAt(newYear, { plugins: [], model: scriptedModel(['One.', 'Two.']) })
    const user = await app.user('amina')
    const old = await user.say('Hello')
    await app.clock.advance('40d')
    const young = await user.say('Hello again')
    await app.clock.advance('1h')
    expect((await user.get(`/runs/${old.runId}`)).status).toBe(410)
    expect((await user.get(`/runs/${young.runId}`)).status).toBe(200)
    const { body } = await user.get('/sessions')
    expect(body.sessions.map(({ createdAt }: { createdAt: string }) => createdAt)).toEqual([
      '2027-02-10T00:00:00.000Z',
      '2027-01-01T00:00:00.000Z',
    ])
  })

  it('refuses a span or a time that is none', async () => {
    await using app = await appAt(newYear, { plugins: [] })
    for (const by of ['1 hour', '-1d', -1, 0.5, ''])
      expect(() => app.clock.advance(by)).toThrow(/cannot advance/)
    expect(() => app.clock.set('tomorrow')).toThrow(/is no time/)
  })
})

// The clock itself counts, so one database is enough: a thousand runs take PostgreSQL half a minute.
describe('a clock that brings about more than it should', () => {
  it('names a job that asks for itself again at once', async () => {
    let isOver = false
    const plugin = definePlugin({
      name: 'eager',
      summary: 'Never rests.',
      setup: () => undefined,
      jobs: {
        again: {
          input: z.object({ n: z.number() }),
          async run({ n }, { jobs }) {
            if (!isOver) await Reflect.apply(jobs.later, jobs, ['again', { n: n + 1 }])
          },
        },
      },
      routes: {
        'POST /go': {
          auth: 'public',
          run: (_, { jobs }) => jobs.later('again', { n: 0 }, { inMs: 1_000 }),
        },
      },
    })
    await using app = await testApp({ clock: new TestClock(newYear), plugins: [plugin] })
    await app.post('/go')
    const advanced = app.clock.advance('1s').finally(() => (isOver = true))
    await expect(advanced).rejects.toThrow(
      /more than 1,000 runs came due \(eager\.again \d{4} times\)/,
    )
  }, 60_000)

  it('names a schedule that is too fast for the time that passes', async () => {
    const { plugin, ticks } = clockwork('fast', { every: '1s' })
    await using app = await testApp({ clock: new TestClock(newYear), plugins: [plugin] })
    await expect(app.clock.advance('1d')).rejects.toThrow(/fast\.tick 1001 times/)
    expect(ticks).toHaveLength(1_001)
  }, 60_000)
})

await onPostgres('the clock of two apps on one database', ({ databaseUrl }) => {
  it('is one: each has the same time, and a schedule runs once a tick on either', async () => {
    const ticks: string[] = []
    const plugin = (where: string) =>
      definePlugin({
        name: 'shared-clock',
        summary: 'Ticks.',
        jobs: {
          tick: { every: '1h', run: (_, { job }) => void ticks.push(job.dueAt.toISOString()) },
        },
        routes: {
          'GET /time': {
            auth: 'public',
            run: (_, { now }) => reply(200, { where, now: now().toISOString() }),
          },
        },
      })
    const env = { DATABASE_URL: databaseUrl }
    await using first = await testApp({
      plugins: [plugin('first')],
      env,
      clock: new TestClock('2027-01-01'),
    })
    await first.clock.advance(0)
    await using second = await testApp({ plugins: [plugin('second')], env, clock: true })
    expect((await second.get('/time')).body).toEqual({ where: 'second', now: newYear })
    await first.clock.advance('3h')
    const told = async () => (await second.get('/time')).body.now
    await expect.poll(told).toBe('2027-01-01T03:00:00.000Z')
    await second.clock.advance('2h')
    expect(ticks).toEqual([1, 2, 3, 4, 5].map((hour) => `2027-01-01T0${hour}:00:00.000Z`))
  })
})

it('is not there in an app with the real time', async () => {
  const plugin = definePlugin({
    name: 'real',
    summary: 'Tells the time.',
    routes: {
      'GET /time': { auth: 'public', run: (_, { now }) => reply(200, { now: now() }) },
      'GET /tables': {
        auth: 'public',
        async run(_, { db }) {
          const { rows } = await sql`select name from sqlite_master where type = 'table'`.execute(
            db,
          )
          return reply(200, rows)
        },
      },
    },
  })
  await using app = await testApp({ plugins: [plugin] })
  expect(() => app.clock).toThrow('Give testApp clock: true.')
  const before = Date.now()
  const told = new Date((await app.get('/time')).body.now).getTime()
  expect(told).toBeGreaterThanOrEqual(before)
  expect(told).toBeLessThanOrEqual(Date.now())
  // Not even the table is there, so no statement can read it.
  expect(JSON.stringify((await app.get('/tables')).body)).not.toContain('kernel_clock')
})
