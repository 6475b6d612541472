import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { RuntimeError } from '#core'
import { assemble, Assembly } from '../../core/runtime/model/assemble.ts'
import { ChatModel, type ChatOptions } from '../../plugins/models-openai/chat/model.ts'
import { compatible } from '../../plugins/models-openai/compatible.ts'
import { fakeOpenAi, type FakeAnswer, type FakeOpenAi } from '../support/fake-openai.ts'
import { ask } from '../support/model-request.ts'

let provider: FakeOpenAi | undefined
afterEach(() => provider?.close())

/** A model of the table's first row, with limits of its own. */
const chat = (baseUrl: string, { maxAnswer, ...settings }: Limits = {}) =>
  new ChatModel({
    id: 'openai/small',
    name: 'small',
    baseUrl,
    apiKey: 'sk-secret-1',
    row: compatible.openai!,
    settings,
    maxAnswer,
  })

type Limits = ChatOptions['settings'] & { readonly maxAnswer?: number }

async function model(answers: Parameters<typeof fakeOpenAi>[0], options?: Limits) {
  provider = await fakeOpenAi(answers)
  return chat(provider.url, options)
}

/** What a stream throws, after all it said. */
async function fault(stream: AsyncIterable<unknown>): Promise<RuntimeError> {
  try {
    for await (const _ of stream);
  } catch (error) {
    if (error instanceof RuntimeError) return error
    throw error
  }
  throw new Error('The stream ended without a fault.')
}

const soon = { 'retry-after-ms': '1' }

describe('before the first word', () => {
  it('the call is repeated until the attempts are used up', async () => {
    const small = await model(() => ({ status: 503, headers: soon }), { attempts: 3 })
    expect((await fault(small.stream(ask('Hello')))).code).toBe('MODEL_OVERLOADED')
    expect(provider?.requests).toHaveLength(3)
  })

  it('a kept connection that the server closed meanwhile costs no attempt', async () => {
    // A server that answers once per connection and hangs up without saying so.
    const body = 'data: {"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\n'
    const head = `HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n`
    let served = 0
    const server = createServer((socket) => {
      let answered = false
      socket.on('error', () => {})
      socket.on('data', () => {
        if (answered) return void socket.resetAndDestroy()
        answered = true
        served++
        socket.write(head + body)
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    const baseUrl = `http://127.0.0.1:${port}`
    const once = chat(baseUrl, { attempts: 1 })
    for (let turn = 0; turn < 3; turn++)
      expect((await assemble(once.stream(ask('Hello')))).content).toBe('Hi')
    expect(served).toBe(3)
    server.close()
  })

  it('a port where nobody listens is MODEL_UNREACHABLE', async () => {
    const closed = await fakeOpenAi([])
    await closed.close()
    const nobody = chat(closed.url, { attempts: 2 })
    const error = await fault(nobody.stream(ask('Hello')))
    expect(error).toMatchObject({
      code: 'MODEL_UNREACHABLE',
      message: "The model's provider cannot be reached (ECONNREFUSED).",
    })
    expect(String(error.cause)).toContain(`127.0.0.1:${closed.port} cannot be reached`)
  })

  it('a provider that does not begin is MODEL_TIMEOUT', async () => {
    const small = await model([{ text: 'Late', delayMs: 60_000 }], {
      firstTokenMs: 50,
      attempts: 1,
    })
    expect((await fault(small.stream(ask('Hello')))).code).toBe('MODEL_TIMEOUT')
  })

  it('a base address that is none is refused, also where no environment was read', () => {
    expect(() => chat('not an address')).toThrow('OPENAI_BASE_URL is not an http or https address.')
  })
})

describe('in the middle of the answer', () => {
  it.each<[string, FakeAnswer, string]>([
    ['an error', { text: 'So far', then: { error: { message: 'boom' } } }, 'MODEL_FAILED'],
    ['a cut connection', { text: 'So far', then: 'cut' }, 'MODEL_STREAM_BROKEN'],
    ['an early end', { text: 'So far', finish: false, done: false }, 'MODEL_STREAM_BROKEN'],
    ['silence', { text: 'So far', then: 'silence' }, 'MODEL_TIMEOUT'],
    ['comments for ever', { text: 'So far', then: 'comments' }, 'MODEL_TIMEOUT'],
    ['empty deltas for ever', { text: 'So far', then: 'empty deltas' }, 'MODEL_TIMEOUT'],
    ['words for ever', { text: 'So far', then: 'words' }, 'MODEL_ANSWER_TOO_LONG'],
  ])('%s keeps what was said, and is not repeated', async (_, speech, code) => {
    const small = await model([speech], { idleMs: 150, stallMs: 150, maxAnswer: 100_000 })
    const gathered = new Assembly()
    const said = async function* () {
      for await (const delta of small.stream(ask('Hello'))) yield gathered.add(delta)
    }
    expect((await fault(said())).code).toBe(code)
    expect(gathered.reply().content).toMatch(/^So far/)
    expect(provider?.requests).toHaveLength(1)
  })

  it('one event without an end is cut at the size of an answer', async () => {
    const body = `data: {"choices":[{"delta":{"content":"${'x'.repeat(300_000)}`
    const small = await model([{ status: 200, body }], { maxAnswer: 100_000, attempts: 1 })
    expect((await fault(small.stream(ask('Hello')))).code).toBe('MODEL_ANSWER_TOO_LONG')
  })
})

describe('an answer that is handed over', () => {
  it.each<[string, FakeAnswer, string?]>([
    ['is what a stream of it says', { text: 'one two three', paceMs: 2 }],
    ['up to an error', { text: 'So far', then: { error: { message: 'boom' } } }, 'MODEL_FAILED'],
    ['up to a cut', { text: 'So far', then: 'cut' }, 'MODEL_STREAM_BROKEN'],
    ['up to silence', { text: 'So far', then: 'silence' }, 'MODEL_TIMEOUT'],
  ])('%s', async (_, speech, code) => {
    const small = await model([speech, speech], { idleMs: 150 })
    const streamed = new Assembly()
    const said = async function* () {
      for await (const delta of small.stream(ask('Hello'))) yield streamed.add(delta)
    }
    const handed = new Assembly()
    const handing = small.streamTo(ask('Hello'), (delta) => handed.add(delta))
    if (code === undefined) {
      await handing
      for await (const _ of said());
    } else {
      await expect(handing).rejects.toMatchObject({ code })
      expect((await fault(said())).code).toBe(code)
    }
    expect(handed.reply()).toEqual(streamed.reply())
    expect(handed.reply().content).not.toBe('')
  })
})
