import { expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { scriptedModel, testApp } from '#core/testing'
import { modelScript } from '../support/model-script.ts'

let ran = 0
const counter = definePlugin({
  name: 'counter',
  summary: 'Counts.',
  visibility: 'always',
  tools: {
    count: {
      description: 'Counts.',
      effect: 'read',
      foreign: false,
      input: z.object({}),
      run: () => ++ran,
    },
  },
})

it('TURN_MAX_CALLS says how often a turn calls its model', async () => {
  const model = modelScript(() => ({ text: 'Again. ', calls: [{ name: 'count' }] }))
  await using app = await testApp({ plugins: [counter], model, env: { TURN_MAX_CALLS: '3' } })
  const said = await (await app.user()).say('Go')
  expect(said.status).toBe('finished')
  expect(model.requests).toHaveLength(3)
  expect(said.text).toContain('this took more than 3 steps')
})

it('STEP_MAX_CALLS says how many calls of one answer are carried out', async () => {
  ran = 0
  const model = scriptedModel([Array.from({ length: 5 }, () => ({ call: 'count' })), 'Well.'])
  await using app = await testApp({ plugins: [counter], model, env: { STEP_MAX_CALLS: '2' } })
  await (await app.user()).say('Go')
  const results = model.requests[1]?.messages.filter(({ role }) => role === 'tool') ?? []
  expect([ran, results.length]).toEqual([2, 5])
  expect(results.at(-1)?.content).toContain('more than 2 calls at once')
})

it.each(['0', '-1', '1001', 'many', '2.5'])('%j of either stops the boot', async (value) => {
  const env = { TURN_MAX_CALLS: value, STEP_MAX_CALLS: value }
  const boot = testApp({ plugins: [], env })
  await expect(boot).rejects.toMatchObject({
    code: 'BOOT_FAILED',
    message: expect.stringMatching(/TURN_MAX_CALLS[\s\S]*STEP_MAX_CALLS/),
  })
})
