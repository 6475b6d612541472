import { beforeAll, describe, expect, it } from 'vitest'
import {
  scriptedModel,
  testApp,
  type Said,
  type ScriptedModel,
  type TestApp,
  type TestUser,
} from '#core/testing'
import { onEachDatabase } from '../../test/support/each-database.ts'
import { call, quickDemo, resultOf } from '../../test/support/models.ts'
import sampling from './index.ts'
import { userWith } from '../../test/support/granted-user.ts'

const asked =
  'How many of our 5,000 households must we survey? The project is did:ixo:entity:abc123, the ' +
  'expected mean is 0.8, the standard deviation 0.2 and the dropout rate 15 %.'
const numbers = {
  projectId: 'did:ixo:entity:abc123',
  population: 5000,
  confidence: 0.95,
  precision: 0.05,
  expectedMean: 0.8,
  expectedSD: 0.2,
  dropoutRate: 0.15,
}
const found = { actualMean: 0.75, actualSD: 0.25, actualDropoutRate: 0.2, completes: 100, er: 1000 }

/** The parsed output of a tool, from the events of the stream. */
function outputOf(said: Said, tool: string): any {
  // any: the tests read members of the output
  const done = said
    .of('tool_call')
    .find(({ toolName, status }) => toolName === tool && status === 'done')
  expect(done, `${tool}: ${JSON.stringify(said.of('tool_call'))}`).toBeDefined()
  return typeof done.output === 'string' ? JSON.parse(done.output) : done.output
}

