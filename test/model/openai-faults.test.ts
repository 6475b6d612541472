import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { inspect } from 'node:util'
import { afterEach, describe, expect, it } from 'vitest'
import { isRetryable, RuntimeError } from '../../core/errors.ts'
import { assemble, Assembly } from '../../core/runtime/model/assemble.ts'
import { OpenAiModel, type OpenAiOptions } from '../../core/runtime/model/openai.ts'
import { fakeOpenAi, type FakeAnswer, type FakeOpenAi } from '../support/fake-openai.ts'
import { ask } from '../support/model-request.ts'

let provider: FakeOpenAi | undefined
afterEach(() => provider?.close())

async function model(answers: Parameters<typeof fakeOpenAi>[0], options?: Partial<OpenAiOptions>) {
  provider = await fakeOpenAi(answers)
  return new OpenAiModel({
    name: 'small',
    baseUrl: provider.url,
    apiKey: 'sk-secret-1',
    ...options,
  })
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

describe('what a provider complains of', () => {
  const cases: [string, number, unknown][] = [
    ['MODEL_UNAUTHORIZED', 401, { error: { message: 'Incorrect API key provided: sk-secret-1' } }],
    ['MODEL_UNAUTHORIZED', 403, { error: { message: 'Country not supported' } }],
    ['MODEL_QUOTA_EXHAUSTED', 402, { error: { message: 'Payment required' } }],
    ['MODEL_QUOTA_EXHAUSTED', 429, { error: { code: 'insufficient_quota', message: 'You …' } }],
    ['MODEL_RATE_LIMITED', 429, { error: { message: 'Limit of 10000 tokens exceeded' } }],
    ['MODEL_NOT_FOUND', 404, { error: { code: 'model_not_found', message: 'No.' } }],
    ['MODEL_NOT_FOUND', 404, '<html><body>404</body></html>'],
    ['MODEL_NOT_FOUND', 400, { error: 'model "small" not found, try pulling it first' }],
    ['MODEL_NOT_FOUND', 301, ''],
    ['MODEL_CONTEXT_TOO_LONG', 400, { error: { code: 'context_length_exceeded', message: '…' } }],
    ['MODEL_CONTEXT_TOO_LONG', 400, { message: "This model's maximum context length is 8192" }],
    ['MODEL_CONTEXT_TOO_LONG', 413, ''],
    ['MODEL_REFUSED', 400, { error: { code: 'content_filter', message: 'The response was …' } }],
    ['MODEL_BAD_REQUEST', 400, { error: { message: 'messages.2: role must be …' } }],
    ['MODEL_BAD_REQUEST', 422, { detail: [{ msg: 'field required' }] }],
    ['MODEL_BAD_REQUEST', 400, 'no JSON at all'],
    ['MODEL_TIMEOUT', 504, '<html>Gateway timeout</html>'],
    ['MODEL_FAILED', 500, { error: { message: 'The server had an error' } }],
    ['MODEL_OVERLOADED', 503, { error: { message: 'Overloaded' } }],
    ['MODEL_OVERLOADED', 529, { type: 'error', error: { type: 'overloaded_error' } }],
  ]
  it.each(cases)('is %s for HTTP %i with %j', async (code, status, body) => {
    const small = await model([{ status, body }], { attempts: 1 })
    const error = await fault(small.stream(ask('Hello')))
    expect(error.code).toBe(code)
    expect(error.details).toMatchObject({ retryable: isRetryable(code), upstreamStatus: status })
    // Users read what happened, the log also where.
    expect(error.message).toMatch(/^The model's provider /)
    expect(`${error.message} ${error.hint}`).not.toContain('127.0.0.1')
    expect(String(error.cause)).toContain('127.0.0.1')
  })

  it('says what to do next, and keeps the words of the provider for the log', async () => {
    const body = { error: { message: 'messages.2 is odd, key sk-secret-1' } }
    const error = await fault((await model([{ status: 400, body }])).stream(ask('Hello')))
    expect(error.message).not.toContain('odd')
    expect(error.hint).toBe('Its reason is in the log.')
    expect(String(error.cause)).toContain('messages.2 is odd')
  })

  it('never shows the key, not even in what is logged', async () => {
    for (const [, status, body] of cases) {
      const text = JSON.stringify(body) + ' sk-secret-1'
      const small = await model([{ status, body: text }], { attempts: 1 })
      const error = await fault(small.stream(ask('Hello')))
      expect(inspect(error, { depth: 9, showHidden: true })).not.toContain('sk-secret-1')
      await provider?.close()
    }
  })

  it('counts as a web page when it is one, whatever the status says', async () => {
    const small = await model([{ status: 200, body: '\n<!doctype html><p>Welcome</p>' }])
    const error = await fault(small.stream(ask('Hello')))
    expect(error.code).toBe('MODEL_ANSWER_INVALID')
    // What to look at is the operator's to know.
    expect(error.hint).not.toContain('OPENAI_BASE_URL')
    expect(String(error.cause)).toContain('OPENAI_BASE_URL')
  })

  it('is found in JSON that is no answer, in an error with status 200, and in nonsense', async () => {
    const bodies = [
      '{"hello":1}',
      '{"error":{"message":"model x does not exist"}}',
      'data: {oh no\n\n',
    ]
    const codes = []
    for (const body of bodies) {
      const small = await model([{ status: 200, body }], { attempts: 1 })
      const error = await fault(small.stream(ask('Hello')))
      codes.push(error.code)
      expect(error.message).toMatch(/^The model's provider /)
      expect(String(error.cause)).toContain('127.0.0.1')
      await provider?.close()
    }
    expect(codes).toEqual(['MODEL_ANSWER_INVALID', 'MODEL_NOT_FOUND', 'MODEL_STREAM_BROKEN'])
  })

  it('is MODEL_REFUSED when a content filter left nothing of the answer', async () => {
    const small = await model([{ finish: 'content_filter' }])
    const error = await fault(small.stream(ask('Hello')))
    expect(error.code).toBe('MODEL_REFUSED')
    expect(error.message).toBe(
      "The model's provider refused to answer this for reasons of content.",
    )
  })
})

describe('before the first word', () => {
  const troubles: [string, FakeAnswer][] = [
    ['429', { status: 429, headers: soon }],
    ['500', { status: 500, headers: soon }],
    ['503 with a page', { status: 503, headers: soon, body: '<html></html>' }],
    ['an error in the stream', { then: { error: { message: 'Overloaded', code: 503 } } }],
    ['a cut connection', { then: 'cut' }],
  ]
  it.each(troubles)('the call is repeated after %s', async (_, trouble) => {
    const small = await model([trouble, 'Here I am.'])
    expect((await assemble(small.stream(ask('Hello')))).content).toBe('Here I am.')
    expect(provider?.requests).toHaveLength(2)
  })

  it('the call is repeated until the attempts are used up', async () => {
    const small = await model(() => ({ status: 503, headers: soon }), { attempts: 3 })
    expect((await fault(small.stream(ask('Hello')))).code).toBe('MODEL_OVERLOADED')
    expect(provider?.requests).toHaveLength(3)
  })

  it.each([400, 401, 404, 413, 422])('the call is not repeated after %i', async (status) => {
    const small = await model(() => ({ status }))
    await fault(small.stream(ask('Hello')))
    expect(provider?.requests).toHaveLength(1)
  })

  it('a wait longer than a user would bear is handed to the caller instead', async () => {
    const small = await model(() => ({ status: 429, headers: { 'retry-after': '60' } }))
    const error = await fault(small.stream(ask('Hello')))
    expect(error).toMatchObject({ code: 'MODEL_RATE_LIMITED', headers: { 'Retry-After': '60' } })
    expect(provider?.requests).toHaveLength(1)
  })

  it('a Retry-After that is a date is honoured', async () => {
    const now = new Date(Date.now() - 1000).toUTCString()
    const small = await model([{ status: 429, headers: { 'retry-after': now } }, 'Again.'])
    expect((await assemble(small.stream(ask('Hello')))).content).toBe('Again.')
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
    const once = new OpenAiModel({ name: 'm', baseUrl, attempts: 1 })
    for (let turn = 0; turn < 3; turn++)
      expect((await assemble(once.stream(ask('Hello')))).content).toBe('Hi')
    expect(served).toBe(3)
    server.close()
  })

  it('a port where nobody listens is MODEL_UNREACHABLE', async () => {
    const closed = await fakeOpenAi([])
    await closed.close()
    const nobody = new OpenAiModel({ name: 'm', baseUrl: closed.url, attempts: 2 })
    const error = await fault(nobody.stream(ask('Hello')))
    expect(error).toMatchObject({
      code: 'MODEL_UNREACHABLE',
      message: "The model's provider cannot be reached (ECONNREFUSED).",
    })
    expect(String(error.cause)).toContain(`127.0.0.1:${closed.port} cannot be reached`)
  })

  it('a provider that does not begin is MODEL_TIMEOUT', async () => {
    const small = await model([{ text: 'Late', delayMs: 60_000 }], { firstTokenMs: 50 })
    expect((await fault(small.stream(ask('Hello')))).code).toBe('MODEL_TIMEOUT')
  })

  it.each(['ftp://x/v1', 'not an address', 'https://user:pw@api.example/v1'])(
    'the base address "%s" is refused, and not repeated',
    (baseUrl) => {
      expect(() => new OpenAiModel({ name: 'm', baseUrl })).toThrow(
        'OPENAI_BASE_URL is not an http or https address.',
      )
    },
  )
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

describe('an abort', () => {
  const reason = new Error('The user pressed Stop.')

  it('before the start never reaches the provider', async () => {
    const small = await model(['Hello'])
    await expect(assemble(small.stream(ask('Hello', [], AbortSignal.abort(reason))))).rejects.toBe(
      reason,
    )
    expect(provider?.requests).toHaveLength(0)
  })

  it.each<[string, FakeAnswer]>([
    ['while the provider thinks', { text: 'Late', delayMs: 60_000 }],
    ['between two words', { text: 'one two three', paceMs: 10_000 }],
    ['of an answer that never ends', { text: 'one', then: 'silence' }],
    ['of an answer that pours', { text: 'one', then: 'words' }],
  ])('%s ends the stream with its reason and hangs up on the provider', async (_, speech) => {
    const stop = new AbortController()
    let arrived: (gone: AbortSignal) => void
    const request = new Promise<AbortSignal>((resolve) => (arrived = resolve))
    const small = await model(({ gone }) => (arrived(gone), speech))
    const reply = assemble(small.stream(ask('Hello', [], stop.signal)))
    reply.catch(() => {})
    const gone = await request
    await new Promise((resolve) => setTimeout(resolve, 20))
    stop.abort(reason)
    await expect(reply).rejects.toBe(reason)
    if (!gone.aborted) await new Promise((resolve) => gone.addEventListener('abort', resolve))
  })

  it('while waiting for the next attempt ends the wait', async () => {
    const stop = new AbortController()
    const small = await model(() => {
      setTimeout(() => stop.abort(reason), 5)
      return { status: 429, headers: { 'retry-after': '15' } }
    })
    await expect(assemble(small.stream(ask('Hello', [], stop.signal)))).rejects.toBe(reason)
    expect(provider?.requests).toHaveLength(1)
  })

  it('by a reader who stops reading hangs up too', async () => {
    let gone: AbortSignal | undefined
    const small = await model((request) => {
      gone = request.gone
      return { text: 'one two', paceMs: 10, then: 'silence' }
    })
    for await (const delta of small.stream(ask('Hello'))) {
      expect(delta).toEqual({ type: 'text', text: 'one' })
      break
    }
    if (!gone?.aborted) await new Promise((resolve) => gone?.addEventListener('abort', resolve))
  })

  it('leaves no listener behind on a signal that lives on', async () => {
    const { signal } = new AbortController()
    const small = await model(() => 'Fine.')
    let listeners = 0
    const counting = new Proxy(signal, {
      get(target, key) {
        if (key === 'addEventListener') listeners++
        if (key === 'removeEventListener') listeners--
        const value = Reflect.get(target, key, target)
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
    for (let turn = 0; turn < 3; turn++) await assemble(small.stream(ask('Hello', [], counting)))
    expect(listeners).toBe(0)
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
    const handing = small.streamTo!(ask('Hello'), (delta) => handed.add(delta))
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

  it('to somebody who throws ends with what was thrown, and hangs up', async () => {
    let gone: AbortSignal | undefined
    const small = await model((request) => {
      gone = request.gone
      return { text: 'one two', paceMs: 10, then: 'silence' }
    })
    const enough = new Error('Enough.')
    const taken: unknown[] = []
    const handing = small.streamTo!(ask('Hello'), (delta) => {
      taken.push(delta)
      throw enough
    })
    await expect(handing).rejects.toBe(enough)
    expect(taken).toEqual([{ type: 'text', text: 'one' }])
    if (!gone?.aborted) await new Promise((resolve) => gone?.addEventListener('abort', resolve))
  })
})
