import { describe, expect, it } from 'vitest'
import { RuntimeError } from '#core'
import {
  AiSdkEmbedder,
  AiSdkLanguageModel,
  Assembly,
  type AiSdkOptions,
  type Message,
  type ModelRequest,
} from '#core/models'
import { providerIn } from './factory.ts'
import { sdkName } from './packages.ts'

const stop = { type: 'finish', finishReason: { unified: 'stop', raw: 'stop' } }

/** A package that answers each call with the next list of parts, or fails with the next error. */
function packageOf(answers: readonly (readonly unknown[] | Error)[], version = 'v4') {
  const asked: any[] = [] // any: the test reads what the package was asked by its fields
  const model = {
    specificationVersion: version,
    provider: 'maker.chat',
    modelId: 'one',
    doStream(options: object) {
      const answer = answers[asked.push(options) - 1] ?? []
      if (answer instanceof Error) return Promise.reject(answer)
      return Promise.resolve({ stream: ReadableStream.from(answer) })
    },
  }
  return { model, asked }
}

const request = (rest: Partial<ModelRequest> = {}): ModelRequest => ({
  messages: [{ role: 'user', id: 'u', content: 'Hello.' }],
  tools: [],
  signal: new AbortController().signal,
  ...rest,
})

async function heard(model: AiSdkLanguageModel, asked = request()) {
  const assembly = new Assembly()
  for await (const delta of model.stream(asked)) assembly.add(delta)
  return assembly.reply()
}

async function answered(parts: readonly unknown[], options?: AiSdkOptions) {
  return heard(new AiSdkLanguageModel(packageOf([parts]).model, options))
}

describe('the usage of a package', () => {
  const ended = (usage: unknown) => [
    { type: 'text-delta', id: '0', delta: 'Hi.' },
    { ...stop, usage },
  ]
  it.each([
    [
      'of versions 3 and 4 holds what the cache had',
      {
        inputTokens: { total: 100, noCache: 60, cacheRead: 30, cacheWrite: 10 },
        outputTokens: { total: 20, text: 15, reasoning: 5 },
      },
      {
        inputTokens: 100,
        outputTokens: 20,
        cachedTokens: 30,
        cacheWriteTokens: 10,
        reasoningTokens: 5,
      },
    ],
    [
      'without a total is the sum of its parts',
      { inputTokens: { noCache: 60, cacheRead: 30 }, outputTokens: { text: 15 } },
      { inputTokens: 90, outputTokens: 15, cachedTokens: 30 },
    ],
    [
      'whose total leaves out the cache is mended',
      { inputTokens: { total: 60, noCache: 60, cacheRead: 30 }, outputTokens: { total: 1 } },
      { inputTokens: 90, outputTokens: 1, cachedTokens: 30 },
    ],
    [
      'in plain numbers is taken as it stands',
      { inputTokens: 7, outputTokens: 3, cachedInputTokens: 2 },
      { inputTokens: 7, outputTokens: 3, cachedTokens: 2 },
    ],
    [
      'that is none is left out',
      { inputTokens: { total: undefined }, outputTokens: {} },
      undefined,
    ],
    ['below zero is none', { inputTokens: { total: -1 }, outputTokens: { total: NaN } }, undefined],
    ['that is missing is left out', undefined, undefined],
  ])('%s', async (_, given, wanted) => {
    expect((await answered(ended(given))).usage).toEqual(wanted)
  })
})

