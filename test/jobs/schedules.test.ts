import { sql } from 'kysely'
import { describe, expect, it } from 'vitest'
import { type AnyPlugin, definePlugin } from '#core'
import { planBoot } from '../../core/runtime/boot/plan.ts'
import { type JobPlan, readPlans } from '../../core/runtime/jobs/plan.ts'
import { nextPlanned } from '../../core/runtime/jobs/schedules.ts'
import { onEachDatabase } from '../support/each-database.ts'
import { type JobApp, jobApp, SetClock } from '../support/job-app.ts'

type Schedule =
  { readonly every: string | number } | { readonly cron: string; readonly timezone?: string }

/** A plugin with one scheduled job, and the times that it was run for. */
function clockwork(name: string, schedule: Schedule, run: () => unknown = () => undefined) {
  const ticks: string[] = []
  const keys: string[] = []
  const plugin = definePlugin({
    name,
    summary: 'Ticks.',
    jobs: {
      tick: {
        ...schedule,
        async run(_, { job }) {
          ticks.push(job.dueAt.toISOString())
          keys.push(job.key)
          await run()
        },
      },
    },
  })
  return { plugin, ticks, keys }
}

/** Looks once, and waits until nothing runs. */
async function settled(app: JobApp, name: string) {
  await app.jobs.runner.look()
  const row = async () => (await app.rows()).find(({ plugin }) => plugin === name)
  await expect.poll(async () => (await row())?.state).not.toBe('running')
  return row()
}

const hourMs = 3_600_000
const dayMs = 24 * hourMs

