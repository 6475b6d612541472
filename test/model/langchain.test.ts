import { inspect } from 'node:util'
import { ChatAnthropic } from '@langchain/anthropic'
import type { AIMessage } from '@langchain/core/messages'
import { describe, expect, it } from 'vitest'
import type { RuntimeError } from '#core'
import { fakeProvider, scriptedModel } from '#core/testing'
import { LangChainModel } from '../../core/runtime/model/langchain.ts'
import { pdf, png } from '../support/sample-files.ts'
import type { Message, ToolSpec } from '../../core/plugin.ts'
import { FakeChat, WholeChat } from '../support/fake-chat.ts'
import { answered, faultsOf, modelInApp } from '../support/model-of.ts'
import { ask } from '../support/model-request.ts'

/** What the app hears of its answer. */
const replyOf = async (chat: FakeChat, request = ask('Hello')) =>
  (await modelInApp({ model: chat })).reply(request)

const tool: ToolSpec = {
  name: 'get_weather',
  description: 'The weather.',
  parameters: { $schema: 'x', type: 'object', properties: { city: { type: 'string' } } },
}

describe('a chat model of LangChain', () => {
  it('gets neighbours of the assistant as one message', async () => {
    const chat = new FakeChat(() => [{ content: 'Fine' }])
    const said = (content: string): Message => ({ role: 'assistant', id: content, content })
    const hello: Message = { role: 'user', id: 'u', content: 'Hello' }
    await replyOf(chat, ask([hello, said('One.'), said('Two.'), { ...hello, id: 'v' }]))
    const heard = chat.heard[0]?.messages.map((message) => [message.getType(), message.content])
    expect(heard).toEqual([
      ['human', 'Hello'],
      ['ai', 'One.\n\nTwo.'],
      ['human', 'Hello'],
    ])
  })

  it('gets every message and tool in its own form', async () => {
    const chat = new FakeChat(() => [{ content: 'Fine' }])
    const messages: Message[] = [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', id: 'u', content: 'Weather?' },
      {
        role: 'assistant',
        id: 'a',
        content: '',
        toolCalls: [
          { id: 'c1', name: 'get_weather', args: { city: 'Lusaka' } },
          { id: 'c2', name: 'get_weather', args: '{"broken' },
        ],
      },
      { role: 'tool', id: 't1', toolCallId: 'c1', name: 'get_weather', content: '21' },
      {
        role: 'tool',
        id: 't2',
        toolCallId: 'c2',
        name: 'get_weather',
        content: 'No',
        failed: true,
      },
    ]
    await replyOf(chat, ask(messages, [tool]))
    const [{ messages: heard, tools } = { messages: [], tools: [] }] = chat.heard
    expect(heard.map((message) => message.getType())).toEqual([
      'system',
      'human',
      'ai',
      'tool',
      'tool',
    ])
    expect((heard[2] as AIMessage).tool_calls).toEqual([
      { id: 'c1', name: 'get_weather', args: { city: 'Lusaka' }, type: 'tool_call' },
      { id: 'c2', name: 'get_weather', args: {}, type: 'tool_call' },
    ])
    expect(heard[4]).toMatchObject({ tool_call_id: 'c2', name: 'get_weather', status: 'error' })
    expect(tools).toEqual([
      {
        type: 'function',
        function: {
          name: 'get_weather',
          description: 'The weather.',
          parameters: { type: 'object', properties: { city: { type: 'string' } } },
        },
      },
    ])
  })

  it('streams words, reasoning, tool calls and usage', async () => {
    const chat = new FakeChat(() => [
      { content: '', additional_kwargs: { reasoning_content: 'Hm' } },
      { content: [{ type: 'thinking', thinking: ' well' }] },
      { content: 'It ' },
      { content: [{ type: 'text', text: 'is.' }] },
      { content: '', tool_call_chunks: [{ index: 0, id: 'x', name: 'a', args: '{"n"' }] },
      { content: '', tool_call_chunks: [{ index: 0, args: ':1}' }] },
      { content: '', tool_call_chunks: [{ index: 1, id: 'x', name: 'b', args: '{}' }] },
      { content: '', usage_metadata: { input_tokens: 5, output_tokens: 0, total_tokens: 5 } },
      { content: '', usage_metadata: { input_tokens: 0, output_tokens: 7, total_tokens: 7 } },
    ])
    expect(await replyOf(chat)).toMatchObject({
      content: 'It is.',
      reasoning: 'Hm well',
      toolCalls: [
        { id: expect.any(String), name: 'a', args: { n: 1 } },
        { id: expect.any(String), name: 'b', args: {} },
      ],
      usage: { inputTokens: 5, outputTokens: 7 },
    })
  })

  it.each([
    [{ response_metadata: { finish_reason: 'length' } }, 'length'],
    [{ response_metadata: { finishReason: 'MAX_TOKENS' } }, 'length'],
    [{ additional_kwargs: { stop_reason: 'max_tokens' } }, 'length'],
    [{ response_metadata: { finish_reason: 'content_filter' } }, 'content_filter'],
    [{ response_metadata: { finish_reason: 'stop' } }, undefined],
    [{}, undefined],
  ])('says by %j how its answer ended: %s', async (end, ended) => {
    const chat = new FakeChat(() => [{ content: 'Half' }, { content: '', ...end }])
    const reply = await replyOf(chat)
    expect(reply.content).toBe('Half')
    expect(reply.ended).toBe(ended)
  })

  it('gets its own blocks and ids of calls back, however long the conversation rested in JSON', async () => {
    const block = { type: 'thinking', thinking: 'Hm', signature: 'sig-1' }
    const first = new FakeChat(() => [
      { content: [block] },
      { content: '', tool_call_chunks: [{ index: 0, id: 'toolu_9', name: 'a', args: '{}' }] },
    ])
    const { content, toolCalls, provider } = await replyOf(first)
    const kept = JSON.parse(JSON.stringify({ content, toolCalls, data: provider }))
    const again = new FakeChat(() => [{ content: 'Fine' }])
    const { model } = await modelInApp({ model: again })
    const id = toolCalls[0]!.id
    const messages: Message[] = [
      { role: 'user', id: 'u', content: 'Hello' },
      { role: 'assistant', id: 'a', ...kept, provider: { by: model.id, data: kept.data } },
      { role: 'tool', id: 't', toolCallId: id, name: 'a', content: '21' },
    ]
    await answered(model.stream(ask(messages)))
    const [, said, result] = again.heard.at(-1)!.messages
    expect(said?.content).toMatchObject([block])
    expect((said as AIMessage).tool_calls).toMatchObject([{ id: 'toolu_9', name: 'a' }])
    expect(result).toMatchObject({ tool_call_id: 'toolu_9' })
  })

  it('that does not stream gives its answer and its calls whole', async () => {
    const call = { id: 'x', name: 'a', args: { n: 1 }, type: 'tool_call' as const }
    const chat = new WholeChat(() => [{ content: 'All', tool_calls: [call, { ...call, id: 'y' }] }])
    const reply = await replyOf(chat)
    expect(reply.content).toBe('All')
    expect(reply.toolCalls.map(({ name, args }) => ({ name, args }))).toEqual([
      { name: 'a', args: { n: 1 } },
      { name: 'a', args: { n: 1 } },
    ])
  })

  it('has the name of its model, and its context window when it says so', async () => {
    const chat = new FakeChat(() => [])
    Object.defineProperty(chat, 'profile', { value: { maxInputTokens: 8000 } })
    const { model } = await modelInApp({ model: chat })
    expect(model).toMatchObject({ id: 'langchain/fake-1', contextWindow: 8000 })
  })

  it('is told from a model of ours', async () => {
    const idOf = async (model: unknown) =>
      (await modelInApp({ model: model as FakeChat | undefined })).model.id
    expect(await idOf(new FakeChat(() => []))).toBe('langchain/fake-1')
    expect(await idOf(scriptedModel([]))).toBe('scripted')
    expect(await idOf(undefined)).toBe('demo')
    for (const other of ['demo', null, {}])
      expect(await faultsOf({ plugins: [], model: other as unknown as FakeChat })).toMatchObject([
        { code: 'MODEL_UNUSABLE', message: 'What was given as a model has no id and stream().' },
      ])
  })

  it('that cannot call tools is refused', async () => {
    const chat = {
      invoke() {},
      stream: async () => (async function* () {})(),
      _llmType: () => 'old',
    }
    expect(await faultsOf({ plugins: [], model: chat })).toMatchObject([
      { message: expect.stringContaining('The chat model "old" cannot call tools.') },
    ])
  })
})

