import { createApp, definePlugin, RuntimeError, type AnyPlugin } from '#core'
import { resultOf, scriptedModel, testApp } from '#core/testing'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import ussd from '../../plugins/ussd/index.ts'

const plain = (name: string, more: object = {}): AnyPlugin =>
  definePlugin({ name, summary: `${name}.`, ...more })
const needy = plain('needy', { env: { NEEDY_KEY: z.string() } })

/** What the boot of these plugins says when it stops. */
async function stopOf(plugins: readonly AnyPlugin[], features = {}): Promise<string> {
  const error = await createApp({
    plugins,
    features,
    env: { DATA_DIR: ':memory:' },
    log: () => undefined,
  }).then(
    (app) => app.close(),
    (error: unknown) => error,
  )
  expect(error).toBeInstanceOf(RuntimeError)
  return (error as RuntimeError).message
}

describe('a plugin that lacks a variable', () => {
  it('and is forced on is told of in two sentences', async () => {
    expect(await stopOf([needy], { needy: true })).toContain(
      'Plugin needy env validation failed for NEEDY_KEY. Set NEEDY_KEY, or turn the plugin off with FEATURES=needy=off. (ENV_MISSING)',
    )
  })

  it('is excluded with a warning, and /health says why without being degraded by it', async () => {
    const plugins = [needy, plain('other')]
    await using app = await testApp({ plugins, env: { NODE_ENV: 'production', ...production } })
    const levels = app.log.flatMap((line) => {
      const { level, msg } = JSON.parse(line) as { level: number; msg: string }
      return /^(needy|other) /.test(msg) ? [[msg.split(' ', 2).join(' '), level]] : []
    })
    expect(levels).toEqual([
      ['needy excluded:', 40],
      ['other available', 30],
    ])
    const { body } = await app.get('/health')
    expect(body).toMatchObject({
      status: 'ok',
      plugins: { needy: 'excluded' },
      notes: [
        { plugin: 'needy', state: 'excluded', check: expect.stringContaining('Set NEEDY_KEY') },
      ],
    })
  })
})

it('production without a key for PINs says that USSD is off and why, in the log and in /health', async () => {
  await using app = await testApp({
    plugins: [ussd],
    env: { NODE_ENV: 'production', ...production },
  })
  const sentence =
    'Plugin ussd env validation failed for PIN_ENCRYPTION_KEY. Set PIN_ENCRYPTION_KEY, or turn the plugin off with FEATURES=ussd=off.'
  expect(app.log.join('')).toContain(`ussd excluded: ${sentence}`)
  expect((await app.get('/health')).body.notes).toMatchObject([
    { plugin: 'ussd', state: 'excluded', check: sentence },
  ])
})

const production = { ORACLE_MNEMONIC: 'words of a test', OPERATOR_TOKEN: 'o', API_KEY: 'k' }

describe('what a plugin is by default, and what it depends on', () => {
  const base = plain('base')
  const optional = plain('optional', { defaultState: 'off', requires: [base] })
  const workbench = plain('workbench', { defaultState: 'development', uses: [base, plain('away')] })
  const plugins = [base, optional, workbench]

  it('stands in the report, in GET /capabilities and in list_capabilities', async () => {
    const model = scriptedModel([{ calls: [{ call: 'list_capabilities' }] }, 'There are three.'])
    await using app = await testApp({ plugins, features: { optional: true }, model })
    // A plugin that is used is listed whether the app has it or not.
    const uses = ['base', 'away']
    const expected = [
      { name: 'base', defaultState: 'on', requires: [] },
      { name: 'optional', defaultState: 'off', requires: ['base'] },
      { name: 'workbench', defaultState: 'development', requires: [] },
    ]
    const used = [{ uses: [] }, { uses: [] }, { uses }]
    expect(app.report.plugins).toMatchObject(expected)
    expect(app.report.plugins).toMatchObject(used)
    const user = await app.user()
    const { plugins: listed } = (await user.get('/capabilities')).body
    expect(listed).toMatchObject(expected)
    expect(listed).toMatchObject(used)
    await user.say('What is there?')
    const told = resultOf(model.requests[1]!, 'list_capabilities')
    expect(told).toMatchObject({ plugins: expected })
  })
})

describe('an entry of requires that is no plugin', () => {
  it('is named as it was written, with how to write it', async () => {
    for (const [requires, written] of [
      [[null], 'null'],
      [[{ name: 'x' }], '{"name":"x"}'],
    ] as const) {
      const told = await stopOf([plain('lone', { requires })])
      expect(told).toContain(
        `Plugin lone: "requires" has ${written}, which is not a plugin. List what definePlugin ` +
          'returned: import the other plugin and write requires: [other]. (MANIFEST_INVALID)',
      )
      expect(told).toContain('found a fault')
    }
  })

  it.each(['requires', 'uses'])('that is a string is told so (%s)', async (key) => {
    for (const listed of [['weather'], 'weather']) {
      const told = await stopOf([plain('lone', { [key]: listed })])
      expect(told).toContain(
        `Plugin lone: "${key}" has "weather", which is not a plugin. "weather" is a string: ` +
          `import the plugin, and write ${key}: [other] with what definePlugin returned. (MANIFEST_INVALID)`,
      )
    }
  })
})
