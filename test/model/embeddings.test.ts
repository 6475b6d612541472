import { describe, expect, it, onTestFinished } from 'vitest'
import { definePlugin, type Embedder, type OfferedModels } from '#core'
import { fakeProvider, testApp, type ProviderRules } from '#core/testing'
import { faultsOf } from '../support/model-of.ts'

async function opened(env: Record<string, string>, own?: Embedder['embed']) {
  const found = Promise.withResolvers<OfferedModels>()
  const asker = definePlugin({
    name: 'asker',
    summary: 'Hands out the models.',
    visibility: 'silent',
    setup: ({ models }) => found.resolve(models),
    ...(own && {
      models: {
        mine: {
          label: 'Mine',
          standIn: false,
          open: () => ({ id: 'mine/m', stream: async function* () {} }),
          embed: (name: string) => ({ id: `mine/${name}`, embed: own }),
        },
        stand: {
          label: 'Stand-in',
          standIn: true,
          open: () => ({ id: 'stand', stream: async function* () {} }),
        },
      },
    }),
  })
  const app = await testApp({ plugins: [asker], env })
  onTestFinished(() => app.close())
  return { app, models: await found.promise }
}

async function provided(rules: ProviderRules = {}) {
  const provider = await fakeProvider(rules)
  onTestFinished(() => provider.close())
  return provider
}

const numbered = (count: number) => Array.from({ length: count }, (_, at) => `text ${at}`)

const providers = [
  ['openai/e', (url: string, key: string) => ({ OPENAI_BASE_URL: url, OPENAI_API_KEY: key })],
  ['google/e', (url: string, key: string) => ({ GOOGLE_BASE_URL: url, GOOGLE_API_KEY: key })],
  ['ollama/e', (url: string) => ({ OLLAMA_HOST: url })],
  ['mistral/e', (url: string, key: string) => ({ MISTRAL_BASE_URL: url, MISTRAL_API_KEY: key })],
] as const

describe.each(providers)('vectors of %s', (id, envOf) => {
  it('come for each text in its order, 96 in a call, with what they cost', async () => {
    const provider = await provided({ dimensions: 12 })
    const { models } = await opened({ EMBEDDING_MODEL: id, ...envOf(provider.url, provider.key) })
    const made = await models.embed(numbered(100), { kind: 'document' })
    expect(made).toMatchObject({ model: id, dimensions: 12 })
    expect(made.vectors).toHaveLength(100)
    expect(made.vectors[0]).toBeInstanceOf(Float32Array)
    expect(made.usage.inputTokens).toBeGreaterThan(0)
    // The same text has the same vector, so the order shows.
    const again = await models.embed(['text 99', 'text 3'], { kind: 'document' })
    expect(again.vectors).toEqual([made.vectors[99], made.vectors[3]])
    const asked = provider.requests.filter(({ path }) => /embed/i.test(path))
    const counts = asked.map(({ body }) => ((body.input ?? body.requests) as unknown[]).length)
    expect(counts).toEqual([96, 4, 2])
    expect(provider.requests.every(({ text }) => !text.includes(provider.key))).toBe(true)
  })

  it('of another length than before are a fault with a code', async () => {
    const provider = await provided({ dimensions: 12 })
    const { models } = await opened({ EMBEDDING_MODEL: id, ...envOf(provider.url, provider.key) })
    await models.embed(['a'], { kind: 'query' })
    provider.rules.dimensions = 8
    await expect(models.embed(['b'], { kind: 'query' })).rejects.toMatchObject({
      code: 'MODEL_ANSWER_INVALID',
      message: expect.stringContaining('8 numbers where others have 12'),
    })
  })
})

describe('vectors that no provider should send', () => {
  const vector = (...numbers: number[]) => Float32Array.from(numbers)

  it.each([
    ['fewer than there are texts', [vector(1, 2)]],
    ['more than there are texts', [vector(1, 2), vector(1, 2), vector(1, 2)]],
    ['of different lengths', [vector(1, 2), vector(1)]],
    ['with what is no number', [vector(1, 2), vector(1, NaN)]],
    ['with a number without end', [vector(1, 1e300), vector(1, 2)]],
    ['of no numbers', [vector(), vector()]],
    ['that are lists', [[1, 2] as never, [1, 2] as never]],
    ['that are nothing', undefined as never],
  ])('%s are a fault with a code', async (_, vectors) => {
    const { models } = await opened({ EMBEDDING_MODEL: 'mine/e' }, async () => ({ vectors }))
    await expect(models.embed(['a', 'b'], { kind: 'query' })).rejects.toMatchObject({
      code: 'MODEL_ANSWER_INVALID',
    })
  })

  it('end at once when nobody waits, also where the embedder does not listen', async () => {
    const began = Promise.withResolvers<void>()
    const { models } = await opened({ EMBEDDING_MODEL: 'mine/e' }, () => {
      began.resolve()
      return new Promise(() => undefined)
    })
    const stop = new AbortController()
    const asked = models.embed(['a'], { kind: 'query', signal: stop.signal })
    await began.promise
    stop.abort(new Error('enough'))
    await expect(asked).rejects.toThrow('enough')
  })

  it.each([
    [['a', ' '], 'no text at 1'],
    [['x'.repeat(128 * 1024 + 1)], 'bytes at 0'],
    [numbered(2049), '2049 texts'],
    [Array.from({ length: 65 }, () => 'x'.repeat(128 * 1024)), 'bytes'],
    ['text' as never, 'no list'],
  ])('are not asked for where there is nothing that one could ask', async (texts, why) => {
    const { models } = await opened({})
    await expect(models.embed(texts, { kind: 'query' })).rejects.toMatchObject({
      code: 'INPUT_INVALID',
      message: expect.stringContaining(why),
    })
    await expect(models.embed(['a'], { kind: 'other' as never })).rejects.toMatchObject({
      code: 'INPUT_INVALID',
    })
  })

  it('are none for no texts', async () => {
    const { models } = await opened({})
    expect((await models.embed([], { kind: 'query' })).vectors).toEqual([])
  })
})

