import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { z as z3 } from '../../older-peers/node_modules/zod/index.js'
import { z as z325 } from '../../older-peers/node_modules/zod/v4/index.js'
import { scriptedModel, type ScriptedStep } from '#core/testing'
import {
  renderMessageContent,
  useAgAction,
  useChat,
  type IBrowserTools,
} from '../../../client/index.ts'
import { toJsonSchema } from '../../../client/later/schema.ts'
import { tabStorage, testOracle } from '../oracle.ts'
import { hook, mount, until } from '../page.ts'
import { unquote } from '../../support/models.ts'

const call = (name: string, args: unknown = {}) => ({ call: name, args })

/** One turn of a chat with tools of its page: what the model was offered, and what it was told. */
async function turnWith(
  browserTools: IBrowserTools,
  calls: ScriptedStep,
  env: Record<string, string> = {},
) {
  const model = scriptedModel([calls, 'Well.'])
  await using oracle = await testOracle({ plugins: [], model, env })
  const { oracleDid, overrides } = oracle
  const sessionId = await oracle.session()
  const seen = hook(
    () =>
      useChat({ oracleDid, sessionId, overrides, browserTools, onPaymentRequiredError: () => {} }),
    oracle.provided,
  )
  await until(() => !seen.now.isLoading)
  await seen.now.sendMessage('Do it')
  await until(() => seen.now.status !== 'streaming')
  return {
    error: seen.now.sendMessageError,
    messages: seen.now.messages,
    offered: model.requests[0]?.tools.find(({ name }) => name in browserTools)?.parameters,
    told: model.requests[1]?.messages.filter(({ role }) => role === 'tool') ?? [],
  }
}

const described = (zod: any) =>
  // any: three versions of one library
  zod.object({
    colour: zod.enum(['red', 'green']).describe('Which colour'),
    size: zod.number().int().min(1).max(9).default(3),
    tags: zod.array(zod.string().min(1)).optional(),
    where: zod.object({ x: zod.number(), y: zod.number().nullable() }),
    how: zod.union([zod.literal('fast'), zod.literal('slow')]).optional(),
  })

const json = {
  type: 'object',
  properties: { colour: { type: 'string', enum: ['red', 'green'], description: 'Which colour' } },
  required: ['colour'],
  additionalProperties: false,
}

