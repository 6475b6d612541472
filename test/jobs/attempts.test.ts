import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { describe, expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { definePlugin, RuntimeError } from '#core'
import type { JobContext } from '../../core/plugin.ts'
import { backoffMs, verdictOn } from '../../core/runtime/jobs/attempt.ts'
import { flakyWire } from '../support/database.ts'
import { onEachDatabase, onPostgres } from '../support/each-database.ts'
import { type JobApp, jobApp, type JobAppOptions } from '../support/job-app.ts'

interface Seen {
  readonly attempt: number
  readonly key: string
}

/** A plugin with one job, which does what the test says. */
function worker(
  name: string,
  run: (ctx: JobContext) => unknown,
  limits: { attempts?: number; timeoutMs?: number } = {},
) {
  const seen: Seen[] = []
  const due = new Set<number>()
  const plugin = definePlugin({
    name,
    summary: 'Works.',
    jobs: {
      work: {
        ...limits,
        run(_, ctx) {
          seen.push({ attempt: ctx.job.attempt, key: ctx.job.key })
          due.add(ctx.job.dueAt.getTime())
          return run(ctx as JobContext)
        },
      },
    },
  })
  return { plugin, seen, due }
}

/** The only job of a plugin. */
const rowOf = async ({ rows }: JobApp, plugin: string) =>
  (await rows()).find((row) => row.plugin === plugin)

const linesOf = ({ logged }: JobApp) =>
  logged.flatMap(({ message, fields }) => (message === 'job' ? [fields] : []))

await onEachDatabase('an attempt', (where) => {
  const started = async (made: ReturnType<typeof worker>, options: Partial<JobAppOptions> = {}) => {
    const app = await jobApp({ plugins: [made.plugin], where, ...options })
    await app.jobs.of(made.plugin.definition).later('work', undefined, { key: 'the-key' })
    await app.jobs.runner.open()
    return app
  }

  it('that throws is followed by another with the same key, until the last one is dead', async () => {
    const made = worker(
      'work-a',
      ({ job }) => {
        if (job.attempt < 3) job.retryIn(1)
        throw new Error('still down')
      },
      { attempts: 3 },
    )
    const app = await started(made)
    await expect
      .poll(() => rowOf(app, 'work-a'))
      .toMatchObject({ state: 'dead', attempts: 3, error: 'still down', owner: null })
    expect(made.seen).toEqual([1, 2, 3].map((attempt) => ({ attempt, key: 'the-key' })))
    expect(made.due.size).toBe(1)
    await expect.poll(() => linesOf(app)).toHaveLength(3)
    expect(linesOf(app)).toMatchObject([
      { plugin: 'work-a', name: 'work', attempt: 1, outcome: 'retry', ms: expect.any(Number) },
      { attempt: 2, outcome: 'retry', lateMs: expect.any(Number) },
      { attempt: 3, outcome: 'dead' },
    ])
  })

  it.each<[what: string, thrown: unknown, error: string]>([
    ['nothing', undefined, 'undefined'],
    ['an object without a prototype', Object.create(null), 'What was thrown cannot be read.'],
    [
      'an error that cannot be read',
      Object.create(Error.prototype, { message: { get: () => JSON.parse('{') } }),
      'What was thrown cannot be read.',
    ],
    ['an error whose message is no text', Object.assign(new Error(), { message: 5 }), '5'],
    ['what no database keeps', new Error('a\0b'), 'ab'],
  ])('that throws %s is over all the same', async (what, thrown, error) => {
    const plugin = `work-odd-${what.replaceAll(' ', '-')}`.slice(0, 40).replace(/-$/, '')
    const made = worker(plugin, () => Promise.reject(thrown), { attempts: 1 })
    const app = await started(made)
    await expect.poll(() => rowOf(app, plugin)).toMatchObject({ state: 'dead', error, owner: null })
  })

  it('that throws waits a second or so by itself', async () => {
    const made = worker('work-b', ({ job }) => {
      if (job.attempt === 1) throw new Error('down')
    })
    const app = await started(made)
    await expect.poll(async () => (await rowOf(app, 'work-b'))?.error).toBe('down')
    expect(await rowOf(app, 'work-b')).toMatchObject({ state: 'due', attempts: 1 })
    await expect.poll(() => rowOf(app, 'work-b')).toMatchObject({ state: 'done', error: null })
  })

  it('that gives up, or is refused as a caller’s fault, is the last', async () => {
    const given = worker('work-c', ({ job }) => job.giveUp('the receiver is gone'))
    const refused = worker('work-d', () => {
      throw new RuntimeError('GONE', 'There is nothing any more.')
    })
    const app = await started(given)
    await expect
      .poll(() => rowOf(app, 'work-c'))
      .toMatchObject({ state: 'dead', attempts: 1, error: 'the receiver is gone' })
    const other = await started(refused)
    await expect
      .poll(() => rowOf(other, 'work-d'))
      .toMatchObject({ state: 'dead', error: 'There is nothing any more. (GONE)' })
  })

  it('that takes too long hears its signal, and is tried again', async () => {
    const made = worker(
      'work-e',
      async ({ job, signal }) => {
        if (job.attempt > 1) return
        await sleep(30_000, undefined, { signal })
      },
      { timeoutMs: 50 },
    )
    const app = await started(made)
    await expect.poll(() => rowOf(app, 'work-e')).toMatchObject({ state: 'done', attempts: 2 })
    const [first] = linesOf(app)
    expect(first?.err).toMatchObject({ message: 'The attempt took longer than 50 ms.' })
  })

  it('that minds no signal is not waited for', async () => {
    const made = worker('work-f', () => new Promise(() => undefined), {
      timeoutMs: 50,
      attempts: 1,
    })
    const app = await started(made)
    await expect.poll(() => rowOf(app, 'work-f')).toMatchObject({ state: 'dead' })
  })

  it('that the end of the server stops is given back, and does not count', async () => {
    const made = worker('work-g', ({ signal }) => sleep(30_000, undefined, { signal }))
    const app = await started(made)
    await expect.poll(() => made.seen).toHaveLength(1)
    // The database outlives the server here.
    await app.jobs.runner.close()
    expect(await rowOf(app, 'work-g')).toMatchObject({ state: 'due', attempts: 0, owner: null })
    expect(linesOf(app)).toMatchObject([{ outcome: 'given-back' }])
    const next = worker('work-g', () => undefined)
    const other = await jobApp({ plugins: [next.plugin], store: app.store })
    await other.jobs.runner.open()
    await expect.poll(() => next.seen).toEqual([{ attempt: 1, key: 'the-key' }])
  })

  it('that minds no signal when the server ends is given back after the time of grace', async () => {
    const made = worker('work-h', () => new Promise(() => undefined))
    const app = await started(made)
    await expect.poll(() => made.seen).toHaveLength(1)
    await app.jobs.runner.close(50)
    expect(await rowOf(app, 'work-h')).toMatchObject({ state: 'due', attempts: 0 })
  })

  it('that is done while the server ends counts', async () => {
    const made = worker('work-i', async ({ signal }) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
    })
    const app = await started(made)
    await expect.poll(() => made.seen).toHaveLength(1)
    await app.jobs.runner.close()
    expect(await rowOf(app, 'work-i')).toMatchObject({ state: 'done', attempts: 1 })
  })

  it('whose job another process took hears so, and its end changes nothing', async () => {
    const ended = Promise.withResolvers<unknown>()
    const made = worker('work-j', async ({ job }) => {
      await new Promise((resolve) => job.signal.addEventListener('abort', resolve))
      ended.resolve(job.signal.reason)
    })
    const app = await started(made, { leaseMs: 300 })
    await expect.poll(() => made.seen).toHaveLength(1)
    await sql`update kernel_jobs set owner = 'another', attempts = 2 where plugin = 'work-j'`.execute(
      app.store.db,
    )
    expect(await ended.promise).toMatchObject({ message: 'Another process has the job.' })
    await expect.poll(() => linesOf(app)).toMatchObject([{ outcome: 'lost' }])
    expect((await rowOf(app, 'work-j'))?.owner).not.toBe(null)
  })

  it('is not made when all attempts began and none ended', async () => {
    const made = worker('work-k', () => undefined, { attempts: 2 })
    const app = await jobApp({ plugins: [made.plugin], where })
    await app.jobs.of(made.plugin.definition).later('work')
    await sql`update kernel_jobs set state = 'running', owner = 'dead', attempts = 2, lease_until = 1
      where plugin = 'work-k'`.execute(app.store.db)
    await app.jobs.runner.open()
    await expect.poll(() => rowOf(app, 'work-k')).toMatchObject({ state: 'dead', attempts: 3 })
    expect((await rowOf(app, 'work-k'))?.error).toContain('2 attempts began and none ended')
    expect(made.seen).toEqual([])
  })

  it('of data that no longer fits is dead with the path', async () => {
    const of = (input: z.ZodType) =>
      definePlugin({
        name: 'work-l',
        summary: 'Changes its mind.',
        jobs: { work: { input, run: () => undefined } },
      })
    const older = of(z.object({ to: z.string() }))
    const app = await jobApp({ plugins: [older], where })
    await app.jobs.of(older.definition).later('work', { to: 'amina' })
    const newer = await jobApp({
      plugins: [of(z.object({ to: z.object({ did: z.string() }) }))],
      store: app.store,
    })
    await newer.jobs.runner.open()
    await expect
      .poll(() => rowOf(newer, 'work-l'))
      .toMatchObject({ state: 'dead', error: expect.stringContaining('does not fit: to: ') })
  })

  it('begins for no plugin that is pending or failed, until the plugin is there', async () => {
    const made = worker('work-m', () => undefined)
    const app = await jobApp({ plugins: [made.plugin], where })
    const [record] = app.records
    await app.jobs.of(made.plugin.definition).later('work')
    for (const isFailed of [false, true]) {
      record!.gate = { isFailed, why: 'It waits for its data.' }
      await app.jobs.runner.open()
      await app.jobs.runner.look()
      expect(await rowOf(app, 'work-m')).toMatchObject({ state: 'due', attempts: 0 })
    }
    record!.gate = undefined
    await app.jobs.runner.look()
    await expect.poll(() => rowOf(app, 'work-m')).toMatchObject({ state: 'done' })
  })

  it('runs beside so many others as the process may run', async () => {
    let at = 0
    let most = 0
    const made = worker('work-n', async () => {
      most = Math.max(most, ++at)
      await sleep(5)
      at--
    })
    const app = await jobApp({ plugins: [made.plugin], where, concurrency: 3 })
    const { later } = app.jobs.of(made.plugin.definition)
    for (let i = 0; i < 40; i++) await later('work')
    await app.jobs.runner.open()
    const done = async () => (await app.rows()).filter((row) => row.plugin === 'work-n')
    await expect.poll(async () => (await done()).every(({ state }) => state === 'done')).toBe(true)
    expect(most).toBe(3)
    expect(made.seen).toHaveLength(40)
  })

  it('leaves an audit line when it tells of ids', async () => {
    const made = worker('work-o', ({ audit }) => audit({ invoice: 'i-1' }))
    const app = await started(made)
    await expect
      .poll(() => app.logged.filter(({ fields }) => fields.audit === true))
      .toMatchObject([{ fields: { who: 'job:work-o.work', what: { invoice: 'i-1' } } }])
  })
})

