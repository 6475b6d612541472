import { spawnSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { type AnyPlugin, createApp, definePlugin } from '#core'
import { testApp } from '#core/testing'

const run = () => undefined

/** A plugin with one job, declared as a test says. */
const declaring = (job: object, name = 'tick'): AnyPlugin =>
  definePlugin({ name: 'clock', summary: 'Ticks.', jobs: { [name]: job as { run: typeof run } } })

/** What boot says of the job. */
async function faultsOf(plugin: AnyPlugin): Promise<{ code: string; message: string }[]> {
  const env = { DATA_DIR: ':memory:', LOG_LEVEL: 'silent' }
  const thrown = await createApp({ plugins: [plugin], env }).then(
    async (app) => (await app.close(), undefined),
    (error: unknown) => error as { details: { faults: { code: string; message: string }[] } },
  )
  return thrown?.details.faults ?? []
}

describe('a job that is declared wrongly stops the boot with JOB_INVALID', () => {
  const bad: [job: object, message: string][] = [
    [{ every: '0s', run }, 'has "every" of "0s".'],
    [{ every: '5 minutes', run }, 'has "every" of "5 minutes".'],
    [{ every: -1, run }, 'has "every" of -1.'],
    [{ every: 999, run }, 'has "every" of 999.'],
    [{ every: NaN, run }, 'has "every" of null.'],
    [{ every: '9999d', run }, 'has "every" of "9999d".'],
    [{ every: '1h', cron: '0 * * * *', run }, 'has both "every" and "cron".'],
    [{ cron: '* * * *', run }, 'has "cron" of "* * * *".'],
    [{ cron: '* * * * * * *', run }, 'has "cron" of "* * * * * * *".'],
    [{ cron: '', run }, 'has "cron" of "".'],
    [{ cron: '2027-01-01T00:00:00', run }, 'has "cron" of "2027-01-01T00:00:00".'],
    [{ cron: '99 * * * *', run }, 'CronPattern: Invalid value for minute: 99'],
    [{ cron: '@reboot', run }, '@reboot is not supported'],
    [{ cron: '0 0 30 2 *', run }, 'has "cron" of "0 0 30 2 *": this time never comes.'],
    [{ cron: '0 0 * * *', timezone: 'Mars/X', run }, 'has the "timezone" "Mars/X"'],
    [{ cron: '0 0 * * *', timezone: '+02:00', run }, 'has the "timezone" "+02:00"'],
    [{ every: '1h', timezone: 'UTC', run }, 'has a "timezone" and no "cron".'],
    [{ attempts: 0, run }, 'has "attempts" of 0.'],
    [{ timeoutMs: 3_600_001, run }, 'has a "timeoutMs" of 3600001.'],
    [{ input: 5, run }, 'has an "input" that is not a schema.'],
    [{ every: '1h', input: z.object({ n: z.number() }), run }, 'does not take the {}'],
    [{ evry: '1h', run }, 'has "evry", which is not a field of a job.'],
    [{ every: '1h' }, 'has no run function.'],
  ]
  it.each(bad)('%j', async (job, message) => {
    const faults = await faultsOf(declaring(job))
    expect(faults).toMatchObject([
      { code: 'JOB_INVALID', message: expect.stringContaining('Plugin clock: the job "tick" ') },
    ])
    expect(faults[0]?.message).toContain(message)
  })

  it('by its name, or as something other than jobs by name', async () => {
    expect(await faultsOf(declaring({ run }, 'two words'))).toMatchObject([
      { code: 'JOB_INVALID', message: expect.stringContaining('a name that cannot be kept') },
    ])
    const list = definePlugin({ name: 'clock', summary: 'Ticks.', jobs: 7 as unknown as {} })
    expect(await faultsOf(list)).toMatchObject([{ code: 'JOB_INVALID' }])
  })
})

it.each(['1s', '90m', '24h', '366d', 1_000])('an interval of %s is taken', async (every) => {
  expect(await faultsOf(declaring({ every, run }))).toEqual([])
})

it.each(['*/5 * * * *', '0 30 9 * * 1-5', '@daily', ' 0 0 L * * '])(
  'a cron text of "%s" is taken',
  async (cron) => {
    expect(await faultsOf(declaring({ cron, timezone: 'Europe/Berlin', run }))).toEqual([])
  },
)

it('the report says when each job runs, with the next three times', async () => {
  const plugin = definePlugin({
    name: 'clock',
    summary: 'Ticks.',
    jobs: {
      often: { every: '15m', run },
      daily: { cron: '0 9 * * *', timezone: 'Africa/Lusaka', run },
      asked: { run },
    },
  })
  await using app = await testApp({ plugins: [plugin] })
  const [often, daily, asked] = app.report.plugins[0]?.jobs ?? []
  expect(often).toMatchObject({ name: 'often', when: 'every 15m' })
  const [first = '', second = '', third = ''] = often?.next ?? []
  expect(Date.parse(second) - Date.parse(first)).toBe(900_000)
  expect(Date.parse(third) - Date.parse(second)).toBe(900_000)
  expect(daily?.when).toBe('cron 0 9 * * * (Africa/Lusaka)')
  expect(daily?.next).toHaveLength(3)
  for (const time of daily?.next ?? []) expect(time).toMatch(/T07:00:00\.000Z$/)
  expect(asked).toEqual({ name: 'asked', when: 'later', next: [] })
})

it('what runs jobs is imported when a plugin has one, and the parser of cron texts when a plan has one', () => {
  const boot = (jobs: string) =>
    spawnSync(
      process.execPath,
      [
        '--disable-warning=ExperimentalWarning',
        '--conditions=oracle-runtime-source',
        '--input-type=module-typescript',
        '--eval',
        `import { registerHooks } from 'node:module'
        registerHooks({ load(url, context, next) {
          if (url.endsWith('/jobs/runner.ts')) console.log('runner')
          if (url.includes('/croner/')) console.log('croner')
          return next(url, context)
        } })
        const { createApp, definePlugin } = await import('#core')
        const ran = Promise.withResolvers()
        const plugin = definePlugin({ name: 'clock', summary: 'Ticks.', ${jobs} })
        const app = await createApp({ plugins: [plugin], env: { DATA_DIR: ':memory:', LOG_LEVEL: 'silent' } })
        const { url } = await app.listen({ port: 0 })
        if (plugin.definition.jobs === undefined) await fetch(url + '/health')
        else await ran.promise
        await app.close()`,
      ],
      { encoding: 'utf8' },
    )
  expect(boot('')).toMatchObject({ status: 0, stdout: '' })
  const setup = `setup: ({ jobs }) => jobs.later('now'),`
  const now = `now: { run: ran.resolve }`
  const every = boot(`${setup} jobs: { ${now}, tick: { every: '1h', run: () => 1 } }`)
  expect(every).toMatchObject({ status: 0, stdout: 'runner\n' })
  const cron = boot(`${setup} jobs: { ${now}, tick: { cron: '@daily', run: () => 1 } }`)
  expect(cron.stdout.split('\n').sort()).toEqual(['', 'croner', 'runner'])
})
