import { sql } from 'kysely'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { retentionMs } from '../../core/runtime/jobs/bounds.ts'
import { onEachDatabase } from '../support/each-database.ts'
import { jobApp, SetClock } from '../support/job-app.ts'

const did = 'did:key:zAmina'

/** A plugin whose job says what it was given. A key of the plugin's own keeps the suites of one database apart. */
function speaker(name: string, run: (words: string) => unknown = () => undefined) {
  const heard: { words: string; many: number; key: string; attempt: number; user?: string }[] = []
  const plugin = definePlugin({
    name,
    summary: 'Speaks later.',
    jobs: {
      speak: {
        input: z.object({ words: z.string(), many: z.number().default(1) }),
        async run({ words, many }, { job }) {
          heard.push({ words, many, key: job.key, attempt: job.attempt, user: job.user })
          await run(words)
        },
      },
      sweep: { run: () => void heard.push({ words: 'swept', many: 0, key: '', attempt: 0 }) },
      tick: { every: '1h', run: () => undefined },
    },
  })
  return { plugin, heard }
}

await onEachDatabase('later', (where) => {
  it('keeps a job, which runs with parsed data, its key, its attempt and its user', async () => {
    const { plugin, heard } = speaker('later-a')
    const { jobs, rows, records } = await jobApp({ plugins: [plugin], where })
    await jobs.runner.open()
    const asking = jobs.of(plugin.definition)
    const { id, isNew } = await asking.later('speak', { words: 'hello' }, { user: did })
    expect(isNew).toBe(true)
    await expect
      .poll(() => heard)
      .toEqual([{ words: 'hello', many: 1, key: id, attempt: 1, user: did }])
    await expect.poll(async () => (await rows()).find((row) => row.id === id)?.state).toBe('done')
    await asking.later('sweep')
    await expect.poll(() => heard.map(({ words }) => words)).toEqual(['hello', 'swept'])
    expect(records[0]?.base?.jobs).toBeDefined()
  })

  it('finds the first job by its key, also when that has ended, until seven days after', async () => {
    const clock = new SetClock('2027-01-01T00:00:00Z')
    const { plugin, heard } = speaker('later-b')
    const { jobs, rows } = await jobApp({ plugins: [plugin], where, now: clock.now })
    const { later } = jobs.of(plugin.definition)
    const first = await later('speak', { words: 'one' }, { key: 'k' })
    expect(await later('speak', { words: 'two' }, { key: 'k' })).toEqual({ ...first, isNew: false })
    expect((await later('speak', { words: 'other' }, { key: 'k2' })).isNew).toBe(true)
    await jobs.runner.open()
    await expect.poll(() => heard.map(({ words }) => words).sort()).toEqual(['one', 'other'])
    const ended = async () => (await rows()).filter(({ state }) => state === 'done').length
    await expect.poll(ended).toBe(2)
    clock.advance(retentionMs.done - 1)
    expect((await later('speak', { words: 'three' }, { key: 'k' })).isNew).toBe(false)
    clock.advance(2)
    const next = await later('speak', { words: 'four' }, { key: 'k' })
    expect(next).toEqual({ id: expect.not.stringMatching(first.id), isNew: true })
    await expect.poll(() => heard.some(({ words }) => words === 'four')).toBe(true)
  })

  it('asked for by twenty at once with one key, makes one job', async () => {
    const { plugin } = speaker('later-c')
    const { jobs } = await jobApp({ plugins: [plugin], where })
    const { later } = jobs.of(plugin.definition)
    const asked = await Promise.all(
      Array.from({ length: 20 }, (_, i) => later('speak', { words: `${i}` }, { key: 'once' })),
    )
    expect(asked.filter(({ isNew }) => isNew)).toHaveLength(1)
    expect(new Set(asked.map(({ id }) => id)).size).toBe(1)
  })

  it('runs nothing before its time', async () => {
    const clock = new SetClock('2027-01-01T00:00:00Z')
    const { plugin, heard } = speaker('later-d')
    const { jobs, rows } = await jobApp({ plugins: [plugin], where, now: clock.now })
    const { later } = jobs.of(plugin.definition)
    const open = async () =>
      (await rows()).filter(
        (row) => row.plugin === 'later-d' && row.name === 'speak' && row.ended_at === null,
      ).length
    await later('speak', { words: 'in an hour' }, { inMs: 3_600_000 })
    await later('speak', { words: 'at two' }, { at: new Date('2027-01-01T02:00:00Z') })
    await later('speak', { words: 'long ago' }, { at: new Date(0) })
    await jobs.runner.open()
    await expect.poll(() => heard.map(({ words }) => words)).toEqual(['long ago'])
    await expect.poll(open).toBe(2)
    clock.advance(3_600_000)
    await jobs.runner.look()
    await expect.poll(() => heard.map(({ words }) => words)).toEqual(['long ago', 'in an hour'])
    await expect.poll(open).toBe(1)
    clock.advance(3_600_000)
    await jobs.runner.look()
    await expect.poll(() => heard).toHaveLength(3)
  })

  it('wakes by itself when the next job is due', async () => {
    const { plugin, heard } = speaker('later-e')
    const { jobs } = await jobApp({ plugins: [plugin], where })
    await jobs.runner.open()
    await jobs.of(plugin.definition).later('speak', { words: 'soon' }, { inMs: 300 })
    await expect.poll(() => heard, { timeout: 4_000 }).toHaveLength(1)
  })

  it('inside a transaction is there with the commit, and not after a rollback', async () => {
    const { plugin, heard } = speaker('later-f')
    const { jobs, store } = await jobApp({ plugins: [plugin], where })
    await jobs.runner.open()
    const asking = jobs.of(plugin.definition)
    await store.db
      .transaction()
      .execute((trx) => asking.within(trx).later('speak', { words: 'kept' }))
    await store.db
      .transaction()
      .execute(async (trx) => {
        await asking.within(trx).later('speak', { words: 'taken back' })
        throw new Error('no')
      })
      .catch(() => undefined)
    await asking.later('speak', { words: 'last' })
    await expect.poll(() => heard.map(({ words }) => words).sort()).toEqual(['kept', 'last'])
  })

  it('cancels what has not begun, says false of what runs, and makes the key free again', async () => {
    const gate = Promise.withResolvers<void>()
    const { plugin, heard } = speaker('later-g', (words) =>
      words === 'runs' ? gate.promise : undefined,
    )
    const { jobs } = await jobApp({ plugins: [plugin], where })
    const { later, cancel } = jobs.of(plugin.definition)
    await later('speak', { words: 'waits' }, { key: 'w', inMs: 60_000 })
    expect(await cancel('speak', 'w')).toBe(true)
    expect(await cancel('speak', 'w')).toBe(false)
    expect((await later('speak', { words: 'again' }, { key: 'w', inMs: 60_000 })).isNew).toBe(true)
    await later('speak', { words: 'runs' }, { key: 'r' })
    await jobs.runner.open()
    await expect.poll(() => heard.map(({ words }) => words)).toEqual(['runs'])
    expect(await cancel('speak', 'r')).toBe(false)
    gate.resolve()
  })

  it('refuses what it cannot keep, and says what is wrong', async () => {
    const { plugin } = speaker('later-h')
    const { jobs, rows } = await jobApp({ plugins: [plugin], where })
    const { later, cancel } = jobs.of(plugin.definition)
    const year = 365 * 86_400_000
    const words = { words: 'w' }
    const bad: [() => Promise<unknown>, RegExp][] = [
      [() => later('speek', words), /Plugin later-h has no job "speek"/],
      [() => later('constructor', words), /has no job "constructor"/],
      [() => later('speak', { words: 7 }), /does not fit: words: /],
      [() => later('speak'), /is undefined, and has to be JSON/],
      [() => later('speak', { words: 1n }), /is not JSON/],
      [() => later('speak', { words: 'x'.repeat(65 * 1024) }), /66,572 bytes of JSON, and 65,536/],
      [() => later('sweep', { n: 1 }), /later-h\.sweep takes no data/],
      [() => later('tick'), /later-h\.tick has a schedule/],
      [() => later('speak', words, { at: new Date('no date') }), /"at" of .* is not a date/],
      [() => later('speak', words, { at: '2027-01-01' as never }), /is not a date/],
      [() => later('speak', words, { at: new Date(Date.now() + 1_000 * year) }), /ten years ahead/],
      [() => later('speak', words, { inMs: -1 }), /"inMs" of .* is -1/],
      [() => later('speak', words, { inMs: NaN }), /is NaN/],
      [() => later('speak', words, { inMs: 5, at: new Date() }), /both "at" and "inMs"/],
      [() => later('speak', words, { key: 'k'.repeat(10_000) }), /10,000 characters, and 200/],
      [() => later('speak', words, { key: '' }), /is not a text of one character/],
      [() => later('speak', words, { key: 'a\0b' }), /control character/],
      [() => later('speak', words, { user: 'amina' }), /is not a DID/],
      [() => later('sweep', undefined, null as never), /The options of later-h\.sweep are null/],
      [() => later('sweep', undefined, 5 as never), /The options of later-h\.sweep are 5/],
      // What is meant for tomorrow does not run at once.
      [() => later('sweep', undefined, { inMS: 5 } as never), /have "inMS"/],
      [() => cancel('speek', 'k'), /has no job "speek"/],
      [() => cancel('speak', undefined as never), /No key of later-h\.speak/],
      [() => cancel('speak', 'k'.repeat(10_000)), /10,000 characters/],
    ]
    for (const [ask, message] of bad)
      await expect(ask()).rejects.toMatchObject({
        code: 'INPUT_INVALID',
        status: 400,
        message: expect.stringMatching(message),
      })
    for (const trx of [undefined, {}])
      expect(() => jobs.of(plugin.definition).within(trx as never)).toThrow(/no transaction/)
    expect((await rows()).filter((row) => row.plugin === 'later-h')).toEqual([])
    const at = new Date(Date.now() + year)
    expect((await later('speak', words, { at })).isNew).toBe(true)
  })

  it('is full at so many open jobs of a user and of a plugin', async () => {
    const { plugin } = speaker('later-i')
    const limits = { perUser: 2, perPlugin: 3 }
    const { jobs } = await jobApp({ plugins: [plugin], where, limits })
    const { later, cancel } = jobs.of(plugin.definition)
    const ask = (key: string, user?: string) =>
      later('speak', { words: 'w' }, { key, user, inMs: 60_000 })
    await ask('1', did)
    await ask('2', did)
    await expect(ask('3', did)).rejects.toMatchObject({
      code: 'JOBS_FULL',
      status: 429,
      details: { limit: 2, of: 'user' },
    })
    await ask('3')
    await expect(ask('4')).rejects.toMatchObject({ details: { limit: 3, of: 'plugin' } })
    expect(await ask('2', did)).toMatchObject({ isNew: false })
    await cancel('speak', '1')
    expect(await ask('4', did)).toMatchObject({ isNew: true })
  })

  it('leaves: done jobs after seven days, dead ones and those of no plugin after thirty', async () => {
    const clock = new SetClock('2027-01-01T00:00:00Z')
    const { plugin } = speaker('later-j', (words) => {
      if (words === 'dies') throw Object.assign(new Error('no'), { name: 'x' })
    })
    const gone = definePlugin({
      name: 'later-gone',
      summary: 'Was here.',
      jobs: { wait: { run: () => undefined } },
    })
    const first = await jobApp({ plugins: [plugin, gone], where, now: clock.now })
    await first.jobs.of(gone.definition).later('wait', undefined, { inMs: 1_000 })
    const { jobs, store, rows } = await jobApp({
      plugins: [plugin],
      store: first.store,
      now: clock.now,
    })
    const { later } = jobs.of(plugin.definition)
    await later('speak', { words: 'done' })
    const { id } = await later('speak', { words: 'dead' })
    await sql`update kernel_jobs set state = 'dead', ended_at = ${clock.now()} where id = ${id}`.execute(
      store.db,
    )
    await jobs.runner.open()
    const left = async () =>
      (await rows())
        .filter((row) => ['later-j', 'later-gone'].includes(row.plugin) && row.name !== 'tick')
        .map(({ plugin, state }) => `${plugin} ${state}`)
        .sort()
    await expect.poll(left).toEqual(['later-gone due', 'later-j dead', 'later-j done'])
    const { jobs: listed } = await jobs.list({ limit: 50, offset: 0, plugin: 'later-gone' })
    expect(listed).toMatchObject([{ orphaned: true, state: 'due' }])
    clock.advance(retentionMs.done + 1)
    await jobs.runner.sweep()
    expect(await left()).toEqual(['later-gone due', 'later-j dead'])
    clock.advance(retentionMs.dead)
    await jobs.runner.sweep()
    expect(await left()).toEqual([])
  })
})

describe('a plugin of which nothing is known', () => {
  it('has jobs that it can ask for only when it declares them', async () => {
    const plain = definePlugin({ name: 'plain', summary: 'Has none.' })
    const { jobs } = await jobApp({ plugins: [plain] })
    await expect(jobs.of(plain.definition).later('any')).rejects.toMatchObject({
      code: 'INPUT_INVALID',
      hint: 'Declare it in the section "jobs".',
    })
    expect(await jobs.health()).toBeUndefined()
  })
})
