import { inspect } from 'node:util'
import { afterEach, describe, expect, it } from 'vitest'
import { RuntimeError } from '#core'
import { fakeOpenAi, type FakeAnswer, type FakeOpenAi } from '../support/fake-openai.ts'
import { answered, faultsOf, openAiInApp } from '../support/model-of.ts'
import { ask } from '../support/model-request.ts'

let provider: FakeOpenAi | undefined
afterEach(() => provider?.close())

async function model(answers: Parameters<typeof fakeOpenAi>[0]) {
  provider = await fakeOpenAi(answers)
  return (await openAiInApp(provider.url, { apiKey: 'sk-secret-1' })).model
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

const quotaWords = 'You exceeded your current quota, please check your plan and billing details.'

/** A quota that is spent, told with the wait after it, in the form of google.rpc.Status. */
const spent = (...violations: readonly object[]) => ({
  error: {
    code: 429,
    status: 'RESOURCE_EXHAUSTED',
    message: quotaWords,
    details: [
      { '@type': 'type.googleapis.com/google.rpc.QuotaFailure', violations },
      { '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '0.01s' },
    ],
  },
})

const soon = { 'retry-after-ms': '1' }

describe('what a provider complains of', () => {
  const cases: [string, number, unknown][] = [
    ['MODEL_UNAUTHORIZED', 401, { error: { message: 'Incorrect API key provided: sk-secret-1' } }],
    ['MODEL_UNAUTHORIZED', 403, { error: { message: 'Country not supported' } }],
    ['MODEL_QUOTA_EXHAUSTED', 402, { error: { message: 'Payment required' } }],
    ['MODEL_QUOTA_EXHAUSTED', 429, { error: { code: 'insufficient_quota', message: 'You …' } }],
    ['MODEL_RATE_LIMITED', 429, { error: { message: 'Limit of 10000 tokens exceeded' } }],
    ['MODEL_RATE_LIMITED', 429, spent({ quotaId: 'RequestsPerMinutePerModel-FreeTier' })],
    ['MODEL_RATE_LIMITED', 429, spent()],
    ['MODEL_QUOTA_EXHAUSTED', 429, spent({ quotaId: 'RequestsPerDayPerModel-FreeTier' })],
    ['MODEL_QUOTA_EXHAUSTED', 429, { error: { message: quotaWords } }],
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
  const passing = ['MODEL_RATE_LIMITED', 'MODEL_OVERLOADED', 'MODEL_TIMEOUT', 'MODEL_FAILED']
  it.each(cases)('is %s for HTTP %i with %j', async (code, status, body) => {
    const small = await model(() => ({ status, body, headers: soon }))
    const error = await fault(small.stream(ask('Hello')))
    expect(error.code).toBe(code)
    expect(error.details).toMatchObject({
      retryable: passing.includes(code),
      upstreamStatus: status,
    })
    // Users read what happened, the log also where.
    expect(error.message).toMatch(/^The model's provider /)
    expect(`${error.message} ${error.hint}`).not.toContain('127.0.0.1')
    expect(String(error.cause)).toContain('127.0.0.1')
  })

  it('says what to do next, and keeps the words of the provider for the log', async () => {
    const body = { error: { message: 'messages.2 is odd, key sk-secret-1' } }
    const error = await fault((await model([{ status: 400, body }])).stream(ask('Hello')))
    expect(error.message).not.toContain('odd')
    expect(error.hint).toBe("The provider's reason is in the log.")
    expect(String(error.cause)).toContain('messages.2 is odd')
  })

  it('never shows the key, not even in what is logged', async () => {
    for (const [, status, body] of cases) {
      const text = JSON.stringify(body) + ' sk-secret-1'
      const small = await model(() => ({ status, body: text, headers: soon }))
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
      const small = await model(() => ({ status: 200, body, headers: soon }))
      const error = await fault(small.stream(ask('Hello')))
      codes.push(error.code)
      expect(error.message).toMatch(/^The model's provider /)
      expect(String(error.cause)).toContain('127.0.0.1')
      await provider?.close()
    }
    expect(codes).toEqual(['MODEL_ANSWER_INVALID', 'MODEL_NOT_FOUND', 'MODEL_STREAM_BROKEN'])
  })

  it('is MODEL_REFUSED when a content filter stopped a call, which nobody is to carry out', async () => {
    const toolCalls = [{ name: 'look', args: '{"wh' }]
    const small = await model([{ text: 'I look.', toolCalls, finish: 'content_filter' }])
    expect((await fault(small.stream(ask('Hello')))).code).toBe('MODEL_REFUSED')
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
    expect((await answered(small.stream(ask('Hello')))).content).toBe('Here I am.')
    expect(provider?.requests).toHaveLength(2)
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
    expect((await answered(small.stream(ask('Hello')))).content).toBe('Again.')
  })

  it.each([
    ['ftp://x/v1', 'OPENAI_BASE_URL is not an http or https address.'],
    ['not an address', 'OPENAI_BASE_URL is not an http or https address.'],
    ['https://user:pw@api.example/v1', 'OPENAI_BASE_URL is not an http or https address.'],
  ])('the base address "%s" is refused, and not repeated', async (baseUrl, why) => {
    const env = { MODEL: 'openai/m', OPENAI_BASE_URL: baseUrl, OPENAI_API_KEY: 'sk-1' }
    expect(await faultsOf({ plugins: [], env })).toMatchObject([
      { message: expect.stringContaining(why) },
    ])
  })
})

describe('an abort', () => {
  const reason = new Error('The user pressed Stop.')

  it('before the start never reaches the provider', async () => {
    const small = await model(['Hello'])
    await expect(answered(small.stream(ask('Hello', [], AbortSignal.abort(reason))))).rejects.toBe(
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
    const reply = answered(small.stream(ask('Hello', [], stop.signal)))
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
    await expect(answered(small.stream(ask('Hello', [], stop.signal)))).rejects.toBe(reason)
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
    for (let turn = 0; turn < 3; turn++) await answered(small.stream(ask('Hello', [], counting)))
    expect(listeners).toBe(0)
  })
})

describe('an answer that is handed over', () => {
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