await onEachDatabase('a conversation about a sample', ({ databaseUrl }) => {
  let app: TestApp
  let user: TestUser
  let model: ScriptedModel
  let designId = ''
  beforeAll(async () => {
    const designed = (request: Parameters<typeof resultOf>[0]) =>
      resultOf(request, 'design_sample') as { designId: string; summary: string }
    model = scriptedModel([
      call('list_capabilities', {}),
      call('load_capability', { names: ['sampling'] }),
      call('design_sample', numbers),
      (request) => call('explain_sample', { designId: designed(request).designId }),
      (request) => {
        const { steps } = resultOf(request, 'explain_sample') as { steps: { result: string }[] }
        return [designed(request).summary, ...steps.map(({ result }) => result)].join('\n')
      },
      (request) => call('recalculate_sample', { designId: designed(request).designId, ...found }),
      (request) => (resultOf(request, 'recalculate_sample') as { summary: string }).summary,
      (request) =>
        call('select_sample', {
          designId: designed(request).designId,
          frame: { all: ['h1', 'h2'] },
          beacon: { source: 'caller', round: 7 },
        }),
      'The frame is too short.',
      (request) =>
        call('select_sample', {
          designId: designed(request).designId,
          beaconHex: 'ab'.repeat(32),
          reserves: 5,
        }),
      'It is drawn.',
    ])
    app = await testApp({
      plugins: [sampling],
      model,
      env: { API_KEY: 'a-key-for-this-test', ...(databaseUrl && { DATABASE_URL: databaseUrl }) },
    })
    user = await userWith(app, 'sampling/*')
    return () => app.close()
  })
  let sessionId: string | undefined
  const say = async (message: string) => {
    const said = await user.say(message, { sessionId })
    sessionId = said.sessionId
    expect(said.status).toBe('finished')
    return said
  }

  it('asked in plain words, it loads the plugin, designs, and explains each step with its numbers', async () => {
    const said = await say(asked)
    expect(said.tools).toEqual([
      'list_capabilities',
      'load_capability',
      'design_sample',
      'explain_sample',
    ])
    designId = outputOf(said, 'design_sample').designId
    const { steps } = outputOf(said, 'explain_sample')
    expect(steps.map(({ step }: { step: string }) => step)).toEqual([
      'Quantile',
      'Relative variance',
      'Base size, for an infinite population',
      'Finite population',
      'Student’s t',
      'Dropout',
      'Emission reductions',
    ])
    for (const said95 of ['95 must answer', '112 are to be drawn', '1.95996', '96.036', '94.245'])
      expect(said.text).toContain(said95)
    // The runtime showed the model none of the plugin's tools before the model loaded the plugin.
    const shown = model.requests.slice(0, 3).map(({ tools }) => tools.map(({ name }) => name))
    expect(shown[0]).not.toContain('design_sample')
    expect(shown[1]).not.toContain('design_sample')
    expect(shown[2]).toContain('design_sample')
  })

  it('keeps what it designed as its user’s own', async () => {
    expect(await user.get(`/v1/sampling/${designId}`)).toMatchObject({
      status: 200,
      body: { createdBy: user.did, parameters: { calculatedSize: 95, adjustedSize: 112 } },
    })
    const thread = app.thread({ grants: [] }).load('sampling')
    await expect(thread.call('get_sample_design', { designId })).rejects.toMatchObject({
      code: 'NOT_FOUND',
    })
  })

  it('recalculates in the next turn from what the period found', async () => {
    const said = await say('The mean was 0.75, the SD 0.25, the dropout 20 %, 100 answered.')
    expect(said.tools).toEqual(['recalculate_sample'])
    const record = outputOf(said, 'recalculate_sample')
    expect(record).toMatchObject({
      revision: 2,
      parameters: { calculatedSize: 166, adjustedSize: 208 },
      change: { previousAdjustedSize: 112, delta: 96, direction: 'up' },
      reliability: { meetsPrecision: false },
    })
    expect(said.text).toContain('112 before, so up')
    const { body } = await user.get(`/v1/sampling/${designId}/revisions`)
    expect(body.items).toHaveLength(2)
  })

  it('tells the model what is wrong, so that it can say so', async () => {
    const said = await say('Take h1 and h2 as the frame.')
    const [failed] = said.of('tool_call').filter(({ status }) => status === 'error')
    expect(failed.error).toContain('The frame lists 2 ids of stratum "all", and 208')
    expect(said.text).toBe('The frame is too short.')
  })

  it('shows how far a long selection has come while it goes on', async () => {
    const many = 100_000
    const lines = Array.from({ length: many }, (_, n) => `"household-${n}"`).join('\n')
    const committed = await user.post(
      `/v1/sampling/${designId}/selection/commit?round=7&source=caller`,
      lines,
      {
        'content-type': 'application/x-ndjson',
      },
    )
    expect(committed).toMatchObject({ status: 200, body: { counts: { all: many } } })

    const said = await say('The round is out, draw the sample.')
    const { strata } = outputOf(said, 'select_sample')
    expect(strata[0]).toMatchObject({ ids: { length: 208 }, reserves: { length: 5 } })
    const [running, , ...rest] = said.of('tool_call')
    expect(rest).toEqual([])
    const progress = said.of('progress')
    expect(progress.length).toBeGreaterThan(10)
    for (const [index, event] of progress.entries())
      expect(event).toMatchObject({ total: many, note: 'ids looked at' })
    const done = progress.map((event) => event.done)
    expect(done).toEqual(done.toSorted((a, b) => a - b))
    expect(done.at(-1)).toBe(many)
    expect(new Set(progress.map(({ toolCallId }) => toolCallId)).size).toBe(1)
    // The progress events come between the start and the end of the call.
    const order = said.events.map(({ event, data }) =>
      event === 'tool_call' ? data.status : event,
    )
    expect(order.indexOf('isRunning')).toBeLessThan(order.indexOf('progress'))
    expect(order.lastIndexOf('progress')).toBeLessThan(order.indexOf('done'))
    expect(running.status).toBe('isRunning')
    expect(model.remaining).toBe(0)
  })
})

describe('the demonstration model, without a key and a network', () => {
  it('designs, explains and recalculates when asked in plain words', async () => {
    await using app = await testApp({
      plugins: [sampling],
      model: quickDemo(),
    })
    const user = await userWith(app, 'sampling/write')
    const first = await user.say(asked)
    expect(first.tools).toEqual(['list_capabilities', 'load_capability', 'design_sample'])
    const design = outputOf(first, 'design_sample')
    expect(design.parameters).toMatchObject({ calculatedSize: 95, adjustedSize: 112 })
    expect(first.text).toContain('95 must answer; with a dropout of 0.15, 112 are to be drawn')

    const { sessionId } = first
    const explained = await user.say(`Explain the sample design ${design.designId} step by step.`, {
      sessionId,
    })
    expect(explained.tools).toEqual(['explain_sample'])
    for (const number of ['1.9599639845400543', '0.0625', '96.036', '94.245', '115'])
      expect(explained.text).toContain(number)

    const again = await user.say(
      `Recalculate ${design.designId}: the actual mean was 0.75, the actual SD 0.25, the actual dropout rate 20 %.`,
      { sessionId },
    )
    expect(outputOf(again, 'recalculate_sample').parameters).toMatchObject({ adjustedSize: 208 })
    expect(again.text).toContain('112 before, so up')
  })
})