describe('a tool of the page', () => {
  it.each([
    ['zod 4', described(z)],
    ['zod 3.25 with its v4', described(z325)],
    ['zod 3', described(z3)],
  ])(
    'with a schema of %s: the model reads all of it, the function gets what it makes',
    async (_, schema) => {
      const given: unknown[] = []
      const paint = {
        toolName: 'paint',
        description: 'Paints.',
        schema,
        fn: (args: unknown) => (given.push(args), { painted: true }),
      }
      const args = { colour: 'red', where: { x: 1, y: null } }
      const { offered, told, error } = await turnWith({ paint }, call('paint', args))
      expect(error).toBeNull()
      expect(offered).toMatchObject({
        type: 'object',
        properties: {
          colour: { type: 'string', enum: ['red', 'green'], description: 'Which colour' },
          size: { type: 'integer', minimum: 1, maximum: 9, default: 3 },
          tags: { type: 'array', items: { type: 'string', minLength: 1 } },
          where: {
            type: 'object',
            properties: { x: { type: 'number' } },
            required: ['x', 'y'],
          },
          how: { anyOf: [{ const: 'fast' }, { const: 'slow' }] },
        },
        required: ['colour', 'where'],
      })
      expect(given).toEqual([{ ...args, size: 3 }])
      expect(told.map(({ content }) => JSON.parse(unquote(content)))).toEqual([{ painted: true }])
    },
  )

  it('with a plain JSON Schema: the model reads it as it stands', async () => {
    const paint = {
      toolName: 'paint',
      description: 'Paints.',
      schema: json,
      fn: ({ colour }: { colour: string }) => colour,
    }
    const { offered, told } = await turnWith({ paint }, call('paint', { colour: 'green' }))
    expect(offered).toEqual({ ...json, properties: json.properties })
    expect(unquote(told[0]!.content)).toBe('green')
  })

  it('checks what the model sends by its own schema, and the model reads what does not fit', async () => {
    const given: unknown[] = []
    for (const schema of [described(z), described(z3)]) {
      const fn = (args: unknown) => given.push(args)
      const paint = { toolName: 'paint', description: 'Paints.', schema, fn }
      const { told } = await turnWith(
        { paint },
        call('paint', { colour: 'blue', where: { x: 'one' } }),
      )
      expect(told[0]).toMatchObject({ failed: true })
      expect(told[0]!.content).toMatch(/The arguments do not fit: .*colour: .*where\.x: /)
    }
    expect(given).toEqual([])
  })

  it('with a plain JSON Schema is not run where a type or what is required is wrong', async () => {
    const given: unknown[] = []
    const schema = {
      type: 'object',
      properties: {
        colour: { type: 'string' },
        size: { type: ['integer', 'null'] },
        tags: { type: 'array' },
        how: true,
      },
      required: ['colour'],
    }
    const fn = (args: unknown) => (given.push(args), 'painted')
    const paint = { toolName: 'paint', description: 'Paints.', schema, fn }
    for (const [args, why] of [
      [{}, 'colour: missing'],
      [{ colour: 7 }, 'colour: expected string'],
      [{ colour: 'red', size: 1.5 }, 'size: expected integer or null'],
      [{ colour: 'red', tags: {} }, 'tags: expected array'],
    ] as const) {
      const { told } = await turnWith({ paint }, call('paint', args))
      expect(told[0]).toMatchObject({ failed: true })
      expect(told[0]!.content).toContain(`The arguments do not fit: ${why}`)
    }
    expect(given).toEqual([])
    const { told } = await turnWith({ paint }, call('paint', { colour: 'red', size: null, how: 1 }))
    expect(unquote(told[0]!.content)).toBe('painted')
  })

  it('with a schema that cannot be sent is an error with its name, and nothing is sent', async () => {
    const tools = (schema: any) => ({
      paint: { toolName: 'paint', description: 'P.', schema, fn: () => 1 },
    }) // any: wrong on purpose
    const standard = {
      '~standard': { version: 1, vendor: 'homemade', validate: (value: unknown) => ({ value }) },
    }
    for (const schema of [
      z3.object({ when: z3.date() }),
      z.object({ when: z.date() }),
      standard,
      z.string(),
      new Map(),
    ]) {
      const { error, offered } = await turnWith(tools(schema), 'unused')
      expect(error).toMatchObject({
        code: 'schema_unsupported',
        message: expect.stringContaining('"paint"'),
      })
      expect(offered).toBeUndefined()
    }
  })

  it('that throws is an error that the model reads', async () => {
    const fail = {
      toolName: 'fail',
      description: 'Fails.',
      schema: {},
      fn: () => Promise.reject(new Error('no such element')),
    }
    const { told, messages } = await turnWith({ fail }, call('fail'))
    expect(told[0]!.content).toContain('no such element')
    expect(messages[1]!.toolCalls).toMatchObject([
      { name: 'fail', status: 'error', error: expect.stringContaining('no such element') },
    ])
  })

  it('whose arguments its schema refuses is not called', async () => {
    let calls = 0
    const schema = z.object({ even: z.number().refine((n) => n % 2 === 0, 'must be even') })
    const pick = { toolName: 'pick', description: 'Picks.', schema, fn: () => ++calls }
    const { told } = await turnWith({ pick }, call('pick', { even: 3 }))
    expect(told[0]!.content).toContain('even: must be even')
    expect(calls).toBe(0)
  })

  it('that gives what JSON cannot hold is an error that the model reads', async () => {
    const big = { toolName: 'big', description: 'Big.', schema: {}, fn: () => 10n }
    const { told } = await turnWith({ big }, call('big'))
    expect(told[0]!.content).toMatch(/BigInt/)
  })

  it('that takes longer than the server waits is an error that the model reads, and the turn goes on', async () => {
    const wait = {
      toolName: 'wait',
      description: 'Waits.',
      schema: {},
      fn: () => new Promise((resolve) => setTimeout(resolve, 1500)),
    }
    const { told, messages } = await turnWith({ wait }, call('wait'), {
      BROWSER_TOOL_TIMEOUT_MS: '200',
    })
    expect(told[0]!.content).toContain('CLIENT_TIMEOUT')
    expect(messages.at(-1)!.content).toBe('Well.')
  })

  it('two at once run at the same time, and each gets its own result', async () => {
    let running = 0
    const both = Promise.withResolvers<void>()
    const double = {
      toolName: 'double',
      description: 'Doubles.',
      schema: z.object({ n: z.number() }),
      async fn({ n }: { n: number }) {
        if (++running === 2) both.resolve()
        await both.promise
        // The first one is the last.
        await new Promise((resolve) => setTimeout(resolve, 100 - n * 20))
        return n * 2
      },
    }
    const { told } = await turnWith({ double }, [
      call('double', { n: 1 }),
      call('double', { n: 4 }),
    ])
    expect(told.map(({ content }) => unquote(content))).toEqual(['2', '8'])
    expect(running).toBe(2)
  })

  it('runs once, in the tab that asked, through a reload and beside a second tab', async () => {
    const model = scriptedModel([call('slow'), 'Well.'])
    await using oracle = await testOracle({ plugins: [], model })
    const { oracleDid, overrides } = oracle
    const sessionId = await oracle.session()
    const address = { oracleDid, overrides, sessionId }
    const calls: string[] = []
    const open = (tab: string, storage = tabStorage()) => {
      const chat = oracle.tab({ storage }).chat(address)
      const fn = () => (calls.push(tab), new Promise<never>(() => {}))
      chat.use(() => ({
        browserTools: { slow: { toolName: 'slow', description: 'S.', schema: {}, fn } },
      }))
      chat.subscribe(() => {})
      return chat
    }
    const storage = tabStorage()
    const first = open('first', storage)
    await until(() => !first.getSnapshot().isLoading)
    void first.sendMessage('Do it')
    await until(() => calls.length === 1)
    const beside = open('beside')
    await until(() => beside.getSnapshot().status === 'streaming')
    const reloaded = open('reloaded', storage)
    await until(() => reloaded.getSnapshot().run.ended === 'finished')
    expect(calls).toEqual(['first'])
    expect(model.requests[1]!.messages.at(-1)!.content).toContain('The page was reloaded')
  })
})

