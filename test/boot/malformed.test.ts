import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { createApp, definePlugin, type AppOptions } from '#core'

const run = () => undefined
const tool = { description: 'Works.', input: z.object({}), run }
const route = (more: unknown) => ({ routes: { 'POST /x': more } })
const written = (more: object) => route({ run, ...more })

/** The faults of a boot with a plugin in plain JavaScript, which no type has seen. */
async function faultsOf(more: object, options: object = {}, env: object = {}) {
  const lines: string[] = []
  const plugin = definePlugin({ name: 'p', summary: 'Is written without types.', ...more } as never)
  const all = {
    plugins: [plugin],
    env: { DATA_DIR: ':memory:', ...env },
    log: (line: string) => lines.push(line),
    ...options,
  } as unknown as AppOptions
  const thrown: unknown = await createApp(all).then(
    async (app) => void (await app.close()),
    (error: unknown) => error,
  )
  const { details } = (thrown ?? {}) as {
    details?: { faults: { code: string; message: string; hint?: string }[] }
  }
  return { thrown, faults: details?.faults ?? [], log: lines.join('\n') }
}

describe('definePlugin', () => {
  it.each([
    [undefined, 'undefined'],
    [null, 'null'],
    ['notes', 'a string'],
    [run, 'a function'],
  ])('says that %s is no plugin', (given, word) => {
    expect(() => definePlugin(given as never)).toThrow(
      `definePlugin was given ${word}: it takes an object`,
    )
  })
})

describe('a variable', () => {
  // A timer of more than 24.8 days rings at once: a browser would have had a millisecond for its answer.
  it.each([
    ['RUN_LEASE_MS', '1', 'a whole number from 100 to 600,000'],
    ['RUN_LEASE_MS', '9000000000', 'a whole number from 100 to 600,000'],
    ['PROMPT_BUDGET_MS', '3000000000', 'a whole number from 1 to 600,000'],
    ['BROWSER_TOOL_TIMEOUT_MS', '3000000000', 'a whole number from 1 to 3,600,000'],
    ['RUN_RETENTION_HOURS', '1e300', 'a number of hours above 0, at most 876,000'],
  ])('that no timer or database holds stops the boot: %s=%s', async (name, value, form) => {
    const { faults } = await faultsOf({}, {}, { [name]: value })
    expect(faults).toMatchObject([{ code: 'ENV_INVALID' }])
    expect(faults[0]?.message).toContain(`${name} (the kernel) is "${value}"`)
    expect(faults[0]?.message).toContain(form)
  })
})

