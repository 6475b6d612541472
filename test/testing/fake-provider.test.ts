import { describe, expect, it } from 'vitest'
import type { Delta, Message, Model } from '#core'
import type { ModelUsage } from '../../core/plugin.ts'
import { fakeProvider, type FakeProvider, type ProviderAnswer } from '#core/testing'
import { chatModel } from '../support/wires/chat.ts'
import { generateContentModel } from '../support/wires/generate-content.ts'
import { messagesModel } from '../support/wires/messages.ts'
import { ollamaModel } from '../support/wires/ollama.ts'
import { responsesModel } from '../support/wires/responses.ts'

const clients: readonly (readonly [wire: string, make: (place: FakeProvider) => Model])[] = [
  ['messages', messagesModel],
  ['responses', responsesModel],
  ['generateContent', generateContentModel],
  ['chat', chatModel],
  ['ollama', ollamaModel],
]
const hello: Message = { role: 'user', id: 'u', content: 'Hello.' }

async function ask(model: Model, messages: readonly Message[] = [hello]) {
  const deltas: Delta[] = []
  const { signal } = new AbortController()
  for await (const delta of model.stream({ messages, tools: [], signal })) deltas.push(delta)
  return {
    deltas,
    text: deltas.map((delta) => (delta.type === 'text' ? delta.text : '')).join(''),
    thought: deltas.map((delta) => (delta.type === 'reasoning' ? delta.text : '')).join(''),
    usage: deltas.find(({ type }) => type === 'usage'),
  }
}

/** What a server answered, of which each test knows the form. */
const jsonOf = async (response: Response): Promise<any> => response.json()

const post = (provider: FakeProvider, path: string, body: unknown) =>
  fetch(`${provider.url}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${provider.key}`, 'x-goog-api-key': provider.key },
    body: JSON.stringify(body),
  })

