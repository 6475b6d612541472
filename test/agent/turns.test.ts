import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { testEngine } from '../support/engine.ts'
import { modelScript } from '../support/model-script.ts'
import { unquote } from '../support/quotation.ts'

const clock = definePlugin({
  name: 'clock',
  summary: 'Knows the hour.',
  tools: {
    tell_time: {
      description: 'The hour.',
      effect: 'read',
      input: z.object({ city: z.string() }),
      run: ({ city }) => ({ city, hour: 12 }),
    },
  },
})

describe('a turn', () => {
  it('without tools streams the words as they come, writes them down and finishes', async () => {
    await using engine = await testEngine({ model: modelScript(['Good day to you.']) })
    const run = await engine.turn('Hello')
    expect(run.end).toEqual({ status: 'finished' })
    expect(run.of('message').map(({ content }) => content)).toEqual([
      'Good',
      ' day',
      ' to',
      ' you.',
    ])
    expect(await engine.transcript()).toMatchObject([
      { role: 'user', content: 'Hello' },
      { role: 'assistant', content: 'Good day to you.' },
    ])
  })

  it('loads a capability and calls its tool, at the cost of one model call', async () => {
    const model = modelScript([
      { text: 'Let me see. ', calls: [{ name: 'load_capability', args: { names: ['clock'] } }] },
      { calls: [{ name: 'tell_time', args: { city: 'Lusaka' } }] },
      'It is noon in Lusaka.',
    ])
    await using engine = await testEngine({ plugins: [clock], model })
    const run = await engine.turn('What time is it in Lusaka?')
    expect(run.end).toMatchObject({ status: 'finished', checkpoint: expect.any(String) })
    expect(run.text).toBe('Let me see. It is noon in Lusaka.')
    expect(model.requests.map(({ tools }) => tools.map(({ name }) => name))).toEqual([
      ['list_capabilities', 'load_capability'],
      ['list_capabilities', 'load_capability', 'tell_time'],
      ['list_capabilities', 'load_capability', 'tell_time'],
    ])
    expect(model.requests[2]!.messages.map(({ role }) => role)).toEqual([
      'system',
      'user',
      'assistant',
      'tool',
      'assistant',
      'tool',
    ])
  })

  it('remembers the turns before it, whether this process carried them out or another', async () => {
    const model = modelScript((_, nth) => `answer ${nth + 1}`)
    await using engine = await testEngine({ model })
    await engine.turn('one')
    const second = await engine.turn('two')
    await using other = await testEngine({ model, store: engine.store })
    const third = await other.turn('three')
    const said = model.requests.map(({ messages }) =>
      messages.slice(1).map(({ content }) => content),
    )
    expect(said).toEqual([
      ['one'],
      ['one', 'answer 1', 'two'],
      ['one', 'answer 1', 'two', 'answer 2', 'three'],
    ])
    expect([second.historyReads, third.historyReads]).toEqual([0, 1])
  })

  it('runs the calls of one step at once and joins their results in the order of the calls', async () => {
    const order: string[] = []
    // Each ends after the next one has: the last one begins with it.
    const turns = [0, 1, 2].map(() => Promise.withResolvers<void>())
    turns[2]!.resolve()
    const slow = definePlugin({
      name: 'slow',
      summary: 's',
      visibility: 'always',
      tools: {
        wait: {
          description: 'Waits.',
          effect: 'read',
          input: z.object({ nth: z.number() }),
          async run({ nth }) {
            order.push(`begins ${nth}`)
            await turns[nth]!.promise
            order.push(`ends ${nth}`)
            turns[nth - 1]?.resolve()
            return nth
          },
        },
      },
    })
    const calls = [0, 1, 2].map((nth) => ({ name: 'wait', args: { nth } }))
    const model = modelScript([{ calls }, 'Done.'])
    await using engine = await testEngine({ plugins: [slow], model })
    const run = await engine.turn('Wait')
    expect(order).toEqual(['begins 0', 'begins 1', 'begins 2', 'ends 2', 'ends 1', 'ends 0'])
    const results = model.requests[1]!.messages.filter(({ role }) => role === 'tool')
    expect(results.map(({ content }) => unquote(content))).toEqual(['0', '1', '2'])
    const ended = run.of('tool_call').filter(({ status }) => status === 'done')
    expect(ended.map(({ output }) => output)).toEqual(['2', '1', '0'])
  })

  it('shows what the model thinks, and says when the thinking is over', async () => {
    const model = modelScript([{ reasoning: 'Hm, let me', text: 'Yes.' }])
    await using engine = await testEngine({ model })
    const run = await engine.turn('Well?')
    expect(run.heard.map(({ event, data }) => [event, data.reasoning ?? data.content])).toEqual([
      ['reasoning', 'Hm,'],
      ['reasoning', ' let'],
      ['reasoning', ' me'],
      ['reasoning', ''],
      ['message', 'Yes.'],
    ])
    expect(run.of('reasoning').map(({ isComplete }) => isComplete)).toEqual([
      false,
      false,
      false,
      true,
    ])
    expect((await engine.transcript()).at(-1)).toMatchObject({ reasoning: 'Hm, let me' })
  })

  it('tells everything in the words of the wire', async () => {
    const showy = definePlugin({
      name: 'showy',
      summary: 's',
      visibility: 'always',
      tools: {
        show: {
          description: 'Shows.',
          effect: 'read',
          input: z.object({ what: z.string() }),
          run({ what }, { emit }) {
            emit.progress(1, 2, 'half way')
            emit.component('Card', { what })
            emit.router('/cards')
            emit.invalidate('stale')
            return 'shown'
          },
        },
      },
    })
    const model = modelScript([{ calls: [{ name: 'show', args: { what: 'ace' } }] }, 'There.'])
    await using engine = await testEngine({ plugins: [showy], model })
    const run = await engine.turn('Show')
    const at = { sessionId: run.sessionId, requestId: run.requestId }
    const [{ toolCallId }] = run.of('tool_call')
    const call = { ...at, eventId: toolCallId, toolCallId, toolName: 'show', args: { what: 'ace' } }
    expect(run.heard).toEqual([
      { event: 'tool_call', data: { ...call, status: 'isRunning' } },
      { event: 'progress', data: { toolCallId, done: 1, total: 2, note: 'half way' } },
      {
        event: 'render_component',
        data: {
          ...at,
          eventId: `${toolCallId}-1`,
          componentName: 'Card',
          args: { what: 'ace' },
          status: 'done',
        },
      },
      { event: 'router', data: { route: '/cards' } },
      { event: 'message_cache_invalidation', data: { status: 'stale' } },
      { event: 'tool_call', data: { ...call, status: 'done', output: 'shown' } },
      {
        event: 'message',
        data: { content: 'There.', timestamp: expect.any(String) },
      },
    ])
    expect((await engine.entries())[0]!.components).toEqual([
      { eventId: `${toolCallId}-1`, toolCallId, name: 'Card', args: { what: 'ace' } },
    ])
  })

  it('writes a step down in one entry when its tools are quick', async () => {
    const model = modelScript([
      {
        calls: [{ name: 'list_capabilities' }, { name: 'list_capabilities', args: { query: 'x' } }],
      },
      'Nothing.',
    ])
    await using engine = await testEngine({ model })
    await engine.turn('What can you do?')
    const entries = await engine.entries()
    expect(entries.map(({ messages }) => messages.map(({ role }) => role))).toEqual([
      ['assistant', 'tool', 'tool'],
      ['assistant'],
    ])
  })

  it('writes the calls down first when a tool takes its time', async () => {
    const slow = definePlugin({
      name: 'slow',
      summary: 's',
      visibility: 'always',
      tools: {
        ponder: {
          description: 'Takes long.',
          effect: 'read',
          input: z.object({}),
          async run() {
            while ((await engine.entries()).length === 0)
              await new Promise((resolve) => setTimeout(resolve, 5))
            return 'pondered'
          },
        },
      },
    })
    const model = modelScript([{ calls: [{ name: 'ponder' }] }, 'Well.'])
    await using engine = await testEngine({ plugins: [slow], model })
    const run = await engine.turn('Ponder')
    expect(run.end.status).toBe('finished')
    expect((await engine.entries()).map(({ messages }) => messages[0]!.role)).toEqual([
      'assistant',
      'tool',
      'assistant',
    ])
  })
})

describe('the first request of a turn', () => {
  const withTools = (count: number) =>
    Array.from({ length: 5 }, (_, p) =>
      definePlugin({
        name: `plugin-${p}`,
        summary: 'One of five.',
        tools: Object.fromEntries(
          Array.from({ length: count / 5 }, (_, t) => [
            `tool_${p}_${t}`,
            {
              description: 'Does a thing, and says so at length.',
              input: z.object({}),
              run: () => 1,
            },
          ]),
        ),
      }),
    )

  it('does not grow with the tools that could be loaded', async () => {
    const sizes: number[] = []
    for (const count of [10, 100, 500]) {
      const model = modelScript(['Hello.'])
      await using engine = await testEngine({ plugins: withTools(count), model })
      await engine.turn('Hello')
      const [{ messages, tools }] = model.requests as [(typeof model.requests)[number]]
      sizes.push(JSON.stringify({ messages, tools }).length)
    }
    expect(new Set(sizes).size).toBe(1)
  })
})
