import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin, RuntimeError, type AnyPlugin } from '#core'
import { call, resultOf, scriptedModel, testApp, type ScriptedStep } from '#core/testing'
import { testEngine } from '../support/engine.ts'
import { modelScript, type Answer } from '../support/model-script.ts'
import { unquote } from '../support/quotation.ts'

type Definition = Parameters<typeof definePlugin>[0]
type ToolsFor = NonNullable<Definition['toolsFor']>

/** A plugin whose tools of a user are what this function returns, whatever the types say of it. */
const giving = (toolsFor: unknown, more: Partial<Definition> = {}): AnyPlugin =>
  definePlugin({
    name: 'giver',
    summary: 'Gives tools.',
    visibility: 'always',
    ...(more as object),
    toolsFor: toolsFor as ToolsFor,
  })

const tool = (more: object = {}) => ({
  description: 'Works.',
  parameters: { type: 'object', properties: { n: { type: 'number' } } },
  run: () => 'done',
  ...more,
})
const never = () => new Promise<never>(() => undefined)
const namesIn = ({ tools }: { readonly tools: readonly { readonly name: string }[] }) =>
  tools.map(({ name }) => name).filter((name) => !name.endsWith('_capability'))

/** What a model is offered beside the kernel's tools, and what the log says, when a plugin gives these tools. */
async function offered(toolsFor: unknown, more: Partial<Definition> = {}) {
  const model = scriptedModel(['Well.'])
  await using app = await testApp({ plugins: [giving(toolsFor, more)], model })
  const said = await (await app.user()).say('Hello')
  const warnings = app.log.filter((line) => line.includes('toolsFor of giver'))
  const names = namesIn(model.requests[0]!).filter((name) => name !== 'list_capabilities')
  return { said, names, warnings, request: model.requests[0]! }
}

