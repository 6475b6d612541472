import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { createApp, definePlugin, RuntimeError, type AnyPlugin } from '#core'
import { testApp } from '#core/testing'

const memory = { DATA_DIR: ':memory:' }
const quiet = () => undefined

/** The faults of a boot that must fail, and what it logged. */
async function faultsOf(options: Omit<Parameters<typeof createApp>[0], 'log'>) {
  const log: string[] = []
  const error = await createApp({
    ...options,
    env: { ...memory, ...options.env },
    log: (line) => log.push(line),
  }).then(
    (app) => app.close().then(() => undefined),
    (error: unknown) => error,
  )
  expect(error).toBeInstanceOf(RuntimeError)
  expect((error as RuntimeError).code).toBe('BOOT_FAILED')
  const { faults } = (error as RuntimeError).details as {
    faults: { code: string; message: string; hint?: string }[]
  }
  return { faults, message: (error as RuntimeError).message, log: log.join('') }
}

const plain = (name: string, more: object = {}): AnyPlugin =>
  definePlugin({ name, summary: `${name}.`, ...more })

describe('a model that cannot be used', () => {
  it('is told with every other fault of the boot', async () => {
    const { faults } = await faultsOf({
      plugins: [plain('same'), plain('same')],
      env: { MODEL: 'gpt, openai/x', PORT: '99999999' },
    })
    expect(faults.map(({ code }) => code).toSorted()).toEqual([
      'ENV_INVALID',
      'ENV_INVALID',
      'ENV_INVALID',
      'PLUGIN_DUPLICATE',
    ])
    const text = faults.map(({ message }) => message).join('\n')
    expect(text).toContain('MODEL is "gpt", which is no model.')
    expect(text).toContain('MODEL names "openai/x", but OPENAI_API_KEY is not set.')
    expect(text).toContain('PORT')
  })

  it('is told likewise when it was given in code', async () => {
    const { faults } = await faultsOf({ plugins: [], model: {} as never, env: { PORT: 'x' } })
    expect(faults.map(({ code }) => code).toSorted()).toEqual(['ENV_INVALID', 'MODEL_UNUSABLE'])
  })

  it.each(['0x10', '1e3', ' 80', '-1', '65536'])('is no port in digits: %j', async (port) => {
    const env = { PORT: port, METRICS_PORT: port }
    const { faults } = await faultsOf({ plugins: [], env })
    const said = faults.map(({ message }) => message).join(' ')
    for (const name of ['PORT', 'METRICS_PORT'])
      expect(said).toContain(`${name} (the kernel) is "${port}"`)
  })
})

describe('a plugin whose required variable is unset', () => {
  const needy = plain('needy', { env: { NEEDY_KEY: z.string(), NEEDY_URL: z.url() } })

  it('is excluded with a line that names it and the variable; the rest boots', async () => {
    await using app = await testApp({ plugins: [needy, plain('other', { visibility: 'always' })] })
    const log = app.log.join('')
    expect(log).toContain('Plugin needy env validation failed for NEEDY_KEY')
    expect(log).toContain('Plugin needy env validation failed for NEEDY_URL')
    expect(log).toContain('FEATURES=needy=off')
    expect(log).toContain('other loaded (always)')
    expect(app.report.plugins).toMatchObject([
      { name: 'needy', state: 'excluded', missing: ['NEEDY_KEY', 'NEEDY_URL'] },
      { name: 'other', state: 'loaded' },
    ])
    expect((await app.get('/health')).body.plugins).toEqual({ needy: 'excluded', other: 'loaded' })
  })

  it('counts an empty variable as unset', async () => {
    await using app = await testApp({
      plugins: [needy],
      env: { NEEDY_KEY: '', NEEDY_URL: 'http://a.example' },
    })
    expect(app.report.plugins[0]).toMatchObject({ state: 'excluded', missing: ['NEEDY_KEY'] })
  })

  it('stops the boot when it is forced on, with every fault together', async () => {
    const { faults, log, message } = await faultsOf({
      plugins: [needy, plain('typed', { env: { TYPED_PORT: z.coerce.number() } })],
      features: { needy: true },
      env: { TYPED_PORT: 'eighty', PORT: '99999999' },
    })
    expect(faults.map(({ code }) => code).sort()).toEqual([
      'ENV_INVALID',
      'ENV_INVALID',
      'ENV_MISSING',
      'ENV_MISSING',
    ])
    expect(message).toContain('Plugin needy env validation failed for NEEDY_KEY')
    expect(log).toContain('Plugin needy env validation failed for NEEDY_URL')
    expect(message).toContain('TYPED_PORT (plugin typed) is "eighty"')
    expect(message).toContain('PORT (the kernel) is "99999999"')
  })

  it('is never loaded when features say off, whatever else is wrong with its variables', async () => {
    const typed = plain('typed', { env: { TYPED_PORT: z.coerce.number() } })
    await using app = await testApp({
      plugins: [needy, typed],
      env: { FEATURES: 'needy=off, typed=off', TYPED_PORT: 'x' },
    })
    expect(app.report.plugins.map(({ state }) => state)).toEqual(['disabled', 'disabled'])
  })

  it('takes along what requires it, by name', async () => {
    const child = plain('child', { requires: [needy] })
    const grandchild = plain('grandchild', { requires: [child] })
    await using app = await testApp({ plugins: [grandchild, child, needy] })
    expect(app.report.plugins).toMatchObject([
      { name: 'needy', state: 'excluded' },
      { name: 'child', state: 'excluded', reason: expect.stringContaining('requires needy') },
      { name: 'grandchild', state: 'excluded', reason: expect.stringContaining('requires child') },
    ])
  })
})

