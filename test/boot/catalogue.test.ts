import { createApp, definePlugin, RuntimeError, type AnyPlugin } from '#core'
import { testApp } from '#core/testing'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { capabilityTools } from '../../core/runtime/agent/turn/capabilities.ts'
import { boot } from '../../core/runtime/app.ts'
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
  const workbench = plain('workbench', { defaultState: 'development' })
  const plugins = [base, optional, workbench]

  it('stands in the report, in GET /capabilities and in list_capabilities', async () => {
    await using app = await testApp({ plugins, features: { optional: true } })
    const expected = [
      { name: 'base', defaultState: 'on', requires: [] },
      { name: 'optional', defaultState: 'off', requires: ['base'] },
      { name: 'workbench', defaultState: 'development', requires: [] },
    ]
    expect(app.report.plugins).toMatchObject(expected)
    const user = await app.user()
    expect((await user.get('/capabilities')).body.plugins).toMatchObject(expected)

    const running = await boot({
      plugins,
      features: { optional: true },
      env: { DATA_DIR: ':memory:', EVENT_LOOP_LIMIT_MS: '0' },
      log: () => undefined,
    })
    const { list_capabilities: list } = capabilityTools(running.records)
    const turn = { loaded: new Set<string>() } as unknown as Parameters<typeof list.run>[1]
    expect(list.run({}, turn).plugins).toMatchObject(expected)
    await running.close()
  })
})

describe('an entry of requires that is no plugin', () => {
  it('is named as it was written, with how to write it', async () => {
    for (const [requires, written] of [
      [['x'], '"x"'],
      [[null], 'null'],
      [[{ name: 'x' }], '{"name":"x"}'],
      ['x', '"x"'],
    ] as const) {
      const told = await stopOf([plain('lone', { requires })])
      expect(told).toContain(
        `Plugin lone: "requires" has ${written}, which is not a plugin. List what definePlugin returned: import the other plugin and write requires: [other]. (MANIFEST_INVALID)`,
      )
      expect(told).toContain('found a fault')
    }
  })
})