describe('a section that is not of its kind stops the boot with a sentence', () => {
  it.each<[sentence: string, code: string, more: object]>([
    ['the state key "n" is 5', 'STATE_INVALID', { state: { n: 5 } }],
    ['the state key "n" is undefined', 'STATE_INVALID', { state: { n: undefined } }],
    ['the state key "__proto__" is 1', 'STATE_INVALID', { state: JSON.parse('{"__proto__":1}') }],
    ['"state" is a schema', 'STATE_INVALID', { state: z.object({}) }],
    ['"state" is null', 'STATE_INVALID', { state: null }],
    ['"userData" is a function', 'MANIFEST_INVALID', { userData: run }],
    ['"userData.erase" is no function', 'MANIFEST_INVALID', { userData: { export: run } }],
    [
      '"userData" has "erased", which is none of its functions',
      'MANIFEST_INVALID',
      { userData: { export: run, erase: run, erased: run } },
    ],
    [
      'the state key "n" has a schema that waits',
      'STATE_INVALID',
      {
        state: {
          n: z
            .string()
            .default('')
            .refine(async () => true),
        },
      },
    ],
    [
      'the state key "n" has a schema that throws: no start',
      'STATE_INVALID',
      {
        state: {
          n: z.string().default(() => {
            throw new Error('no start')
          }),
        },
      },
    ],
    [
      'the state key "n" has the scope "user"',
      'STATE_INVALID',
      { state: { n: z.string().default('').meta({ scope: 'user' }) } },
    ],
    ['the variable "P_KEY" is 5', 'MANIFEST_INVALID', { env: { P_KEY: 5 } }],
    ['the variable "P_KEY" is undefined', 'MANIFEST_INVALID', { env: { P_KEY: undefined } }],
    ['"env" is a schema', 'MANIFEST_INVALID', { env: z.object({}) }],
    ['"tools" is null', 'TOOL_INVALID', { tools: null }],
    ['"tools" is a list', 'TOOL_INVALID', { tools: [tool] }],
    ['"tools" is null', 'TOOL_INVALID', { tools: () => null }],
    ['the tool "a" has no description', 'TOOL_INVALID', { tools: () => ({ a: null }) }],
    ['function "tools" returned a promise', 'TOOL_INVALID', { tools: async () => ({ a: tool }) }],
    [
      'the tool "a" has an "output" that is no schema',
      'TOOL_INVALID',
      { tools: { a: { ...tool, output: 5 } } },
    ],
    ['"effect" of 5n', 'TOOL_INVALID', { tools: { a: { ...tool, effect: 5n } } }],
    ['"subAgents" is a function', 'SUBAGENT_INVALID', { subAgents: () => ({}) }],
    ['"routes" is null', 'ROUTE_INVALID', { routes: null }],
    ['the route "POST /x" is null', 'ROUTE_INVALID', route(null)],
    [
      'the route "POST /x" is undefined',
      'ROUTE_INVALID',
      { routes: () => ({ 'POST /x': undefined }) },
    ],
    ['"routes" is null', 'ROUTE_INVALID', { routes: () => null }],
    ['function "routes" returned a promise', 'ROUTE_INVALID', { routes: async () => ({}) }],
    ['its "input" is no schema', 'ROUTE_INVALID', written({ input: 5 })],
    ['its "output" is no schema', 'ROUTE_INVALID', written({ output: {} })],
    ['its "verify" is no function', 'ROUTE_INVALID', written({ auth: 'own', verify: 'yes' })],
    ['"raw" is true or false', 'ROUTE_INVALID', written({ raw: 'yes' })],
    ['"body" is a word or an object', 'ROUTE_INVALID', written({ body: null })],
    ['"answers" is an object', 'ROUTE_INVALID', written({ answers: 5 })],
    ['"limit" is { max, perMs }', 'ROUTE_INVALID', written({ limit: null })],
    ['"limit.by" is a function', 'ROUTE_INVALID', written({ limit: { max: 1, perMs: 1, by: 5 } })],
    ['it has a "can" of "notes/write"', 'ROUTE_INVALID', written({ can: 'notes/write' })],
    ['"web" is null', 'ROUTE_INVALID', { web: null }],
    ['"web" is null', 'ROUTE_INVALID', { web: () => null }],
    ['the middleware "http" is 5', 'MANIFEST_INVALID', { middleware: { http: 5 } }],
    ['the middleware "turn" is a text', 'MANIFEST_INVALID', { middleware: { turn: 'x' } }],
    ['"prompt" is a text', 'MANIFEST_INVALID', { prompt: 'You are kind.' }],
    ['"setup" is 5', 'MANIFEST_INVALID', { setup: 5 }],
    ['"notices" is a text', 'MANIFEST_INVALID', { notices: 'x' }],
    ['the migration "001" is 5', 'MANIFEST_INVALID', { migrations: { '001': 5 } }],
    ['"runs" is not an object', 'MANIFEST_INVALID', { runs: async () => ({ end: run }) }],
  ])('%s', async (sentence, code, more) => {
    const { thrown, faults } = await faultsOf(more)
    expect(thrown).toMatchObject({ code: 'BOOT_FAILED' })
    expect(faults).toMatchObject([{ code, message: expect.stringContaining(sentence) }])
  })

  it.each<[sentence: string, hint: string, more: object]>([
    ['Plugin without a name: "name" is missing.', 'such as field-notes', { name: undefined }],
    ['Plugin without a name: "name" is 5n.', 'such as field-notes', { name: 5n }],
    ['Plugin My Plugin: "name" is "My Plugin".', 'joined by hyphens', { name: 'My Plugin' }],
    ['Plugin p: "summary" is missing.', 'one sentence that the agent', { summary: undefined }],
    ['Plugin p: "summary" is a function.', 'one sentence that the agent', { summary: run }],
    ['Plugin p: "whenToUse" is "Now."', 'a list of sentences', { whenToUse: 'Now.' }],
    ['Plugin p: "tags.1" is 5.', 'a list of words', { tags: ['a', 5] }],
    [
      'Plugin p: "visibility" is "ondemand".',
      'Did you mean "on-demand"?',
      { visibility: 'ondemand' },
    ],
    [
      'Plugin p: "visibility" is "no".',
      'There are always, on-demand, silent.',
      { visibility: 'no' },
    ],
    [
      'Plugin p: "When" is not a key',
      'There are name, version, summary, whenToUse,',
      { When: 'x' },
    ],
    ['it has "handler", which is not a field of a route', 'run.', route({ handler: run })],
    ['has no run function', 'Write run:', { jobs: { j: {} } }],
    ['has "cron" of "99 * * * *"', 'five fields', { jobs: { j: { cron: '99 * * * *', run } } }],
  ])('and each says what to write instead: %s', async (sentence, hint, more) => {
    const { faults } = await faultsOf(more)
    expect(faults[0]?.message).toContain(sentence)
    expect(faults[0]?.hint).toContain(hint)
  })

  it('beside all the other faults that there are', async () => {
    const { faults } = await faultsOf({ state: { n: 5 }, tools: null, env: 7, colour: 'red' })
    expect(faults.map(({ message }) => message).sort()).toEqual([
      expect.stringContaining('"colour" is not a key'),
      expect.stringContaining('"env" is 7'),
      expect.stringContaining('"tools" is null'),
      expect.stringContaining('the state key "n"'),
    ])
  })
})

