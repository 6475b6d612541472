import { describe, expect, it } from 'vitest'
import { Assembly, type Delta, type Message, type ModelRequest } from '#core/models'
import { fakeProvider } from '#core/testing'
import { aboutModel, windowOf } from './about.ts'
import { addressOf } from './address.ts'
import { addressFault } from './host.ts'
import { changeOf } from './changes.ts'
import { OllamaEmbedder } from './embedder.ts'
import { listModels } from './list.ts'
import { OllamaModel, type OllamaOptions } from './model.ts'
import { LineReader } from './reader.ts'
import { OllamaRequests } from './requests.ts'

const { signal } = new AbortController()
const hello: Message = { role: 'user', id: 'u', content: 'Hello.' }
const note = {
  name: 'note',
  description: 'Notes a word.',
  parameters: { $schema: 'x', type: 'object', properties: { word: { type: 'string' } } },
}
const look = { name: 'look', description: 'Looks.', parameters: { type: 'object' } }

const open = (host: string, rest: Partial<OllamaOptions> = {}) =>
  OllamaModel.open({ id: 'ollama/fake-large', name: 'fake-large', host, ...rest })

async function say(model: OllamaModel, request: Partial<ModelRequest> = {}) {
  const gathered = new Assembly()
  const asked = { messages: [hello], tools: [], signal, ...request }
  await model.streamTo(asked, (delta) => gathered.add(delta))
  return gathered.reply()
}

describe('the address', () => {
  it.each([
    [undefined, 'http://127.0.0.1:11434/api/chat'],
    ['', 'http://127.0.0.1:11434/api/chat'],
    ['gpu.example.com', 'http://gpu.example.com:11434/api/chat'],
    ['gpu.example.com:8080', 'http://gpu.example.com:8080/api/chat'],
    ['0.0.0.0:11434', 'http://127.0.0.1:11434/api/chat'],
    ['https://ollama.com', 'https://ollama.com/api/chat'],
    ['https://example.com/models/', 'https://example.com/models/api/chat'],
    ['http://127.0.0.1:11434/v1/', 'http://127.0.0.1:11434/api/chat'],
    ['http://127.0.0.1:11434/api', 'http://127.0.0.1:11434/api/chat'],
    ['http://127.0.0.1:11434/api/chat', 'http://127.0.0.1:11434/api/chat'],
  ])('%s', (host, url) => {
    expect(addressFault(host)).toBeUndefined()
    expect(addressOf({ host }, '/api/chat').href).toBe(url)
  })

  it.each(['ftp://example.com', 'http://user:word@example.com', 'not an address'])(
    'is refused: %s',
    (host) => {
      expect(addressFault(host)).toMatch(/^Write an address like /)
      expect(() => addressOf({ host }, '/api/chat')).toThrow(
        expect.objectContaining({ code: 'ENV_INVALID' }),
      )
    },
  )
})

describe('the window', () => {
  it.each([
    [{ window: 8192 }, undefined, 8192],
    [{ window: 131_072 }, undefined, 32_768],
    [{}, undefined, 32_768],
    [{ window: 131_072 }, 65_536, 65_536],
    [{ window: 8192 }, 65_536, 8192],
  ])('of %j, where %s is wanted, is %s', (about, wanted, window) => {
    expect(windowOf(about, wanted)).toBe(window)
  })

  it('is said in every request, asked of the server once, and no setting changes it', async () => {
    await using provider = await fakeProvider({ window: 16_384 })
    const model = await open(provider.url)
    expect(model.contextWindow).toBe(16_384)
    await say(model)
    await say(model, {
      settings: {
        temperature: 0,
        topP: 0.5,
        maxOutputTokens: 9,
        body: { options: { num_ctx: 1, seed: 2 } },
      },
    })
    expect(provider.requests.map(({ path }) => path)).toEqual([
      '/api/show',
      '/api/chat',
      '/api/chat',
    ])
    expect(provider.requests[1]?.body).toEqual({
      model: 'fake-large',
      stream: true,
      truncate: false,
      shift: false,
      options: { num_ctx: 16_384 },
      messages: [{ role: 'user', content: 'Hello.' }],
    })
    expect(provider.requests[2]?.body.options).toEqual({
      temperature: 0,
      top_p: 0.5,
      num_predict: 9,
      seed: 2,
      num_ctx: 16_384,
    })
  })
})

