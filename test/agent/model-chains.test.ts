import { describe, expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { chain, definePlugin, RuntimeError } from '#core'
import { call, fakeProvider, scriptedModel, testApp, type ScriptedStep } from '#core/testing'
import { fakeOpenAi } from '../support/fake-openai.ts'

const down = (code: ConstructorParameters<typeof RuntimeError>[0] = 'MODEL_OVERLOADED') =>
  new RuntimeError(code, `It is ${code}.`)

const dice = definePlugin({
  name: 'dice',
  summary: 'Rolls a dice.',
  visibility: 'always',
  tools: { roll: { description: 'Rolls.', effect: 'read', input: z.object({}), run: () => 4 } },
})

async function chained(a: readonly ScriptedStep[], b: readonly ScriptedStep[], clock = false) {
  const models = [scriptedModel(a, { id: 'one/a' }), scriptedModel(b, { id: 'two/b' })] as const
  const app = await testApp({ plugins: [dice], model: chain(models), clock })
  onTestFinished(() => app.close())
  return { app, user: await app.user(), a: models[0], b: models[1] }
}

describe('a chain of models', () => {
  it.each([
    'MODEL_OVERLOADED',
    'MODEL_RATE_LIMITED',
    'MODEL_UNREACHABLE',
    'MODEL_TIMEOUT',
    'MODEL_UNAUTHORIZED',
    'MODEL_QUOTA_EXHAUSTED',
    'MODEL_NOT_FOUND',
  ] as const)('goes on to the next after %s, and says so', async (code) => {
    const { app, user } = await chained([down(code)], ['Here I am.'])
    const said = await user.say('Hello')
    expect(said.text).toBe('Here I am.')
    expect(said.of('model')).toEqual([{ model: 'two/b', instead: 'one/a', code }])
    const { messages } = (await user.get(`/messages/${said.sessionId}`)).body
    expect(messages.at(-1)).toMatchObject({ content: 'Here I am.', model: 'two/b' })
    const line = app.log.find((text) => text.includes('model two/b answers'))
    expect(line).toContain('one/a')
    expect(line).toContain(code)
  })

  it.each(['MODEL_REFUSED', 'MODEL_BAD_REQUEST'] as const)(
    'stops at %s: another model would only hide it',
    async (code) => {
      const { user, b } = await chained([down(code)], ['Here I am.'])
      const { sessionId } = (await user.post('/sessions')).body
      const { body } = await user.post(`/messages/${sessionId}`, { message: 'Hello' })
      expect(body).toMatchObject({ code })
      expect(b.requests).toEqual([])
    },
  )

  it('goes on after a thought, and never after a word', async () => {
    const thinking = await chained([{ reasoning: 'Hm.', error: down() }], ['Here I am.'])
    expect((await thinking.user.say('Hello')).text).toBe('Here I am.')
    const speaking = await chained([{ text: 'I am', error: down() }], ['Here I am.'])
    const said = await speaking.user.say('Hello')
    expect(said.text).toBe('I am')
    expect(said.status).toBe('failed')
    expect(speaking.b.requests).toEqual([])
  })

  it('fails with the fault of the first when all have failed', async () => {
    const { user } = await chained([down('MODEL_OVERLOADED')], [down('MODEL_UNAUTHORIZED')])
    const { sessionId } = (await user.post('/sessions')).body
    const { status, body } = await user.post(`/messages/${sessionId}`, { message: 'Hello' })
    expect(status).toBe(503)
    expect(body).toMatchObject({
      code: 'MODEL_OVERLOADED',
      details: {
        tried: [
          { model: 'one/a', code: 'MODEL_OVERLOADED' },
          { model: 'two/b', code: 'MODEL_UNAUTHORIZED' },
        ],
      },
    })
  })

  it('stays, for a turn, with the model that it went to', async () => {
    const { user, a, b } = await chained(
      [down(), 'A new turn.'],
      [call('roll'), call('roll'), 'It is 4.'],
    )
    const said = await user.say('Roll twice')
    expect(said.text).toBe('It is 4.')
    expect(said.of('model')).toHaveLength(1)
    expect([a.requests.length, b.requests.length]).toEqual([1, 3])
    const { sessionId } = said
    expect((await user.say('Again', { sessionId })).text).toBe('A new turn.')
  })

  it('takes a larger window after a conversation that was too long', async () => {
    const small = scriptedModel([down('MODEL_CONTEXT_TOO_LONG')], { id: 'small' })
    const same = scriptedModel(['No larger.'], { id: 'same' })
    const large = scriptedModel(['I read it.'], { id: 'large' })
    const model = chain([
      Object.assign(small, { contextWindow: 8000 }),
      Object.assign(same, { contextWindow: 8000 }),
      Object.assign(large, { contextWindow: 32_000 }),
    ])
    await using app = await testApp({ plugins: [], model })
    expect((await (await app.user()).say('Hello')).text).toBe('I read it.')
    expect(same.requests).toEqual([])
  })

  it('is asked by a plugin as one model', async () => {
    const model = chain([scriptedModel([down()], { id: 'a' }), scriptedModel(['Hi.'], { id: 'b' })])
    let text = ''
    const signal = new AbortController().signal
    for await (const delta of model.stream({ messages: [], tools: [], signal }))
      if (delta.type === 'text') text += delta.text
    expect(text).toBe('Hi.')
  })
})

describe('MODEL with a chain', () => {
  async function twoProviders() {
    const a = await fakeOpenAi(() => ({ status: 529, headers: { 'retry-after-ms': '1' } }))
    const b = await fakeOpenAi(() => 'Here I am.')
    onTestFinished(async () => void (await Promise.all([a.close(), b.close()])))
    const env = {
      MODEL: 'groq/a|mistral/b,fast=mistral/c',
      GROQ_API_KEY: 'sk-known-1',
      GROQ_BASE_URL: a.url,
      MISTRAL_API_KEY: 'sk-known-2',
      MISTRAL_BASE_URL: b.url,
    }
    const app = await testApp({ plugins: [], env, clock: true })
    onTestFinished(() => app.close())
    return { a, b, app, user: await app.user() }
  }

  it('asks the first twice, then the next; three failures in a row rest the first for 30 seconds', async () => {
    const { a, b, app, user } = await twoProviders()
    for (let turn = 1; turn <= 3; turn++) {
      const said = await user.say('Hello')
      expect(said.text).toBe('Here I am.')
      expect(said.of('model')).toEqual([
        { model: 'mistral/b', instead: 'groq/a', code: 'MODEL_OVERLOADED' },
      ])
      expect(a.requests).toHaveLength(2 * turn)
    }
    expect((await user.say('Hello')).of('model')).toHaveLength(1)
    expect(a.requests).toHaveLength(6)
    await app.clock.advance('31s')
    await user.say('Hello')
    expect(a.requests).toHaveLength(8)
    expect(b.requests).toHaveLength(5)
    expect(app.log.join()).not.toMatch(/sk-known/)
  })

  it('offers the chain by its first name, and an alias by itself', async () => {
    const { b, app, user } = await twoProviders()
    const { body } = await app.get('/models')
    expect(body.models.map(({ id }: { id: string }) => id)).toEqual(
      expect.arrayContaining(['groq/a', 'fast']),
    )
    await user.say('Hello', { body: { model: 'fast' } })
    expect(b.requests.at(-1)?.body.model).toBe('c')
    expect(b.requests.at(-1)?.headers.authorization).toBe('Bearer sk-known-2')
  })
})

describe('MODEL="anthropic/a|openai/b,fast=google/c"', () => {
  const busy = { status: 529, retryAfter: 0, times: 1_000 }

  async function overThreeWires(MODEL = 'anthropic/a|openai/b,fast=google/c') {
    const provider = await fakeProvider()
    onTestFinished(() => provider.close())
    const env = {
      MODEL,
      ANTHROPIC_API_KEY: provider.key,
      ANTHROPIC_BASE_URL: provider.url,
      OPENAI_API_KEY: provider.key,
      OPENAI_BASE_URL: provider.url,
      GOOGLE_API_KEY: provider.key,
      GOOGLE_BASE_URL: provider.url,
    }
    const app = await testApp({ plugins: [dice], env, clock: true })
    onTestFinished(() => app.close())
    const asked = () => provider.requests.map(({ model }) => model)
    return { provider, app, user: await app.user(), asked }
  }

  it('asks a model without a next one four times, and one with a next one twice', async () => {
    const alone = await overThreeWires('anthropic/a')
    alone.provider.otherwise = busy
    const { sessionId } = (await alone.user.post('/sessions')).body
    const { body } = await alone.user.post(`/messages/${sessionId}`, { message: 'Hello' })
    expect(body).toMatchObject({ code: 'MODEL_OVERLOADED' })
    expect(alone.asked()).toEqual(['a', 'a', 'a', 'a'])

    const { provider, app, user, asked } = await overThreeWires()
    provider.otherwise = ({ model }) => (model === 'a' ? busy : `I am ${model}.`)
    for (let turn = 1; turn <= 3; turn++) {
      const said = await user.say('Hello')
      expect(said.text).toBe('I am b.')
      const told = { model: 'openai/b', instead: 'anthropic/a', code: 'MODEL_OVERLOADED' }
      expect(said.of('model')).toEqual([told])
      const { messages } = (await user.get(`/messages/${said.sessionId}`)).body
      expect(messages.at(-1)).toMatchObject({ content: 'I am b.', model: 'openai/b' })
    }
    expect(asked()).toEqual(Array(3).fill(['a', 'a', 'b']).flat())
    const line = app.log.find((text) => text.includes('model openai/b answers'))
    expect(line).toContain('anthropic/a')
    // Three failures in a row rest the first for 30 seconds.
    await user.say('Hello')
    expect(asked().slice(9)).toEqual(['b'])
    await app.clock.advance('29s')
    await user.say('Hello')
    expect(asked().slice(10)).toEqual(['b'])
    await app.clock.advance('2s')
    await user.say('Hello')
    expect(asked().slice(11)).toEqual(['a', 'a', 'b'])
    expect((await user.say('Hello', { body: { model: 'fast' } })).text).toBe('I am c.')
    expect(app.log.join()).not.toContain(provider.key)
  })

  it('has no second model after the first word, and no word twice', async () => {
    const { provider, user, asked } = await overThreeWires()
    provider.answer({ text: 'Half of it', then: 'break' })
    const broken = await user.say('Hello')
    expect(broken).toMatchObject({ status: 'failed', text: 'Half of it' })
    expect(asked()).toEqual(['a'])
    provider.answer({ reasoning: 'Well', then: 'break' }, { reasoning: 'Well', then: 'break' })
    provider.answer('The whole.')
    const said = await user.say('Hello')
    expect(said).toMatchObject({ status: 'finished', text: 'The whole.' })
    expect(asked().slice(1)).toEqual(['a', 'a', 'b'])
    const { messages } = (await user.get(`/messages/${said.sessionId}`)).body
    expect(messages.filter(({ type }: { type: string }) => type === 'ai')).toHaveLength(1)
  })
})
