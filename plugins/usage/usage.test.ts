import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { definePlugin, type ModelCall, type RunEnding } from '#core'
import { fakeProvider, testApp, type ProviderSpeech, type TestAppOptions } from '#core/testing'
import { models } from '../models.ts'
import { onEachDatabase, type Where } from '../../test/support/each-database.ts'
import { FakeChat } from '../../test/support/fake-chat.ts'
import { isSummaryRequest, kilobyte } from '../../test/support/reader.ts'
import usage from './index.ts'

const patient = { timeout: 60_000, interval: 50 }
const operatorToken = 'an-operator-of-the-usage-tests'
const asOperator = { headers: { authorization: `Bearer ${operatorToken}` } }
const price = { input: 3, output: 15, cachedInput: 0.3, cacheWrite: 3.75 }

/** Hears of the ends of runs and of calls, and has tools that a model may call. */
function ear() {
  const ends: RunEnding[] = []
  const calls: ModelCall[] = []
  const waits: string[] = []
  const asides: string[] = []
  const plugin = definePlugin({
    name: 'ear',
    summary: 'Hears.',
    visibility: 'always',
    tools: {
      look: { description: 'Looks.', input: z.object({}), effect: 'read', run: () => 'a shelf' },
      judge: {
        description: 'Asks a model aside.',
        input: z.object({}),
        effect: 'read',
        run: (_, { model }) => model.object(z.object({ good: z.boolean() }), 'Is it good?'),
      },
      wait: {
        description: 'Waits.',
        input: z.object({}),
        effect: 'write',
        approve: false,
        async run(_, { signal }) {
          waits.push('began')
          await sleep(60_000, undefined, { signal })
        },
      },
    },
    subAgents: { helper: { description: 'Helps.', prompt: 'Help.', tools: ['look'] } },
    routes: {
      'POST /aside': {
        input: z.object({ text: z.string() }),
        run: async ({ text }, { model, models }) => ({
          said: await model.text(text),
          cost: (await models.embed([text], { kind: 'query' })).usage.cost,
        }),
      },
      'POST /later': {
        run: async (_, { jobs, user }) => ({
          id: await jobs.later('aside', {}, { user: user.did }),
        }),
      },
    },
    jobs: {
      aside: {
        input: z.object({}),
        run: async (_, { model }) => void asides.push(await model.text('Well?')),
      },
    },
    runs: { end: (run) => void ends.push(run) },
    onUsage(call) {
      calls.push(call)
      throw new Error('An ear that fails.')
    },
  })
  return { plugin, ends, calls, waits, asides }
}

async function scene({ databaseUrl }: Where, more: Partial<TestAppOptions> = {}) {
  const provider = await fakeProvider()
  onTestFinished(() => provider.close())
  const { plugin, ends, calls, waits, asides } = ear()
  const { env, ...rest } = more
  const options: TestAppOptions = {
    plugins: [usage, plugin, ...models],
    env: {
      MODEL: 'anthropic/one',
      ANTHROPIC_API_KEY: provider.key,
      ANTHROPIC_BASE_URL: provider.url,
      OPENAI_API_KEY: provider.key,
      OPENAI_BASE_URL: `${provider.url}/v1`,
      GOOGLE_API_KEY: provider.key,
      GOOGLE_BASE_URL: provider.url,
      OLLAMA_HOST: provider.url,
      OPENROUTER_API_KEY: provider.key,
      OPENROUTER_BASE_URL: provider.url,
      RUN_LEASE_MS: '700',
      OPERATOR_TOKEN: operatorToken,
      ...(databaseUrl !== undefined && { DATABASE_URL: databaseUrl }),
      ...env,
    },
    modelSettings: { '*': { price } },
    ...rest,
  }
  const app = await testApp(options)
  onTestFinished(() => app.close())
  return { app, provider, ends, calls, waits, asides }
}

type Told = Readonly<Record<string, unknown>> | undefined
type Scene = Awaited<ReturnType<typeof scene>>
type User = Awaited<ReturnType<Scene['app']['user']>>

/** The counts of a usage: what is nothing may be left out. */
const counts = (told: Told) => ({
  calls: told?.calls,
  inputTokens: told?.inputTokens,
  outputTokens: told?.outputTokens,
  cachedTokens: told?.cachedTokens || undefined,
  cacheWriteTokens: told?.cacheWriteTokens || undefined,
  reasoningTokens: told?.reasoningTokens || undefined,
  estimated: told?.estimated,
  cost: told?.cost,
})