describe('an invalid variable', () => {
  it('names variable, value and what is expected; a secret keeps its value', async () => {
    const plugin = plain('units', {
      env: {
        UNITS: z.enum(['celsius', 'fahrenheit']).default('celsius'),
        UNITS_TOKEN: z.string().min(20).meta({ secret: true }).optional(),
      },
    })
    const { faults, log } = await faultsOf({
      plugins: [plugin],
      env: { UNITS: 'kelvin', UNITS_TOKEN: 'hunter2hunter2' },
    })
    expect(faults[0]).toMatchObject({
      code: 'ENV_INVALID',
      message: expect.stringMatching(/UNITS .*"kelvin".*celsius/),
    })
    expect(faults[1]).toMatchObject({
      code: 'ENV_INVALID',
      message: expect.stringContaining('UNITS_TOKEN'),
    })
    expect(JSON.stringify(faults) + log).not.toContain('hunter2')
  })
})

describe('features', () => {
  it('turn on in production what is only for development', async () => {
    const bench = plain('workbench', { defaultState: 'development' })
    const stateIn = async (NODE_ENV: string, FEATURES?: string) => {
      await using app = await testApp({ plugins: [bench], env: { NODE_ENV, FEATURES } })
      return app.report.plugins[0]?.state
    }
    expect(await stateIn('development')).toBe('available')
    expect(await stateIn('production')).toBe('disabled')
    expect(await stateIn('production', 'workbench=on')).toBe('available')
  })

  it('turn on what is off by default; the variable wins over the option', async () => {
    const extra = plain('extra', { defaultState: 'off' })
    const other = plain('other')
    const states = async (features: Record<string, boolean>, FEATURES?: string) => {
      await using app = await testApp({ plugins: [extra, other], features, env: { FEATURES } })
      return app.report.plugins.map(({ state }) => state)
    }
    expect(await states({})).toEqual(['disabled', 'available'])
    expect(await states({ extra: true })).toEqual(['available', 'available'])
    expect(await states({ extra: true, other: true }, 'extra=off,other=off')).toEqual([
      'disabled',
      'disabled',
    ])
    expect(await states({ other: false }, 'other=true')).toEqual(['disabled', 'available'])
  })

  it('that name no plugin say what may have been meant', async () => {
    const { faults } = await faultsOf({
      plugins: [plain('sampler')],
      env: { FEATURES: 'samplr=off,sampler=maybe' },
    })
    expect(faults).toMatchObject([
      { code: 'ENV_INVALID', message: expect.stringContaining('sampler=maybe') },
      {
        code: 'PLUGIN_UNKNOWN',
        message: expect.stringContaining('"samplr"'),
        hint: 'Did you mean "sampler"?',
      },
    ])
  })
})

