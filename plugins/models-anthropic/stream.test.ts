import { describe, expect, it } from 'vitest'
import { Assembly, type Delta } from '#core/models'
import { RuntimeError } from '#core'
import { addressOf } from './access.ts'
import { EventReader } from './reader.ts'

const asked = {
  model: 'x',
  host: 'api.anthropic.com',
  settings: { key: 'ANTHROPIC_API_KEY', address: 'ANTHROPIC_BASE_URL' },
}

/** What the reader makes of events, as they came from the provider line by line. */
function read(events: readonly unknown[]) {
  const reader = new EventReader(asked)
  const deltas: Delta[] = []
  for (const event of events) reader.take(event as never, deltas)
  deltas.push(...reader.last())
  const assembly = new Assembly()
  for (const delta of deltas) assembly.add(delta)
  return { deltas, reply: assembly.reply(), reader }
}

/** Why the reader fails. */
function codeOf(events: readonly unknown[]): string {
  try {
    read(events)
  } catch (error) {
    if (error instanceof RuntimeError) return error.code
    throw error
  }
  return 'none'
}

const start = {
  type: 'message_start',
  message: {
    id: 'msg_01',
    role: 'assistant',
    content: [],
    stop_reason: null,
    usage: {
      input_tokens: 12,
      cache_creation_input_tokens: 100,
      cache_read_input_tokens: 2000,
      output_tokens: 1,
    },
  },
}
const begin = (index: number, content_block: object) => {
  return { type: 'content_block_start', index, content_block }
}
const piece = (index: number, delta: object) => ({ type: 'content_block_delta', index, delta })
const stop = (stop_reason: string, output_tokens = 89) => [
  { type: 'message_delta', delta: { stop_reason, stop_sequence: null }, usage: { output_tokens } },
  { type: 'message_stop' },
]

const recorded = [
  start,
  begin(0, { type: 'thinking', thinking: '', signature: '' }),
  { type: 'ping' },
  piece(0, { type: 'thinking_delta', thinking: 'Two rolls' }),
  piece(0, { type: 'thinking_delta', thinking: ' are asked for.' }),
  piece(0, { type: 'signature_delta', signature: 'EqQBCgIYAhIM' }),
  { type: 'content_block_stop', index: 0 },
  begin(1, { type: 'redacted_thinking', data: 'EmwKAhgBEgy3' }),
  { type: 'content_block_stop', index: 1 },
  begin(2, { type: 'text', text: '' }),
  piece(2, { type: 'text_delta', text: 'I roll ' }),
  piece(2, { type: 'text_delta', text: 'twice.' }),
  { type: 'content_block_stop', index: 2 },
  begin(3, { type: 'tool_use', id: 'toolu_01T1', name: 'roll', input: {} }),
  piece(3, { type: 'input_json_delta', partial_json: '' }),
  piece(3, { type: 'input_json_delta', partial_json: '{"sid' }),
  piece(3, { type: 'input_json_delta', partial_json: 'es": 6}' }),
  { type: 'content_block_stop', index: 3 },
  begin(4, { type: 'tool_use', id: 'toolu_01T2', name: 'clock', input: {} }),
  { type: 'content_block_stop', index: 4 },
  ...stop('tool_use'),
]

