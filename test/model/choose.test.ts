import { describe, expect, it } from 'vitest'
import type { AppOptions } from '#core'
import { scriptedModel, testApp } from '#core/testing'
import { fakeOpenAi } from '../support/fake-openai.ts'
import { faultsOf, modelInApp } from '../support/model-of.ts'
import { ask } from '../support/model-request.ts'

/** What the app answers to a message for a model that it does not have. */
async function unknownModel(env: Record<string, string>, model?: AppOptions['model']) {
  await using app = await testApp({ plugins: [], env, model })
  const user = await app.user()
  const { sessionId } = (await user.post('/sessions')).body
  return await user.post(`/messages/${sessionId}`, { message: 'Hi', model: 'gpt-9' })
}
const ids = async (model: AppOptions['model'], env: Record<string, string>) =>
  (await unknownModel(env, model)).body.details.models
const key = { OPENAI_API_KEY: 'sk-1' }

describe('MODEL', () => {
  it('is the demonstration model when it says nothing or demo', async () => {
    expect(await ids(undefined, {})).toEqual(['demo'])
    expect(await ids(undefined, { MODEL: 'demo' })).toEqual(['demo'])
  })

  it('names a model behind a compatible endpoint', async () => {
    const provider = await fakeOpenAi(['Hello.'])
    const env = { MODEL: 'openai/vendor/small-1', OPENAI_BASE_URL: provider.url }
    const reply = await (await modelInApp({ env })).reply(ask('Hi'))
    expect(reply.content).toBe('Hello.')
    expect(provider.requests[0]?.body.model).toBe('vendor/small-1')
    await provider.close()
  })

  it('may name several, the default first', async () => {
    const env = { MODEL: 'openai/a, demo,openai/b', ...key }
    expect(await ids(undefined, env)).toEqual(['openai/a', 'demo', 'openai/b'])
    const chosen = async (name?: string) => (await modelInApp({ env }, name)).model.id
    expect(await chosen('b')).toBe('openai/b')
    expect(await chosen('openai/b')).toBe('openai/b')
    expect(await chosen()).toBe('openai/a')
  })

  it.each(['gpt', 'openai', 'openai/', 'demo/2', ' , '])(
    'stops the boot when it is "%s"',
    async (MODEL) => {
      expect((await faultsOf({ plugins: [], env: { MODEL, ...key } }))[0]).toMatchObject({
        code: 'ENV_INVALID',
        message: expect.stringContaining('MODEL is'),
      })
    },
  )

  it('wants a key, unless the endpoint is one of your own', async () => {
    const [fault] = await faultsOf({ plugins: [], env: { MODEL: 'openai/a' } })
    expect(fault?.message).toMatch(/OPENAI_API_KEY is not set/)
    const env = { MODEL: 'openai/a', OPENAI_BASE_URL: 'http://127.0.0.1:1' }
    // An address that is none is one fault: which key it would need nobody knows.
    const wrong = await faultsOf({
      plugins: [],
      env: { ...env, OPENAI_BASE_URL: 'not an address' },
    })
    expect(wrong.map(({ message }) => message)).toEqual([
      expect.stringContaining('OPENAI_BASE_URL'),
    ])
    expect(await ids(undefined, env)).toEqual(['openai/a'])
  })
})

describe('a model that the app was given', () => {
  it('goes before the environment', async () => {
    expect(await ids(scriptedModel([]), { MODEL: 'nonsense' })).toEqual(['scripted'])
  })

  it('may be one of several', async () => {
    const both = [scriptedModel([], { id: 'a' }), scriptedModel([], { id: 'b' })]
    expect(await ids(both, {})).toEqual(['a', 'b'])
  })

  it('may be a chat model of LangChain', async () => {
    const chat = {
      model: 'big',
      invoke() {},
      bindTools: () => chat,
      stream: async () => (async function* () {})(),
    }
    expect(await ids(chat, {})).toEqual(['langchain/big'])
  })

  it.each([{}, 'demo', { id: 'x' }, { stream() {} }, 7])(
    'is refused when it is %j',
    async (given) => {
      const model = given as unknown as AppOptions['model']
      expect(await faultsOf({ plugins: [], model })).toMatchObject([{ code: 'MODEL_UNUSABLE' }])
    },
  )
})