describe('the lexical embedder', () => {
  /** Ten sentences, and questions by what they have in common with the sentence that should be found. */
  const sentences = [
    'The train to Bergen leaves from platform four at noon.',
    'My sister is allergic to peanuts and to shellfish.',
    'We planted three apple trees behind the house last spring.',
    'The invoice of the plumber is still unpaid.',
    'She prefers to write letters with a fountain pen.',
    'The server restarts every Sunday night for its updates.',
    'He collects stamps from countries that no longer exist.',
    'The bakery around the corner closes on Mondays.',
    'Our neighbours borrowed the ladder and never returned it.',
    'The museum shows paintings of the Dutch masters until March.',
  ]
  const alike = [
    ['When does the train to Bergen leave?', 0],
    ['allergy to peanut', 1],
    ['aple tree plantd', 2],
    ['unpaid invoices of plumbers', 3],
    ['restarting the servers on sunday', 5],
    ['musem with duch paintings', 9],
  ] as const
  const otherwise = [
    ['seafood makes her sick', 1],
    ['bill for the pipes', 3],
    ['bread shop opening hours', 7],
    ['Wann fährt der Zug?', 0],
    ['philately', 6],
  ] as const

  const dot = (a: Float32Array, b: Float32Array) =>
    a.reduce((sum, value, at) => sum + value * (b[at] ?? 0), 0)

  async function found(questions: readonly (readonly [string, number])[]) {
    const { models } = await opened({})
    const { vectors } = await models.embed(sentences, { kind: 'document' })
    const asked = await models.embed(
      questions.map(([text]) => text),
      { kind: 'query' },
    )
    return asked.vectors.map((question, at) => {
      const near = vectors.map((vector) => dot(vector, question))
      return near.indexOf(Math.max(...near)) === questions[at]?.[1]
    })
  }

  it('finds by the same, inflected and misspelt words', async () => {
    expect(await found(alike)).toEqual([true, true, true, true, true, true])
  })

  it('does not find by other words, or in another language: it is no language model', async () => {
    expect((await found(otherwise)).filter(Boolean).length).toBeLessThanOrEqual(2)
  })

  it('gives the same vectors of length one for ever: they are stored', async () => {
    const { models } = await opened({})
    const made = await models.embed(['Ladder!', 'lädder', '日本語', '…'], { kind: 'document' })
    expect(made).toMatchObject({ model: 'lexical', dimensions: 512 })
    const places = made.vectors.map((vector) =>
      [...vector].flatMap((value, at) => (value === 0 ? [] : [`${at}: ${value.toFixed(4)}`])),
    )
    const ladder = ['40: -0.3162', '52: -0.3162', '179: 0.3162', '231: -0.6325', '269: -0.3162']
    expect(places[0]).toEqual([...ladder, '274: 0.3162', '444: -0.3162'])
    expect(places[1]).toEqual(places[0])
    expect(places[2]).toEqual(['182: 1.0000'])
    expect(places[3]).toEqual([])
  })
})

describe('EMBEDDING_MODEL', () => {
  it('is told in the boot report, and so is what the lexical embedder cannot do', async () => {
    const { app } = await opened({})
    const line = 'embeddings: lexical, which finds what is written alike, and no other words for it'
    expect(app.report.models).toContain(line)
    expect(app.log.some((text) => text.includes(line))).toBe(true)
    const named = await opened({ EMBEDDING_MODEL: 'ollama/nomic-embed-text' })
    expect(named.app.report.models).toContain('embeddings: ollama/nomic-embed-text')
  })

  it.each([
    ['openai/e', 'EMBEDDING_MODEL names "openai/e", but OPENAI_API_KEY is not set.'],
    ['google/e', 'EMBEDDING_MODEL names "google/e", but GOOGLE_API_KEY is not set.'],
    ['antropic/e', 'EMBEDDING_MODEL names "antropic/e", which no plugin brings.'],
    ['anthropic/e', 'EMBEDDING_MODEL names "anthropic/e", but Anthropic makes no vectors.'],
    ['demo', 'makes no vectors.'],
    ['lexcal', 'EMBEDDING_MODEL is "lexcal", which makes no vectors.'],
    ['openai/', 'EMBEDDING_MODEL is "openai/", which names no model.'],
  ])('stops the boot as %s', async (name, message) => {
    const [fault, ...more] = await faultsOf({ plugins: [], env: { EMBEDDING_MODEL: name } })
    expect(more).toEqual([])
    expect(fault).toMatchObject({ code: 'ENV_INVALID', hint: expect.stringMatching(/\S/) })
    expect(fault?.message).toContain(message)
  })

  it('takes the settings of its name, and the log holds no key of them', async () => {
    const provider = await provided()
    const { app, models } = await opened({
      EMBEDDING_MODEL: 'openai/e',
      VECTOR_KEY: 'sk-wrong-key-of-vectors',
      MODEL_SETTINGS: JSON.stringify({
        'openai/e': { baseUrl: `${provider.url}/v1`, keyFrom: 'VECTOR_KEY', attempts: 1 },
      }),
    })
    const error = await models.embed(['a'], { kind: 'query' }).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'MODEL_UNAUTHORIZED' })
    expect(JSON.stringify(error, Object.getOwnPropertyNames(error))).not.toContain('sk-wrong')
    expect(app.log.join('\n')).not.toContain('sk-wrong')
    expect(app.log.join('\n')).not.toContain('belong to no model')
  })
})