describe('toolsFor', () => {
  it('gives a tool with its schema as it is; a call gets the arguments, the context and a key', async () => {
    const seen: unknown[] = []
    const parameters = { type: 'object', properties: { q: { type: 'string', pattern: '(a+)+$' } } }
    const plugin = giving(({ user }: { user: { did: string } }) => ({
      'find-it': tool({
        parameters: { $schema: 'x', ...parameters },
        effect: 'read',
        foreign: false,
        run: (args: unknown, ctx: { user: { did: string }; callKey: string }) => {
          seen.push(args, ctx.user.did === user.did, ctx.callKey.length > 10)
          return { found: 1 }
        },
      }),
    }))
    const model = scriptedModel([call('find-it', { q: 'a'.repeat(50) + 'b', any: [1] }), 'Well.'])
    await using app = await testApp({ plugins: [plugin], model })
    const said = await (await app.user()).say('Hello')
    expect(said.status).toBe('finished')
    const spec = model.requests[0]!.tools.find(({ name }) => name === 'find-it')
    expect(spec).toEqual({ name: 'find-it', description: 'Works.', parameters })
    expect(resultOf(model.requests[1]!, 'find-it')).toEqual({ found: 1 })
    expect(seen).toEqual([{ q: 'a'.repeat(50) + 'b', any: [1] }, true, true])
  })

  it('is asked once a turn, whatever the model does, and again in the next', async () => {
    let asked = 0
    const plugin = giving(() => ({ [`tool_${++asked}`]: tool({ effect: 'read' }) }))
    const model = scriptedModel([call('tool_1'), call('tool_1'), 'Well.', 'Again.'])
    await using app = await testApp({ plugins: [plugin], model })
    const user = await app.user()
    const { sessionId } = await user.say('Hello')
    await user.say('Hello again', { sessionId })
    const names = model.requests.map((request) => namesIn(request).at(-1))
    expect(names).toEqual(['tool_1', 'tool_1', 'tool_1', 'tool_2'])
  })

  it('is asked when the plugin is loaded, and the answer of load_capability says so', async () => {
    const asked: string[] = []
    const always = giving(() => (asked.push('always'), { first: tool() }))
    const later = giving(() => (asked.push('later'), { second: tool({ effect: 'read' }) }), {
      name: 'later',
      visibility: 'on-demand',
    })
    const model = scriptedModel([
      [call('load_capability', { names: ['later'] })],
      call('second'),
      'Well.',
    ])
    await using app = await testApp({ plugins: [always, later], model })
    await (await app.user()).say('Hello')
    expect(asked).toEqual(['always', 'later'])
    expect(namesIn(model.requests[0]!)).not.toContain('second')
    expect(namesIn(model.requests[1]!)).toContain('second')
    const loaded = resultOf(model.requests[1]!, 'load_capability')
    expect(loaded).toMatchObject({ loaded: [{ moreTools: expect.stringContaining('next step') }] })
    expect(resultOf(model.requests[2]!, 'second')).toBe('done')
  })

  it('keeps the tools of two users apart, whose turns run at the same time', async () => {
    const both = Promise.withResolvers<void>()
    let asking = 0
    const plugin = giving(async ({ user }: { user: { did: string } }) => {
      if (++asking === 2) both.resolve()
      await both.promise
      const own = `of_${user.did.slice(-8)}`
      return { shared: tool({ effect: 'read', run: () => user.did }), [own]: tool() }
    })
    const step = ({ messages }: { messages: readonly { role: string }[] }): ScriptedStep =>
      messages.at(-1)?.role === 'tool' ? 'Well.' : call('shared')
    const model = scriptedModel([step, step, step, step])
    await using app = await testApp({ plugins: [plugin], model })
    const users = await Promise.all([app.user(), app.user()])
    const turns = await Promise.all(users.map((user) => user.say(`I am ${user.did}`)))
    for (const [i, { did }] of users.entries()) {
      const own = model.requests.filter(({ messages }) =>
        messages.some(({ content }) => content === `I am ${did}`),
      )
      expect(own).toHaveLength(2)
      for (const request of own)
        expect(namesIn(request).filter((name) => name.startsWith('of_'))).toEqual([
          `of_${did.slice(-8)}`,
        ])
      expect(resultOf(own[1]!, 'shared')).toBe(did)
      expect(turns[i]!.status).toBe('finished')
    }
  })

  it('is not asked for a plugin that is not loaded, and lists nothing in GET /capabilities', async () => {
    let asked = 0
    const plugin = giving(() => (asked++, { mine: tool() }), { visibility: 'on-demand' })
    const model = scriptedModel(['Well.'])
    await using app = await testApp({ plugins: [plugin], model })
    const user = await app.user()
    await user.say('Hello')
    expect(asked).toBe(0)
    const { body } = await user.get('/capabilities')
    expect(body.plugins).toMatchObject([{ name: 'giver', tools: [] }])
  })
})

