import { expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { call, scriptedModel, testApp, type ScriptedStep, type TestApp } from '#core/testing'
import { onEachDatabase, type Where } from '../support/each-database.ts'

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

/** What the tools and the model saw of the time, by a stopwatch of their own. */
const watch = new Map<string, number>()
async function stopped<T>(name: string, work: () => Promise<T>): Promise<T> {
  const began = performance.now()
  const value = await work()
  watch.set(name, performance.now() - began)
  return value
}

const shop = definePlugin({
  name: 'shop',
  summary: 'Tools of every kind.',
  visibility: 'always',
  state: { seen: z.number().default(0) },
  tools: {
    slow: {
      description: 'Takes its time.',
      effect: 'read',
      foreign: false,
      input: z.object({ ms: z.number(), card: z.object({ pin: z.string() }).optional() }),
      redact: ['card.pin'],
      run: ({ ms }, ctx) =>
        stopped(`slow ${ms}`, async () => {
          ctx.state.seen = (ctx.state.seen as number) + 1
          await pause(ms)
          return `took ${ms}`
        }),
    },
    buy: {
      description: 'Buys.',
      approve: true,
      input: z.object({ what: z.string() }),
      run: ({ what }) => `bought ${what}`,
    },
  },
  subAgents: { clerk: { description: 'Looks up.', prompt: 'You look up.', tools: ['slow'] } },
})

/** The same plugin with a tool that is quick, for the process that takes over. */
const quick = definePlugin({
  name: 'shop',
  summary: 'Tools of every kind.',
  visibility: 'always',
  state: { seen: z.number().default(0) },
  tools: {
    slow: {
      description: 'Takes no time.',
      effect: 'read',
      foreign: false,
      input: z.object({ ms: z.number() }),
      run: () => 'took',
    },
  },
})

interface Trace {
  readonly status: string
  readonly continues?: string
  readonly usage: { readonly calls: number; readonly inputTokens: number }
  readonly steps: readonly (Record<string, any> & { kind: string; at: number; ms: number })[]
}

async function startOn(
  { databaseUrl }: Where,
  script: readonly ScriptedStep[],
  env: Record<string, string> = {},
) {
  const app = await testApp({
    plugins: [shop],
    ...(databaseUrl && { database: 'postgres' as const }),
    model: scriptedModel(script, { id: 'scripted/one' }),
    env: { OPERATOR_TOKEN: 'mnopqrstuvwx', ...env },
  })
  onTestFinished(() => app.close())
  return { app, user: await app.user('somebody') }
}

const traceOf = async (user: Awaited<ReturnType<TestApp['user']>>, runId: string): Promise<Trace> =>
  (await user.get(`/runs/${runId}/trace`)).body as Trace

const close = (ms: number, to: number) => expect(Math.abs(ms - to)).toBeLessThan(250)

const script: ScriptedStep[] = [
  {
    delayMs: 60,
    calls: [call('slow', { ms: 120 }), call('slow', { ms: 40, card: { pin: '1234' } })],
  },
  call('call_clerk', { task: 'Look it up.' }),
  call('slow', { ms: 70 }),
  'It is there.',
  call('buy', { what: 'tea' }),
  'Done.',
]

await onEachDatabase('GET /runs/:runId/trace', (where) => {
  const start = (script: readonly ScriptedStep[], env?: Record<string, string>) =>
    startOn(where, script, env)

  it('tells each step of a turn with the times that the model and the tools saw, also after a restart', async () => {
    const { app, user } = await start(script)
    const said = await user.say('Do it.', { approvals: true })
    expect(said.status).toBe('waiting')
    await pause(50)
    const done = await said.approve()
    const trace = await traceOf(user, done.runId)
    expect(trace).toMatchObject({ status: 'finished', continues: said.runId })
    const kinds = trace.steps.map(({ kind }) => kind)
    expect(kinds.filter((kind) => kind === 'model')).toHaveLength(6)
    expect(kinds[0]).toBe('request')
    expect(kinds[1]).toBe('user')
    expect(kinds.at(-1)).toBe('end')
    expect(trace.usage.calls).toBe(6)

    const tools = trace.steps.filter(({ kind }) => kind === 'tool')
    expect(tools.map(({ tool, args, output }) => [tool, args, output])).toEqual([
      ['slow', { ms: 120 }, 'took 120'],
      ['slow', { ms: 40, card: { pin: '[redacted]' } }, 'took 40'],
      ['slow', { ms: 70 }, 'took 70'],
      ['call_clerk', { task: 'Look it up.' }, 'It is there.'],
      ['buy', { what: 'tea' }, expect.stringContaining('bought tea')],
    ])
    for (const [nth, ms] of [120, 40, 70].entries()) close(tools[nth]!.ms, watch.get(`slow ${ms}`)!)
    // Both began at once: together they took as long as the longer.
    close(tools[0]!.at, tools[1]!.at)
    const [first, second] = trace.steps.filter(({ kind }) => kind === 'model')
    expect(first!.ms).toBeGreaterThan(55)
    expect(first!.firstMs).toBeGreaterThan(55)
    close(second!.at - first!.at, first!.ms + tools[0]!.ms)
    expect(first).toMatchObject({
      model: 'scripted/one',
      replica: expect.stringMatching(/^\w{8}$/),
    })
    expect(first!.sent.system).toBeGreaterThan(100)
    expect(first!.sent.tools).toBeGreaterThan(100)

    const clerk = tools[3]!
    const inside = trace.steps.filter(({ within }) => within === clerk.toolCallId)
    expect(inside.map(({ kind }) => kind).sort()).toEqual(['model', 'model', 'state', 'tool'])
    for (const step of inside.filter(({ kind }) => kind !== 'state')) {
      expect(step.at).toBeGreaterThanOrEqual(clerk.at - 1)
      expect(step.at + step.ms).toBeLessThan(clerk.at + clerk.ms + 2)
    }
    const approvals = trace.steps.filter(({ kind }) => kind === 'approval')
    expect(approvals).toMatchObject([{ tool: 'buy' }, { decision: 'approve' }])
    expect(approvals[1]!.ms).toBeGreaterThan(49)
    expect(
      trace.steps.some(({ kind, changed }) => kind === 'state' && changed.shop[0] === 'seen'),
    ).toBe(true)

    const again = await app.again()
    onTestFinished(() => again.close())
    expect(await traceOf(await again.user('somebody'), done.runId)).toEqual(trace)
  })

  it('is its user’s: another user’s is 404, and the operator reads it without words', async () => {
    const production = { NODE_ENV: 'production', ORACLE_MNEMONIC: 'an oracle' }
    const { app, user } = await start([call('slow', { ms: 1 }), 'The secret is out.'], production)
    const { runId } = await user.say('What is the secret?')
    const stranger = await app.user('somebody else')
    expect((await stranger.get(`/runs/${runId}/trace`)).status).toBe(404)
    expect((await stranger.get(`/runs/${runId}/trace?text=off`)).status).toBe(404)
    expect((await fetch(`${app.url}/runs/${runId}/trace`)).status).toBe(401)
    const operator = (query: string, token = 'mnopqrstuvwx') =>
      fetch(`${app.url}/runs/${runId}/trace${query}`, {
        headers: { Authorization: `Bearer ${token}` },
      })
    expect((await operator('')).status).toBe(403)
    expect((await operator('?text=off', 'wrong')).status).toBe(401)
    const answer = await operator('?text=off')
    expect(answer.status).toBe(200)
    const text = await answer.text()
    for (const word of ['secret', '"ms":1}', 'took 1']) expect(text).not.toContain(word)
    expect((JSON.parse(text) as Trace).steps.map(({ kind }) => kind)).toEqual(
      (await traceOf(user, runId)).steps.map(({ kind }) => kind),
    )
    const unknown = '00000000-0000-4000-8000-000000000000'
    expect((await user.get(`/runs/${unknown}/trace`)).status).toBe(404)
  })

  it('keeps no times with RUN_TRACE=off, and cuts long texts', async () => {
    const { user } = await start([call('slow', { ms: 30 }), 'x'.repeat(40_000)], {
      RUN_TRACE: 'off',
    })
    const { runId } = await user.say('Do it.')
    const { steps } = await traceOf(user, runId)
    expect(steps.find(({ kind }) => kind === 'tool')).toMatchObject({ ms: 0 })
    expect(steps.findLast(({ kind }) => kind === 'model')).toMatchObject({ ms: 0, cut: true })
    expect(steps.findLast(({ kind }) => kind === 'model')!.text).toHaveLength(16 * 1024)
  })

  it('tells of a model that failed, and answers while the run goes on', async () => {
    const { user } = await start([new Error('broken')])
    const session = (await user.post('/sessions', {})).body as { sessionId: string }
    await user.say('Hello.', session).catch(() => undefined)
    const { runs } = (await user.get(`/sessions/${session.sessionId}/runs`)).body as any
    const { steps, status } = await traceOf(user, runs[0].runId)
    expect(status).toBe('failed')
    expect(steps.find(({ kind }) => kind === 'model')).toMatchObject({ code: 'MODEL_FAILED' })
  })

  it('tells of a takeover with its replica', async () => {
    const { app, user } = await start(
      [call('slow', { ms: 20_000 }), call('slow', { ms: 20 }), 'Done.'],
      {
        RUN_LEASE_MS: '300',
      },
    )
    const session = (await user.post('/sessions', {})).body as { sessionId: string }
    void user.say('Do it.', session).catch(() => undefined)
    const path = `/sessions/${session.sessionId}/runs`
    const runId = async () => ((await user.get(path)).body as any).runs[0]?.runId as string
    await expect.poll(runId).toBeDefined()
    const id = await runId()
    await expect
      .poll(async () => (await traceOf(user, id)).steps.some(({ kind }) => kind === 'model'))
      .toBe(true)
    await app.crash()
    const again = await app.again({
      model: scriptedModel([call('slow', { ms: 20 }), 'Done.'], { id: 'scripted/one' }),
      plugins: [quick],
    })
    onTestFinished(() => again.close())
    const back = await again.user('somebody')
    await expect
      .poll(async () => (await traceOf(back, id)).status, { timeout: 20_000 })
      .toBe('finished')
    const { steps } = await traceOf(back, id)
    const takeover = steps.find(({ kind }) => kind === 'takeover')!
    const [before, after] = steps.filter(({ kind }) => kind === 'model')
    expect(takeover.replica).not.toBe(before!.replica)
    expect(takeover.replica).toBe(after!.replica)
    expect(takeover.at).toBeGreaterThanOrEqual(before!.at)
  })
})

await onEachDatabase('GET /sessions/:id/runs', (where) => {
  const start = (script: readonly ScriptedStep[]) => startOn(where, script)

  it('lists what each run took and cost, the newest first, by pages', async () => {
    const usage = { inputTokens: 40, outputTokens: 4 }
    const { app, user } = await start([
      { calls: [call('slow', { ms: 30 })], usage },
      { text: 'One.', usage },
      { text: 'Two.', usage },
      { text: 'Three.', usage },
    ])
    const { sessionId } = await user.say('One?')
    await user.say('Two?', { sessionId })
    await user.say('Three?', { sessionId })
    const page = async (query: string) =>
      (await user.get(`/sessions/${sessionId}/runs${query}`)).body as any
    const first = await page('?limit=2')
    expect(first.runs).toMatchObject([
      {
        status: 'finished',
        model: 'scripted/one',
        calls: 1,
        tools: {},
        usage: { inputTokens: 40 },
      },
      { calls: 1 },
    ])
    const last = await page(`?limit=2&before=${first.nextCursor}`)
    expect(last).toMatchObject({
      runs: [{ calls: 2, tools: { slow: 1 }, usage: { inputTokens: 80 }, attempts: 0 }],
      nextCursor: null,
    })
    expect(last.runs[0].ms).toBeGreaterThan(29)
    const stranger = await app.user('somebody else')
    expect((await stranger.get(`/sessions/${sessionId}/runs`)).status).toBe(404)
    for (const query of ['?limit=0', '?limit=51', '?before=x'])
      expect((await user.get(`/sessions/${sessionId}/runs${query}`)).status).toBe(400)
  })
})
