import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin, RuntimeError, type AnyPlugin } from '#core'
import { call, resultOf, scriptedModel, testApp } from '#core/testing'
import { testEngine } from '../support/engine.ts'
import { modelScript, type Answer } from '../support/model-script.ts'
import { unquote } from '../support/quotation.ts'

type SubAgents = NonNullable<Parameters<typeof definePlugin>[0]['subAgents']>

/** A plugin with one sub-agent, whatever the types say of it. */
function withAgent(agent: object, more: object = {}): AnyPlugin {
  const subAgents = { helper: { description: 'Helps.', prompt: 'You help.', ...agent } }
  return definePlugin({
    name: 'kit',
    summary: 'k',
    visibility: 'always',
    tools: {
      look: { description: 'x', effect: 'read', foreign: false, input: z.object({}), run: () => 1 },
      wait: { description: 'x', effect: 'read', input: z.object({}), run: () => never() },
    },
    ...more,
    subAgents: subAgents as SubAgents as {},
  })
}

const never = () => new Promise<never>(() => undefined)
const shelf = z.object({ shelf: z.number(), title: z.string().default('none') })
const returns = (args: unknown): Answer => ({ calls: [{ name: 'return_result', args }] })

/** Lets a model call the sub-agent, which says these things, and returns what the model reads of the call. */
async function resultFor(
  agent: object,
  says: readonly Answer[],
  args: object = { task: 'Do it.' },
) {
  const large = modelScript([{ calls: [{ name: 'call_helper', args }] }, 'Well.'])
  const small = modelScript(says)
  const model = (name?: string) => (name === 'small' ? small : large)
  const plugin = withAgent({ model: 'small', ...agent })
  await using engine = await testEngine({ plugins: [plugin], model })
  const run = await engine.turn('Go')
  expect(run.end.status).toBe('finished')
  const result = large.requests[1]!.messages.at(-1)!
  return { content: unquote(result.content), result, small, run }
}

describe('a sub-agent with an input of its own', () => {
  it('takes what its schema parses, and reads it as JSON', async () => {
    const prompts: unknown[] = []
    const { small } = await resultFor(
      {
        input: z.object({ city: z.string(), days: z.number().default(3) }),
        prompt: async (input: unknown, { user, callKey }: { user: object; callKey: string }) => {
          prompts.push(input, 'did' in user, callKey.length > 10)
          return 'You know the weather.'
        },
      },
      ['Rain.'],
      { city: 'Lusaka' },
    )
    expect(prompts).toEqual([{ city: 'Lusaka', days: 3 }, true, true])
    const [system, task] = small.requests[0]!.messages
    expect(system!.content).toMatch(/^You know the weather\.\n\n/)
    expect(JSON.parse(task!.content)).toEqual({ city: 'Lusaka', days: 3 })
  })

  it('is offered with the JSON Schema of it, and refuses what does not fit', async () => {
    const input = z.object({ city: z.string() })
    const { content, small } = await resultFor({ input }, [], { town: 'Lusaka' })
    expect(JSON.parse(content).code).toBe('INVALID_INPUT')
    expect(small.requests).toHaveLength(0)
    const model = scriptedModel(['Well.'])
    await using app = await testApp({ plugins: [withAgent({ input })], model })
    await (await app.user()).say('Go')
    const spec = model.requests[0]!.tools.find(({ name }) => name === 'call_helper')
    expect(spec).toMatchObject({ parameters: { properties: { city: { type: 'string' } } } })
  })

  it.each<[string, () => unknown]>([
    ['throws', () => JSON.parse('no prompt')],
    ['rejects', () => Promise.reject(new Error('no prompt'))],
    ['returns no text', () => 5],
  ])('whose prompt %s is a failed tool, and the turn goes on', async (_, prompt) => {
    const { content, small } = await resultFor({ prompt }, [])
    expect(JSON.parse(content).code).toBe('INTERNAL')
    expect(small.requests).toHaveLength(0)
  })
})