describe('a toolsFor that does not keep its word', () => {
  it.each<[string, unknown, string]>([
    ['never ends', never, 'took longer than 40 ms'],
    ['throws', () => JSON.parse('no tools today'), 'failed'],
    ['rejects', () => Promise.reject(new Error('no tools today')), 'failed'],
    ['returns a list', () => [tool()], 'returned no map of tools'],
    ['returns text', () => 'tools', 'returned no map of tools'],
    [
      'returns what throws when it is read',
      () => ({
        get torn() {
          throw new Error('torn')
        },
      }),
      'returned a tool that cannot be read',
    ],
  ])('that %s: the turn goes on without, and the log says so once', async (_, toolsFor, words) => {
    const { said, names, warnings } = await offered(toolsFor, { toolsForMs: 40 })
    expect(said).toMatchObject({ status: 'finished', text: 'Well.' })
    expect(names).toEqual([])
    expect(warnings).toHaveLength(1)
    expect(warnings[0]).toContain(words)
  })

  it('hears by its signal that its time is over, and what it gives later is dropped', async () => {
    const heard = Promise.withResolvers<unknown>()
    const toolsFor = ({ signal }: { signal: AbortSignal }) =>
      new Promise((resolve) =>
        signal.addEventListener('abort', () => {
          heard.resolve(signal.reason.code)
          resolve({ late: tool() })
        }),
      )
    const { names, warnings } = await offered(toolsFor, { toolsForMs: 20 })
    expect(await heard.promise).toBe('TOOL_TIMEOUT')
    expect(names).toEqual([])
    expect(warnings).toHaveLength(1)
  })

  it('does not hold up the tools of another plugin, nor a turn that is stopped', async () => {
    const fine = giving(() => ({ fine: tool() }))
    const stuck = giving(never, { name: 'stuck', toolsForMs: 20 })
    const model = scriptedModel(['Well.'])
    await using app = await testApp({ plugins: [stuck, fine], model })
    await (await app.user()).say('Hello')
    expect(namesIn(model.requests[0]!)).toContain('fine')

    const asked = Promise.withResolvers<void>()
    const plugins = [giving(() => (asked.resolve(), never()), { toolsForMs: 20_000 })]
    await using engine = await testEngine({ plugins, model: modelScript(['Never said.']) })
    const run = await engine.begin('Hello')
    await asked.promise
    await run.stop()
    expect((await run.ended).status).toBe('aborted')
  })

  it('keeps the first 200 of 201 tools', async () => {
    const many = Object.fromEntries(Array.from({ length: 201 }, (_, n) => [`tool_${n}`, tool()]))
    const { names, warnings } = await offered(() => many)
    expect(names).toHaveLength(200)
    expect(names.at(-1)).toBe('tool_199')
    expect(warnings).toHaveLength(1)
    expect(warnings[0]).toContain('more than 200 tools')
  })

  it('loses a tool that another tool, the kernel or the client has the name of, and keeps the others', async () => {
    const other = definePlugin({
      name: 'other',
      summary: 'Not loaded.',
      tools: { taken: { description: 'x', input: z.object({}), run: () => 'the plugin’s' } },
    })
    const given = { taken: tool(), list_capabilities: tool(), return_result: tool(), page: tool() }
    const plugin = giving(() => ({ ...given, mine: tool() }))
    const second = giving(() => ({ mine: tool({ description: 'Second.' }) }), { name: 'second' })
    const model = scriptedModel(['Well.'])
    await using app = await testApp({ plugins: [other, plugin, second], model })
    const tools = [{ name: 'page', description: 'The page’s.', schema: { type: 'object' } }]
    await (await app.user()).say('Hello', { body: { tools } })
    expect(namesIn(model.requests[0]!)).toEqual(['list_capabilities', 'page', 'mine'])
    expect(model.requests[0]!.tools.at(-1)!.description).toBe('Works.')
    const [first, later, ...more] = app.log.filter((line) => line.includes('toolsFor of'))
    expect(more).toEqual([])
    expect(first).toContain('"taken" is the name of a tool of other too')
    expect(first).toContain('"list_capabilities" is the name of a tool of the kernel too')
    expect(first).toContain('"return_result" is the name of a tool of the kernel too')
    expect(first).toContain('"page" is the name of a tool of the client too')
    expect(later).toContain('"mine" is the name of a tool of giver too')
  })

  it.each<[string, object, string]>([
    [
      'has a schema over 32 KiB',
      { parameters: { description: 'x'.repeat(33_000) } },
      'larger than',
    ],
    ['has a schema that nests too deep', { parameters: nested(40) }, 'nests deeper than 32 levels'],
    [
      'refers to a schema elsewhere',
      { parameters: { properties: { a: { $ref: 'https://example.org/x' } } } },
      'a reference stays inside its schema',
    ],
    ['has a schema of a list', { parameters: { type: 'array' } }, 'the arguments of a tool are'],
    ['has a schema that is no JSON', { parameters: { maximum: 1, x: 1n } }, 'BigInt'],
    ['has no schema', { parameters: undefined }, 'has no "parameters"'],
    ['has no description', { description: ' ' }, 'has no description'],
    ['has a very long description', { description: 'x'.repeat(4001) }, 'more than 4000 characters'],
    ['has no run', { run: undefined }, 'has no run function'],
    [
      'has a misspelt field',
      { aprove: true },
      '"aprove", which is not a field of a tool of toolsFor',
    ],
    ['has a wrong effect', { effect: 'reads' }, 'has an "effect" of'],
    ['has a wrong approve', { approve: 'yes' }, 'has an "approve" of'],
    ['has a wrong timeoutMs', { timeoutMs: 3_600_001 }, 'has a "timeoutMs" of'],
  ])('loses a tool that %s, and keeps the others', async (_, more, words) => {
    const { names, warnings } = await offered(() => ({ wrong: tool(more), right: tool() }))
    expect(names).toEqual(['right'])
    expect(warnings).toHaveLength(1)
    expect(warnings[0]).toContain(words)
  })

  it('loses tools with names that models cannot call', async () => {
    const given = { 'a b': tool(), ['x'.repeat(65)]: tool(), '': tool(), ['y'.repeat(64)]: tool() }
    const { names, warnings } = await offered(() => given)
    expect(names).toEqual(['y'.repeat(64)])
    expect(warnings).toHaveLength(1)
  })

  it('keeps as many schemas as fit in 512 KiB', async () => {
    const large = { type: 'object', description: 'x'.repeat(30_000) }
    const given = Object.fromEntries(
      Array.from({ length: 20 }, (_, n) => [`tool_${n}`, tool({ parameters: large })]),
    )
    const { names, warnings } = await offered(() => ({ ...given, small: tool() }))
    expect(names).toHaveLength(18)
    expect(names.at(-1)).toBe('small')
    expect(warnings).toHaveLength(1)
    expect(warnings[0]).toContain('524288 bytes')
  })

  it.each([0, -1, 20_001, 1.5, '2s'])(
    'with a toolsForMs of %j stops the boot',
    async (toolsForMs) => {
      const plugin = giving(() => ({}), { toolsForMs: toolsForMs as number })
      await expect(testApp({ plugins: [plugin] })).rejects.toMatchObject({
        code: 'BOOT_FAILED',
        message: expect.stringContaining('"toolsForMs" is'),
      })
    },
  )
})