it('an action of the page is advertised, run with its arguments, and rendered in the conversation', async () => {
  const model = scriptedModel([call('show_chart', { title: 'Rain' }), 'There.'])
  await using oracle = await testOracle({ plugins: [], model })
  const { oracleDid, overrides } = oracle
  const sessionId = await oracle.session()
  let chat!: ReturnType<typeof useChat>
  const statuses: unknown[] = []
  function Page() {
    chat = useChat({ oracleDid, sessionId, overrides, onPaymentRequiredError: () => {} })
    useAgAction({
      name: 'show_chart',
      description: 'Shows a chart.',
      parameters: z.object({ title: z.string(), bars: z.number().default(3) }),
      handler: ({ title, bars }) => ({ drawn: `${title} in ${bars} bars` }),
      render: ({ status, args, result }) => {
        statuses.push(status)
        return (
          <figure>{`${args?.title} ${status === 'done' ? JSON.stringify(result) : ''}`}</figure>
        )
      },
    })
    return (
      <main>
        {chat.messages.map(({ id, content }) => (
          <div key={id}>{renderMessageContent(content)}</div>
        ))}
      </main>
    )
  }
  const { container } = mount(oracle.provided(<Page />))
  await until(() => !chat.isLoading)
  await chat.sendMessage('Draw')
  await until(
    () => container.querySelector('figure')?.textContent === 'Rain {"drawn":"Rain in 3 bars"}',
  )
  expect(new Set(statuses)).toEqual(new Set(['isRunning', 'done']))
  expect(
    model.requests[0]!.tools.find(({ name }) => name === 'show_chart')?.parameters,
  ).toMatchObject({
    properties: { title: { type: 'string' } },
    required: ['title'],
  })
  expect(unquote(model.requests[1]!.messages.at(-1)!.content)).toBe('{"drawn":"Rain in 3 bars"}')
})

it('a schema is read once, however often it is sent', async () => {
  let reads = 0
  const schema = {
    '~standard': {
      version: 1 as const,
      vendor: 'counting',
      validate: (value: unknown) => ({ value }),
      jsonSchema: { input: () => (reads++, { type: 'object' }) },
    },
  }
  await toJsonSchema('x', schema)
  await toJsonSchema('x', schema)
  expect(reads).toBe(1)
})