await onEachDatabase('a schedule', (where) => {
  it('runs once for each planned time, and is one row', async () => {
    const clock = new SetClock('2027-01-01T00:00:00Z')
    const { plugin, ticks, keys } = clockwork('tick-a', { every: '15m' })
    const app = await jobApp({ plugins: [plugin], where, now: clock.now })
    await app.jobs.runner.open()
    for (let i = 0; i < 8; i++) {
      clock.advance(7.5 * 60_000)
      await settled(app, 'tick-a')
    }
    expect(ticks).toEqual([
      '2027-01-01T00:15:00.000Z',
      '2027-01-01T00:30:00.000Z',
      '2027-01-01T00:45:00.000Z',
      '2027-01-01T01:00:00.000Z',
    ])
    expect(keys[0]).toBe('tick-a.tick@2027-01-01T00:15:00.000Z')
    expect(app.logged.filter(({ message }) => message === 'job')).toMatchObject(
      Array(4).fill({ level: 'info' }),
    )
    expect(new Set(keys).size).toBe(4)
    expect((await app.rows()).filter((row) => row.plugin === 'tick-a')).toHaveLength(1)
  })

  it('keeps its phase through a restart, and makes up once what was missed, for the newest time', async () => {
    const clock = new SetClock('2027-01-01T00:00:00Z')
    const first = clockwork('tick-b', { every: hourMs })
    const before = await jobApp({ plugins: [first.plugin], where, now: clock.now })
    await before.jobs.runner.open()
    clock.set('2027-01-01T01:00:00Z')
    await settled(before, 'tick-b')
    await before.jobs.runner.close()
    clock.set('2027-01-01T05:59:00Z')
    const { plugin, ticks } = clockwork('tick-b', { every: hourMs })
    const app = await jobApp({ plugins: [plugin], store: before.store, now: clock.now })
    await app.jobs.runner.open()
    await expect.poll(() => ticks).toHaveLength(1)
    await settled(app, 'tick-b')
    clock.set('2027-01-01T06:00:00Z')
    await settled(app, 'tick-b')
    expect(first.ticks).toEqual(['2027-01-01T01:00:00.000Z'])
    expect(ticks).toEqual(['2027-01-01T05:00:00.000Z', '2027-01-01T06:00:00.000Z'])
  })

  it('begins a plan anew when its text has changed between two boots', async () => {
    const clock = new SetClock('2027-01-01T00:00:00Z')
    const older = clockwork('tick-c', { every: '1d' })
    const before = await jobApp({ plugins: [older.plugin], where, now: clock.now })
    await before.jobs.runner.open()
    await before.jobs.runner.close()
    clock.set('2027-01-01T08:30:00Z')
    const { plugin, ticks } = clockwork('tick-c', { cron: '0 9 * * *' })
    const app = await jobApp({ plugins: [plugin], store: before.store, now: clock.now })
    await app.jobs.runner.open()
    clock.set('2027-01-01T09:00:00Z')
    await settled(app, 'tick-c')
    clock.set('2027-01-02T00:00:00Z')
    await settled(app, 'tick-c')
    expect(ticks).toEqual(['2027-01-01T09:00:00.000Z'])
    expect(older.ticks).toEqual([])
  })

  it('runs a daily job thirty times in thirty days, and a weekday one as often as there are weekdays', async () => {
    const clock = new SetClock('2027-03-01T00:00:00Z')
    const daily = clockwork('tick-d', { cron: '@daily' })
    const weekday = clockwork('tick-e', { cron: '0 12 * * 1-5' })
    const plugins: AnyPlugin[] = [daily.plugin, weekday.plugin]
    const app = await jobApp({ plugins, where, now: clock.now })
    await app.jobs.runner.open()
    for (let half = 0; half < 60; half++) {
      clock.advance(dayMs / 2)
      await settled(app, 'tick-d')
      await settled(app, 'tick-e')
    }
    expect(new Set(daily.ticks).size).toBe(30)
    expect(daily.ticks).toHaveLength(30)
    expect(weekday.ticks).toHaveLength(22)
  })

  it('runs once on each of the days on which the clocks of Berlin change', async () => {
    const clock = new SetClock('2027-03-27T12:00:00Z')
    const schedule = { cron: '30 2 * * *', timezone: 'Europe/Berlin' }
    const { plugin, ticks } = clockwork('tick-f', schedule)
    const app = await jobApp({ plugins: [plugin], where, now: clock.now })
    await app.jobs.runner.open()
    const until = async (iso: string) => {
      for (; clock.isBefore(iso); clock.advance(hourMs / 2)) await settled(app, 'tick-f')
    }
    await until('2027-03-29T12:00:00Z')
    expect(ticks).toEqual(['2027-03-28T01:00:00.000Z', '2027-03-29T00:30:00.000Z'])
    ticks.length = 0
    clock.set('2027-10-30T12:00:00Z')
    await settled(app, 'tick-f') // what was missed over the summer, once
    await until('2027-11-01T12:00:00Z')
    expect(ticks).toEqual([
      '2027-10-30T00:30:00.000Z',
      '2027-10-31T00:30:00.000Z',
      '2027-11-01T01:30:00.000Z',
    ])
  })

  it('goes on at once when the clock is turned back by a day, with the same keys', async () => {
    const clock = new SetClock('2027-01-02T10:05:00Z')
    const { plugin, ticks, keys } = clockwork('tick-g', { every: '1h' })
    const app = await jobApp({ plugins: [plugin], where, now: clock.now })
    await app.jobs.runner.open()
    clock.set('2027-01-02T11:05:00Z')
    await settled(app, 'tick-g')
    clock.set('2027-01-01T11:35:00Z')
    await app.jobs.runner.mend()
    clock.set('2027-01-01T12:05:00Z')
    await settled(app, 'tick-g')
    expect(ticks).toEqual(['2027-01-02T11:05:00.000Z', '2027-01-01T12:05:00.000Z'])
    for (let i = 0; i < 23; i++) {
      clock.advance(hourMs)
      await settled(app, 'tick-g')
    }
    expect(keys.at(-1)).toBe(keys[0])
    expect(app.logged.filter(({ message }) => message.includes('turned back'))).toHaveLength(1)
  })

  it('whose process died is claimed again, also when the clock is turned back by a day', async () => {
    const clock = new SetClock('2027-01-02T00:00:00Z')
    const { plugin, ticks } = clockwork('tick-j', { every: '1h' })
    const app = await jobApp({ plugins: [plugin], where, now: clock.now, leaseMs: 1_000 })
    await app.jobs.runner.open()
    // As a process left it that died: on SQLite the name of another process is enough to claim.
    await sql`update kernel_jobs set state = 'running', attempts = 1, owner = ${'dead'},
      lease_until = ${clock.now()} + 1000, due_at = ${clock.now()}, planned_at = ${clock.now()}
      where plugin = 'tick-j'`.execute(app.store.db)
    clock.set('2027-01-01T00:00:00Z')
    await app.jobs.runner.mend()
    clock.advance(1_001)
    await settled(app, 'tick-j')
    await expect.poll(() => ticks).toEqual(['2027-01-02T00:00:00.000Z'])
  })

  it('never overlaps itself, and an attempt that failed keeps its planned time', async () => {
    const clock = new SetClock('2027-01-01T00:00:00Z')
    let fails = 1
    const { plugin, ticks, keys } = clockwork('tick-h', { every: '1m' }, () => {
      if (fails-- > 0) throw new Error('not yet')
    })
    const app = await jobApp({ plugins: [plugin], where, now: clock.now })
    await app.jobs.runner.open()
    clock.set('2027-01-01T00:01:00Z')
    expect(await settled(app, 'tick-h')).toMatchObject({
      state: 'due',
      attempts: 1,
      error: 'not yet',
    })
    clock.set('2027-01-01T00:03:30Z')
    await settled(app, 'tick-h')
    // The second attempt is for the same time; what was missed while it waited is made up once.
    await expect
      .poll(() => ticks)
      .toEqual(['2027-01-01T00:01:00.000Z', '2027-01-01T00:01:00.000Z', '2027-01-01T00:03:00.000Z'])
    expect(keys[0]).toBe(keys[1])
    expect(keys[2]).not.toBe(keys[1])
    expect(await settled(app, 'tick-h')).toMatchObject({ attempts: 0, error: null })
    // The log tells whoever reads it of the failure alone, where a job comes every minute.
    const told = app.logged.flatMap(({ level, message }) => (message === 'job' ? [level] : []))
    expect(told).toEqual(['warn', 'debug', 'debug'])
  })

  it('loses no time while an attempt is at work for several intervals', async () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    let isFirst = true
    const { plugin, ticks } = clockwork('tick-k', { every: '1s' }, () => {
      const wait = isFirst ? promise : undefined
      isFirst = false
      return wait
    })
    const app = await jobApp({ plugins: [plugin], where })
    await app.jobs.runner.open()
    await expect.poll(() => ticks.length).toBe(1)
    const began = Date.parse(ticks[0] ?? '')
    await expect.poll(() => Date.now() - began, { timeout: 20_000 }).toBeGreaterThan(3_000)
    expect(ticks).toHaveLength(1)
    resolve()
    await expect.poll(() => ticks.length, { timeout: 20_000 }).toBeGreaterThan(3)
    const times = ticks.map((tick) => Date.parse(tick) - began)
    expect(times).toEqual(times.map((_, i) => i * 1_000))
  })

  it('loses no time while attempts fail and other jobs take all places', async () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    let fails = 2
    const { plugin, ticks } = clockwork('tick-l', { every: '1s' }, () => {
      if (fails-- > 0) throw new Error('not yet')
    })
    const blocking = definePlugin({
      name: 'tick-m',
      summary: 'Blocks.',
      jobs: { block: { run: () => promise } },
    })
    const app = await jobApp({ plugins: [plugin, blocking], where, concurrency: 1 })
    const blocked = async () =>
      (await app.rows()).find(({ name }) => name === 'block')?.state === 'running'
    await app.jobs.runner.open()
    // Two attempts of the first time fail, and the third comes three seconds later.
    await expect.poll(() => new Set(ticks).size, { timeout: 20_000 }).toBeGreaterThan(1)
    await app.jobs.of(blocking.definition).later('block')
    await expect.poll(blocked, { timeout: 20_000 }).toBe(true)
    const before = ticks.length
    const last = Date.parse(ticks.at(-1) ?? '')
    await expect.poll(() => Date.now() - last, { timeout: 20_000 }).toBeGreaterThan(4_000)
    expect(ticks).toHaveLength(before)
    resolve()
    await expect.poll(() => ticks.length - before, { timeout: 20_000 }).toBeGreaterThan(4)
    const [first = 0, ...times] = [...new Set(ticks)].map((tick) => Date.parse(tick))
    expect(times).toEqual(times.map((_, i) => first + (i + 1) * 1_000))
  })

  it('goes ten minutes of seconds back at most, where it waited for a free place for an hour', async () => {
    const clock = new SetClock('2027-01-01T00:00:00Z')
    const { plugin, ticks } = clockwork('tick-n', { every: '1s' })
    const app = await jobApp({ plugins: [plugin], where, now: clock.now })
    await app.jobs.runner.open()
    // As a row that servers have looked after for an hour without a free place.
    const hour = [[Date.parse('2027-01-01T00:00:00Z'), Date.parse('2027-01-01T01:00:00Z')]]
    await sql`update kernel_jobs set up = ${JSON.stringify(hour)}
      where plugin = 'tick-n'`.execute(app.store.db)
    clock.set('2027-01-01T01:00:00Z')
    await app.jobs.runner.look()
    await expect.poll(() => ticks.length, { timeout: 60_000 }).toBe(601)
    expect(ticks[0]).toBe('2027-01-01T00:50:00.000Z')
    expect(ticks.at(-1)).toBe('2027-01-01T01:00:00.000Z')
    expect(new Set(ticks).size).toBe(601)
  }, 90_000)

  it('of which all attempts failed waits for its next time, and says why', async () => {
    const clock = new SetClock('2027-01-01T00:00:00Z')
    const plugin = definePlugin({
      name: 'tick-i',
      summary: 'Fails.',
      jobs: { tick: { every: '1h', run: (_, { job }) => job.giveUp('the archive is closed') } },
    })
    const app = await jobApp({ plugins: [plugin], where, now: clock.now })
    await app.jobs.runner.open()
    clock.set('2027-01-01T01:00:00Z')
    expect(await settled(app, 'tick-i')).toMatchObject({
      state: 'due',
      attempts: 0,
      error: 'the archive is closed',
      due_at: Date.parse('2027-01-01T02:00:00Z'),
    })
  })
})