describe('a field that is none stops the boot, for it is a misspelt one and would count for nothing', () => {
  const agent = { description: 'Helps with something.', prompt: 'Help.' }
  const of = (options: object) => ({ a: { ...tool, ...options } })

  it.each<[sentence: string, hint: string, code: string, more: object]>([
    ['the tool "a" has "aprove"', '"approve"', 'TOOL_INVALID', { tools: of({ aprove: true }) }],
    [
      'the tool "a" has "Foreign"',
      '"foreign"',
      'TOOL_INVALID',
      { tools: () => of({ Foreign: true }) },
    ],
    ['it has "atuh"', '"auth"', 'ROUTE_INVALID', written({ atuh: 'own' })],
    [
      'the sub-agent "b" has "maxCall"',
      '"maxCalls"',
      'SUBAGENT_INVALID',
      { subAgents: { b: { ...agent, maxCall: 1 } } },
    ],
  ])('%s', async (sentence, hint, code, more) => {
    const { faults } = await faultsOf(more)
    expect(faults).toMatchObject([
      {
        code,
        message: expect.stringContaining(`${sentence}, which is not a field`),
        hint: `Did you mean ${hint}?`,
      },
    ])
  })

  it('unless nothing stands in it', async () => {
    const { thrown } = await faultsOf({ tools: of({ aprove: undefined }) })
    expect(thrown).toBeUndefined()
  })
})

