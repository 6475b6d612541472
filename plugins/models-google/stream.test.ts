import { describe, expect, it } from 'vitest'
import { RuntimeError } from '#core'
import { Assembly, type Delta } from '#core/models'
import { addressOf, resourceOf } from './access.ts'
import { ChunkReader } from './reader.ts'

const asked = {
  model: 'x',
  host: 'generativelanguage.googleapis.com',
  settings: { key: 'GOOGLE_API_KEY', address: 'GOOGLE_BASE_URL' },
}

/** What the reader makes of chunks, as they came from the provider event by event. */
function read(chunks: readonly unknown[]) {
  const reader = new ChunkReader(asked)
  const deltas: Delta[] = []
  for (const chunk of chunks) reader.take(chunk as never, deltas)
  deltas.push(...reader.last())
  const assembly = new Assembly()
  for (const delta of deltas) assembly.add(delta)
  return { deltas, reply: assembly.reply(), reader }
}

/** Why the reader fails. */
function codeOf(chunks: readonly unknown[]): string {
  try {
    read(chunks)
  } catch (error) {
    if (error instanceof RuntimeError) return error.code
    throw error
  }
  return 'none'
}

const chunk = (parts: readonly object[], rest: object = {}, usageMetadata?: object) => ({
  candidates: [{ content: { role: 'model', parts }, index: 0, ...rest }],
  ...(usageMetadata && { usageMetadata }),
  modelVersion: 'x',
})

const call = { functionCall: { name: 'roll', args: { sides: 6 } }, thoughtSignature: 'EtQCCtEC' }
const recorded = [
  chunk([{ text: 'Two rolls are asked for.', thought: true }], {}, { promptTokenCount: 40 }),
  chunk([{ text: 'I roll ' }]),
  chunk([{ text: 'twice.' }]),
  chunk([call, { functionCall: { id: 'f2', name: 'clock' } }]),
  chunk(
    [{ text: '' }],
    { finishReason: 'STOP' },
    {
      promptTokenCount: 50,
      cachedContentTokenCount: 30,
      candidatesTokenCount: 20,
      thoughtsTokenCount: 15,
      totalTokenCount: 85,
    },
  ),
]

describe('an answer of generateContent', () => {
  it('is read into words, thoughts, calls and usage', () => {
    const { reply, reader, deltas } = read(recorded)
    expect(reader.finished).toBe(true)
    expect(reply).toMatchObject({
      content: 'I roll twice.',
      reasoning: 'Two rolls are asked for.',
      toolCalls: [
        { name: 'roll', args: { sides: 6 } },
        { name: 'clock', args: {} },
      ],
      usage: { inputTokens: 50, outputTokens: 35, cachedTokens: 30, reasoningTokens: 15 },
    })
    expect(deltas.at(-1)?.type).toBe('provider')
  })

  it('gives its parts back with their signatures, and no summary of thoughts', () => {
    expect(read(recorded).reply.provider).toEqual({
      parts: [{ text: 'I roll twice.' }, call, { functionCall: { id: 'f2', name: 'clock' } }],
    })
  })

  it('keeps a signature where it stood: on words, or on an empty text at the end', () => {
    const signed = { text: 'Hello', thoughtSignature: 'AAAA' }
    const last = { text: '', thoughtSignature: 'BBBB' }
    const words = [
      chunk([signed]),
      chunk([{ text: ' you' }]),
      chunk([{ text: ' there' }]),
      chunk([last], { finishReason: 'STOP' }),
    ]
    const { reply } = read(words)
    expect(reply.content).toBe('Hello you there')
    expect(reply.provider).toEqual({ parts: [signed, { text: ' you there' }, last] })
  })

  it('of words alone gives nothing back', () => {
    const { deltas } = read([chunk([{ text: 'Hi.' }], { finishReason: 'STOP' })])
    expect(deltas).toEqual([{ type: 'text', text: 'Hi.' }])
  })

  it.each([
    ['SAFETY', 'MODEL_REFUSED'],
    ['PROHIBITED_CONTENT', 'MODEL_REFUSED'],
    ['RECITATION', 'MODEL_REFUSED'],
    ['MALFORMED_FUNCTION_CALL', 'MODEL_FAILED'],
    ['MAX_TOKENS', 'none'],
  ])('that stops for %s fails with %s', (finishReason, code) => {
    expect(codeOf([chunk([], { finishReason })])).toBe(code)
  })

  it.each([
    ['MAX_TOKENS', 'length'],
    ['SAFETY', 'content_filter'],
    ['RECITATION', 'content_filter'],
  ])('that stops for %s after words says so: %s', (finishReason, by) => {
    const { deltas, reply } = read([chunk([{ text: 'Hi ' }]), chunk([], { finishReason })])
    expect(deltas).toEqual([
      { type: 'text', text: 'Hi ' },
      { type: 'ended', by },
    ])
    expect(reply).toMatchObject({ content: 'Hi ', ended: by })
    expect(read(recorded).reply).not.toHaveProperty('ended')
  })

  it('that the filter stops amid calls fails, so that none of them is carried out', () => {
    const amid = [chunk([{ text: 'I roll.' }, call]), chunk([], { finishReason: 'SAFETY' })]
    expect(codeOf(amid)).toBe('MODEL_REFUSED')
  })

  it('to a question that is blocked is a refusal', () => {
    expect(codeOf([{ promptFeedback: { blockReason: 'SAFETY' } }])).toBe('MODEL_REFUSED')
  })

  it('with counts that shrink or are none is counted as far as it can be', () => {
    const { reply } = read([...recorded, { usageMetadata: { promptTokenCount: 1 } }])
    expect(reply.usage?.inputTokens).toBe(50)
    expect(read([{ usageMetadata: { promptTokenCount: -5 } }]).deltas).toEqual([])
  })

  it('of a server that sends anything breaks nothing', () => {
    const strange = [
      null,
      {},
      { candidates: 'none' },
      { candidates: [null] },
      { candidates: [{ content: { parts: [null, 7, { functionCall: null }] } }] },
      { candidates: [{ index: 1, content: { parts: [{ text: 'other' }] } }] },
    ]
    expect(read(strange).deltas).toEqual([])
    const nameless = read([chunk([{ functionCall: { args: { a: 1 } } }])])
    expect(nameless.reply.provider).toEqual({
      parts: [{ functionCall: { name: 'unnamed', args: { a: 1 } } }],
    })
  })
})

describe('the address', () => {
  const path = '/models/x:streamGenerateContent'
  it.each([
    [undefined, `https://generativelanguage.googleapis.com/v1beta${path}`],
    ['http://127.0.0.1:9/v1beta/', `http://127.0.0.1:9/v1beta${path}`],
    ['http://127.0.0.1:9/v1', `http://127.0.0.1:9/v1${path}`],
    ['http://proxy.example/google', `http://proxy.example/google/v1beta${path}`],
  ])('%s is continued to %s', (baseUrl, url) => {
    expect(addressOf({ baseUrl }, path).href).toBe(url)
  })

  it('names a model of any kind', () => {
    expect(resourceOf('gemini-3-pro')).toBe('models/gemini-3-pro')
    expect(resourceOf('tunedModels/mine?')).toBe('tunedModels/mine%3F')
    expect(() => addressOf({ baseUrl: 'nowhere' }, path)).toThrow('GOOGLE_BASE_URL')
  })
})