describe('requires', () => {
  it('orders the boot and hands over what setups return', async () => {
    const order: string[] = []
    const base = definePlugin({
      name: 'base',
      summary: 'b',
      setup: async () => (order.push('base'), { n: 1 }),
    })
    const middle = definePlugin({
      name: 'middle',
      summary: 'm',
      requires: [base],
      setup: ({ plugins }) => (order.push('middle'), { n: plugins.base.n + 1 }),
    })
    const top = definePlugin({
      name: 'top',
      summary: 't',
      requires: [middle, base],
      setup: ({ plugins }) => (order.push('top'), { n: plugins.middle.n + plugins.base.n }),
      routes: {
        'GET /n': { auth: 'public', run: (_, { self, plugins }) => [self.n, plugins.middle.n] },
      },
    })
    await using app = await testApp({ plugins: [top, middle, base] })
    expect(order).toEqual(['base', 'middle', 'top'])
    expect((await app.get('/n')).body).toEqual([3, 2])
  })

  it('a circle is named by its path', async () => {
    const required: AnyPlugin[] = []
    const a = plain('a', { requires: required })
    const b = plain('b', { requires: [a] })
    required.push(plain('c', { requires: [b] }))
    const { faults } = await faultsOf({ plugins: [a, b, required[0]!] })
    expect(faults).toMatchObject([
      { code: 'PLUGIN_CYCLE', message: 'Plugins require each other: a -> c -> b -> a' },
    ])
  })

  it('two files that import each other are recognised', async () => {
    const { faults } = await faultsOf({ plugins: [plain('a', { requires: [undefined] })] })
    expect(faults).toMatchObject([
      { code: 'PLUGIN_CYCLE', hint: expect.stringContaining('import each other') },
    ])
  })

  it('a plugin that is not in the app is named with the remedy', async () => {
    const { faults } = await faultsOf({ plugins: [plain('a', { requires: [plain('b')] })] })
    expect(faults).toMatchObject([
      { code: 'REQUIRED_PLUGIN_MISSING', hint: 'Add b to the plugins given to createApp.' },
    ])
  })

  it('a disabled one disables what requires it, or stops the boot when that is forced', async () => {
    const b = plain('b')
    const a = plain('a', { requires: [b] })
    await using app = await testApp({ plugins: [a, b], features: { b: false } })
    expect(app.report.plugins).toMatchObject([
      { name: 'b', state: 'disabled' },
      {
        name: 'a',
        state: 'disabled',
        reason: expect.stringContaining('requires b, which is disabled'),
      },
    ])
    expect(app.log.join('')).toContain('Turn b on, or turn a off as well.')
    const { faults } = await faultsOf({ plugins: [a, b], features: { a: true, b: false } })
    expect(faults).toMatchObject([
      { code: 'REQUIRED_PLUGIN_DISABLED', hint: 'Turn b on, or turn a off as well.' },
    ])
  })
})

describe('two plugins that want the same name', () => {
  const tool = { description: 'Does a thing.', input: z.object({}), run: () => 1 }
  it.each([
    ['tool', 'TOOL_CONFLICT', { tools: { same: tool } }],
    ['route', 'ROUTE_CONFLICT', { routes: { 'GET /same/:id': { run: () => 1 } } }],
    ['state key', 'STATE_CONFLICT', { state: { same: z.string().optional() } }],
    ['variable', 'ENV_CONFLICT', { env: { SAME: z.string().optional() } }],
    ['mount', 'ROUTE_CONFLICT', { web: { '/same': () => undefined } }],
  ])('of a %s are both named', async (_, code, section) => {
    const { faults } = await faultsOf({
      plugins: [plain('left', section), plain('right', section)],
    })
    expect(faults).toHaveLength(1)
    expect(faults[0]).toMatchObject({ code, message: expect.stringMatching(/left.*right/) })
  })

  it('of themselves are named', async () => {
    const { faults } = await faultsOf({ plugins: [plain('twin'), plain('twin')] })
    expect(faults).toMatchObject([
      { code: 'PLUGIN_DUPLICATE', message: expect.stringContaining('twin') },
    ])
  })

  it('meet the kernel’s own as well', async () => {
    const { faults } = await faultsOf({
      plugins: [
        plain('greedy', {
          tools: { load_capability: tool },
          routes: { 'GET /health': { run: () => 1 } },
          env: { PORT: z.string().optional() },
        }),
      ],
    })
    expect(faults.map(({ code }) => code).sort()).toEqual([
      'ENV_CONFLICT',
      'ROUTE_CONFLICT',
      'TOOL_CONFLICT',
    ])
    for (const { message } of faults) expect(message).toMatch(/the kernel.*greedy/i)
  })

  it('at boot time, through sections that are functions, are found too', async () => {
    const late = (name: string) =>
      definePlugin({
        name,
        summary: name,
        tools: () => ({
          same: { description: 'Does a thing.', input: z.object({}), run: () => 1 },
        }),
      })
    const { faults } = await faultsOf({ plugins: [late('left'), late('right')] })
    expect(faults).toMatchObject([
      { code: 'TOOL_CONFLICT', message: expect.stringMatching(/left.*right/) },
    ])
  })
})

