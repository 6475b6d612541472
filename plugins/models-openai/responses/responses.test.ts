import { describe, expect, it } from 'vitest'
import { Assembly, type Message, type ModelRequest } from '#core/models'
import { fakeProvider, type FakeProvider } from '#core/testing'
import { changeOf, effortFor } from './changes.ts'
import { kept } from './output.ts'
import { EventReader } from './reader.ts'
import { ResponsesModel } from './model.ts'

const note = {
  name: 'note',
  description: 'Notes a word.',
  parameters: {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    properties: { word: { type: 'string' } },
  },
}

function modelAt({ url, key }: FakeProvider) {
  return new ResponsesModel({
    id: 'openai/fake-large',
    name: 'fake-large',
    url: new URL('/v1/responses', url),
    headers: { authorization: `Bearer ${key}` },
    secret: key,
    variables: { key: 'OPENAI_API_KEY', address: 'OPENAI_BASE_URL' },
  })
}

const hello = { role: 'user', id: 'u', content: 'Hello.' } satisfies Message

async function say(model: ResponsesModel, request: Partial<ModelRequest> = {}) {
  const gathered = new Assembly()
  const { signal } = new AbortController()
  const asked = { messages: [hello], tools: [], signal, ...request }
  await model.streamTo(asked, (delta) => gathered.add(delta))
  return gathered.reply()
}

function answered(model: ResponsesModel, reply: Awaited<ReturnType<typeof say>>): Message {
  const { content, toolCalls, provider } = reply
  const data: unknown = provider && JSON.parse(JSON.stringify(provider))
  const back = data === undefined ? {} : { provider: { by: model.origin, data } }
  return { role: 'assistant', id: 'a', content, toolCalls, ...back }
}

const results = ({ toolCalls }: Awaited<ReturnType<typeof say>>): Message[] =>
  toolCalls.map(({ id, name }) => ({
    role: 'tool',
    id: `r${id}`,
    toolCallId: id,
    name,
    content: 'Noted.',
  }))

describe('a request', () => {
  it('asks for sealed thoughts, leaves nothing at the server, and makes no field of a tool required', async () => {
    await using provider = await fakeProvider()
    await say(modelAt(provider), {
      messages: [{ role: 'system', content: 'Be brief.' }, hello],
      tools: [note],
    })
    expect(provider.requests[0]?.body).toEqual({
      model: 'fake-large',
      stream: true,
      store: false,
      include: ['reasoning.encrypted_content'],
      input: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'Hello.' },
      ],
      tools: [
        {
          type: 'function',
          name: 'note',
          description: 'Notes a word.',
          parameters: { type: 'object', properties: { word: { type: 'string' } } },
          strict: false,
        },
      ],
    })
    expect(provider.requests[0]?.headers.authorization).toBe(`Bearer ${provider.key}`)
  })

  it('has its settings in the words of the wire, and no field of the operator over what makes it up', async () => {
    await using provider = await fakeProvider()
    await say(modelAt(provider), {
      tools: [note],
      settings: {
        temperature: 0.5,
        topP: 0.9,
        maxOutputTokens: 3,
        reasoning: 'max',
        toolChoice: { tool: 'note' },
        object: { name: 'word', schema: { type: 'object' } },
        body: { service_tier: 'flex', input: 'mine', store: true },
      },
    })
    expect(provider.requests[0]?.body).toMatchObject({
      store: false,
      input: [{ role: 'user', content: 'Hello.' }],
      temperature: 0.5,
      top_p: 0.9,
      max_output_tokens: 16,
      reasoning: { effort: 'xhigh', summary: 'auto' },
      tool_choice: { type: 'function', name: 'note' },
      text: { format: { type: 'json_schema', name: 'word', schema: { type: 'object' } } },
      service_tier: 'flex',
    })
  })

  it('sends a file as such, and names a sound that the wire does not take', async () => {
    await using provider = await fakeProvider()
    await say(modelAt(provider), {
      messages: [
        {
          role: 'user',
          id: 'u',
          content: 'Read.',
          parts: [
            { type: 'file', mediaType: 'application/pdf', name: 'a.pdf', bytes: 4, file: 'f1' },
            { type: 'audio', mediaType: 'audio/wav', name: 'b.wav', bytes: 4, file: 'f2' },
          ],
        },
      ],
      file: async () => new TextEncoder().encode('%PDF'),
    })
    expect(provider.requests[0]?.body.input).toEqual([
      {
        role: 'user',
        content: [
          { type: 'input_text', text: 'Read.' },
          {
            type: 'input_file',
            filename: 'a.pdf',
            file_data: 'data:application/pdf;base64,JVBERg==',
          },
          { type: 'input_text', text: '[audio "b.wav": this model reads no sound]' },
        ],
      },
    ])
  })
})