await onPostgres('an attempt on a server that is cut off from the database', (where) => {
  it('hears so when its lease has run out, and another server makes the next', async () => {
    const wire = await flakyWire(where.databaseUrl!)
    onTestFinished(() => wire.close())
    const heard = Promise.withResolvers<unknown>()
    const made = worker('cut-a', async ({ job }) => {
      await new Promise((resolve) => job.signal.addEventListener('abort', resolve))
      heard.resolve(job.signal.reason)
    })
    const cut = await jobApp({
      plugins: [made.plugin],
      where: { databaseUrl: wire.url },
      leaseMs: 500,
    })
    await cut.jobs.of(made.plugin.definition).later('work', undefined, { key: 'k' })
    await cut.jobs.runner.open()
    await expect.poll(() => made.seen).toHaveLength(1)
    wire.silence()
    expect(await heard.promise).toMatchObject({ message: 'Another process has the job.' })
    const next = worker('cut-a', () => undefined)
    const other = await jobApp({ plugins: [next.plugin], where })
    await other.jobs.runner.open()
    await expect.poll(() => next.seen).toEqual([{ attempt: 2, key: 'k' }])
    wire.restore()
  })
})

describe('the wait after an attempt', () => {
  it('doubles from a second to an hour, a fifth more or less', () => {
    const middle = (attempt: number) => backoffMs(attempt, () => 0.5)
    expect([1, 2, 3, 4].map(middle)).toEqual([1_000, 2_000, 4_000, 8_000])
    expect(middle(13)).toBe(3_600_000)
    expect(middle(1_000)).toBe(3_600_000)
    expect(backoffMs(1, () => 0)).toBe(800)
    expect(backoffMs(1, () => 1)).toBe(1_200)
  })

  it('is as long as the upstream asks, and a day at most', () => {
    const after = (retryAfter: string, code = 'RATE_LIMITED') =>
      verdictOn(new RuntimeError(code, 'Slowly.', { headers: { 'retry-after': retryAfter } }), 1, 8)
    expect(after('120')).toMatchObject({ outcome: 'retry', waitMs: 120_000 })
    expect(after('9999999')).toMatchObject({ waitMs: 86_400_000 })
    const date = new Date(Date.now() + 600_000).toUTCString()
    const { waitMs } = after(date) as { waitMs: number }
    expect(waitMs).toBeGreaterThan(590_000)
    expect(after('soon')).toMatchObject({ waitMs: expect.any(Number) })
    expect(after('120', 'FORBIDDEN')).toMatchObject({ outcome: 'dead' })
  })

  it('is not made for a caller’s fault, but for those that pass', () => {
    const of = (status: number) =>
      verdictOn(new RuntimeError('OURS', 'No.', { status }), 1, 8).outcome
    expect([400, 401, 404, 410, 422].map(of)).toEqual(Array(5).fill('dead'))
    expect([408, 409, 425, 429, 500, 503].map(of)).toEqual(Array(6).fill('retry'))
  })
})
