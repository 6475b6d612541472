import { expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { testEngine } from './support/engine.ts'
import { modelScript } from './support/model-script.ts'

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

it('a turn without tools streams the words, writes them down and finishes', async () => {
  await using engine = await testEngine({ model: modelScript(['Good day to you.']) })
  const run = await engine.turn('Hello')
  expect(run.end).toMatchObject({ status: 'finished', checkpoint: expect.any(String) })
  expect(run.text).toBe('Good day to you.')
  expect(run.of('message').length).toBeGreaterThan(2)
  expect(engine.runs.transcript()).toMatchObject([
    { role: 'user', content: 'Hello' },
    { role: 'assistant', content: 'Good day to you.' },
  ])
})

it('a capability is loaded and its tool called in one turn, at the cost of one model call', async () => {
  const model = modelScript([
    { text: 'Let me see. ', calls: [{ name: 'load_capability', args: { names: ['clock'] } }] },
    { calls: [{ name: 'tell_time', args: { city: 'Lusaka' } }] },
    'It is noon in Lusaka.',
  ])
  await using engine = await testEngine({ plugins: [clock], model })
  const run = await engine.turn('What time is it in Lusaka?')
  expect(run.end.status).toBe('finished')
  expect(run.text).toBe('Let me see. It is noon in Lusaka.')
  const offered = model.requests.map(({ tools }) => tools.map(({ name }) => name))
  expect(offered).toEqual([
    ['list_capabilities', 'load_capability'],
    ['list_capabilities', 'load_capability', 'tell_time'],
    ['list_capabilities', 'load_capability', 'tell_time'],
  ])
  expect(run.of('tool_call')).toMatchObject([
    { toolName: 'load_capability', status: 'isRunning', args: { names: ['clock'] } },
    { toolName: 'load_capability', status: 'done', output: expect.stringContaining('tell_time') },
    { toolName: 'tell_time', status: 'isRunning' },
    { toolName: 'tell_time', status: 'done', output: '{"city":"Lusaka","hour":12}' },
  ])
})