describe('a request', () => {
  it('has a key in a header where there is one', async () => {
    await using provider = await fakeProvider()
    await say(await open(provider.url, { apiKey: 'k-1', headers: { 'x-room': 'a' } }))
    for (const { headers } of provider.requests) expect(headers.authorization).toBe('Bearer k-1')
    expect(provider.requests[1]?.headers['x-room']).toBe('a')
  })

  it('offers one tool where it must be called, and none where none may be', async () => {
    await using provider = await fakeProvider()
    const model = await open(provider.url)
    const tools = [note, look]
    await say(model, { tools, settings: { toolChoice: { tool: 'note' } } })
    await say(model, { tools, settings: { toolChoice: 'none' } })
    expect(provider.requests[1]?.body.tools).toEqual([
      {
        type: 'function',
        function: {
          name: 'note',
          description: 'Notes a word.',
          parameters: { type: 'object', properties: { word: { type: 'string' } } },
        },
      },
    ])
    expect(provider.requests[2]?.body).not.toHaveProperty('tools')
  })

  it.each([
    [undefined, {}, undefined],
    ['none', {}, false],
    ['low', {}, 'low'],
    ['max', {}, 'high'],
    ['max', { think_levels: false }, true],
    ['max', { think: false }, undefined],
  ] as const)('thinks with reasoning %s after %j: %s', async (reasoning, changes, think) => {
    const requests = new OllamaRequests({ model: 'm', window: 1 })
    const settings = reasoning && { reasoning }
    const asked = { messages: [hello], tools: [], signal, settings }
    const body: { think?: unknown } = JSON.parse(
      await requests.body(asked, new Map(Object.entries(changes))),
    )
    expect(body.think).toBe(think)
  })

  it('names what is no picture in a line of the text', async () => {
    await using provider = await fakeProvider()
    const parts = [
      { type: 'file', mediaType: 'application/pdf', name: 'a.pdf', bytes: 4, file: 'f1' },
    ] as const
    await say(await open(provider.url), {
      messages: [{ role: 'user', id: 'u', content: 'Read.', parts }],
      file: async () => new Uint8Array(4),
    })
    expect(provider.requests[1]?.body.messages).toEqual([
      { role: 'user', content: 'Read.\n[file "a.pdf": this model reads no such file]' },
    ])
  })
})

it('goes through a turn of three calls, with its thoughts before them, and another process ends it', async () => {
  await using provider = await fakeProvider()
  const call = (word: string) => ({ name: 'note', args: { word } })
  provider.answer(
    { reasoning: 'Two words.', calls: [call('red'), call('blue')] },
    { reasoning: 'One is left.', calls: [call('green')] },
    { text: 'Noted.' },
  )
  const messages: Message[] = [hello]
  for (let nth = 0; nth < 3; nth++) {
    const model = await open(provider.url)
    const read: Message[] = JSON.parse(JSON.stringify(messages))
    const {
      content,
      toolCalls,
      provider: data,
    } = await say(model, { messages: read, tools: [note] })
    const back = data === undefined ? {} : { provider: { by: model.origin, data } }
    messages.push({ role: 'assistant', id: 'a', content, toolCalls, ...back })
    for (const { id, name } of toolCalls)
      messages.push({ role: 'tool', id: `r${id}`, toolCallId: id, name, content: 'Yes.' })
    if (nth === 2) expect(content).toBe('Noted.')
  }
  expect(provider.refusals).toEqual([])
  const sent = provider.requests.at(-1)?.body.messages as { thinking?: string }[]
  expect(sent.map(({ thinking }) => thinking).filter(Boolean)).toEqual([
    'Two words.',
    'One is left.',
  ])
})