describe('a manifest with faults', () => {
  it('has all of them reported, with what may have been meant', async () => {
    const wrong = {
      name: 'Wrong Name',
      summary: ' ',
      visibility: 'on demand',
      tool: {},
      middleware: { models: () => undefined },
      state: { counter: z.number() },
      tools: {
        'bad tool': { description: '', input: z.string(), run: () => 1 },
        ok: { description: 'Fine.', input: z.object({}), run: () => 1 },
      },
      subAgents: { helper: { description: 'h', prompt: 'h', tools: ['okk'] } },
      routes: { 'FETCH /x': { run: () => 1 } },
    }
    const { faults, message } = await faultsOf({
      plugins: [{ name: wrong.name, definition: wrong as never }],
    })
    expect(faults.length).toBeGreaterThanOrEqual(10)
    for (const part of [
      '"Wrong Name"',
      '"summary"',
      'on demand',
      'Did you mean "tools"?',
      'Did you mean "model"?',
      '"counter"',
      '"bad tool"',
      'has no description',
      'something other than an object',
      '"okk"',
      'Did you mean "ok"?',
      'FETCH /x',
    ])
      expect(message).toContain(part)
  })

  it('survives what is no plugin at all', async () => {
    const { faults } = await faultsOf({
      plugins: [undefined as never, {} as never, { name: 'x', definition: null } as never],
    })
    expect(faults.filter(({ code }) => code === 'MANIFEST_INVALID')).toHaveLength(3)
  })
})

it('a variable that looks misspelt is pointed out', async () => {
  const plugin = plain('units', { env: { UNITS_DEFAULT: z.string().default('c') } })
  await using app = await testApp({
    plugins: [plugin],
    env: { UNITS_DEFALT: 'f', UNRELATED_THING: 'x' },
  })
  expect(app.log.join('')).toContain(
    'UNITS_DEFALT is set, but nothing reads it. Did you mean "UNITS_DEFAULT"?',
  )
  expect(app.log.join('')).not.toContain('UNRELATED')
})

it('a setup that throws stops the boot, closes what was opened, and is named', async () => {
  const closed: string[] = []
  const first = definePlugin({
    name: 'first',
    summary: 'f',
    setup: ({ onClose }) => onClose(() => void closed.push('first')),
  })
  const second = definePlugin({
    name: 'second',
    summary: 's',
    setup: () => Promise.reject(new Error('the well is dry')),
  })
  const third = definePlugin({
    name: 'third',
    summary: 't',
    setup: () => {
      throw new RuntimeError('CONFLICT', 'A sentence of its own.')
    },
  })
  const { faults } = await faultsOf({ plugins: [first, second, third] })
  expect(faults).toMatchObject([
    {
      code: 'SETUP_FAILED',
      message: 'Plugin second: setup failed: the well is dry',
      hint: expect.stringContaining('FEATURES=second=off'),
    },
    { code: 'CONFLICT', message: 'A sentence of its own.' },
  ])
  expect(closed).toEqual(['first'])
})

it('a failed boot leaves the port and the folder free for the next', async () => {
  const broken = createApp({
    plugins: [
      plain('x', {
        setup: () => {
          throw new Error('no')
        },
      }),
    ],
    env: memory,
    log: quiet,
  })
  await expect(broken.listen({ port: 0 })).rejects.toThrow('no')
  await expect(broken).rejects.toThrow('no')
})
