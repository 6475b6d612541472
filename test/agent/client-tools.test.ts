import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { testEngine } from '../support/engine.ts'
import { modelScript } from '../support/model-script.ts'
import { unquote } from '../support/quotation.ts'

const schema = { type: 'object', properties: { css: { type: 'string' } }, required: ['css'] }
const click = { name: 'click', description: 'Clicks.', schema }
const request = <More extends object>(more: More) => ({ message: 'Go', ...more })

describe('a tool of the browser', () => {
  it('is offered beside the plugins’ tools, called over there, and its result comes back', async () => {
    const model = modelScript([{ calls: [{ name: 'click', args: { css: '#go' } }] }, 'Clicked.'])
    await using engine = await testEngine({ model })
    const run = await engine.begin(request({ tools: [click] }))
    const carried = run.ended
    const [event] = await run.hears('browser_tool_call')
    expect(event).toEqual({
      sessionId: run.sessionId,
      requestId: run.requestId,
      toolCallId: expect.any(String),
      toolName: 'click',
      args: { css: '#go' },
    })
    await run.answer(event.toolCallId, { result: { clicked: true } })
    expect((await carried).status).toBe('finished')
    expect(model.requests[0]!.tools.at(-1)).toEqual({
      name: 'click',
      description: 'Clicks.',
      parameters: schema,
    })
    expect(unquote(model.requests[1]!.messages.at(-1)!.content)).toBe('{"clicked":true}')
    expect(run.of('tool_call').map(({ status }) => status)).toEqual(['isRunning', 'done'])
  })

  it('two at once each get their own result, whichever comes first', async () => {
    const calls = ['#a', '#b'].map((css) => ({ name: 'click', args: { css } }))
    const model = modelScript([{ calls }, 'Clicked.'])
    await using engine = await testEngine({ model })
    const run = await engine.begin(request({ tools: [click] }))
    const carried = run.ended
    const events = await run.hears('browser_tool_call', 2)
    for (const { toolCallId, args } of events.toReversed())
      await run.answer(toolCallId, { result: `done ${args.css}` })
    await carried
    const results = model.requests[1]!.messages.slice(-2).map(({ content }) => unquote(content))
    expect(results).toEqual(['done #a', 'done #b'])
  })

  it('that fails, or never answers, is an error that the model reads', async () => {
    const calls = [
      { name: 'click', args: { css: '#a' } },
      { name: 'click', args: { css: '#b' } },
    ]
    const model = modelScript([{ calls }, 'Well.'])
    await using engine = await testEngine({ model, clientToolTimeoutMs: 1500 })
    const run = await engine.begin(request({ tools: [click] }))
    const carried = run.ended
    const [first] = await run.hears('browser_tool_call', 2)
    await run.answer(first.toolCallId, { error: 'no such element' })
    expect((await carried).status).toBe('finished')
    const [failed, silent] = model.requests[1]!.messages.slice(-2)
    expect(JSON.parse(unquote(failed!.content))).toMatchObject({
      code: 'CLIENT_TOOL_FAILED',
      error: 'The client could not carry out the call: no such element',
    })
    expect(silent).toMatchObject({ failed: true })
  })

  it('is called with whatever object the model sends: the client that declared it checks', async () => {
    const model = modelScript([{ calls: [{ name: 'click', args: { css: 7 } }] }, 'Well.'])
    await using engine = await testEngine({ model })
    const run = await engine.begin(request({ tools: [click] }))
    const carried = run.ended
    const [{ toolCallId, args }] = await run.hears('browser_tool_call')
    expect(args).toEqual({ css: 7 })
    await run.answer(toolCallId, { error: 'The arguments do not fit: css: expected string' })
    await carried
    expect(JSON.parse(unquote(model.requests[1]!.messages.at(-1)!.content)).error).toContain(
      'css: expected',
    )
  })

  it.each([
    ['no object', ['#go']],
    ['larger than 256 KiB', { css: 'é'.repeat(128 * 1024) }],
    ['deeper than 64 levels', `{"css":${'['.repeat(100_000)}${']'.repeat(100_000)}}`],
  ])('is not called with arguments that are %s', async (_, args) => {
    const model = modelScript([{ calls: [{ name: 'click', args }] }, 'Well.'])
    await using engine = await testEngine({ model })
    const run = await engine.begin(request({ tools: [click] }))
    expect((await run.ended).status).toBe('finished')
    expect(run.of('browser_tool_call')).toEqual([])
    expect(JSON.parse(model.requests[1]!.messages.at(-1)!.content).code).toBe('INVALID_INPUT')
  })

  it('with an empty schema takes any object', async () => {
    const model = modelScript([{ calls: [{ name: 'any', args: { x: [1] } }] }, 'Well.'])
    await using engine = await testEngine({ model })
    const tool = { name: 'any', description: 'Any.', schema: {} }
    const run = await engine.begin(request({ tools: [tool] }))
    const carried = run.ended
    const [{ toolCallId, args }] = await run.hears('browser_tool_call')
    expect(args).toEqual({ x: [1] })
    await run.answer(toolCallId, { result: 1 })
    await carried
    expect(model.requests[0]!.tools.at(-1)!.parameters).toEqual({ type: 'object', properties: {} })
  })

  it('is not asked twice when the process dies while it waits', async () => {
    const model = modelScript([{ calls: [{ name: 'click', args: { css: '#go' } }] }, 'Clicked.'])
    await using engine = await testEngine({ model })
    const run = await engine.begin(request({ tools: [click] }))
    const [{ toolCallId }] = await run.hears('browser_tool_call')
    run.die()
    expect((await run.ended).status).toBe('lost')
    const again = await engine.takeOver(run)
    const carriedAgain = again.ended
    await again.hears('tool_call')
    await again.answer(toolCallId, { result: 'clicked' })
    expect((await carriedAgain).status).toBe('finished')
    expect(again.of('browser_tool_call')).toEqual([])
    expect(unquote(model.requests[1]!.messages.at(-1)!.content)).toBe('clicked')
  })
})