/** What a turn cost, once `runs.end` and `GET /usage` agree with what `done` said of it. */
async function agreed({ ends }: Pick<Scene, 'ends'>, user: Pick<User, 'get' | 'did'>, done: Told) {
  await expect.poll(() => ends.filter(({ did }) => did === user.did).length, patient).toBe(1)
  const end = ends.find(({ did }) => did === user.did)
  expect(done?.models).toEqual(end?.usage)
  await expect
    .poll(async () => counts((await user.get('/usage')).body.total), patient)
    .toEqual(counts(done))
  const { body } = await user.get('/usage?by=model')
  for (const line of end?.usage ?? [])
    expect(counts(body.rows.find(({ model }: { model: string }) => model === line.model))).toEqual(
      counts({ ...line }),
    )
  return counts(done)
}

const step = { inputTokens: 1_000, outputTokens: 60, cachedTokens: 600, reasoningTokens: 20 }
const written = { ...step, cacheWriteTokens: 300 }
const thinking: ProviderSpeech = { reasoning: 'A shelf?', calls: [{ name: 'look' }] }

/** What each wire has fields for. */
const wires = [
  ['Messages', 'anthropic/one', { ...written, reasoningTokens: undefined }],
  ['Responses', 'openai/one', step],
  ['chat', 'openai/two', written],
  ['generateContent', 'google/one', step],
  ['Ollama', 'ollama/one', { inputTokens: 1_000, outputTokens: 60 }],
] as const