it('a model that is not there is a 400 with the list', async () => {
  const { status, body } = await unknownModel({ MODEL: 'demo,openai/a', ...key })
  expect(status).toBe(400)
  expect(body).toMatchObject({
    code: 'MODEL_UNKNOWN',
    message: 'There is no model "gpt-9".',
    hint: 'The models are demo, openai/a.',
    details: { models: ['demo', 'openai/a'] },
  })
})

describe('the model of a session', () => {
  const models = () => [
    scriptedModel(Array(9).fill('a'), { id: 'a' }),
    scriptedModel(Array(9).fill('b'), { id: 'b' }),
  ]

  it.each(['sqlite', 'postgres'] as const)(
    'is the one that a message named last, also after a restart, on %s',
    async (kind) => {
      const database = kind === 'postgres' ? kind : undefined
      await using app = await testApp({ plugins: [], model: models(), database })
      const user = await app.user('chooser')
      const { sessionId, text } = await user.say('Hi', { body: { model: 'b' } })
      expect(text).toBe('b')
      expect((await user.say('Hi', { sessionId })).text).toBe('b')
      await app.again({ model: models() })
      const again = await app.user('chooser')
      expect((await again.say('Hi', { sessionId })).text).toBe('b')
      expect((await again.get('/sessions')).body.sessions).toMatchObject([{ model: 'b' }])
      expect((await again.say('Hi')).text).toBe('a')
      expect((await again.say('Hi', { sessionId, body: { model: 'default' } })).text).toBe('a')
      expect((await again.say('Hi', { sessionId })).text).toBe('a')
      expect((await again.get('/sessions')).body.sessions[0]).not.toHaveProperty('model')
    },
  )

  it('gives way to the default when it is offered no more, and the client is told', async () => {
    await using app = await testApp({ plugins: [], model: models() })
    const { sessionId } = await (await app.user('chooser')).say('Hi', { body: { model: 'b' } })
    await app.again({ model: scriptedModel(['only a'], { id: 'a' }) })
    const said = await (await app.user('chooser')).say('Hi', { sessionId })
    expect(said.text).toBe('only a')
    expect(said.of('model')).toEqual([{ model: 'a', instead: 'b', code: 'MODEL_UNKNOWN' }])
  })
})

it('GET /models lists what there is to choose from, the cheapest tier first', async () => {
  const settings = {
    'openai/top': { price: { input: 5, output: 25 }, reads: { image: ['image/png'] } },
    'openai/mid': { price: { input: 1, output: 4 }, contextWindow: 200_000, badge: 'New' },
  }
  const env = {
    MODEL: 'openai/top|openai/mid,x=openai/unknown,openai/mid,demo',
    MODEL_SETTINGS: JSON.stringify(settings),
    ...key,
  }
  await using app = await testApp({ plugins: [], env })
  const { models, default: usual } = (await app.get('/models')).body
  expect(usual).toBe('openai/top')
  const brief = models.map((one: Record<string, unknown>) => [one.id, one.tier, one.costLabel])
  expect(brief).toEqual([
    ['demo', 'everyday', 'free'],
    ['x', 'balanced', ''],
    ['openai/mid', 'balanced', '$$'],
    ['openai/top', 'top', '$$$'],
  ])
  expect(models[3]).toEqual({
    id: 'openai/top',
    label: 'top',
    family: 'openai',
    tier: 'top',
    costLabel: '$$$',
    badge: '',
    blurb: '',
    vision: true,
    pricing: {
      inputPerMillion: 5,
      outputPerMillion: 25,
      currency: 'USD',
      unit: 'per_million_tokens',
    },
    isDefault: true,
    reads: { image: ['image/png'] },
    fallbacks: ['openai/mid'],
  })
  expect(models[1]).toMatchObject({ pricing: { inputPerMillion: null, outputPerMillion: null } })
  expect(models[2]).toMatchObject({ contextWindow: 200_000, badge: 'New', isDefault: false })
})