describe('the planned time after an attempt', () => {
  const plan: JobPlan = {
    text: 'every 1000',
    after: (now, phase) => phase + (Math.floor((now - phase) / 1_000) + 1) * 1_000,
    newest: (planned, now) => planned + Math.max(0, Math.floor((now - planned) / 1_000)) * 1_000,
  }
  const row = { planned_at: 0 }

  it.each<[what: string, tookMs: number, now: number]>([
    ['is in time', 10, 20],
    ['was at work for several intervals', 5_300, 5_300],
    ['was at work for an hour, and began in time', 3_600_000, 3_600_000],
    ['was slow, and began a minute late', 5_300, 65_300],
    ['was quick after others that failed for ten minutes', 10, 600_000],
    ['was quick, and is late because all places were taken', 10, 300_000],
  ])('is the next one where the attempt %s', (_, tookMs, now) => {
    expect(nextPlanned(plan, row, tookMs, now)).toBe(1_000)
  })

  it('is the newest one where the attempt was slow and had begun more than a minute late', () => {
    expect(nextPlanned(plan, row, 1_500, 62_500)).toBe(62_000)
  })

  it('is never more than a minute behind where each attempt is slower than the interval', () => {
    let planned_at = 0
    let latest = 0
    for (let now = 0, i = 0; i < 1_000; i++) {
      latest = Math.max(latest, now - planned_at)
      now = Math.max(now, planned_at) + 1_500
      planned_at = nextPlanned(plan, { planned_at }, 1_500, now)
    }
    expect(latest).toBeGreaterThan(60_000)
    expect(latest).toBeLessThan(62_000)
  })
})

