import { describe, expect, it } from 'vitest'
import { RuntimeError } from '../../core/errors.ts'
import { assemble } from '../../core/runtime/model/assemble.ts'
import { chooseModels as choose, type GivenModel } from '../../core/runtime/model/choose.ts'
import { fakeOpenAi } from '../support/fake-openai.ts'
import { scriptedModel } from '../../core/testing/scripted-model.ts'
import { ask } from '../support/model-request.ts'

const chooseModels = (...args: Parameters<typeof choose>) => {
  const chosen = choose(...args)
  if ('faults' in chosen) throw chosen.faults[0]
  return chosen.models
}
const ids = (...args: Parameters<typeof chooseModels>) =>
  chooseModels(...args).all.map(({ id }) => id)
const key = { OPENAI_API_KEY: 'sk-1' }

describe('MODEL', () => {
  it('is the demonstration model when it says nothing or demo', () => {
    expect(ids(undefined, {})).toEqual(['demo'])
    expect(ids(undefined, { MODEL: 'demo' })).toEqual(['demo'])
  })

  it('names a model behind a compatible endpoint', async () => {
    const provider = await fakeOpenAi(['Hello.'])
    const env = { MODEL: 'openai/vendor/small-1', OPENAI_BASE_URL: provider.url }
    const models = chooseModels(undefined, env)
    const reply = await assemble(models.default.stream(ask('Hi')))
    expect(reply.content).toBe('Hello.')
    expect(provider.requests[0]?.body.model).toBe('vendor/small-1')
    await provider.close()
  })

  it('may name several, the default first', () => {
    const models = chooseModels(undefined, { MODEL: 'openai/a, demo,openai/b,demo', ...key })
    expect(models.all.map(({ id }) => id)).toEqual(['openai/a', 'demo', 'openai/b'])
    expect(models.default.id).toBe('openai/a')
    expect(models.get('b').id).toBe('openai/b')
    expect(models.get('openai/b').id).toBe('openai/b')
    expect(models.get().id).toBe('openai/a')
  })

  it.each(['gpt', 'openai', 'openai/', 'anthropic/x', 'demo/2', ' , '])(
    'stops the boot when it is "%s"',
    (MODEL) => {
      expect(() => ids(undefined, { MODEL, ...key })).toThrow(
        expect.objectContaining({
          code: 'ENV_INVALID',
          message: expect.stringContaining('MODEL is'),
        }),
      )
    },
  )

  it('wants a key, unless the endpoint is one of your own', () => {
    expect(() => ids(undefined, { MODEL: 'openai/a' })).toThrow(/OPENAI_API_KEY is not set/)
    expect(ids(undefined, { MODEL: 'openai/a', OPENAI_BASE_URL: 'http://127.0.0.1:1' })).toEqual([
      'openai/a',
    ])
  })
})

describe('a model that the app was given', () => {
  it('goes before the environment', () => {
    expect(ids(scriptedModel([]), { MODEL: 'nonsense' })).toEqual(['scripted'])
  })

  it('may be one of several', () => {
    expect(ids([scriptedModel([], { id: 'a' }), scriptedModel([], { id: 'b' })], {})).toEqual([
      'a',
      'b',
    ])
  })

  it('may be a chat model of LangChain', () => {
    const chat = {
      model: 'big',
      invoke() {},
      bindTools: () => chat,
      stream: async () => (async function* () {})(),
    }
    expect(ids(chat, {})).toEqual(['langchain/big'])
  })

  it.each([{}, 'demo', { id: 'x' }, { stream() {} }, 7])('is refused when it is %j', (given) => {
    expect(() => ids(given as unknown as GivenModel, {})).toThrow(
      expect.objectContaining({ code: 'MODEL_UNUSABLE' }),
    )
  })
})

it('a model that is not there is a 400 with the list', () => {
  try {
    chooseModels(undefined, { MODEL: 'demo,openai/a', ...key }).get('gpt-9')
    expect.unreachable()
  } catch (error) {
    expect(error).toBeInstanceOf(RuntimeError)
    expect(error).toMatchObject({
      code: 'MODEL_UNKNOWN',
      status: 400,
      message: 'There is no model "gpt-9".',
      hint: 'There is: demo, openai/a.',
      details: { models: ['demo', 'openai/a'] },
    })
  }
})