describe('a sub-agent with an output', () => {
  it('ends by return_result, and its result is the parsed value', async () => {
    const says = [{ calls: [{ name: 'look' }] }, returns({ shelf: 4 })]
    const { content, small } = await resultFor({ output: shelf, tools: ['look'] }, says)
    expect(JSON.parse(content)).toEqual({ shelf: 4, title: 'none' })
    expect(small.requests).toHaveLength(2)
    expect(small.requests[0]!.tools.map(({ name }) => name)).toEqual(['look', 'return_result'])
    expect(small.requests[0]!.tools[1]!.parameters).toMatchObject({
      type: 'object',
      properties: { shelf: { type: 'number' } },
    })
    expect(small.requests[0]!.messages[0]!.content).toContain('call return_result')
  })

  it.each<[string, z.ZodType, unknown, unknown]>([
    ['a list', z.array(z.string()), { result: ['a', 'b'] }, ['a', 'b']],
    ['a number', z.number(), { result: 4 }, 4],
    ['what a transform makes', z.string().transform(Number), { result: '12' }, 12],
  ])(
    'that is %s is wrapped for the model, and handed over bare',
    async (_, output, args, value) => {
      const { content } = await resultFor({ output }, [returns(args)])
      expect(JSON.parse(content)).toEqual(value)
    },
  )

  it('hears what is wrong, and may mend it twice', async () => {
    const says = [returns({ shelf: 'four' }), returns({}), returns({ shelf: 4 })]
    const { content, small } = await resultFor({ output: shelf }, says)
    expect(JSON.parse(content)).toEqual({ shelf: 4, title: 'none' })
    const faults = small.requests.slice(1).map(({ messages }) => messages.at(-1)!.content)
    expect(faults.map((fault) => JSON.parse(fault))).toMatchObject([
      { code: 'INVALID_INPUT', error: expect.stringContaining('shelf') },
      { code: 'INVALID_INPUT', error: expect.stringContaining('shelf') },
    ])
  })

  it('that is wrong a third time is a failed tool', async () => {
    const says = [returns({ shelf: 'x' }), returns({ shelf: 'y' }), returns({ shelf: 'z' })]
    const { content, small, run } = await resultFor({ output: shelf }, says)
    expect(JSON.parse(content)).toMatchObject({
      code: 'SUBAGENT_RESULT_INVALID',
      error: expect.stringContaining('"call_helper" returned nothing that fits its output'),
    })
    expect(JSON.parse(content).error).toContain('shelf')
    expect(small.requests).toHaveLength(3)
    expect(run.of('error')).toEqual([])
  })

  it('and words instead is told to return it; the third words are a failed tool', async () => {
    const mended = await resultFor({ output: shelf }, ['It is on 4.', returns({ shelf: 4 })])
    expect(JSON.parse(mended.content)).toEqual({ shelf: 4, title: 'none' })
    expect(mended.small.requests[1]!.messages.slice(-2)).toMatchObject([
      { role: 'assistant', content: 'It is on 4.' },
      { role: 'user', content: expect.stringContaining('Call return_result') },
    ])
    const failed = await resultFor({ output: shelf }, ['4', 'Four.', 'I said 4.'])
    expect(JSON.parse(failed.content).code).toBe('SUBAGENT_RESULT_INVALID')
  })

  it('goes on in another process with the repairs that are left', async () => {
    const large = modelScript(({ messages }): Answer =>
      messages.at(-1)!.role === 'user'
        ? { calls: [{ name: 'call_helper', args: { task: 'x' } }] }
        : 'Well.',
    )
    const says = [returns({}), 'Four.', returns({ shelf: 'x' })]
    const small = modelScript(({ messages }) => {
      return says[messages.filter(({ role }) => role === 'assistant').length]!
    })
    const model = (name?: string) => (name === 'small' ? small : large)
    const plugin = withAgent({ model: 'small', output: shelf })
    await using engine = await testEngine({ plugins: [plugin], model })
    const lost = await engine.turn('Go', {
      beforeStep({ die }, { messages }) {
        if (messages.some(({ content }) => content === 'Four.')) die()
      },
    })
    expect(lost.end.status).toBe('lost')
    expect((await engine.carryOn(lost)).end.status).toBe('finished')
    const result = large.requests.at(-1)!.messages.at(-1)!
    expect(JSON.parse(result.content).code).toBe('SUBAGENT_RESULT_INVALID')
    expect(says[small.requests.length - 1]).toBeUndefined()
  })

  it('that is done is not asked for again by another process', async () => {
    const large = modelScript(({ messages }): Answer =>
      messages.at(-1)!.role === 'user'
        ? { calls: [{ name: 'call_helper', args: { task: 'x' } }] }
        : 'Well.',
    )
    const small = modelScript([returns({ shelf: 4 })])
    const model = (name?: string) => (name === 'small' ? small : large)
    const plugin = withAgent({ model: 'small', output: shelf })
    await using engine = await testEngine({ plugins: [plugin], model })
    const lost = await engine.turn('Go', {
      beforeStep({ die }, { messages, within }) {
        const isOuter = within === undefined
        if (isOuter && messages.some(({ role }) => role === 'tool')) die()
      },
    })
    expect(lost.end.status).toBe('lost')
    expect((await engine.carryOn(lost)).end.status).toBe('finished')
    expect(small.requests).toHaveLength(1)
    const result = large.requests.at(-1)!.messages.at(-1)!
    expect(JSON.parse(unquote(result.content))).toEqual({ shelf: 4, title: 'none' })
  })
})

