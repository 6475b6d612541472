import { describe, expect, it } from 'vitest'
import type { Message, Model } from '../../core/plugin.ts'
import { RuntimeError } from '../../core/errors.ts'
import { providerFault } from '../../core/runtime/model/transport/provider-fault.ts'
import { Gauge, Gauges } from '../../core/runtime/model/window/gauges.ts'
import { messageBytes, bytesOfConversation } from '../../core/runtime/model/window/sizes.ts'
import { silent } from '../support/silent-log.ts'

const asked = { model: 'x', host: 'h', settings: { key: 'K', address: 'A' } }
const model = (more: Partial<Model> = {}): Model => ({
  id: 'x',
  stream: () => {
    throw new Error('nobody asks')
  },
  ...more,
})
const tooLong = (details?: object) =>
  new RuntimeError('MODEL_CONTEXT_TOO_LONG', 'too long', { details })

describe('what a provider says of a conversation that is too long', () => {
  it.each([
    [
      "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens. Please reduce them.",
      { window: 8192, tokens: 9000 },
    ],
    [
      "This model's maximum context length is 4096 tokens. However, you requested 5020 tokens (4020 in messages, 1000 in completion).",
      { window: 4096, tokens: 5020 },
    ],
    ['prompt is too long: 209,000 tokens > 200,000 maximum', { window: 200_000, tokens: 209_000 }],
    [
      'input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000, decrease input length or `max_tokens` and try again',
      { window: 200_000, tokens: 222_000 },
    ],
    [
      'The input token count (1189187) exceeds the maximum number of tokens allowed (1048576).',
      { window: 1_048_576, tokens: 1_189_187 },
    ],
    [
      'Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length',
      { window: 32_768, tokens: 40_000 },
    ],
    [
      "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
      { window: 131_072, tokens: 140_000 },
    ],
    [
      'The prompt is too long: 140000, model maximum context length: 131072',
      { window: 131_072, tokens: 140_000 },
    ],
    [
      'Trying to keep the first 5000 tokens when context overflows. The model is loaded with context length of only 4096 tokens.',
      { window: 4096, tokens: 5000 },
    ],
    [
      'Your input exceeds the context window of this model. Please adjust your input and try again.',
      {},
    ],
    ['Input is too long for requested model.', {}],
    ['Please reduce the length of the messages or completion.', {}],
    // Not a window: nobody reads fewer tokens than this, nor more than was sent.
    ["This model's maximum context length is 12 tokens.", {}],
    ['prompt is too long: 900 tokens > 8000 maximum', {}],
  ])('is read from "%s"', (message, numbers) => {
    const text = JSON.stringify({ error: { message, type: 'invalid_request_error' } })
    const fault = providerFault({ status: 400, text }, asked)
    expect(fault.code).toBe('MODEL_CONTEXT_TOO_LONG')
    const { window, tokens } = fault.details as { window?: number; tokens?: number }
    expect({ ...(window && { window }), ...(tokens && { tokens }) }).toEqual(numbers)
  })

  it('is read from the fields of a local server', () => {
    const text =
      '{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it",' +
      '"type":"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":4096}}'
    expect(providerFault({ status: 400, text }, asked)).toMatchObject({
      code: 'MODEL_CONTEXT_TOO_LONG',
      details: { window: 4096, tokens: 9000 },
    })
  })

  it('takes no time to read, whatever it is', () => {
    for (const text of ['1 '.repeat(50_000), 'token count '.repeat(9_000), '9'.repeat(90_000)])
      expect(providerFault({ status: 413, text }, asked).code).toBe('MODEL_CONTEXT_TOO_LONG')
  })
})

describe('how many bytes a token has', () => {
  it('is 3.5 at first, follows what the provider counts, and stays between 1.5 and 6', () => {
    const gauge = new Gauge()
    expect(gauge.measured).toBeUndefined()
    expect(gauge.tokens(3500)).toBe(1000)
    for (let call = 0; call < 30; call++) gauge.note(model(), 10_000, 4000)
    expect(gauge.tokens(10_000)).toBeGreaterThan(3900)
    for (let call = 0; call < 60; call++) gauge.note(model(), 10_000, 100_000)
    expect(gauge.measured).toBeCloseTo(1.5, 2)
    for (let call = 0; call < 60; call++) gauge.note(model(), 100_000, 66_000 / (4 + call / 20))
    expect(gauge.measured).toBeLessThanOrEqual(6)
  })

  it('is not learned from requests of a few words, nor from counts that are none', () => {
    const gauge = new Gauge()
    gauge.note(model(), 100, 90)
    gauge.note(model(), 10_000, 0)
    expect(gauge.measured).toBeUndefined()
  })
})

describe('how much a model reads', () => {
  it('is what was said of it, else what a refusal taught, else 128,000 tokens', () => {
    const gauge = new Gauge()
    expect(gauge.window(model())).toBe(128_000)
    expect(gauge.window(model({ contextWindow: 32_000 }))).toBe(32_000)
    gauge.refused(tooLong({ window: 8000, tokens: 9000 }), 30_000)
    expect(gauge.window(model())).toBe(8000)
    // Nobody reads more than it has refused, whatever is written down.
    expect(gauge.window(model({ contextWindow: 32_000 }))).toBe(8000)
    expect(gauge.window(model({ contextWindow: 4000 }))).toBe(4000)
  })

  it('is half of what was sent where the refusal names no number, and models are not compared by that', () => {
    const gauges = new Gauges(silent)
    gauges.of(model()).refused(tooLong(), 35_000)
    expect(gauges.of(model()).window(model())).toBe(5000)
    expect(gauges.windowOf(model())).toBe(128_000)
    gauges.of(model()).refused(tooLong({ window: 8000 }), 20_000)
    expect(gauges.windowOf(model())).toBe(8000)
    // A request that was refused at 8,000 tokens had more than these.
    expect(gauges.of(model()).tokens(20_000)).toBeGreaterThan(8000)
  })
})

describe('the bytes of a message', () => {
  const said: Message = {
    role: 'assistant',
    id: '1',
    content: 'Yes.',
    provider: { by: 'x', data: { signature: 's'.repeat(900) } },
  }

  it('have what a provider gave, for this provider alone', () => {
    expect(messageBytes(said, model())).toBeGreaterThan(900)
    expect(messageBytes(said, model({ id: 'y' }))).toBeLessThan(100)
  })

  it('count pictures by what the model reads of them', () => {
    const shown: Message = {
      role: 'user',
      id: '2',
      content: 'Look',
      parts: [{ type: 'image', mediaType: 'image/png', bytes: 2_000_000, file: 'f' }],
    }
    expect(messageBytes(shown, model())).toBeLessThan(200)
    const seeing = messageBytes(shown, model({ reads: { image: ['image/*'] } }))
    expect(seeing).toBeGreaterThan(5_000)
    expect(seeing).toBeLessThan(7_000)
  })

  it('of a conversation are counted once, and anew when its messages were changed', () => {
    const words = (nth: number, content: string): Message => ({
      role: 'user',
      id: `${nth}`,
      content,
    })
    const first = words(1, 'a'.repeat(1000))
    const all = [first, words(2, 'b'.repeat(1000))]
    const before = bytesOfConversation(all, model())
    const last = words(3, 'c'.repeat(1000))
    expect(bytesOfConversation([...all, last], model())).toBeGreaterThan(before + 1000)
    const cut = [first, words(2, 'b'), last]
    expect(bytesOfConversation(cut, model(), true)).toBeLessThan(before + 200)
    expect(bytesOfConversation([...cut, words(4, '')], model())).toBeLessThan(before + 300)
  })
})