it('an action of the client is heard as an action, from its start to its end', async () => {
  const action = { name: 'show_chart', description: 'Shows.', schema: {}, hasRender: true }
  const model = modelScript([{ calls: [{ name: 'show_chart', args: { n: 1 } }] }, 'There.'])
  await using engine = await testEngine({ model })
  const run = await engine.begin(request({ agActions: [action] }))
  const carried = run.ended
  const [{ toolCallId }] = await run.hears('action_call')
  await run.answer(toolCallId, { result: 'shown' })
  await carried
  const at = {
    sessionId: run.sessionId,
    requestId: run.requestId,
    toolCallId,
    toolName: 'show_chart',
    args: { n: 1 },
  }
  expect(run.of('action_call')).toEqual([
    { ...at, status: 'isRunning' },
    { ...at, status: 'done', output: 'shown' },
  ])
  expect([...run.of('tool_call'), ...run.of('browser_tool_call')]).toEqual([])
})

it('names that collide with ours or with each other are named, before anything runs', async () => {
  const plugin = definePlugin({
    name: 'notes',
    summary: 'n',
    tools: { add_note: { description: 'Adds.', input: z.object({}), run: () => 1 } },
  })
  const model = modelScript([])
  await using engine = await testEngine({ plugins: [plugin], model })
  const named = (name: string) => ({ name, description: 'd', schema: {} })
  const run = await engine.begin(
    request({
      tools: [named('add_note'), named('load_capability'), named('mine')],
      agActions: [named('mine')],
    }),
  )
  const end = await run.ended
  expect(end).toMatchObject({ status: 'failed', error: { code: 'INVALID_INPUT', status: 400 } })
  const [{ error }] = run.of('error')
  expect(error).toContain('"add_note" is the name of a tool of notes')
  expect(error).toContain('"load_capability" is the name of a tool of the kernel')
  expect(error).toContain('"mine" is the name of a tool of your tools')
})