describe.each(clients)('the fake provider on %s', (wire, make) => {
  it('gives its answers in order, and remembers the requests with their headers', async () => {
    await using provider = await fakeProvider()
    provider.answer(
      { reasoning: 'Hm, well.', text: 'One two.' },
      (request) => `I am ${request.model}.`,
    )
    const first = await ask(make(provider))
    expect(first).toMatchObject({ text: 'One two.', thought: 'Hm, well.' })
    expect(provider.remaining).toBe(1)
    expect((await ask(make(provider))).text).toBe('I am fake-large.')
    expect((await ask(make(provider))).text).toBe('Hello.')
    expect(provider.requests).toHaveLength(3)
    const request = await provider.next()
    expect(request).toMatchObject({ wire, method: 'POST', model: 'fake-large' })
    expect(JSON.stringify(request.headers)).toContain(provider.key)
    expect(request.tokens).toBe(Math.ceil(request.text.length / 4))
  })

  it('says what a call cost as the real server does, all tokens and their parts', async () => {
    await using provider = await fakeProvider()
    const usage: ModelUsage = {
      inputTokens: 1000,
      outputTokens: 60,
      cachedTokens: 400,
      cacheWriteTokens: 100,
      reasoningTokens: 20,
    }
    provider.answer({ text: 'Hello.', usage }, { text: 'Hello.', usage: false })
    expect((await ask(make(provider))).usage).toMatchObject({ inputTokens: 1000, outputTokens: 60 })
    expect((await ask(make(provider))).usage).toBeUndefined()
  })

  it('cuts its answer anywhere, in the middle of a letter too', async () => {
    await using provider = await fakeProvider()
    const text = 'Żółw 🐢, ñandú and 象.'
    provider.answer({ text, bytesPerWrite: 1 })
    expect((await ask(make(provider))).text).toBe(text)
  })

  const code = (value: string) => ({ code: value })
  it.each<readonly [string, readonly ProviderAnswer[], object]>([
    ['a limit', [{ status: 429, times: 4, retryAfter: 0 }], code('MODEL_RATE_LIMITED')],
    ['overload', [{ status: 529, times: 4, retryAfter: 0 }], code('MODEL_OVERLOADED')],
    ['a fault', [{ status: 500, times: 4, retryAfter: 0 }], code('MODEL_FAILED')],
    ['a page', [{ status: 200, body: '<html>' }], code('MODEL_ANSWER_INVALID')],
    ['a break', [{ text: 'One', then: 'break' }], code('MODEL_STREAM_BROKEN')],
    ['an error after words', [{ text: 'One', then: { error: 'Oh.' } }], { name: 'RuntimeError' }],
    [
      'an error of its own function',
      [() => Promise.reject(new Error('Oh.'))],
      code('MODEL_FAILED'),
    ],
  ])('fails as it is told: %s', async (_, answers, fault) => {
    await using provider = await fakeProvider()
    provider.answer(...answers)
    // What fails for itself goes on failing.
    if (typeof answers[0] === 'function') provider.answer(...answers, ...answers, ...answers)
    await expect(ask(make(provider))).rejects.toMatchObject(fault)
    expect(provider.remaining).toBe(0)
  })

  it('fails twice and then answers', async () => {
    await using provider = await fakeProvider()
    provider.answer({ status: 529, times: 2, retryAfter: 0 }, 'break', 'There you are.')
    expect((await ask(make(provider))).text).toBe('There you are.')
    expect(provider.requests).toHaveLength(4)
  })

  it('falls silent, and sees that the client leaves', async () => {
    await using provider = await fakeProvider()
    provider.answer({ text: 'One two', then: 'silence' })
    const leaving = new AbortController()
    const { signal } = leaving
    const deltas = make(provider).stream({ messages: [hello], tools: [], signal })
    const begun = deltas[Symbol.asyncIterator]()
    await begun.next()
    const { gone } = await provider.next()
    const left = new Promise((resolve) => gone.addEventListener('abort', resolve))
    leaving.abort(new Error('Enough.'))
    for (;;)
      if (
        await begun.next().then(
          ({ done }) => done,
          () => true,
        )
      )
        break
    await left
  })

  it('sends a call without a name, and calls with one id', async () => {
    await using provider = await fakeProvider()
    const same = { name: 'note', id: 'call_1' }
    provider.answer({ calls: [{ name: null, args: { a: 1 } }] }, { calls: [same, same] })
    for (let nth = 0; nth < 2; nth++) await ask(make(provider)).catch(() => {})
    expect(provider.remaining).toBe(0)
  })
})

it('says that it is something else than it is', async () => {
  await using provider = await fakeProvider()
  provider.answer({ text: 'Hello.', contentType: 'text/plain' })
  const body = { model: 'm', stream: true, messages: [{ role: 'user', content: 'Hello.' }] }
  const response = await post(provider, '/v1/chat/completions', body)
  expect(response.headers.get('content-type')).toBe('text/plain')
  expect(await response.text()).toContain('"content":"Hello."')
})

it('tells the usage of chat completions only to who asks for it, and what the call cost', async () => {
  await using provider = await fakeProvider()
  const usage = { inputTokens: 10, outputTokens: 2, cost: '1500000' }
  provider.answer({ text: 'Hello.', usage }, { text: 'Hello.', usage })
  const body = { model: 'm', stream: true, messages: [{ role: 'user', content: 'Hello.' }] }
  expect(await (await post(provider, '/v1/chat/completions', body)).text()).not.toContain('usage')
  const asking = { ...body, stream_options: { include_usage: true } }
  expect(await (await post(provider, '/v1/chat/completions', asking)).text()).toContain(
    '"cost":0.0015',
  )
})

it('answers at the addresses of several clouds', async () => {
  await using provider = await fakeProvider()
  const body = { model: 'm', stream: true, messages: [{ role: 'user', content: 'Hello.' }] }
  for (const path of [
    '/v1/chat/completions',
    '/api/v1/chat/completions',
    '/api/paas/v4/chat/completions',
    '/v1beta/openai/chat/completions',
    '/openai/deployments/mine/chat/completions?api-version=2024-10-21',
  ])
    expect((await post(provider, path, body)).status, path).toBe(200)
  expect(provider.requests.at(-1)?.model).toBe('mine')
  expect((await post(provider, '/chat/completion', body)).status).toBe(404)
})