describe('what the server wants back', () => {
  it('goes through a turn of three calls, and another process ends the turn', async () => {
    await using provider = await fakeProvider()
    const call = (word: string) => ({ name: 'note', args: { word } })
    provider.answer(
      { reasoning: ['One.', 'Two.'], text: 'I note.', calls: [call('red'), call('blue')] },
      { reasoning: 'One is left.', calls: [call('green')] },
      { text: 'Noted.' },
    )
    const messages: Message[] = [hello]
    for (let nth = 0; nth < 3; nth++) {
      // Each call is made by a model that was opened anew, as after a restart.
      const model = modelAt(provider)
      const read: Message[] = JSON.parse(JSON.stringify(messages))
      const reply = await say(model, { messages: read, tools: [note] })
      messages.push(answered(model, reply), ...results(reply))
      if (nth === 2) expect(reply.content).toBe('Noted.')
    }
    expect(provider.refusals).toEqual([])
    const types = (provider.requests[2]?.body.input as { type?: string }[]).map(({ type }) => type)
    expect(types).toEqual([
      undefined,
      ...['reasoning', 'reasoning', 'message', 'function_call', 'function_call'],
      ...['function_call_output', 'function_call_output'],
      ...['reasoning', 'function_call', 'function_call_output'],
    ])
  })

  it('is nothing for words alone, and all of an answer whose message has a phase', () => {
    const words = { type: 'message', id: 'm', content: [] }
    expect(kept([words])).toBeUndefined()
    expect(kept([{ ...words, phase: 'final_answer' }])).toEqual({
      output: [{ ...words, phase: 'final_answer' }],
    })
  })

  it('leaves out thoughts that are not sealed, and then the ids by which the server would miss them', () => {
    const call = { type: 'function_call', id: 'fc', call_id: 'c', name: 'note', arguments: '{}' }
    const sealed = { type: 'reasoning', id: 'r1', summary: [], encrypted_content: 'x' }
    expect(kept([sealed, { type: 'reasoning', id: 'r2', summary: [] }, call])).toEqual({
      output: [sealed, { type: 'function_call', call_id: 'c', name: 'note', arguments: '{}' }],
    })
  })

  it('has no thoughts that led to nothing, as in an answer that was cut off', () => {
    const sealed = { type: 'reasoning', id: 'r1', summary: [], encrypted_content: 'x' }
    expect(kept([sealed])).toBeUndefined()
  })

  it('does not go back where the calls are others now, nor what has another form', async () => {
    await using provider = await fakeProvider({ strict: false })
    const model = modelAt(provider)
    const toolCalls = [{ id: 'Ab3dEf7hJ', name: 'no tool at all', args: 'no object' }]
    for (const data of [{ output: [] }, { output: 'x' }, null, { output: [null] }])
      await say(model, {
        messages: [
          hello,
          {
            role: 'assistant',
            id: 'a',
            content: 'I try.',
            toolCalls,
            provider: { by: model.origin, data },
          },
          {
            role: 'tool',
            id: 't',
            toolCallId: 'Ab3dEf7hJ',
            name: 'no tool at all',
            content: 'No.',
          },
        ],
      })
    for (const { body } of provider.requests)
      expect(body.input).toEqual([
        { role: 'user', content: 'Hello.' },
        { role: 'assistant', content: 'I try.' },
        { type: 'function_call', call_id: 'Ab3dEf7hJ', name: 'no_tool_at_all', arguments: '{}' },
        { type: 'function_call_output', call_id: 'Ab3dEf7hJ', output: 'No.' },
      ])
  })
})