describe('an answer of Messages', () => {
  it('is read into words, thoughts, calls and usage', () => {
    const { reply, reader, deltas } = read(recorded)
    expect(reader.done).toBe(true)
    expect(reply).toMatchObject({
      content: 'I roll twice.',
      reasoning: 'Two rolls are asked for.',
      toolCalls: [
        { name: 'roll', args: { sides: 6 } },
        { name: 'clock', args: {} },
      ],
      usage: { inputTokens: 2112, outputTokens: 89, cachedTokens: 2000, cacheWriteTokens: 100 },
    })
    expect(deltas.at(-1)?.type).toBe('provider')
  })

  it('gives its whole content back, in order and with the ids of the provider', () => {
    expect(read(recorded).reply.provider).toEqual({
      content: [
        { type: 'thinking', thinking: 'Two rolls are asked for.', signature: 'EqQBCgIYAhIM' },
        { type: 'redacted_thinking', data: 'EmwKAhgBEgy3' },
        { type: 'text', text: 'I roll twice.' },
        { type: 'tool_use', id: 'toolu_01T1', name: 'roll', input: { sides: 6 } },
        { type: 'tool_use', id: 'toolu_01T2', name: 'clock', input: {} },
      ],
    })
  })

  it('of words alone gives nothing back, and of thinking without a signature no thinking', () => {
    const words = [start, begin(0, { type: 'text', text: 'Hi.' }), ...stop('end_turn')]
    expect(read(words).reply).toMatchObject({ content: 'Hi.' })
    expect(read(words).reply).not.toHaveProperty('provider')
    const unsigned = recorded.filter((event) => !JSON.stringify(event).includes('signature_delta'))
    const { content } = read(unsigned).reply.provider as { content: { type: string }[] }
    expect(content[0]?.type).toBe('redacted_thinking')
  })

  it('that was cut off in a call gives an empty object back', () => {
    const cut = [
      start,
      begin(0, { type: 'tool_use', id: 'toolu_1', name: 'roll', input: {} }),
      piece(0, { type: 'input_json_delta', partial_json: '{"sid' }),
      ...stop('max_tokens'),
    ]
    expect(read(cut).reply.toolCalls).toMatchObject([{ name: 'roll', args: '{"sid' }])
    expect(read(cut).reply.provider).toMatchObject({ content: [{ name: 'roll', input: {} }] })
  })

  it.each([
    ['max_tokens', 'length'],
    ['model_context_window_exceeded', 'length'],
    ['refusal', 'content_filter'],
  ])('that stops for %s after words says so: %s', (reason, by) => {
    const cut = read([start, begin(0, { type: 'text', text: 'Well' }), ...stop(reason)])
    expect(cut.deltas.map(({ type }) => type)).toEqual(['text', 'ended', 'usage'])
    expect(cut.reply).toMatchObject({ content: 'Well', ended: by })
    expect(read(recorded).reply).not.toHaveProperty('ended')
  })

  it('that is refused fails before its words, and amid a call that nobody is to carry out', () => {
    expect(codeOf([start, ...stop('refusal')])).toBe('MODEL_REFUSED')
    const amid = [
      ...[start, begin(0, { type: 'text', text: 'Well' })],
      begin(1, { type: 'tool_use', id: 'toolu_1', name: 'roll', input: {} }),
      ...stop('refusal'),
    ]
    expect(codeOf(amid)).toBe('MODEL_REFUSED')
    expect(codeOf([start, ...stop('model_context_window_exceeded')])).toBe('MODEL_CONTEXT_TOO_LONG')
  })

  it('with counts that shrink or are none is counted as far as it can be', () => {
    const shrinks = [start, ...stop('end_turn', 50).slice(0, 1), ...stop('end_turn', 20)]
    expect(read(shrinks).reply.usage?.outputTokens).toBe(50)
    const none = {
      type: 'message_start',
      message: { usage: { input_tokens: -1, output_tokens: 'x' } },
    }
    expect(read([none, { type: 'message_stop' }]).deltas).toEqual([])
  })

  it('of a server that sends anything breaks nothing', () => {
    const strange = [
      null,
      {},
      { type: 'message_start', message: null },
      { type: 'content_block_start', content_block: null },
      { type: 'content_block_delta', index: 9, delta: { text: 'lost' } },
      { type: 'content_block_delta', delta: null },
      { type: 'message_delta', delta: null, usage: null },
      { type: 'message_stop' },
    ]
    expect(read(strange).deltas).toEqual([])
  })
})

describe('the address', () => {
  it.each([
    [undefined, 'https://api.anthropic.com/v1/messages'],
    ['https://api.anthropic.com/v1/', 'https://api.anthropic.com/v1/messages'],
    ['https://api.anthropic.com/v1/messages', 'https://api.anthropic.com/v1/messages'],
    ['http://proxy.example/anthropic', 'http://proxy.example/anthropic/v1/messages'],
  ])('%s is continued to %s', (baseUrl, url) => {
    expect(addressOf({ baseUrl }, '/messages').href).toBe(url)
  })

  it('that is none is told by its variable', () => {
    expect(() => addressOf({ baseUrl: 'ftp://x' }, '/messages')).toThrow('ANTHROPIC_BASE_URL')
    expect(() => addressOf({ baseUrl: 'nowhere' }, '/messages')).toThrow('ANTHROPIC_BASE_URL')
  })
})
