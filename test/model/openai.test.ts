import { afterEach, describe, expect, it } from 'vitest'
import type { Delta, Message, ToolSpec } from '../../core/plugin.ts'
import { fakeOpenAi, type FakeAnswer, type FakeOpenAi } from '../support/fake-openai.ts'
import { openAiInApp } from '../support/model-of.ts'
import { ask } from '../support/model-request.ts'

let provider: FakeOpenAi
afterEach(() => provider.close())

async function model(
  answers: Parameters<typeof fakeOpenAi>[0],
  options: { apiKey?: string } = { apiKey: 'sk-test' },
) {
  provider = await fakeOpenAi(answers)
  return openAiInApp(provider.url, options)
}

/** One answer, as a layer around the model reads it. */
async function answer(speech: FakeAnswer) {
  return (await model([speech])).reply(ask('Hello'))
}

const weather: ToolSpec = {
  name: 'get_weather',
  description: 'The weather.',
  parameters: {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    properties: { city: { type: 'string' } },
  },
}

describe('the request', () => {
  it('carries the model, the key, every message and every tool, without $schema', async () => {
    const messages: Message[] = [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', id: 'u1', content: 'Weather?' },
      {
        role: 'assistant',
        id: 'a1',
        content: '',
        reasoning: 'secret thoughts',
        toolCalls: [{ id: 'c1', name: 'get_weather', args: { city: 'Lusaka' } }],
      },
      { role: 'tool', id: 't1', toolCallId: 'c1', name: 'get_weather', content: '{"temp":21}' },
      { role: 'assistant', id: 'a2', content: 'It is 21.' },
      { role: 'user', id: 'u2', content: 'Thanks' },
    ]
    await (await model(['Bye.'])).reply(ask(messages, [weather]))
    const [request] = provider.requests
    expect(request?.headers.authorization).toBe('Bearer sk-test')
    expect(request?.path).toBe('/v1/chat/completions')
    expect(request?.body).toEqual({
      model: 'small',
      stream: true,
      stream_options: { include_usage: true },
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'Weather?' },
        {
          role: 'assistant',
          content: null,
          tool_calls: [
            {
              id: 'c1',
              type: 'function',
              function: { name: 'get_weather', arguments: '{"city":"Lusaka"}' },
            },
          ],
        },
        { role: 'tool', tool_call_id: 'c1', content: '{"temp":21}' },
        { role: 'assistant', content: 'It is 21.' },
        { role: 'user', content: 'Thanks' },
      ],
      tools: [
        {
          type: 'function',
          function: {
            name: 'get_weather',
            description: 'The weather.',
            parameters: { type: 'object', properties: { city: { type: 'string' } } },
          },
        },
      ],
    })
  })

  it('leaves the tools and the key out when there are none', async () => {
    await (await model(['Hi.'], {})).reply(ask('Hello'))
    expect(provider.requests[0]?.body).not.toHaveProperty('tools')
    expect(provider.requests[0]?.headers).not.toHaveProperty('authorization')
  })

  it('sends arguments that were no object as an empty one', async () => {
    const toolCalls = [{ id: 'c1', name: 'get_weather', args: '{"city": Lus' }]
    const messages: Message[] = [
      { role: 'assistant', id: 'a', content: 'One moment.', toolCalls },
      { role: 'tool', id: 't', toolCallId: 'c1', name: 'get_weather', content: 'No JSON.' },
    ]
    await (await model(['Hi.'])).reply(ask(messages))
    expect(provider.requests[0]?.body.messages[0]).toMatchObject({
      content: 'One moment.',
      tool_calls: [{ function: { arguments: '{}' } }],
    })
  })

  it.each(['', '/', '/v1', '/v1/', '/v1/chat/completions'])(
    'finds the endpoint when the base address ends in "%s"',
    async (path) => {
      provider = await fakeOpenAi(['Found.'])
      const baseUrl = `http://127.0.0.1:${provider.port}${path}`
      const reply = await (await openAiInApp(baseUrl)).reply(ask('Hello'))
      expect(reply.content).toBe('Found.')
      expect(provider.requests[0]?.path).toBe('/v1/chat/completions')
    },
  )

  it('keeps a path and a query of its own', async () => {
    provider = await fakeOpenAi(['Found.'])
    const baseUrl = `http://127.0.0.1:${provider.port}/openai/deployments/x/?api-version=2`
    await (await openAiInApp(baseUrl)).reply(ask('Hello'))
    expect(provider.requests[0]?.path).toBe('/openai/deployments/x/chat/completions?api-version=2')
  })

  it('travels on one connection, turn after turn', async () => {
    const small = await model(['One.', 'Two.', 'Three.', 'Four.'])
    for (let turn = 0; turn < 4; turn++) await small.reply(ask('Next'))
    expect(provider.connections).toBe(1)
  })

  it('goes out again without stream_options to a server that refuses them', async () => {
    const small = await model(({ body }) =>
      body.stream_options
        ? { status: 400, body: { error: { message: "Unknown field 'stream_options'" } } }
        : 'Fine.',
    )
    const both = [small.reply(ask('Hello')), small.reply(ask('Hello again'))]
    expect((await Promise.all(both)).map((r) => r.content)).toEqual(['Fine.', 'Fine.'])
    await small.reply(ask('Once more'))
    expect(provider.requests).toHaveLength(5)
  })
})