describe('the parts of an answer', () => {
  const signed = { maker: { signature: 'AAAA' } }
  const parts = [
    { type: 'stream-start', warnings: [] },
    { type: 'reasoning-start', id: '0' },
    { type: 'reasoning-delta', id: '0', delta: 'Let me ' },
    { type: 'text-start', id: '0' },
    { type: 'reasoning-delta', id: '0', delta: 'see.' },
    { type: 'reasoning-end', id: '0', providerMetadata: signed },
    { type: 'text-delta', id: '0', delta: 'I look.' },
    { type: 'tool-input-start', id: 'c1', toolName: 'look' },
    { type: 'tool-input-delta', id: 'c1', delta: '{"at":' },
    {
      type: 'tool-call',
      toolCallId: 'c1',
      toolName: 'look',
      input: '{"at":"x"}',
      providerMetadata: signed,
    },
    { type: 'tool-call', toolCallId: 'c2', toolName: 'wait', input: '' },
    stop,
  ]

  it('go back in their order with their metadata as options, to the same model alone', async () => {
    const { model, asked } = packageOf([parts, [stop]])
    const own = new AiSdkLanguageModel(model)
    const reply = await heard(own)
    expect(reply).toMatchObject({
      content: 'I look.',
      reasoning: 'Let me see.',
      toolCalls: [
        { name: 'look', args: { at: 'x' } },
        { name: 'wait', args: {} },
      ],
    })
    const { content, toolCalls, provider: data } = reply
    const messages = (by: string): Message[] => [
      { role: 'user', id: 'u', content: 'Look.' },
      { role: 'assistant', id: 'a', content, toolCalls, provider: { by, data } },
      ...toolCalls.map(({ id, name }): Message => ({
        role: 'tool',
        id,
        toolCallId: id,
        name,
        content: 'done',
      })),
    ]
    await heard(own, request({ messages: messages(own.origin) }))
    expect(asked[1].prompt.slice(1)).toEqual([
      {
        role: 'assistant',
        content: [
          { type: 'reasoning', text: 'Let me see.', providerOptions: signed },
          { type: 'text', text: 'I look.' },
          {
            type: 'tool-call',
            toolCallId: 'c1',
            toolName: 'look',
            input: { at: 'x' },
            providerOptions: signed,
          },
          { type: 'tool-call', toolCallId: 'c2', toolName: 'wait', input: {} },
        ],
      },
      {
        role: 'tool',
        content: [
          { toolCallId: 'c1', toolName: 'look', output: { type: 'text', value: 'done' } },
          { toolCallId: 'c2', toolName: 'wait', output: { type: 'text', value: 'done' } },
        ].map((result) => ({ type: 'tool-result', ...result })),
      },
    ])
    await heard(own, request({ messages: messages('somebody else') })).catch(() => {})
    expect(JSON.stringify(asked[2].prompt)).not.toContain('AAAA')
  })

  it('of a text alone are said by the message', async () => {
    const words = [{ type: 'text-delta', id: '0', delta: 'Hi.' }, stop]
    expect((await answered(words)).provider).toBeUndefined()
  })

  it('that the provider carried out itself are no calls of ours, and go back', async () => {
    const own = [
      {
        type: 'tool-call',
        toolCallId: 'w',
        toolName: 'search',
        input: '{}',
        providerExecuted: true,
      },
      { type: 'tool-result', toolCallId: 'w', toolName: 'search', result: { hits: 2 } },
      { type: 'text-delta', id: '0', delta: 'Two.' },
      stop,
    ]
    const { toolCalls, provider } = await answered(own)
    expect(toolCalls).toEqual([])
    expect(provider).toMatchObject({
      parts: [{ providerExecuted: true }, { type: 'tool-result' }, {}],
    })
  })

  it('of a package that sends anything break nothing', async () => {
    const strange = [
      null,
      7,
      {},
      { type: 'text-delta' },
      { type: 'text-delta', id: 3, delta: { a: 1 } },
      { type: 'tool-call', input: 7 },
      { type: 'tool-call', toolCallId: 'd', toolName: 'deep', input: '['.repeat(100_000) },
      { type: 'finish' },
    ]
    const { toolCalls } = await answered(strange)
    expect(toolCalls.map(({ name }) => name)).toEqual(['unnamed', 'deep'])
  })
})

describe('what a package is asked', () => {
  it('holds what is set, and nothing else', async () => {
    const { model, asked } = packageOf([[stop], [stop]])
    const own = new AiSdkLanguageModel(model, { settings: { headers: { 'x-team': 'a' } } })
    await heard(own)
    const fields = Object.keys(asked[0]).toSorted()
    expect(fields).toEqual(['abortSignal', 'headers', 'prompt'])
    await heard(
      own,
      request({
        tools: [
          { name: 'look', description: 'Looks.', parameters: { $schema: 'x', type: 'object' } },
        ],
        settings: {
          temperature: 0.5,
          topP: 0.9,
          maxOutputTokens: 100,
          reasoning: 'high',
          toolChoice: { tool: 'look' },
          object: { name: 'answer', schema: { type: 'object' } },
          body: { maker: { safe: true } },
        },
      }),
    )
    expect(asked[1]).toMatchObject({
      temperature: 0.5,
      topP: 0.9,
      maxOutputTokens: 100,
      reasoning: 'high',
      headers: { 'x-team': 'a' },
      tools: [{ type: 'function', name: 'look', inputSchema: { type: 'object' } }],
      toolChoice: { type: 'tool', toolName: 'look' },
      responseFormat: { type: 'json', name: 'answer', schema: { type: 'object' } },
      providerOptions: { maker: { safe: true } },
    })
  })

  it('holds files in the form of its version, and a tool’s files as the user’s after all results', async () => {
    const part = {
      type: 'image',
      mediaType: 'image/png',
      name: 'a.png',
      bytes: 2,
      file: 'f',
    } as const
    const call = (id: string) => ({ id, name: 'draw', args: {} })
    const result = (id: string) =>
      ({ role: 'tool', id, toolCallId: id, name: 'draw', content: 'drawn' }) as const
    const messages: Message[] = [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', id: 'u', content: '', parts: [part] },
      { role: 'assistant', id: 'a', content: '', toolCalls: [call('1'), call('2')] },
      { ...result('1'), parts: [part] },
      { ...result('2'), failed: true },
      { role: 'system', content: 'And kind.' },
    ]
    const file = () => Promise.resolve(new Uint8Array([1, 2]))
    for (const [version, data] of [
      ['v3', new Uint8Array([1, 2])],
      ['v4', { type: 'data', data: new Uint8Array([1, 2]) }],
    ] as const) {
      const { model, asked } = packageOf([[stop]], version)
      await heard(new AiSdkLanguageModel(model), request({ messages, file }))
      const image = { type: 'file', mediaType: 'image/png', filename: 'a.png', data }
      const said = [{ type: 'text', text: 'What the call 1 of "draw" returned:' }, image]
      expect(asked[0].prompt).toMatchObject([
        { role: 'system', content: 'Be brief.\n\nAnd kind.' },
        { role: 'user', content: [image] },
        { role: 'assistant', content: [{ type: 'tool-call' }, { type: 'tool-call' }] },
        {
          role: 'tool',
          content: [{ output: { type: 'text' } }, { output: { type: 'error-text' } }],
        },
        { role: 'user', content: said },
      ])
    }
  })
})