describe('what a server refuses by name', () => {
  it('is changed, asked again once, and remembered', async () => {
    await using provider = await fakeProvider({ refuses: ['temperature'], maxOutputTokens: 100 })
    const model = modelAt(provider)
    const settings = { temperature: 1, maxOutputTokens: 1000 }
    await say(model, { settings })
    await say(model, { settings })
    expect(provider.refusals).toHaveLength(2)
    expect(provider.requests).toHaveLength(4)
    expect(provider.requests.at(-1)?.body).toMatchObject({ max_output_tokens: 100 })
    expect(provider.requests.at(-1)?.body).not.toHaveProperty('temperature')
  })

  it.each([
    [
      "Unsupported value: 'xhigh' is not supported with the 'm' model. Supported values are: 'low' and 'high'.",
      ['effort xhigh', 'high'],
      'reasoning.effort',
    ],
    [
      "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
      ['effort', false],
    ],
    ['Your organization must be verified to generate reasoning summaries.', ['summary', false]],
    ['Encrypted content is not supported with this model.', ['include', false]],
    ["Unknown parameter: 'text.format'.", ['text.format', false]],
    ['The encrypted content for item rs_1 could not be verified.', undefined],
    ['No tool output found for function call call_1.', undefined],
  ] as const)('%s', (message, change, param: string | null = null) => {
    const text = JSON.stringify({ error: { message, param } })
    expect(changeOf({ status: 400, text })).toEqual(change)
  })

  it('is asked for in the next word that every server may know', () => {
    expect(effortFor('none', new Map([['effort none', 'minimal']]))).toBe('minimal')
    const both = new Map([
      ['effort none', 'minimal'],
      ['effort minimal', 'low'],
    ])
    expect(effortFor('none', both)).toBe('low')
    expect(effortFor('high', both)).toBe('high')
    expect(effortFor('low', new Map([['effort', false]]))).toBeUndefined()
  })
})

/** What a reader gives for some events. */
function read(...events: readonly object[]) {
  const reader = new EventReader({
    model: 'm',
    host: 'h',
    settings: { key: 'KEY', address: 'ADDRESS' },
  })
  const gathered = new Assembly()
  for (const event of events) {
    const onto: Parameters<EventReader['take']>[1] = []
    reader.take(event, onto)
    onto.forEach((delta) => gathered.add(delta))
  }
  reader.last().forEach((delta) => gathered.add(delta))
  return { reader, reply: gathered.reply() }
}