describe('what goes wrong in it', () => {
  const failing = (error: unknown) =>
    new FakeChat(async function* () {
      yield* []
      throw error
    })
  const fault = (chat: FakeChat) =>
    replyOf(chat).then(
      () => expect.unreachable(),
      (error: RuntimeError) => error,
    )
  const wrong = (fields: object) => Object.assign(new Error('key sk-secret'), fields)

  it.each([
    ['MODEL_UNAUTHORIZED', wrong({ status: 401 })],
    ['MODEL_UNAUTHORIZED', wrong({ lc_error_code: 'MODEL_AUTHENTICATION' })],
    ['MODEL_RATE_LIMITED', wrong({ status: 429 })],
    ['MODEL_NOT_FOUND', wrong({ response: { status: 404 } })],
    ['MODEL_CONTEXT_TOO_LONG', wrong({ name: 'ContextOverflowError' })],
    ['MODEL_CONTEXT_TOO_LONG', wrong({ status: 400, code: 'context_length_exceeded' })],
    ['MODEL_OVERLOADED', wrong({ status: 529 })],
    ['MODEL_TIMEOUT', wrong({ name: 'APIConnectionTimeoutError' })],
    ['MODEL_UNREACHABLE', wrong({ name: 'APIConnectionError' })],
    ['MODEL_UNREACHABLE', new TypeError('fetch failed')],
    ['MODEL_FAILED', new Error('boom')],
  ])('is %s for %o', async (code, error) => {
    const found = await fault(failing(error))
    expect(found.code).toBe(code)
    expect(found.message).not.toContain('sk-secret')
  })

  it('never carries the request of the client that failed', async () => {
    const config = { headers: { Authorization: 'Bearer sk-secret' } }
    for (const name of ['APIConnectionError', 'TimeoutError', 'AxiosError']) {
      const found = await fault(failing(Object.assign(new Error('no'), { name, config })))
      expect(inspect(found, { depth: 9 })).not.toContain('sk-secret')
    }
  })
})