describe('an error of a package', () => {
  const secretWords = 'my diary says'
  const callError = (fields: object) =>
    Object.assign(
      new Error(secretWords),
      { name: 'AI_APICallError', requestBodyValues: secretWords },
      fields,
    )
  const codeOf = async (error: Error, settings = { attempts: 1 }) => {
    const { model } = packageOf([error])
    const thrown: unknown = await answeredBy(model, settings).catch((failed: unknown) => failed)
    if (!(thrown instanceof RuntimeError)) throw thrown
    for (let each: unknown = thrown; each instanceof Error; each = each.cause)
      expect(`${each.stack}${JSON.stringify(each)}`).not.toContain(secretWords)
    return thrown.code
  }
  const answeredBy = (model: ReturnType<typeof packageOf>['model'], settings: object) =>
    heard(new AiSdkLanguageModel(model, { settings }))

  it.each([
    [callError({ statusCode: 401, responseBody: '{}' }), 'MODEL_UNAUTHORIZED'],
    [callError({ statusCode: 429, responseHeaders: { 'Retry-After': '1' } }), 'MODEL_RATE_LIMITED'],
    [callError({ statusCode: 529, responseBody: '' }), 'MODEL_OVERLOADED'],
    [callError({ statusCode: undefined }), 'MODEL_UNREACHABLE'],
    [Object.assign(new Error(secretWords), { name: 'AI_LoadAPIKeyError' }), 'MODEL_UNAUTHORIZED'],
    [
      Object.assign(new Error(secretWords), { name: 'AI_UnsupportedFunctionalityError' }),
      'MODEL_BAD_REQUEST',
    ],
    [Object.assign(new Error(secretWords), { name: 'AI_JSONParseError' }), 'MODEL_ANSWER_INVALID'],
    [new Error(secretWords), 'MODEL_FAILED'],
  ])('%# has its code, and none of its words', async (error, code) => {
    expect(await codeOf(error)).toBe(code)
  })

  it('that may pass is tried again as often as it is set, and the caller is told', async () => {
    const busy = callError({ statusCode: 503, responseHeaders: { 'retry-after-ms': '1' } })
    const words = [{ type: 'text-delta', id: '0', delta: 'Now.' }, stop]
    const { model, asked } = packageOf([busy, busy, words])
    const retries: number[] = []
    const onRetry = (attempt: number) => void retries.push(attempt)
    const reply = await heard(new AiSdkLanguageModel(model), request({ onRetry }))
    expect(reply.content).toBe('Now.')
    expect(asked.length).toBe(3)
    expect(retries).toEqual([2, 3])
    const again = packageOf([busy, busy, words])
    await expect(answeredBy(again.model, { attempts: 2 })).rejects.toThrow(RuntimeError)
    expect(again.asked.length).toBe(2)
  })

  it('amid an answer is no reason to ask again', async () => {
    const failed = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }
    const { model, asked } = packageOf([[{ type: 'text-delta', id: '0', delta: 'One' }, failed]])
    await expect(answeredBy(model, {})).rejects.toMatchObject({ code: 'MODEL_OVERLOADED' })
    expect(asked.length).toBe(1)
  })

  it.each([
    ['content-filter', 'MODEL_REFUSED'],
    ['error', 'MODEL_FAILED'],
    ['other', 'MODEL_ANSWER_INVALID'],
  ])('that is the end %s has its code', async (unified, code) => {
    const { model } = packageOf([[{ type: 'finish', finishReason: { unified } }]])
    await expect(answeredBy(model, { attempts: 1 })).rejects.toMatchObject({ code })
  })
})