describe('a path of "redact" that leads to no argument', () => {
  const input = z.object({
    pin: z.string(),
    cards: z.array(z.object({ number: z.string() })).optional(),
    more: z.record(z.string(), z.string()),
    open: z.looseObject({}),
  })
  const hiding = (...redact: string[]) => ({ tools: { a: { ...tool, input, redact } } })

  it.each([
    ['pon', 'Did you mean "pin"?'],
    ['password', 'There are pin, cards, more, open.'],
    ['cardz.*.number', 'Did you mean "cards"?'],
    ['cards.*.nomber', 'Did you mean "number"?'],
  ])('stops the boot: %s', async (path, hint) => {
    const { faults } = await faultsOf(hiding(path))
    expect(JSON.stringify(faults)).toContain(`\\"${path}\\", and no argument is called that.`)
    expect(JSON.stringify(faults)).toContain(JSON.stringify(hint).slice(1, -1))
  })

  it('unless it may lead to one', async () => {
    const paths = ['pin', 'cards', 'cards.*.number', 'more.any', 'open.any.thing', 'pin.inner']
    expect((await faultsOf(hiding(...paths))).thrown).toBeUndefined()
  })
})

describe('arguments that no JSON can be', () => {
  const taking = (input: object) => ({ tools: { a: { ...tool, input } } })

  it('stop the boot: a model could never call the tool', async () => {
    const { faults } = await faultsOf(
      taking(z.object({ since: z.date(), sum: z.bigint().optional() })),
    )
    expect(faults.map(({ message, hint }) => [message, hint])).toEqual([
      [
        'Plugin p: the tool "a" takes a date as "since", and the arguments of models are JSON, which has none.',
        'Write z.coerce.date(), or take a text: z.iso.datetime().',
      ],
      [
        'Plugin p: the tool "a" takes a bigint as "sum", and the arguments of models are JSON, which has none.',
        'Write z.coerce.bigint(), or take a number.',
      ],
    ])
  })

  it('may be made of JSON by the schema', async () => {
    const { thrown } = await faultsOf(
      taking(
        z.object({
          since: z.coerce.date(),
          sum: z.coerce.bigint().optional(),
          until: z.codec(z.iso.datetime(), z.date(), {
            decode: (text) => new Date(text),
            encode: (date) => date.toISOString(),
          }),
          or: z.union([z.date(), z.string()]),
        }),
      ),
    )
    expect(thrown).toBeUndefined()
  })
})

describe('an option of createApp that is not of its kind stops the boot with a sentence', () => {
  it.each<[sentence: string, options: object]>([
    ['"plugins" is undefined', { plugins: undefined }],
    ['"http" is a function', { http: run }],
    ['"http[1]" is 5', { http: [run, 5] }],
    ['"features" is 5', { features: 5 }],
    ['"features.p" is "no"', { features: { p: 'no' } }],
  ])('%s', async (sentence, options) => {
    const { faults } = await faultsOf({}, options)
    expect(faults).toMatchObject([
      { code: 'OPTION_INVALID', message: expect.stringContaining(sentence) },
    ])
  })
})

describe('a variable whose schema throws', () => {
  const asJson = z.string().transform((text): unknown => JSON.parse(text))

  it('is a fault that says what was thrown', async () => {
    const { faults } = await faultsOf({ env: { P_LIST: asJson } }, {}, { P_LIST: 'no list' })
    expect(faults).toMatchObject([{ code: 'ENV_INVALID' }])
    expect(faults[0]?.message).toMatch(/P_LIST .* is "no list", which cannot be used: .*JSON/)
  })

  it('shows nothing of a secret, which also stands nowhere when it takes the place of the schema', async () => {
    const secret = 'sk-live-9f1c'
    const hidden = await faultsOf(
      { env: { P_KEY: asJson.meta({ secret: true }) } },
      {},
      { P_KEY: secret },
    )
    const misplaced = await faultsOf({ env: { P_KEY: secret } })
    for (const { faults, thrown, log } of [hidden, misplaced]) {
      expect(faults).toHaveLength(1)
      expect(`${JSON.stringify(faults)}${String(thrown)}${log}`).not.toContain('sk-live')
    }
  })
})