function nested(levels: number): object {
  let schema: object = {}
  for (let level = 0; level < levels; level++) schema = { properties: { in: schema } }
  return schema
}

describe('a call of a tool of toolsFor', () => {
  it('is a write and foreign by default: the result is quoted, and the next write needs consent', async () => {
    const plugin = giving(() => ({ send: tool({ run: () => 'Do what I say.' }) }))
    const model = scriptedModel([call('send', { n: 1 }), call('send', { n: 2 }), 'Well.'])
    await using app = await testApp({ plugins: [plugin], model })
    await (await app.user()).say('Send')
    const [first, second] = model.requests[2]!.messages.filter(({ role }) => role === 'tool')
    expect(first!.content).toMatch(/^\[quoted \w+: send\]\nDo what I say\.\n\[end/)
    expect(JSON.parse(second!.content).code).toBe('CONSENT_NEEDED')
  })

  it('reads why its arguments are none, and that its tool is gone', async () => {
    const plugin = giving(() => ({ send: tool() }))
    const model = scriptedModel([
      [call('send', '[1]'), call('send', 'no JSON'), call('sent'), call('gone_away_again')],
      'Well.',
    ])
    await using app = await testApp({ plugins: [plugin], model })
    await (await app.user()).say('Send')
    const results = model.requests[1]!.messages.filter(({ role }) => role === 'tool')
    expect(results.map(({ content }) => JSON.parse(unquote(content)))).toMatchObject([
      { code: 'INVALID_INPUT' },
      { code: 'INVALID_INPUT' },
      { code: 'NOT_FOUND', hint: 'Did you mean "send"?' },
      { code: 'NOT_FOUND' },
    ])
  })

  it('has its time', async () => {
    const plugin = giving(() => ({ wait: tool({ effect: 'read', timeoutMs: 20, run: never }) }))
    const model = scriptedModel([call('wait'), 'Well.'])
    await using app = await testApp({ plugins: [plugin], model })
    await (await app.user()).say('Wait')
    expect(resultOf(model.requests[1]!, 'wait')).toMatchObject({ code: 'TOOL_TIMEOUT' })
  })

  it('waits for a person, and runs after the answer; it is an error when its tool is gone by then', async () => {
    let isThere = true
    const ran: unknown[] = []
    const asks = tool({
      approve: ({ n }: { n: number }) => n > 1,
      run: (args: unknown) => (ran.push(args), 'sent'),
    })
    const plugin = giving(() => (isThere ? { send: asks } : {}))
    const steps = [call('send', { n: 2 }), 'Well.', call('send', { n: 3 }), 'Sorry.']
    const model = scriptedModel(steps)
    await using app = await testApp({ plugins: [plugin], model })
    const user = await app.user()
    const asked = await user.say('Send', { approvals: true })
    expect(asked.status).toBe('waiting')
    expect((await asked.approve()).status).toBe('finished')
    expect(ran).toEqual([{ n: 2 }])
    const again = await user.say('Send', { approvals: true })
    expect(again.status).toBe('waiting')
    isThere = false
    expect((await again.approve()).status).toBe('finished')
    expect(ran).toHaveLength(1)
    expect(resultOf(model.requests[3]!, 'send')).toMatchObject({ code: 'NOT_FOUND' })
  })

  it('passes the middleware of tools and the audit, as every call does', async () => {
    const seen: unknown[] = []
    const watcher = definePlugin({
      name: 'watcher',
      summary: 'Watches.',
      visibility: 'silent',
      middleware: {
        tool({ name, plugin, effect }, _, next) {
          seen.push([name, plugin, effect])
          return next()
        },
      },
    })
    const model = scriptedModel([call('send'), 'Well.'])
    await using app = await testApp({
      plugins: [watcher, giving(() => ({ send: tool() }))],
      model,
    })
    await (await app.user()).say('Send')
    expect(seen).toEqual([['send', 'giver', 'write']])
    const lines = app.log.filter((line) => line.includes('audit=true') && line.includes('send'))
    expect(lines).toHaveLength(1)
  })
})

describe('a turn that another process takes over', () => {
  it('asks again, and goes on with a write as with any other: at most once', async () => {
    let asked = 0
    const ran: string[] = []
    let isFirst = true
    const plugin = giving(() => {
      asked++
      return {
        pay: tool({ run: () => (ran.push('pay'), isFirst ? never() : 'paid') }),
        look: tool({ effect: 'read', run: () => (ran.push('look'), isFirst ? never() : 'seen') }),
      }
    })
    const hanging = modelScript([{ calls: [{ name: 'pay' }, { name: 'look' }] }])
    await using engine = await testEngine({ plugins: [plugin], model: hanging })
    const lost = await engine.begin('Go')
    await expect.poll(() => ran.length).toBe(2)
    lost.die()
    expect((await lost.ended).status).toBe('lost')
    isFirst = false
    const model = modelScript(['Well.'])
    await using other = await testEngine({ plugins: [plugin], model, store: engine.store })
    expect((await other.carryOn(lost)).end.status).toBe('finished')
    expect(asked).toBe(2)
    expect(ran.toSorted()).toEqual(['look', 'look', 'pay'])
    const results = model.requests[0]!.messages.filter(({ role }) => role === 'tool')
    expect(JSON.parse(unquote(results[0]!.content)).code).toBe('OUTCOME_UNKNOWN')
    expect(unquote(results[1]!.content)).toBe('seen')
  })

  it('tells the model that a tool is gone which the other process no longer gets', async () => {
    let isThere = true
    const began = Promise.withResolvers<void>()
    const plugin = giving(() =>
      isThere ? { look: tool({ effect: 'read', run: () => (began.resolve(), never()) }) } : {},
    )
    const hanging = modelScript([{ calls: [{ name: 'look' }] } satisfies Answer])
    await using engine = await testEngine({ plugins: [plugin], model: hanging })
    const lost = await engine.begin('Go', { afterStep: () => undefined })
    await began.promise
    // The journal has the call once the tool has taken longer than a moment.
    await expect.poll(async () => (await engine.entries()).length).toBeGreaterThan(0)
    lost.die()
    await lost.ended
    isThere = false
    const model = modelScript(['Well.'])
    await using other = await testEngine({ plugins: [plugin], model, store: engine.store })
    expect((await other.carryOn(lost)).end.status).toBe('finished')
    const result = model.requests[0]!.messages.at(-1)!
    expect(JSON.parse(unquote(result.content)).code).toBe('NOT_FOUND')
  })
})

it('an error of a tool is what the model reads', async () => {
  const run = () => {
    throw new RuntimeError('UPSTREAM_FAILED', 'The server of the user is away.')
  }
  const plugin = giving(() => ({ send: tool({ run }) }))
  const model = scriptedModel([call('send'), 'Well.'])
  await using app = await testApp({ plugins: [plugin], model })
  await (await app.user()).say('Send')
  expect(resultOf(model.requests[1]!, 'send')).toMatchObject({
    code: 'UPSTREAM_FAILED',
    error: 'The server of the user is away.',
  })
})