describe('the newest planned time, and one before it', () => {
  it('is what counting on from the planned one finds, for each plan and any moment', async () => {
    const crons: [cron: string, timezone: string][] = [
      ['* * * * *', 'UTC'],
      ['*/20 * * * * *', 'Europe/Berlin'],
      ['30 2 * * *', 'Europe/Berlin'],
      ['15 1,2,3 * * *', 'America/New_York'],
      ['0 */6 * * 0', 'Australia/Lord_Howe'],
      ['0 0 L * *', 'Asia/Kolkata'],
    ]
    const jobs = Object.fromEntries(
      crons.map(([cron, timezone], i) => [`job_${i}`, { cron, timezone, run: () => undefined }]),
    )
    const plugin = definePlugin({ name: 'many', summary: 'Many.', jobs })
    const { records } = planBoot({ plugins: [plugin], features: {}, source: {}, kernelRoutes: [] })
    const { plans } = await readPlans(records)
    expect(plans.size).toBe(crons.length)
    for (const plan of plans.values())
      for (const around of ['2027-03-27T22:59:30Z', '2027-10-30T23:59:59Z', '2027-11-07T05:30:00Z'])
        for (let i = 0; i < 15; i++) {
          const now = Date.parse(around) + i * 1_061_311
          const planned = plan.after(now - 2 * hourMs, 0)
          if (planned === undefined || planned > now) continue
          const counted = [planned]
          for (let next = plan.after(planned, 0); next !== undefined && next <= now;) {
            counted.push(next)
            next = plan.after(next, 0)
          }
          for (const before of [0, 1, 3]) {
            const found = plan.newest(planned, now, before)
            const expected = counted.at(-1 - before) ?? planned
            expect(new Date(found).toISOString(), `${plan.text}, ${before} before`).toBe(
              new Date(expected).toISOString(),
            )
          }
        }
  })
})
