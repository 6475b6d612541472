import { expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { call, scriptedModel, testApp, type TestUser } from '#core/testing'
import preferences from '../../plugins/preferences/index.ts'
import weather from '../../plugins/weather/index.ts'
import { ChatModel } from '../../plugins/models-openai/chat/model.ts'
import { compatible } from '../../plugins/models-openai/compatible.ts'
import { onEachDatabase } from '../support/each-database.ts'
import { fakeOpenAi } from '../support/fake-openai.ts'

interface Figures {
  readonly usage: { readonly calls: number }
  readonly steps: readonly {
    readonly kind: string
    readonly ms: number
    readonly sent?: {
      readonly system: number
      readonly tools: number
      readonly conversation: number
    }
  }[]
}

const figuresOf = async (user: TestUser, runId: string): Promise<Figures> =>
  (await user.get(`/runs/${runId}/trace`)).body as Figures

const pin = 'pin-8831-known'
const safe = definePlugin({
  name: 'safe',
  summary: 'Opens the safe.',
  visibility: 'always',
  env: { SAFE_KEY: z.string() },
  tools: {
    open_safe: {
      description: 'Opens the safe with a PIN.',
      approve: true,
      input: z.object({ pin: z.string(), why: z.string() }),
      redact: ['pin'],
      run: ({ why }) => `opened: ${why}`,
    },
    look: {
      description: 'Looks at the safe.',
      effect: 'read',
      foreign: false,
      input: z.object({ pin: z.string() }),
      redact: ['pin'],
      run: () => 'It is shut.',
    },
  },
  subAgents: { guard: { description: 'Looks.', prompt: 'You look at the safe.', tools: ['look'] } },
})

it('the bytes of a trace are those of the request that the provider received, within 2 %', async () => {
  const provider = await fakeOpenAi([
    { toolCalls: [{ name: 'look', args: { pin: '1' } }] },
    'It is shut. '.repeat(40),
    'As I said.',
  ])
  onTestFinished(() => provider.close())
  const app = await testApp({
    plugins: [safe, preferences, weather],
    model: new ChatModel({
      id: 'openai/small',
      name: 'small',
      baseUrl: provider.url,
      apiKey: 'sk-known-1',
      row: compatible.openai!,
      settings: {},
    }),
    env: { SAFE_KEY: 'a key' },
  })
  onTestFinished(() => app.close())
  const user = await app.user()
  // What stands around all of it, the name of the model and the like, is a hundred bytes of each request.
  const first = await user.say('Is the safe shut?\nHow do you know? '.repeat(80))
  const second = await user.say('Are you sure?', { sessionId: first.sessionId })
  const models = [
    ...(await figuresOf(user, first.runId)).steps,
    ...(await figuresOf(user, second.runId)).steps,
  ].filter(({ kind }) => kind === 'model')
  expect(models.length).toBe(3)
  expect(provider.requests.length).toBe(3)
  for (const [nth, { sent }] of models.entries()) {
    const received = Buffer.byteLength(provider.requests[nth]!.text)
    const told = sent!.system + sent!.tools + sent!.conversation
    console.log(`Call ${nth + 1}: ${told} bytes told, ${received} received.`)
    expect(Math.abs(told - received) / received).toBeLessThan(0.02)
  }
  // What a plugin costs counts its tools.
  const { body } = await user.get('/capabilities')
  const listed = body.plugins.find(({ name }: { name: string }) => name === 'preferences')
  const tool = provider.requests[0]!.body.tools!.find(
    ({ function: { name } }) => name === 'set_user_preferences',
  )
  const bytes = Buffer.byteLength(JSON.stringify(tool))
  expect(Math.abs(listed.toolBytes - bytes) / bytes).toBeLessThan(0.1)
})

await onEachDatabase('a trace', ({ databaseUrl }) => {
  const usage = { inputTokens: 40, outputTokens: 4 }
  async function start(env: Record<string, string> = {}) {
    const app = await testApp({
      plugins: [safe],
      ...(databaseUrl && { database: 'postgres' as const }),
      model: scriptedModel(
        [
          { calls: [call('call_guard', { task: 'Look.' })], usage },
          { calls: [call('look', { pin })], usage },
          { text: 'Shut.', usage },
          { calls: [call('open_safe', { pin, why: 'a look' })], usage },
          { text: 'It is open.', usage },
        ],
        { id: 'scripted/one' },
      ),
      env: {
        OPERATOR_TOKEN: 'operator-known-1',
        SAFE_KEY: 'safe-key-known',
        LOG_LEVEL: 'trace',
        ...env,
      },
    })
    onTestFinished(() => app.close())
    const user = await app.user('somebody')
    const said = await user.say('Open it.', { approvals: true })
    const done = await said.approve()
    return { app, user, said, done }
  }

  it('has used what the turn said that it used, and says nothing that is to stay unsaid', async () => {
    const { app, user, said, done } = await start()
    const trace = await figuresOf(user, done.runId)
    expect(done.of('done').at(-1)?.usage).toMatchObject(trace.usage)
    expect(trace.usage).toMatchObject({ calls: 5, inputTokens: 200, outputTokens: 20 })
    const operator = await fetch(`${app.url}/runs/${done.runId}/trace?text=off`, {
      headers: { Authorization: 'Bearer operator-known-1' },
    })
    const { body: runs } = await user.get(`/sessions/${said.sessionId}/runs`)
    const told = [JSON.stringify(trace), await operator.text(), JSON.stringify(runs)].join()
    expect(told).toContain('a look')
    const prompt = 'You look at the safe.'
    for (const secret of [pin, 'operator-known-1', 'safe-key-known', prompt, 'Bearer'])
      expect(told).not.toContain(secret)
    expect(told).not.toMatch(/delegation|invocation/i)
    for (const secret of [pin, 'operator-known-1', 'safe-key-known'])
      expect(app.log.join('\n')).not.toContain(secret)
  })

  it('has no figure of a run that was carried out with RUN_TRACE=off, also once it is on again', async () => {
    const { app, done } = await start({ RUN_TRACE: 'off' })
    const again = await app.again({ env: { SAFE_KEY: 'x', RUN_TRACE: 'on' } })
    onTestFinished(() => again.close())
    const { steps } = await figuresOf(await again.user('somebody'), done.runId)
    const measured = steps.filter(({ kind }) => kind === 'model' || kind === 'tool')
    expect(measured.length).toBeGreaterThan(6)
    for (const step of measured) {
      expect(step).toMatchObject({ ms: 0 })
      for (const figure of ['sent', 'firstMs', 'attempts', 'replica'])
        expect(step).not.toHaveProperty(figure)
    }
  })
})