describe('the answer', () => {
  it('arrives word by word, in order', async () => {
    const deltas: Delta[] = []
    for await (const delta of (await model(['one two three'])).model.stream(ask('Count')))
      deltas.push(delta)
    expect(deltas).toEqual([
      { type: 'text', text: 'one' },
      { type: 'text', text: ' two' },
      { type: 'text', text: ' three' },
    ])
  })

  it.each([
    ['length', 'length'],
    ['content_filter', 'content_filter'],
    ['stop', undefined],
  ])('that ends by %s, streamed or whole, says: %s', async (finish, ended) => {
    const small = await model([
      { text: 'Half of it', finish },
      { text: 'Half of it', finish, json: true },
    ])
    for (const _ of ['streamed', 'whole']) {
      const reply = await small.reply(ask('Tell'))
      expect(reply.content).toBe('Half of it')
      expect(reply.ended).toBe(ended)
    }
  })

  const everything: FakeAnswer = {
    text: 'Zürich → 東京 🎉👩🏽‍🚀 fine',
    reasoning: 'Ich überlege 🤔',
    toolCalls: [
      { name: 'get_weather', args: { city: 'Ōsaka "北" \\ 🎌' } },
      { name: 'get_time', args: { zone: 'Europe/Zürich', list: [1, 2.5, null, true] } },
    ],
    argsPerChunk: 3,
    usage: { prompt_tokens: 11, completion_tokens: 22 },
  }
  const whole = {
    content: 'Zürich → 東京 🎉👩🏽‍🚀 fine',
    reasoning: 'Ich überlege 🤔',
    toolCalls: [
      { id: expect.any(String), name: 'get_weather', args: { city: 'Ōsaka "北" \\ 🎌' } },
      {
        id: expect.any(String),
        name: 'get_time',
        args: { zone: 'Europe/Zürich', list: [1, 2.5, null, true] },
      },
    ],
    usage: { inputTokens: 11, outputTokens: 22 },
  }
  const splits = [1, 2, 3, 5, 17, 4096]
  const ends = ['\n', '\r\n', '\r'] as const
  it.each(splits.flatMap((bytes) => ends.map((end) => ({ bytes, end }))))(
    'is the same when it comes $bytes bytes at a time with line ends of $end.length characters',
    async ({ bytes, end }) => {
      const speech = {
        ...everything,
        bytesPerWrite: bytes,
        lineEnd: end,
        comments: bytes % 2 === 1,
      }
      expect(await answer(speech)).toEqual(whole)
    },
  )

  it('is the same from a server that ignores "stream" and answers with JSON', async () => {
    const { reasoning: _, ...rest } = whole
    expect(await answer({ ...everything, json: true, delayMs: 5 })).toEqual(rest)
  })

  it('is read to its end without [DONE], and without a finish_reason', async () => {
    expect((await answer({ text: 'No farewell.', done: false })).content).toBe('No farewell.')
    await provider.close()
    expect((await answer({ text: 'No reason.', finish: false })).content).toBe('No reason.')
  })

  it('is whole when the connection drops after the finish_reason', async () => {
    const speech: FakeAnswer = { text: 'All said.', finish: 'stop', then: 'cut' }
    expect((await answer(speech)).content).toBe('All said.')
  })

  it('is whole when the server keeps the connection open after the finish_reason', async () => {
    const speech: FakeAnswer = { text: 'All said.', finish: 'stop', then: 'silence' }
    expect((await answer(speech)).content).toBe('All said.')
  })

  it('carries reasoning under either of its names', async () => {
    const field = 'reasoning' as const
    const { reasoning } = await answer({
      reasoning: 'Hm, well.',
      reasoningField: field,
      text: 'Yes',
    })
    expect(reasoning).toBe('Hm, well.')
  })

  it('passes over empty deltas', async () => {
    const deltas: Delta[] = []
    const { model: small } = await model([{ text: ['', 'a', '', '', 'b', ''] }])
    for await (const delta of small.stream(ask('Hello'))) deltas.push(delta)
    expect(deltas).toEqual([
      { type: 'text', text: 'a' },
      { type: 'text', text: 'b' },
    ])
  })

  it('of 5 MB arrives whole', async () => {
    const text = Array.from({ length: 50_000 }, (_, n) => `${n} `.padEnd(100, 'x'))
    const { content } = await answer({ text })
    expect(content.length).toBe(5_000_000)
    expect(content).toBe(text.join(''))
  })

  it('with arguments of 2 MB in small pieces arrives whole', async () => {
    const args = { text: 'y'.repeat(2_000_000) }
    const reply = await answer({ toolCalls: [{ name: 'save', args }], argsPerChunk: 100 })
    expect(reply.toolCalls).toEqual([{ id: expect.any(String), name: 'save', args }])
  })
})

