import { describe, expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { definePlugin, type AskableModel, type OfferedModels } from '#core'
import {
  call,
  fakeProvider,
  scriptedModel,
  testApp,
  type ProviderRules,
  type ProviderSpeech,
  type ProviderWire,
} from '#core/testing'

const wires: readonly {
  wire: ProviderWire
  env: (url: string, key: string) => Record<string, string>
}[] = [
  {
    wire: 'chat',
    env: (url, key) => ({ MODEL: 'openai/m', OPENAI_API_KEY: key, OPENAI_BASE_URL: url }),
  },
  {
    wire: 'responses',
    env: (url, key) => ({
      MODEL: 'openai/m',
      OPENAI_API_KEY: key,
      OPENAI_BASE_URL: url,
      MODEL_SETTINGS: '{"openai/m":{"wire":"responses"}}',
    }),
  },
  {
    wire: 'messages',
    env: (url, key) => ({ MODEL: 'anthropic/m', ANTHROPIC_API_KEY: key, ANTHROPIC_BASE_URL: url }),
  },
  {
    wire: 'generateContent',
    env: (url, key) => ({ MODEL: 'google/m', GOOGLE_API_KEY: key, GOOGLE_BASE_URL: url }),
  },
  { wire: 'ollama', env: (url) => ({ MODEL: 'ollama/m', OLLAMA_HOST: url }) },
]

/** An app with a plugin whose handler gets a model: that of a route, with all models of the app. */
async function opened(env: Record<string, string>) {
  const found = Promise.withResolvers<OfferedModels>()
  const asker = definePlugin({
    name: 'asker',
    summary: 'Hands out the models.',
    visibility: 'silent',
    setup: ({ models }) => found.resolve(models),
  })
  const app = await testApp({ plugins: [asker], env })
  onTestFinished(() => app.close())
  return { app, models: await found.promise }
}

async function provided(wire: (typeof wires)[number], rules: ProviderRules = {}) {
  const provider = await fakeProvider(rules)
  onTestFinished(() => provider.close())
  return { provider, ...(await opened(wire.env(provider.url, provider.key))) }
}

const Order = z.object({
  city: z.string(),
  guests: z.number().int().min(1),
  when: z.enum(['noon', 'night']),
})
const order = { city: 'Oslo', guests: 2, when: 'night' } as const

/** The answer as a model of this wire gives it: in words by the mode for objects, or by the call that it must make. */
function giving(value: unknown) {
  return ({ text }: { readonly text: string }): ProviderSpeech =>
    text.includes('"answer"') && isForced(text)
      ? { calls: [{ name: 'answer', args: value }] }
      : { text: JSON.stringify(value) }
}
const isForced = (text: string) =>
  /"tool_choice":\{|allowedFunctionNames|"tools":\[\{"type":"function","function":\{"name":"answer"/.test(
    text,
  )

const modes: Readonly<Record<ProviderWire, string>> = {
  chat: '"response_format":{"type":"json_schema"',
  responses: '"text":{"format":{"type":"json_schema"',
  messages: '"output_config":{"format":{"type":"json_schema"',
  generateContent: '"responseJsonSchema"',
  ollama: '"format":{',
}

describe.each(wires)('an object of a model behind $wire', (wire) => {
  it('comes by the mode for objects, as the schema parses it', async () => {
    const { provider, models } = await provided(wire)
    provider.answer(giving(order))
    expect(await models.get().object(Order, 'A table for two in Oslo tonight')).toEqual(order)
    expect(provider.requests.at(-1)?.text).toContain(modes[wire.wire])
    expect(provider.refusals).toEqual([])
  })

  it('is mended once, when the model is told what does not fit', async () => {
    const { provider, models } = await provided(wire)
    provider.answer(giving({ ...order, guests: 0 }), giving(order))
    expect(await models.get().object(Order, 'A table')).toEqual(order)
    const second = provider.requests.at(-1)?.text ?? ''
    expect(second).toContain('That does not fit: guests:')
    expect(provider.refusals).toEqual([])
  })

  it('is a fault with its code when it fits the second time neither', async () => {
    const { provider, models } = await provided(wire)
    provider.answer('A table, gladly.', giving({ ...order, when: 'dawn' }))
    await expect(models.get().object(Order, 'A table')).rejects.toMatchObject({
      code: 'MODEL_ANSWER_INVALID',
      details: { faults: [{ path: 'when' }] },
    })
    expect(provider.remaining).toBe(0)
    expect(provider.refusals).toEqual([])
  })

  it('comes by a call where the server refuses the mode by name, which is learned once', async () => {
    const { provider, models } = await provided(wire, { refuses: ['object'] })
    provider.answer(giving({ ...order, guests: 0 }), giving(order), giving(order))
    expect(await models.get().object(Order, 'A table')).toEqual(order)
    expect(await models.get().object(Order, 'The same again')).toEqual(order)
    expect(provider.refusals).toHaveLength(1)
    expect(provider.requests.at(-1)?.text).not.toContain(modes[wire.wire])
  })

  it('may be any value: a list, a text, one of several', async () => {
    const { provider, models } = await provided(wire)
    const model = models.get()
    provider.answer(giving({ result: ['a', 'b'] }), giving({ result: null }), giving({ result: 7 }))
    expect(await model.object(z.array(z.string()), 'Two letters')).toEqual(['a', 'b'])
    expect(await model.object(z.string().nullable(), 'A name, or none')).toBeNull()
    const either = z.union([z.number(), z.object({ name: z.string() })])
    expect(await model.object(either, 'A number or a name')).toBe(7)
    expect(provider.refusals).toEqual([])
  })

  it('ends at once when its signal fires', async () => {
    const { provider, models } = await provided(wire)
    provider.answer('silence')
    const stop = new AbortController()
    const asked = models.get().object(Order, 'A table', { signal: stop.signal })
    void provider.next().then(() => stop.abort(new Error('enough')))
    await expect(asked).rejects.toThrow('enough')
  })
})

describe('an object of a model that thinks by hand', () => {
  it('is asked for by a call without thoughts', async () => {
    const provider = await fakeProvider({ refuses: ['object', 'adaptive'] })
    onTestFinished(() => provider.close())
    const { models } = await opened({
      MODEL: 'anthropic/m',
      ANTHROPIC_API_KEY: provider.key,
      ANTHROPIC_BASE_URL: provider.url,
      MODEL_SETTINGS: '{"*":{"reasoning":"high"}}',
    })
    provider.answer(giving(order))
    expect(await models.get().object(Order, 'A table')).toEqual(order)
    expect(provider.requests.at(-1)?.body.thinking).toBeUndefined()
  })
})

describe('models that handlers ask', () => {
  /** A plugin with a handler of each kind that asks its `ctx.model`. */
  function asker(
    ask: (ctx: { model: AskableModel; models: OfferedModels; signal: AbortSignal }) => unknown,
  ) {
    return definePlugin({
      name: 'asker',
      summary: 'Asks.',
      visibility: 'always',
      tools: {
        ask: {
          description: 'Asks aside.',
          effect: 'read',
          input: z.object({}),
          run: async (_, ctx) => await ask(ctx),
        },
      },
      routes: {
        'POST /ask': { auth: 'public', run: async (_, ctx) => ({ said: await ask(ctx) }) },
      },
      jobs: { ask: { attempts: 1, run: (_, ctx) => ask(ctx) } },
    })
  }
  const city = z.object({ city: z.string() })

  it('answer in tools with the model of the turn, and cost no step of its loop', async () => {
    const b = scriptedModel([call('ask'), { text: 'Well, 5.' }, 'It said so.'], { id: 'b' })
    const app = await testApp({
      plugins: [asker(({ model }) => model.text('How many?', { system: 'Count.' }))],
      model: [scriptedModel([], { id: 'a' }), b],
    })
    onTestFinished(() => app.close())
    const said = await (await app.user()).say('Ask it', { body: { model: 'b' } })
    expect(said.text).toBe('It said so.')
    expect(b.requests[1]?.messages).toEqual([
      { role: 'system', content: 'Count.' },
      { role: 'user', id: expect.any(String), content: 'How many?' },
    ])
    expect(b.requests[2]?.messages.at(-1)?.content).toContain('Well, 5.')
  })

  it('answer in routes with the default, which MODEL_SMALL replaces for values, and no other that is named', async () => {
    const provider = await fakeProvider()
    onTestFinished(() => provider.close())
    provider.answer('Words.', '{"city":"Oslo"}', '{"city":"Bergen"}')
    const app = await testApp({
      plugins: [
        asker(async ({ model, models }) => [
          await model.text('Say'),
          await model.object(city, 'Where'),
          await models.get('openai/big').object(city, 'Where'),
        ]),
      ],
      env: {
        MODEL: 'openai/big',
        MODEL_SMALL: 'openai/small',
        OPENAI_API_KEY: provider.key,
        OPENAI_BASE_URL: provider.url,
      },
    })
    onTestFinished(() => app.close())
    const { body } = await app.post('/ask')
    expect(body).toEqual({ said: ['Words.', { city: 'Oslo' }, { city: 'Bergen' }] })
    expect(provider.requests.map(({ model }) => model)).toEqual(['big', 'small', 'big'])
  })

  it('answer in jobs, whatever turn asked for them', async () => {
    const done = Promise.withResolvers<unknown>()
    const worker = definePlugin({
      name: 'worker',
      summary: 'Works later.',
      jobs: {
        sort: {
          input: z.object({ words: z.string() }),
          run: async ({ words }, { model, models }) =>
            done.resolve([
              await model.object(city, words),
              (await models.embed([words], { kind: 'query' })).dimensions,
            ]),
        },
      },
      routes: {
        'POST /later': {
          auth: 'public',
          run: async (_, { jobs }) => await jobs.later('sort', { words: 'To Oslo' }),
        },
      },
    })
    const app = await testApp({ plugins: [worker], model: scriptedModel(['{"city":"Oslo"}']) })
    onTestFinished(() => app.close())
    expect((await app.post('/later')).status).toBe(200)
    expect(await done.promise).toEqual([{ city: 'Oslo' }, 512])
  })

  it('are out of reach in a transaction of runs, which must not stay open for seconds', async () => {
    const refused = Promise.withResolvers<readonly unknown[]>()
    const watcher = definePlugin({
      name: 'watcher',
      summary: 'Watches runs.',
      runs: {
        begin: async (_, { model, models }) => {
          const asked = [
            model.text('Hi'),
            model.object(city, 'Hi'),
            models.embed(['a'], { kind: 'query' }),
          ]
          const outcomes = await Promise.allSettled(asked)
          refused.resolve(outcomes.map((each) => each.status === 'rejected' && each.reason.code))
        },
      },
    })
    const app = await testApp({ plugins: [watcher], model: scriptedModel(['Hello.']) })
    onTestFinished(() => app.close())
    await (await app.user()).say('Hello')
    expect(await refused.promise).toEqual(['INTERNAL', 'INTERNAL', 'INTERNAL'])
  })

  it('follow the chain, and refuse a name that is not offered', async () => {
    const provider = await fakeProvider()
    onTestFinished(() => provider.close())
    provider.answer({ status: 401 }, '{"city":"Oslo"}')
    const { models } = await opened({
      MODEL: 'openai/one|openai/two',
      OPENAI_API_KEY: provider.key,
      OPENAI_BASE_URL: provider.url,
    })
    expect(await models.get().object(city, 'Where')).toEqual({ city: 'Oslo' })
    expect(() => models.get('openai/three')).toThrow(
      expect.objectContaining({
        code: 'MODEL_UNKNOWN',
        hint: expect.stringContaining('openai/one'),
      }),
    )
  })

  it('end with the turn when it is stopped', async () => {
    const asked = Promise.withResolvers<void>()
    const gone = Promise.withResolvers<unknown>()
    const model = scriptedModel([
      call('ask'),
      async () => {
        asked.resolve()
        return await new Promise<never>(() => undefined)
      },
    ])
    const app = await testApp({
      plugins: [
        asker(async ({ model }) => {
          await model.text('Wait for it').catch(gone.resolve)
        }),
      ],
      model,
    })
    onTestFinished(() => app.close())
    const user = await app.user()
    const { sessionId } = (await user.post('/sessions')).body
    const turn = user.say('Ask it', { sessionId })
    await asked.promise
    await user.post('/messages/abort', { sessionId })
    expect(await gone.promise).toBeInstanceOf(Error)
    expect((await turn).status).toBe('aborted')
  })

  it('answer a turn 100 times and no more', async () => {
    const model = scriptedModel([
      call('ask'),
      ...Array.from({ length: 100 }, () => 'Yes.'),
      'Enough.',
    ])
    const app = await testApp({
      plugins: [
        asker(async ({ model }) => {
          for (;;) await model.text('Again?')
        }),
      ],
      model,
    })
    onTestFinished(() => app.close())
    expect((await (await app.user()).say('Ask it')).text).toBe('Enough.')
    expect(model.requests).toHaveLength(102)
    expect(model.requests.at(-1)?.messages.at(-1)?.content).toContain('MODEL_CALLS_SPENT')
  })

  it('are not asked for ever', async () => {
    const { models } = await opened({})
    const silent = await testApp({
      plugins: [asker(({ model }) => model.text('Well?', { timeoutMs: 20 }))],
      model: scriptedModel([() => new Promise<never>(() => undefined)]),
    })
    onTestFinished(() => silent.close())
    expect((await silent.post('/ask')).body.code).toBe('MODEL_TIMEOUT')
    await expect(models.get().text('Hi', { timeoutMs: 1e9 })).rejects.toMatchObject({
      code: 'INPUT_INVALID',
    })
  })

  it.each([
    ['', 'holds no words'],
    [[], 'holds no words'],
    ['x'.repeat(1024 * 1024 + 1), 'bytes'],
    [Array.from({ length: 501 }, () => ({ role: 'user' as const, content: 'x' })), 'lines'],
    [[{ role: 'assistant' as const, content: 'x' }], 'begin with the user'],
    [[{ role: 'robot', content: 'x' }] as never, 'no { role, content }'],
    [7 as never, 'neither text'],
  ])('refuse what no model takes, before anybody is asked', async (prompt, why) => {
    const { models } = await opened({})
    await expect(models.get().text(prompt)).rejects.toMatchObject({
      code: 'INPUT_INVALID',
      message: expect.stringContaining(why),
    })
  })

  it('take the JSON out of marks of code', async () => {
    const app = await testApp({
      plugins: [asker(({ model }) => model.object(city, 'Where'))],
      model: scriptedModel([
        'Here it is:\n```json\n{"city":"Oslo"}\n```',
        call('answer', { city: 'Bergen' }),
      ]),
    })
    onTestFinished(() => app.close())
    expect((await app.post('/ask')).body).toEqual({ said: { city: 'Oslo' } })
    expect((await app.post('/ask')).body).toEqual({ said: { city: 'Bergen' } })
  })

  it('answer the demonstration model, too, by the schema', async () => {
    const { models } = await opened({})
    const wish = z.object({ place: z.string().describe('The city'), days: z.number().int() })
    expect(await models.get().object(wish, 'I want to stay 3 days in Paris')).toEqual({
      place: 'Paris',
      days: 3,
    })
  })
})