describe('an answer that ends early', () => {
  const words = { type: 'text-delta', id: '0', delta: 'One' }
  const finish = (unified: string) => ({ type: 'finish', finishReason: { unified } })

  it.each([
    ['length', 'length'],
    ['content-filter', 'content_filter'],
  ])('by %s says so: %s', async (unified, ended) => {
    const { model } = packageOf([
      [words, finish(unified)],
      [words, finish('stop')],
    ])
    expect(await heard(new AiSdkLanguageModel(model))).toMatchObject({ content: 'One', ended })
    expect(await heard(new AiSdkLanguageModel(model))).not.toHaveProperty('ended')
  })

  it('by the filter amid calls is a refusal, so that none of them is carried out', async () => {
    const call = { type: 'tool-call', toolCallId: 'c', toolName: 'look', input: '{}' }
    const { model } = packageOf([[words, call, finish('content-filter')]])
    await expect(heard(new AiSdkLanguageModel(model))).rejects.toMatchObject({
      code: 'MODEL_REFUSED',
    })
  })
})

describe('a package', () => {
  const made = Object.assign(() => ({}), { languageModel: () => ({}) })
  const of = (short: string, exports: object, settings = {}) =>
    providerIn(
      exports as Readonly<Record<string, unknown>>,
      { package: `@ai-sdk/${short}`, short },
      settings,
    )

  it.each([
    ['mistral', { mistral: made }],
    ['amazon-bedrock', { bedrock: made, createAmazonBedrock: () => undefined }],
    ['google-vertex', { vertex: made, VERSION: '1' }],
    ['openai-compatible', { createOpenAICompatible: () => made }],
    ['google', { createGoogleGenerativeAI: () => made }],
    ['ai-sdk-provider', { createOpenRouter: () => made, LLMGateway: class {} }],
  ])('%s is found by the name of its export', (short, exports) => {
    expect(of(short, exports)).toBe(made)
  })

  it('with settings is made anew with them', () => {
    const given: unknown[] = []
    const createMistral = (settings: unknown) => (given.push(settings), made)
    expect(of('mistral', { mistral: () => {}, createMistral }, { baseURL: 'http://x' })).toBe(made)
    expect(given).toEqual([{ baseURL: 'http://x' }])
  })

  it('that makes no models is told by its name', () => {
    expect(() => of('react', { useChat: () => {} })).toThrow(
      'The package @ai-sdk/react exports nothing that makes models.',
    )
  })

  it('is named before its model, which may hold slashes', () => {
    expect(sdkName('mistral/large')).toMatchObject({ package: '@ai-sdk/mistral', model: 'large' })
    expect(sdkName('@openrouter/ai-sdk-provider/a/b:free')).toMatchObject({
      package: '@openrouter/ai-sdk-provider',
      model: 'a/b:free',
    })
    for (const wrong of ['mistral', 'mistral/', '../x/y', '@/x/y', 'a\\b/c', ''])
      expect(sdkName(wrong)).toBeUndefined()
  })
})

describe('an embedding model of a package', () => {
  it('is asked for as many texts as it takes, and gives a vector for each', async () => {
    const asked: number[] = []
    const model = {
      specificationVersion: 'v3',
      provider: 'maker.embedding',
      modelId: 'small',
      maxEmbeddingsPerCall: 2,
      doEmbed({ values }: { readonly values: readonly string[] }) {
        asked.push(values.length)
        return Promise.resolve({
          embeddings: values.map((text) => [text.length, 1]),
          usage: { tokens: 3 },
        })
      },
    }
    const embedder = new AiSdkEmbedder(model, { id: 'ai-sdk/maker/small' })
    const { signal } = new AbortController()
    const { vectors, usage } = await embedder.embed(['a', 'bb', 'ccc'], { kind: 'query', signal })
    expect(vectors.map((vector) => [...vector])).toEqual([
      [1, 1],
      [2, 1],
      [3, 1],
    ])
    expect(asked).toEqual([2, 1])
    expect(usage).toEqual({ inputTokens: 6, outputTokens: 0 })
    const odd = { ...model, doEmbed: () => Promise.resolve({ embeddings: [[1]] }) }
    await expect(
      new AiSdkEmbedder(odd, { id: 'odd' }).embed(['a', 'b'], { kind: 'query', signal }),
    ).rejects.toMatchObject({ code: 'MODEL_ANSWER_INVALID' })
  })
})