describe('embeddings', () => {
  it('of three kinds of servers are vectors of a length, the same for the same text', async () => {
    await using provider = await fakeProvider()
    const json = async (path: string, body: unknown) => jsonOf(await post(provider, path, body))
    const texts = ['red', 'blue', 'red']
    const { data } = await json('/v1/embeddings', { model: 'm', input: texts, dimensions: 4 })
    const vectors = data
      .toSorted((a: { index: number }, b: { index: number }) => a.index - b.index)
      .map(({ embedding }: { embedding: number[] }) => embedding)
    expect(data[0].index).toBe(2)
    expect(vectors[0]).toHaveLength(4)
    expect(vectors[2]).toEqual(vectors[0])
    expect(vectors[1]).not.toEqual(vectors[0])
    expect(Math.hypot(...vectors[0])).toBeCloseTo(1)
    const { embeddings } = await json('/api/embed', { model: 'm', input: texts, dimensions: 4 })
    expect(embeddings).toEqual(vectors)
    const requests = texts.map((text) => ({
      content: { parts: [{ text }] },
      outputDimensionality: 4,
    }))
    const path = '/v1beta/models/m:batchEmbedContents'
    const batch = await json(path, { requests })
    expect(batch.embeddings.map(({ values }: { values: number[] }) => values)).toEqual(vectors)
    const many = Array.from({ length: 101 }, () => requests[0])
    expect((await post(provider, path, { requests: many })).status).toBe(400)
    const packed = { model: 'm', input: 'red', dimensions: 4, encoding_format: 'base64' }
    const [{ embedding }] = (await json('/v1/embeddings', packed)).data
    expect(Buffer.from(embedding, 'base64')).toHaveLength(16)
  })

  it('have another length than was asked for, when they are told so', async () => {
    await using provider = await fakeProvider({ dimensions: 3 })
    const body = { model: 'm', input: 'red', dimensions: 4 }
    const { data } = await jsonOf(await post(provider, '/v1/embeddings', body))
    expect(data[0].embedding).toHaveLength(3)
    expect((await post(provider, '/v1/embeddings', { input: [''] })).status).toBe(400)
  })
})

it('lists its models in the form of each server, and describes one', async () => {
  await using provider = await fakeProvider({ models: ['a', 'b'], window: 5000 })
  const get = async (path: string, headers: Record<string, string>) =>
    jsonOf(await fetch(`${provider.url}${path}`, { headers }))
  const bearer = { authorization: `Bearer ${provider.key}` }
  const own = { 'x-api-key': provider.key, 'anthropic-version': '2023-06-01' }
  expect((await get('/v1/models', bearer)).data[1]).toMatchObject({ id: 'b', object: 'model' })
  expect((await get('/v1/models', own)).data[1]).toMatchObject({ id: 'b', type: 'model' })
  const listed = await get('/v1beta/models', { 'x-goog-api-key': provider.key })
  expect(listed.models[0]).toMatchObject({ name: 'models/a', inputTokenLimit: 5000 })
  expect((await get('/api/tags', {})).models[0]).toMatchObject({ name: 'a' })
  const shown = await jsonOf(await post(provider, '/api/show', { model: 'a' }))
  expect(shown.model_info).toMatchObject({ 'fake.context_length': 5000 })
  expect((await fetch(`${provider.url}/v1/models`)).status).toBe(401)
})

it('its rules may be changed between two requests, and what is refused uses no answer up', async () => {
  await using provider = await fakeProvider()
  provider.rules.window = 5
  provider.answer('There you are.')
  await expect(ask(messagesModel(provider))).rejects.toMatchObject({
    code: 'MODEL_CONTEXT_TOO_LONG',
  })
  expect(provider.remaining).toBe(1)
  provider.rules.window = undefined
  expect((await ask(messagesModel(provider))).text).toBe('There you are.')
})
