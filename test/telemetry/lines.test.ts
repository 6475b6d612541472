import { describe, expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { definePlugin, RuntimeError } from '#core'
import { call, scriptedModel, testApp, type ScriptedStep } from '#core/testing'

const secret = 'the words that nobody may find'

const shop = definePlugin({
  name: 'shop',
  summary: 'Tools of every kind.',
  visibility: 'always',
  tools: {
    look: {
      description: 'Looks.',
      foreign: false,
      input: z.object({ what: z.string() }),
      run: ({ what }) => `${what}: ${secret}`,
    },
    refuse: {
      description: 'Refuses.',
      foreign: false,
      input: z.object({}),
      run() {
        throw new RuntimeError('CONFLICT', `It is ${secret}.`, { status: 409 })
      },
    },
    buy: {
      description: 'Buys.',
      effect: 'write',
      approve: true,
      input: z.object({ what: z.string() }),
      run: ({ what }) => `bought ${what}`,
    },
  },
  jobs: { tidy: { input: z.object({}), run: () => undefined } },
})

interface Line {
  readonly msg: string
  readonly [field: string]: unknown
}

async function start(script: readonly ScriptedStep[], env: Record<string, string> = {}) {
  const app = await testApp({
    plugins: [shop],
    model: scriptedModel(script, { id: 'scripted/one' }),
    env: { REQUEST_LOG: 'all', NODE_ENV: 'production', ORACLE_MNEMONIC: 'an oracle', ...env },
  })
  onTestFinished(() => app.close())
  const all = () => app.log.map((line) => JSON.parse(line) as Line)
  const lines = (msg: string) => all().filter((line) => line.msg === msg)
  return { app, all, lines }
}

const usage = { inputTokens: 40, outputTokens: 4 }

describe('a turn', () => {
  it('leaves one line with calls, tools and tokens as its end tells them, and no word of anybody', async () => {
    const { app, all, lines } = await start([
      { calls: [call('look', { what: secret }), call('refuse', {}), call(secret, {})], usage },
      { text: `So it is ${secret}.`, usage },
    ])
    const user = await app.user('somebody')
    const said = await user.say(secret)
    const done = said.events.find(({ event }) => event === 'done')!.data as Record<string, any>
    await expect.poll(() => lines('turn')).toHaveLength(1)
    const [turn] = lines('turn')
    expect(turn).toMatchObject({
      runId: said.runId,
      sessionId: said.sessionId,
      source: 'http',
      model: 'scripted/one',
      status: 'finished',
      calls: 2,
      tools: { look: 1, refuse: 1, other: 1 },
      ms: expect.any(Number),
      firstMs: expect.any(Number),
    })
    expect(turn!.calls).toBe(done.usage.calls)
    expect(turn!.usage).toMatchObject({ inputTokens: 80, outputTokens: 8 })
    expect(done.usage).toMatchObject(turn!.usage as object)
    const asked = () =>
      lines('request').find(({ route }) => route === 'POST /messages/:sessionId')?.requestId
    await expect.poll(asked).toBe(turn!.requestId)
    expect(lines('tool').map(({ tool, outcome, code }) => [tool, outcome, code])).toEqual([
      ['other', 'refused', 'NOT_FOUND'],
      ['refuse', 'refused', 'CONFLICT'],
    ])
    for (const line of all().filter(({ audit }) => audit !== true)) {
      expect(JSON.stringify(line)).not.toContain(secret)
      expect(JSON.stringify(line)).not.toContain(user.did)
    }
  })

  it('that fails is told of as a warning, with the call of the model that failed', async () => {
    const { app, lines } = await start([new RuntimeError('MODEL_FAILED', secret, { status: 502 })])
    const user = await app.user('somebody')
    await user.say('hello').catch(() => undefined)
    await expect.poll(() => lines('turn')).toHaveLength(1)
    expect(lines('turn')[0]).toMatchObject({ level: 40, status: 'failed', calls: 0, tools: {} })
    expect(lines('model')).toMatchObject([
      { model: 'scripted/one', code: 'MODEL_FAILED', kind: 'turn' },
    ])
    expect(JSON.stringify(lines('model'))).not.toContain(secret)
  })

  it('that waits for a person has a line, and what goes on from it counts the whole turn', async () => {
    const { app, lines } = await start([call('buy', { what: secret }), 'Done.'])
    const user = await app.user('somebody')
    const said = await user.say('Buy it.', { approvals: true })
    await expect.poll(() => lines('turn').map(({ status }) => status)).toEqual(['waiting'])
    await said.approve()
    await expect
      .poll(() => lines('turn').map(({ status }) => status))
      .toEqual(['waiting', 'finished'])
    expect(lines('turn')[0]).toMatchObject({ calls: 1, tools: {} })
    expect(lines('turn')[1]).toMatchObject({ calls: 2, tools: { buy: 1 } })
  })

  it('leaves no line where REQUEST_LOG is errors or off, unless it failed', async () => {
    const { app, lines } = await start(['Good day.', new Error('broken'), 'Good day.'], {
      REQUEST_LOG: 'errors',
    })
    const user = await app.user('somebody')
    await user.say('hello')
    await user.say('hello').catch(() => undefined)
    await user.say('hello')
    await expect.poll(() => lines('turn').map(({ status }) => status)).toEqual(['failed'])
  })
})

it('a sample holds the same share of requests and of their turns', async () => {
  const { app, lines } = await start(Array(60).fill('Good day.'), { REQUEST_LOG_SAMPLE: '0.3' })
  const user = await app.user('somebody')
  for (let n = 0; n < 60; n++) await user.say('hello')
  const ofRequests = () =>
    lines('request')
      .filter(({ route }) => route === 'POST /messages/:sessionId')
      .map(({ requestId }) => requestId)
  await expect.poll(() => ofRequests().length).toBe(lines('turn').length)
  const turns = lines('turn').map(({ requestId }) => requestId)
  expect([...ofRequests()].sort()).toEqual([...turns].sort())
  expect(turns.length).toBeGreaterThan(3)
  expect(turns.length).toBeLessThan(45)
})