describe('an answer', () => {
  const call = { type: 'function_call', call_id: 'c', name: 'note', arguments: '{"word":"red"}' }
  const words = { type: 'message', content: [{ type: 'output_text', text: 'Hello.' }] }
  const usage = {
    input_tokens: 10,
    output_tokens: 5,
    input_tokens_details: { cached_tokens: 4 },
    output_tokens_details: { reasoning_tokens: 99 },
  }

  it('is read whole from a server that streams no pieces of it', () => {
    const thought = { type: 'reasoning', summary: [{ type: 'summary_text', text: 'Well.' }] }
    const items = [thought, words, call]
    const inEvents = read(
      ...items.map((item, output_index) => ({
        type: 'response.output_item.done',
        output_index,
        item,
      })),
      { type: 'response.completed', response: { usage } },
    )
    const atTheEnd = read({ type: 'response.completed', response: { output: items, usage } })
    const unstreamed = read({ object: 'response', status: 'completed', output: items, usage })
    for (const { reader, reply } of [inEvents, atTheEnd, unstreamed]) {
      expect(reader.done).toBe(true)
      expect(reply).toMatchObject({
        content: 'Hello.',
        reasoning: 'Well.',
        toolCalls: [{ name: 'note', args: { word: 'red' } }],
        usage: { inputTokens: 10, outputTokens: 5, cachedTokens: 4, reasoningTokens: 5 },
      })
    }
  })

  it('has a refusal as words', () => {
    const { reply } = read(
      { type: 'response.refusal.delta', output_index: 0, delta: 'I cannot ' },
      { type: 'response.refusal.delta', output_index: 0, delta: 'do this.' },
      { type: 'response.completed', response: {} },
    )
    expect(reply.content).toBe('I cannot do this.')
    expect(reply.usage).toBeUndefined()
  })

  it.each([
    [
      'a filter before the first word',
      {
        type: 'response.incomplete',
        response: { incomplete_details: { reason: 'content_filter' } },
      },
      'MODEL_REFUSED',
    ],
    [
      'a filter amid a call, which nobody is to carry out',
      {
        type: 'response.incomplete',
        response: {
          output: [
            { type: 'message', content: [{ type: 'output_text', text: 'I look.' }] },
            { type: 'function_call', call_id: 'c1', name: 'look', arguments: '{"wh' },
          ],
          incomplete_details: { reason: 'content_filter' },
        },
      },
      'MODEL_REFUSED',
    ],
    [
      'a failure',
      {
        type: 'response.failed',
        response: { error: { code: 'rate_limit_exceeded', message: 'Too fast.' } },
      },
      'MODEL_RATE_LIMITED',
    ],
    ['an error', { type: 'error', code: 'server_error', message: 'Well.' }, 'MODEL_FAILED'],
    [
      'too long a conversation',
      { type: 'error', code: 'context_length_exceeded', message: 'Too long.' },
      'MODEL_CONTEXT_TOO_LONG',
    ],
  ])('fails by its code at %s', (_, event, code) => {
    expect(() => read(event)).toThrow(expect.objectContaining({ code }))
  })

  it.each([
    ['content_filter', 'content_filter'],
    ['max_output_tokens', 'length'],
  ])('that %s ends after words is told as it is, and how it ended: %s', (reason, ended) => {
    const { reply } = read(
      { type: 'response.output_text.delta', output_index: 0, delta: 'One two' },
      { type: 'response.incomplete', response: { incomplete_details: { reason } } },
    )
    expect(reply).toMatchObject({ content: 'One two', ended })
  })

  it('survives fields of every other type', () => {
    const types = [
      'response.output_text.delta',
      'response.reasoning_summary_part.added',
      'response.output_item.added',
      'response.function_call_arguments.delta',
      'response.output_item.done',
      'response.completed',
    ]
    for (const type of types)
      for (const value of [null, 5, 'x', [], {}, [null], { output: [null, 5], usage: 7 }])
        expect(() =>
          read({ type, delta: value, item: value, response: value, output_index: value }),
        ).not.toThrow()
  })
})

describe('thoughts that the server cannot unseal any more', () => {
  it('are left out of their conversation from then on, and of no other', async () => {
    await using before = await fakeProvider()
    await using now = await fakeProvider()
    const model = modelAt(now)
    const thoughtAt = async (asked: FakeProvider, word: string): Promise<Message[]> => {
      asked.answer({ reasoning: word, calls: [{ name: 'note', args: { word } }] })
      const settings = { reasoning: 'low' } as const
      const reply = await say(modelAt(asked), { tools: [note], settings })
      const { content, toolCalls, provider: data } = reply
      const id = toolCalls[0]?.id ?? ''
      return [
        hello,
        { role: 'assistant', id: word, content, toolCalls, provider: { by: model.origin, data } },
        { role: 'tool', id: `${word} noted`, toolCallId: id, name: 'note', content: 'noted' },
      ]
    }
    const old = await thoughtAt(before, 'red')
    now.answer('Noted.')
    expect((await say(model, { messages: old, tools: [note] })).content).toBe('Noted.')
    expect(now.refusals.length).toBe(1)
    const sent = JSON.stringify(now.requests.at(-1)?.body.input)
    expect(sent).not.toContain('encrypted_content')
    expect(sent).toContain('function_call_output')
    // The conversation goes on without another refusal, and one whose thoughts can be read keeps them.
    await say(model, { messages: [...old, { ...hello, id: 'again' }], tools: [note] })
    const fresh = await thoughtAt(now, 'blue')
    await say(model, { messages: fresh, tools: [note] })
    expect(now.refusals.length).toBe(1)
    expect(JSON.stringify(now.requests.at(-1)?.body.input)).toContain('encrypted_content')
  })
})