describe('the limits of a sub-agent', () => {
  const looking = (count: number): Answer[] =>
    Array.from({ length: count }, () => ({ calls: [{ name: 'look' }] }))

  it('are 10 calls of its model, or as many as it says', async () => {
    const usual = await resultFor({ tools: ['look'] }, looking(10))
    expect(usual.small.requests).toHaveLength(10)
    expect(usual.content).toContain('more than 10 steps')
    const three = await resultFor({ tools: ['look'], maxCalls: 3 }, looking(3))
    expect(three.small.requests).toHaveLength(3)
  })

  it('are never more than TURN_MAX_CALLS', async () => {
    const model = scriptedModel([
      call('call_helper', { task: 'x' }),
      call('look'),
      call('look'),
      'Well.',
    ])
    const plugins = [withAgent({ tools: ['look'], maxCalls: 20 })]
    await using app = await testApp({ plugins, model, env: { TURN_MAX_CALLS: '2' } })
    const said = await (await app.user()).say('Go')
    expect(said.status).toBe('finished')
    expect(resultOf(model.requests[3]!, 'call_helper')).toContain('more than 2 steps')
  })

  it('make a failed tool of one with an output that returned nothing by then', async () => {
    const says = looking(2)
    const { content } = await resultFor({ output: shelf, tools: ['look'], maxCalls: 2 }, says)
    expect(JSON.parse(content)).toMatchObject({
      code: 'SUBAGENT_RESULT_INVALID',
      error: '"call_helper" returned no result within 2 calls of its model.',
    })
  })
})

describe('a sub-agent that takes longer than its time', () => {
  it.each<[string, object, Answer[]]>([
    ['its model', {}, [{ then: 'hangs whatever happens' }]],
    ['its tool', { tools: ['wait'] }, [{ calls: [{ name: 'wait' }] }]],
    ['its prompt', { prompt: never }, []],
  ])('in %s is a failed tool, and the turn goes on', async (_, agent, says) => {
    const { content, run } = await resultFor({ ...agent, timeoutMs: 40 }, says)
    expect(JSON.parse(content)).toMatchObject({
      code: 'TOOL_TIMEOUT',
      error: '"call_helper" did not end within 40 ms.',
      hint: expect.stringContaining('What it did until then is done'),
    })
    expect(run.text).toBe('Well.')
  })

  it('fires the signal of its model and of its tools, and not that of the turn', async () => {
    const signals: AbortSignal[] = []
    const tools = {
      wait: {
        description: 'x',
        input: z.object({}),
        run(_: unknown, { signal }: { signal: AbortSignal }) {
          signals.push(signal)
          return never()
        },
      },
    }
    const large = modelScript([{ calls: [{ name: 'call_helper', args: { task: 'x' } }] }, 'Well.'])
    const small = modelScript([{ calls: [{ name: 'wait' }] }])
    const model = (name?: string) => (name === 'small' ? small : large)
    const plugin = withAgent({ model: 'small', tools: ['wait'], timeoutMs: 1500 }, { tools })
    await using engine = await testEngine({ plugins: [plugin], model })
    const run = await engine.turn('Go')
    expect(run.end.status).toBe('finished')
    expect(signals.map(({ aborted }) => aborted)).toEqual([true])
    expect(small.requests[0]!.signal.aborted).toBe(true)
    expect(large.requests[1]!.signal.aborted).toBe(false)
    // What a write did in the middle is not known, so its mark stays open.
    expect(await engine.effects()).toMatchObject([{ state: 'started' }])
  })
})

describe('at boot', () => {
  const faultOf = async (agent: object, more: object = {}): Promise<string> => {
    const fault = await testApp({ plugins: [withAgent(agent, more)] }).then(
      () => expect.unreachable(),
      (error: RuntimeError) => error,
    )
    expect(fault.code).toBe('BOOT_FAILED')
    return fault.message
  }

  it.each<[object, string]>([
    [
      { tools: ['lok'] },
      'lists the tool "lok", which the plugin does not have. Did you mean "look"?',
    ],
    [{ description: '' }, 'has no description'],
    [{ prompt: undefined }, 'has no prompt'],
    [{ input: 'task' }, 'has an "input" that is no schema'],
    [{ input: z.string() }, 'takes something other than an object'],
    [{ output: {} }, 'has an "output" that is no schema'],
    [{ maxCalls: 0 }, 'has a "maxCalls" of 0'],
    [{ maxCalls: 1001 }, 'has a "maxCalls" of 1001'],
    [{ timeoutMs: '5s' }, 'has a "timeoutMs" of "5s"'],
  ])('%j stops it', async (agent, words) => {
    expect((await faultOf(agent)).replace(/\s+/g, ' ')).toContain(words)
  })

  it('a plugin without tools may have a sub-agent, and its faults are found too', async () => {
    expect(await faultOf({ tools: ['look'] }, { tools: undefined })).toContain('lists the tool')
  })

  it('a tool called return_result stops it: that name is the kernel’s', async () => {
    const taken = { description: 'x', input: z.object({}), run: () => 1 }
    const plugin = definePlugin({ name: 'k', summary: 'k', tools: { return_result: taken } })
    await expect(testApp({ plugins: [plugin] })).rejects.toThrow('called "return_result"')
  })
})

it('load_capability lists call_<name> among the tools', async () => {
  const plugin = withAgent({}, { visibility: 'on-demand' })
  const model = scriptedModel([call('load_capability', { names: ['kit'] }), 'Well.'])
  await using app = await testApp({ plugins: [plugin], model })
  await (await app.user()).say('Go')
  expect(resultOf(model.requests[1]!, 'load_capability')).toMatchObject({
    loaded: [
      {
        tools: [{ name: 'look' }, { name: 'wait' }, { name: 'call_helper', description: 'Helps.' }],
      },
    ],
  })
})