await onEachDatabase('what a turn cost', (where) => {
  test.for(wires)(
    'is counted to the token on %s, with cached tokens and thoughts counted and priced once',
    { timeout: 120_000 },
    async ([, model, each]) => {
      const told = await scene(where, {
        env: { MODEL: model },
        modelSettings: { '*': { price }, 'openai/one': { wire: 'responses' } },
      })
      told.provider.answer({ ...thinking, usage: written }, { text: 'A shelf.', usage: written })
      const user = await told.app.user()
      const said = await user.say('What is there?')
      expect(said.text).toBe('A shelf.')
      const {
        cachedTokens = 0,
        cacheWriteTokens = 0,
        reasoningTokens = 0,
      }: Partial<typeof written> = each
      const plain = 1_000 - cachedTokens - cacheWriteTokens
      const cost = 2 * (plain * 3_000 + cachedTokens * 300 + cacheWriteTokens * 3_750 + 60 * 15_000)
      expect(await agreed(told, user, said.of('done')[0]?.usage)).toEqual({
        calls: 2,
        inputTokens: 2_000,
        outputTokens: 120,
        cachedTokens: 2 * cachedTokens || undefined,
        cacheWriteTokens: 2 * cacheWriteTokens || undefined,
        reasoningTokens: 2 * reasoningTokens || undefined,
        estimated: undefined,
        cost: String(cost),
      })
    },
  )

  test(
    'holds the calls of sub-agents and of models that another one stood in for',
    { timeout: 120_000 },
    async () => {
      const told = await scene(where, { env: { MODEL: 'main=anthropic/one|google/one' } })
      told.provider.answer(
        { calls: [{ name: 'call_helper', args: { task: 'Look' } }], usage: step },
        { text: 'A shelf.', usage: step },
        { reasoning: 'Well then', usage: false, then: 'break' },
        { reasoning: 'Well then', usage: false, then: 'break' },
        { text: 'It is a shelf.', usage: step },
      )
      const user = await told.app.user()
      const said = await user.say('What is there?')
      expect(said.text).toBe('It is a shelf.')
      const { models: lines, ...whole } = said.of('done')[0]?.usage
      expect(lines).toMatchObject([
        { model: 'anthropic/one', calls: 3, estimated: true },
        { model: 'google/one', calls: 1, inputTokens: 1_000 },
      ])
      expect(whole).toMatchObject({
        calls: 4,
        estimated: true,
        cost: expect.stringMatching(/^\d+$/),
      })
      await agreed(told, user, said.of('done')[0]?.usage)
      expect(told.calls.map(({ kind, model, code }) => [kind, model, code])).toEqual([
        ['turn', 'anthropic/one', undefined],
        ['sub-agent', 'anthropic/one', undefined],
        ['turn', 'anthropic/one', expect.any(String)],
        ['turn', 'google/one', undefined],
      ])
      expect(told.app.log.join('')).toContain('onUsage')
    },
  )

  test('holds what a tool asked a model aside', { timeout: 120_000 }, async () => {
    const told = await scene(where)
    told.provider.answer(
      { calls: [{ name: 'judge' }], usage: step },
      { text: 'No value.', usage: step },
      ({ body }) => {
        const [tool] = (body.tools ?? []) as { name: string }[]
        const value = { good: true }
        return tool
          ? { calls: [{ name: tool.name, args: value }], usage: step }
          : { text: JSON.stringify(value), usage: step }
      },
      { text: 'It is good.', usage: step },
    )
    const user = await told.app.user()
    const said = await user.say('Is it good?')
    expect(said.text).toBe('It is good.')
    expect(await agreed(told, user, said.of('done')[0]?.usage)).toMatchObject({
      calls: 4,
      inputTokens: 4_000,
      outputTokens: 240,
      cachedTokens: 2_400,
      estimated: undefined,
    })
    expect(told.calls).toMatchObject([
      { kind: 'turn' },
      { kind: 'plugin', plugin: 'ear', runId: said.runId, did: user.did },
      { kind: 'plugin', plugin: 'ear', runId: said.runId, did: user.did },
      { kind: 'turn' },
    ])
  })

  test('holds the summary that a turn made, which onUsage hears of by its kind', async () => {
    const told = await scene(where, {
      env: { MODEL_SMALL: 'openai/small', MODEL_CONTEXT_WINDOW: '4000' },
      modelSettings: { '*': { price }, 'openai/*': { wire: 'chat' } },
    })
    told.provider.otherwise = (request) => ({
      text: isSummaryRequest(request) ? 'They talked.' : 'Yes.',
      usage: { inputTokens: request.tokens, outputTokens: 7 },
    })
    const user = await told.app.user()
    const turns: Told[] = []
    let sessionId: string | undefined
    while (!told.calls.some(({ kind }) => kind === 'summary') && turns.length < 30) {
      const said = await user.say(kilobyte(turns.length), { sessionId })
      ;({ sessionId } = said)
      turns.push(said.of('done')[0]?.usage)
    }
    expect(told.calls.filter(({ kind }) => kind === 'summary')).toMatchObject([
      { model: 'openai/small', did: user.did, sessionId, usage: { outputTokens: 7 } },
    ])
    const read = told.provider.requests.reduce((sum, { tokens }) => sum + tokens, 0)
    const calls = told.provider.requests.length
    await expect
      .poll(async () => (await user.get('/usage')).body.total, patient)
      .toMatchObject({ calls, inputTokens: read, outputTokens: 7 * calls })
    const ofTurns = told.ends.flatMap(({ usage }) => usage)
    expect(ofTurns.reduce((sum, { inputTokens }) => sum + inputTokens, 0)).toBe(read)
    expect(turns.at(-1)).toMatchObject({
      calls: 2,
      models: expect.arrayContaining([
        expect.objectContaining({ model: 'openai/small', calls: 1 }),
      ]),
    })
  })

  test('holds what plugins asked a model for a user outside of turns, and the price of vectors', async () => {
    const told = await scene(where, {
      env: { EMBEDDING_MODEL: 'openai/vectors' },
      modelSettings: { '*': { price }, 'openai/vectors': { price: { input: 2, output: 0 } } },
    })
    const user = await told.app.user()
    told.provider.answer({ text: 'So it is.', usage: step }, { text: 'Later.', usage: step })
    const { body } = await user.post('/aside', { text: 'Is it?' })
    expect(body.said).toBe('So it is.')
    await user.post('/later', {})
    await expect.poll(() => told.asides, patient).toEqual(['Later.'])
    const rows = async () => (await user.get('/usage?by=model')).body.rows
    const each = 400 * 3_000 + 600 * 300 + 60 * 15_000
    expect(await rows()).toMatchObject([
      { model: 'anthropic/one', calls: 2, inputTokens: 2_000, cost: String(2 * each) },
      { model: 'openai/vectors', calls: 1, cost: body.cost },
    ])
    const [, vectors] = await rows()
    expect(body.cost).toBe(String(vectors.inputTokens * 2_000))
    expect(told.calls).toMatchObject([
      { kind: 'plugin', plugin: 'ear', did: user.did },
      { kind: 'embedding', plugin: 'ear', did: user.did },
      { kind: 'plugin', plugin: 'ear', did: user.did },
    ])
    expect(told.calls.map(({ runId }) => runId)).toEqual([undefined, undefined, undefined])
    expect(told.ends).toEqual([])
  })

  test('holds the tokens that LangChain says were cached and thought, and the cost that OpenRouter says', async () => {
    const chat = new FakeChat(() => [
      { content: 'Well.' },
      {
        content: '',
        usage_metadata: {
          ...{ input_tokens: 1_000, output_tokens: 60, total_tokens: 1_060 },
          input_token_details: { cache_read: 600, cache_creation: 300 },
          output_token_details: { reasoning: 20 },
        },
      },
    ])
    const ofLangChain = await scene(where, { model: chat })
    const first = await ofLangChain.app.user()
    const said = await first.say('Well?')
    const cost = 100 * 3_000 + 600 * 300 + 300 * 3_750 + 60 * 15_000
    expect(await agreed(ofLangChain, first, said.of('done')[0]?.usage)).toMatchObject({
      ...{ calls: 1, inputTokens: 1_000, outputTokens: 60, cachedTokens: 600 },
      ...{ cacheWriteTokens: 300, reasoningTokens: 20, cost: String(cost) },
    })

    const told = await scene(where, { env: { MODEL: 'openrouter/one' }, modelSettings: {} })
    told.provider.answer(
      { calls: [{ name: 'look' }], usage: { ...step, cost: '1234567' } },
      { text: 'A shelf.', usage: { ...step, cost: '1000' } },
    )
    const second = await told.app.user()
    const done = (await second.say('What is there?')).of('done')[0]?.usage
    expect(await agreed(told, second, done)).toMatchObject({ calls: 2, cost: '1235567' })
  })

  test(
    'is estimated where the stream breaks, where Stop cuts it, and where the provider is silent',
    { timeout: 120_000 },
    async () => {
      const told = await scene(where)
      told.provider.answer({ text: 'Half of', then: 'break' })
      const broken = await told.app.user()
      const failed = await broken.say('What is there?')
      expect(failed.status).toBe('failed')
      expect(await agreed(told, broken, failed.of('done')[0]?.usage)).toMatchObject({
        calls: 1,
        estimated: true,
      })

      told.provider.answer({ text: 'All of it.', usage: false })
      const silent = await told.app.user()
      const said = await silent.say('What is there?')
      expect(await agreed(told, silent, said.of('done')[0]?.usage)).toMatchObject({
        estimated: true,
      })

      told.provider.answer({ text: 'Half of', then: 'silence' })
      const stopper = await told.app.user()
      const { sessionId } = (await stopper.post('/sessions', {})).body
      const stopped = stopper.say('What is there?', { sessionId })
      for (let nth = 0; nth < 3; nth++) await told.provider.next()
      await expect
        .poll(async () => (await stopper.post('/messages/abort', { sessionId })).status, patient)
        .toBe(200)
      const { of } = await stopped
      expect(of('done')[0]?.status).toBe('aborted')
      expect(await agreed(told, stopper, of('done')[0]?.usage)).toMatchObject({
        calls: 1,
        estimated: true,
      })
    },
  )

  test(
    'is one count where the process dies between two calls and another one goes on',
    { timeout: 120_000 },
    async () => {
      // On a busy machine a shorter lease ends before its time, and the process would carry on its own run before it dies.
      const told = await scene(where, { env: { RUN_LEASE_MS: '4000' } })
      const { app, provider, ends } = told
      provider.answer({ calls: [{ name: 'look' }, { name: 'wait' }], usage: step })
      const user = await app.user()
      void user.say('What is there?').catch(() => undefined)
      // The call of a tool that writes is in the database before the tool begins.
      await expect.poll(() => told.waits.length, patient).toBe(1)
      await app.crash()
      provider.answer({ text: 'A shelf.', usage: step })
      const next = await app.again()
      await expect.poll(() => ends.length, patient).toBe(1)
      expect(ends[0]).toMatchObject({
        status: 'finished',
        usage: [{ calls: 2, inputTokens: 2_000, outputTokens: 120, cachedTokens: 1_200 }],
      })
      // The plugin hears of the end before the transaction that tells it is over.
      const row = async () => {
        const { body } = await next.get(`/usage/all?by=user&limit=1000`, asOperator)
        return body.rows.find(({ did }: { did: string }) => did === user.did)
      }
      await expect.poll(row, patient).toMatchObject({ calls: 2, inputTokens: 2_000 })
    },
  )
})