describe('tool calls', () => {
  const calls = async (toolCalls: Exclude<FakeAnswer, string>['toolCalls']) =>
    (await answer({ toolCalls })).toolCalls.map(({ name, args }) => ({ name, args }))
  const a = { name: 'a', args: { n: 1 } }
  const b = { name: 'b', args: { n: 2 } }

  it.each([
    ['with gaps between their indexes', [3, 7], ['x', 'y']],
    ['all under index 0', [0, 0], ['x', 'y']],
    ['all under index 0 and one id', [0, 0], ['x', 'x']],
    ['without indexes', [null, null], ['x', 'y']],
    ['without ids', [0, 1], [null, null]],
    ['without indexes and ids', [null, null], [null, null]],
    ['all under one id', [0, 1], ['x', 'x']],
  ] as const)('are told apart %s', async (_, index, id) => {
    const given = [a, b].map((call, nth) => ({ ...call, index: index[nth], id: id[nth] }))
    expect(await calls(given)).toEqual([a, b])
  })

  it('of one tool, twice and without arguments, are two calls', async () => {
    const twice = [
      { name: 'now', args: '', index: 0, id: 'x' },
      { name: 'now', args: '', index: 0, id: 'y' },
    ]
    expect(await calls(twice)).toEqual([
      { name: 'now', args: {} },
      { name: 'now', args: {} },
    ])
  })

  it('get ids of our own, whatever the provider repeats', async () => {
    const same = { ...a, id: 'call_0' }
    const small = await model([{ toolCalls: [same, same] }, { toolCalls: [same] }])
    const replies = [await small.reply(ask('1')), await small.reply(ask('2'))]
    const ids = replies.flatMap((reply) => reply.toolCalls.map((call) => call.id))
    expect(new Set(ids).size).toBe(3)
    for (const id of ids) expect(id).toMatch(/^[A-Za-z0-9]{9}$/)
  })

  it('keep arguments that are no JSON as text', async () => {
    expect(await calls([{ name: 'a', args: '{"city": "Lus' }])).toEqual([
      { name: 'a', args: '{"city": "Lus' },
    ])
  })

  it('may name a tool that does not exist: that is for the gate to refuse', async () => {
    expect(await calls([{ name: 'no_such_tool', args: {} }])).toEqual([
      { name: 'no_such_tool', args: {} },
    ])
  })

  it('are read from a server that repeats name and id in every piece', async () => {
    const piece = (args: string) => ({
      choices: [
        {
          index: 0,
          delta: { tool_calls: [{ index: 0, id: 'x', function: { name: 'a', arguments: args } }] },
        },
      ],
    })
    const body = [piece('{"n"'), piece(':1'), piece('}'), piece('')]
    const lines = body.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join('')
    const small = await model([
      { status: 200, body: lines + 'data: [DONE]\n\n', headers: { 'content-type': 'text/plain' } },
    ])
    const reply = await small.reply(ask('Hello'))
    expect(reply.toolCalls.map(({ name, args }) => ({ name, args }))).toEqual([a])
  })
})