describe('an abort', () => {
  const reason = new Error('stop')

  it('ends the stream at once, also of a model that does not hear it', async () => {
    const deaf = new FakeChat(async function* () {
      yield { content: 'So' }
      await new Promise(() => {})
    })
    const stop = new AbortController()
    const { model } = await modelInApp({ model: deaf })
    const speaking = answered(model.stream(ask('Hello', [], stop.signal)), () => stop.abort(reason))
    await expect(speaking).rejects.toBe(reason)
  })

  it('reaches a model that does', async () => {
    const stop = new AbortController()
    let heard = false
    const chat = new FakeChat(async function* (signal) {
      yield { content: 'So' }
      await new Promise<void>((resolve) => signal?.addEventListener('abort', () => resolve()))
      heard = true
    })
    const { model } = await modelInApp({ model: chat })
    const speaking = answered(model.stream(ask('Hello', [], stop.signal)), () => stop.abort(reason))
    await expect(speaking).rejects.toBe(reason)
    await new Promise((resolve) => setImmediate(resolve))
    expect(heard).toBe(true)
  })

  it('before the start asks nobody', async () => {
    const chat = new FakeChat(() => [{ content: 'Hello' }])
    const request = ask('Hello', [], AbortSignal.abort(reason))
    await expect(replyOf(chat, request)).rejects.toBe(reason)
    expect(chat.heard).toHaveLength(0)
  })
})

describe('pictures and files', () => {
  it('reach ChatAnthropic of LangChain, those of tools behind their results', async () => {
    await using provider = await fakeProvider()
    const chat = new ChatAnthropic({
      model: 'claude-sonnet-4-5',
      apiKey: provider.key,
      anthropicApiUrl: provider.url,
    })
    const bytes: Record<string, Buffer> = { a: png(), b: pdf() }
    const image = { type: 'image', mediaType: 'image/png', bytes: png().length, file: 'a' } as const
    const file = {
      type: 'file',
      mediaType: 'application/pdf',
      name: 'bill.pdf',
      bytes: pdf().length,
      file: 'b',
    } as const
    const messages: Message[] = [
      { role: 'user', id: 'u', content: 'Look', parts: [image, file] },
      {
        role: 'assistant',
        id: 'a',
        content: '',
        toolCalls: [{ id: 'c1', name: 'look', args: {} }],
      },
      { role: 'tool', id: 't', toolCallId: 'c1', name: 'look', content: 'Seen.', parts: [image] },
    ]
    const tools = [{ ...tool, name: 'look' }]
    const model = new LangChainModel(chat)
    expect(model.reads).toMatchObject({ file: ['application/pdf'] })
    provider.answer({ describes: true })
    const { content } = await answered(
      model.stream({
        messages,
        tools,
        signal: new AbortController().signal,
        file: async (id) => bytes[id] ?? Buffer.alloc(0),
      }),
    )
    expect(provider.refusals).toEqual([])
    expect(content).toBe(
      `image/png ${png().length}, application/pdf ${pdf().length}, image/png ${png().length}`,
    )
  })
})