it.each([
  ['think value "high" is not supported for this model', ['think_levels', false]],
  ['"x" does not support thinking', ['think', false]],
  ['invalid format: expected "json"', ['format', false]],
  ['model is required', undefined],
])('a refusal is changed by its name: %s', (error, change) => {
  expect(changeOf({ status: 400, text: JSON.stringify({ error }) })).toEqual(change)
})

describe('an answer', () => {
  function read(...lines: readonly (object | null)[]) {
    const reader = new LineReader()
    const deltas: Delta[] = []
    for (const line of lines) reader.take(line, deltas)
    return { reader, deltas: [...deltas, ...reader.last()] }
  }

  it('has no usage where the server did not count', () => {
    const { reader, deltas } = read({ message: { content: 'Hi' } }, { done: true, eval_count: 5 })
    expect(reader.done).toBe(true)
    expect(deltas).toEqual([{ type: 'text', text: 'Hi' }])
  })

  it('says that its length ended it', () => {
    const { deltas } = read(
      { message: { content: 'Hi' } },
      { done: true, done_reason: 'length', prompt_eval_count: 9, eval_count: 1 },
    )
    expect(deltas).toEqual([
      { type: 'text', text: 'Hi' },
      { type: 'ended', by: 'length' },
      { type: 'usage', inputTokens: 9, outputTokens: 1 },
    ])
    const usual = read({ message: { content: 'Hi' } }, { done: true, done_reason: 'stop' })
    expect(usual.deltas).toEqual([{ type: 'text', text: 'Hi' }])
  })

  it('keeps calls apart that all have the index 0', () => {
    const called = (word: string) => ({
      tool_calls: [{ function: { index: 0, name: 'note', arguments: { word } } }],
    })
    const { deltas } = read({ message: called('a') }, { message: called('b') }, { done: true })
    expect(deltas).toMatchObject([
      { index: 0, name: 'note', args: '{"word":"a"}' },
      { index: 1, name: 'note', args: '{"word":"b"}' },
    ])
  })

  it('survives fields of every other type', () => {
    for (const value of [null, 5, 'x', [], {}, [null], [{ function: null }]])
      expect(() =>
        read(
          null,
          { message: { content: value, thinking: value, tool_calls: value } },
          {
            done: value,
            prompt_eval_count: value,
          },
        ),
      ).not.toThrow()
  })
})

describe('beside words', () => {
  it('lists the models of the server, and says what it knows of one', async () => {
    await using provider = await fakeProvider({ models: ['a:7b', 'b'], window: 4096 })
    expect(await listModels({ host: provider.url }, signal)).toEqual(['a:7b', 'b'])
    expect(await aboutModel('a:7b', { host: provider.url }, signal)).toEqual({
      window: 4096,
      capabilities: ['completion', 'tools', 'thinking', 'vision'],
    })
  })

  it('makes a vector of each text, in order, and cuts none', async () => {
    await using provider = await fakeProvider({ dimensions: 4 })
    const embedder = await OllamaEmbedder.open({ id: 'ollama/e', name: 'e', host: provider.url })
    const { vectors, usage } = await embedder.embed(['one', 'two', 'one'], { signal })
    expect(vectors.map(({ length }) => length)).toEqual([4, 4, 4])
    expect(vectors[0]).toEqual(vectors[2])
    expect(vectors[0]).not.toEqual(vectors[1])
    expect(usage?.inputTokens).toBeGreaterThan(0)
    expect(provider.requests.at(-1)?.body).toEqual({
      model: 'e',
      input: ['one', 'two', 'one'],
      truncate: false,
      options: { num_ctx: 32_768 },
    })
  })

  it('tells a server that cannot be reached by its code', async () => {
    const provider = await fakeProvider()
    await provider.close()
    await expect(open(provider.url)).rejects.toMatchObject({ code: 'MODEL_UNREACHABLE' })
  })
})
