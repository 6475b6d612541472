import { describe, expect, it } from 'vitest'
import type { Changes, Message, ModelSettings, ToolSpec } from '#core/models'
import { changeOf } from './changes.ts'
import { MessagesRequests } from './requests.ts'

const origin = 'anthropic/x at api.anthropic.com'
const thought = { type: 'thinking', thinking: 'Dice first.', signature: 'c2ln' }
const mark = { cache_control: { type: 'ephemeral' } }
const tool = (name: string, parameters: ToolSpec['parameters'] = { type: 'object' }): ToolSpec => {
  return { name, description: 'Rolls.', parameters }
}
const user = (content: string): Message => ({ role: 'user', id: 'u', content })
const result = (toolCallId: string, content: string, failed?: true): Message => {
  return { role: 'tool', id: `r${toolCallId}`, toolCallId, name: 'roll', content, failed }
}
const own: Message = {
  role: 'assistant',
  id: 'a',
  content: 'I roll twice.',
  toolCalls: [
    { id: 'Ab3dEf7hJ', name: 'roll', args: { sides: 6 } },
    { id: 'Kb3dEf7hJ', name: 'roll', args: {} },
  ],
  provider: {
    by: origin,
    data: {
      content: [
        thought,
        { type: 'text', text: 'I roll ' },
        { type: 'tool_use', id: 'toolu_1', name: 'roll', input: { sides: 6 } },
        { type: 'redacted_thinking', data: 'b3BhcXVl' },
        { type: 'text', text: 'twice.' },
        { type: 'tool_use', id: 'toolu_2', name: 'roll', input: {} },
      ],
    },
  },
}

/** The body of a request as the server parses it. */
async function bodyOf(
  messages: readonly Message[],
  rest: { settings?: ModelSettings; tools?: readonly ToolSpec[]; changes?: Changes } = {},
): Promise<any> {
  const { settings, tools = [], changes = new Map() } = rest
  const request = { messages, tools, settings, signal: new AbortController().signal }
  const file = async () => new Uint8Array([1, 2, 3])
  return JSON.parse(await new MessagesRequests('x', origin).body({ ...request, file }, changes))
}

describe('a request to Messages', () => {
  it('gives the whole content back to the model that made it, and answers by its ids', async () => {
    const results = [result('Ab3dEf7hJ', '4'), result('Kb3dEf7hJ', 'No dice.', true)]
    const { messages } = await bodyOf([user('Roll'), own, ...results])
    expect(messages[1]).toEqual({
      role: 'assistant',
      content: own.role === 'assistant' && (own.provider?.data as { content: unknown }).content,
    })
    expect(messages[2]).toEqual({
      role: 'user',
      content: [
        { type: 'tool_result', tool_use_id: 'toolu_1', content: [{ type: 'text', text: '4' }] },
        {
          type: 'tool_result',
          tool_use_id: 'toolu_2',
          is_error: true,
          content: [{ type: 'text', text: 'No dice.' }],
          ...mark,
        },
      ],
    })
  })

  it('gives text and calls of another model, and nothing of its data', async () => {
    const foreign: Message = {
      ...own,
      provider: { by: 'other/model', data: { content: [{ type: 'thinking', secret: 'zzz' }] } },
    }
    const body = await bodyOf([user('Roll'), foreign, result('Ab3dEf7hJ', '4'), user('So?')])
    expect(JSON.stringify(body)).not.toContain('zzz')
    expect(body.messages[1].content).toEqual([
      { type: 'text', text: 'I roll twice.' },
      { type: 'tool_use', id: 'Ab3dEf7hJ', name: 'roll', input: { sides: 6 } },
      { type: 'tool_use', id: 'Kb3dEf7hJ', name: 'roll', input: {}, ...mark },
    ])
  })

  it('marks the tools, the system, the end of the last turn and the newest message', async () => {
    const said: Message = { role: 'assistant', id: 'b', content: 'It is 4.' }
    const body = await bodyOf(
      [{ role: 'system', content: 'Be brief.' }, user('Roll'), said, user('Again'), own],
      { tools: [tool('roll'), tool('bet')] },
    )
    expect(body.tools.map((each: object) => 'cache_control' in each)).toEqual([false, true])
    expect(body.system).toEqual([{ type: 'text', text: 'Be brief.', ...mark }])
    const marked = body.messages.map(({ content }: any) => 'cache_control' in content.at(-1))
    expect(marked).toEqual([false, true, false, true])
    const text = JSON.stringify(body)
    expect(text.split('cache_control')).toHaveLength(5)
    const unmarked = new Map([['cache_control', false]])
    expect(JSON.stringify(await bodyOf([user('Roll')], { changes: unmarked }))).not.toContain(
      'cache_control',
    )
  })

  it('ends no answer with thinking, which the provider refuses', async () => {
    const said = (content: string, blocks: object[]): Message => ({
      role: 'assistant',
      id: content,
      content,
      provider: { by: origin, data: { content: blocks } },
    })
    const words = { type: 'text', text: 'Hm.' }
    const trails = said('Hm.', [thought, words, thought, { type: 'redacted_thinking', data: 'x' }])
    const { messages } = await bodyOf([user('Hello'), trails, user('Go on')])
    expect(messages[1].content.map(({ type }: any) => type)).toEqual(['thinking', 'text'])
    const only = await bodyOf([user('Hello'), said('', [thought]), user('Well?')])
    expect(only.messages).toHaveLength(1)
    expect(only.messages[0].content).toMatchObject([{ text: 'Hello' }, { text: 'Well?' }])
  })

  it('writes a message anew when a layer has changed it', async () => {
    const requests = new MessagesRequests('x', origin)
    const { signal } = new AbortController()
    const changing = { role: 'user' as const, id: 'u', content: 'one' }
    const body = () => requests.body({ messages: [changing], tools: [], signal }, new Map())
    expect(await body()).toContain('one')
    changing.content = 'two'
    expect(await body()).toContain('two')
  })

  it('holds no text without a letter', async () => {
    const empty: Message = { role: 'assistant', id: 'd', content: ' ' }
    const { messages } = await bodyOf([user(''), empty, user('  '), own, result('Ab3dEf7hJ', '')])
    expect(messages.map(({ role }: any) => role)).toEqual(['user', 'assistant', 'user'])
    expect(messages[0].content.map(({ text }: any) => text)).toEqual(['(no words)', '(no words)'])
    expect(messages[2].content[0].content).toEqual([])
  })

  it('reads pictures and files of the user and of tools', async () => {
    const picture = { type: 'image', mediaType: 'image/png', bytes: 3, file: 'f1' } as const
    const page = { type: 'file', mediaType: 'application/pdf', name: 'a.pdf', bytes: 3, file: 'f2' }
    const asked: Message = { role: 'user', id: 'u', content: 'What?', parts: [picture] }
    const shown = { ...result('Ab3dEf7hJ', 'Here.'), parts: [{ ...page, type: 'file' as const }] }
    const { messages } = await bodyOf([asked, own, shown as Message])
    const source = (media_type: string) => ({ type: 'base64', media_type, data: 'AQID' })
    expect(messages[0].content[0]).toEqual({ type: 'image', source: source('image/png') })
    expect(messages[2].content[0].content[1]).toEqual({
      type: 'document',
      title: 'a.pdf',
      source: source('application/pdf'),
    })
  })

  it('puts alternatives at the root of a schema side by side', async () => {
    const either = {
      $schema: 'x',
      anyOf: [{ properties: { a: { type: 'string' } } }, { properties: { b: {} } }],
    }
    const { tools } = await bodyOf([user('Hi')], { tools: [tool('either', either)] })
    expect(tools[0].input_schema).toEqual({
      type: 'object',
      properties: { a: { type: 'string' }, b: {} },
    })
  })
})

describe('the settings of a request to Messages', () => {
  const set = async (
    settings: ModelSettings,
    changes: Changes = new Map(),
    said = [user('Hi')],
  ) => {
    const { model, stream, messages, system, tools, ...fields } = await bodyOf(said, {
      settings,
      changes,
      tools: [tool('roll')],
    })
    expect({ model, stream }).toEqual({ model: 'x', stream: true })
    return fields
  }
  const byHand: Changes = new Map([['thinking', 'enabled']])

  it('send a length and nothing else where nothing is set', async () => {
    expect(await set({})).toEqual({ max_tokens: 32_000 })
    expect(await set({ maxOutputTokens: 500, temperature: 0.2, topP: 0.9 })).toEqual({
      max_tokens: 500,
      temperature: 0.2,
      top_p: 0.9,
    })
    expect(await set({}, new Map([['max_tokens', 8192]]))).toEqual({ max_tokens: 8192 })
  })

  it('think adaptively with an effort, and without a temperature', async () => {
    expect(await set({ reasoning: 'medium', temperature: 0.2 })).toEqual({
      max_tokens: 32_000,
      thinking: { type: 'adaptive' },
      output_config: { effort: 'medium' },
    })
    expect((await set({ reasoning: 'max' }, new Map([['effort', 'high']]))).output_config).toEqual({
      effort: 'high',
    })
    expect(await set({ reasoning: 'none' })).toMatchObject({ thinking: { type: 'disabled' } })
  })

  it('think with a share of the length where the model knows no other way', async () => {
    const budget = async (reasoning: ModelSettings['reasoning'], maxOutputTokens?: number) =>
      (await set({ reasoning, maxOutputTokens }, byHand)).thinking
    expect(await budget('low')).toEqual({ type: 'enabled', budget_tokens: 6400 })
    expect(await budget('medium')).toEqual({ type: 'enabled', budget_tokens: 16_000 })
    expect(await budget('high')).toEqual({ type: 'enabled', budget_tokens: 25_600 })
    expect(await budget('low', 2000)).toEqual({ type: 'enabled', budget_tokens: 1024 })
    expect(await budget('low', 1024)).toBeUndefined()
  })

  it('do not think with a budget until a turn ends that another model began', async () => {
    const foreign: Message = { ...own, provider: undefined }
    const thinks = async (said: Message[]) =>
      (await set({ reasoning: 'low' }, byHand, said)).thinking !== undefined
    expect(await thinks([user('Roll'), foreign, result('Ab3dEf7hJ', '4')])).toBe(false)
    expect(await thinks([user('Roll'), foreign, result('Ab3dEf7hJ', '4'), own])).toBe(false)
    expect(await thinks([user('Roll'), own, result('Ab3dEf7hJ', '4')])).toBe(true)
    expect(await thinks([user('Roll'), foreign, result('Ab3dEf7hJ', '4'), user('So')])).toBe(true)
  })

  it('do not think where a tool is forced', async () => {
    const forced = await set({ reasoning: 'low', toolChoice: { tool: 'roll' } })
    expect(forced).toEqual({ max_tokens: 32_000, tool_choice: { type: 'tool', name: 'roll' } })
    expect(await set({ toolChoice: 'required' })).toMatchObject({ tool_choice: { type: 'any' } })
    expect(await set({ toolChoice: 'none' })).toMatchObject({ tool_choice: { type: 'none' } })
  })

  it('ask for an object by its schema, or by a call where the server has no mode for it', async () => {
    const schema = {
      $schema: 'x',
      type: 'object',
      properties: { minimum: { type: 'number', minimum: 2 } },
      required: ['minimum'],
    }
    const settings = { object: { name: 'o', schema } }
    expect((await set(settings)).output_config).toEqual({
      format: {
        type: 'json_schema',
        schema: {
          type: 'object',
          properties: { minimum: { type: 'number' } },
          required: ['minimum'],
          additionalProperties: false,
        },
      },
    })
    const changes: Changes = new Map([['format', false]])
    const thinking = { ...settings, reasoning: 'high' as const }
    const forced = await bodyOf([user('Hi')], { settings: thinking, changes })
    expect(forced.output_config).toBeUndefined()
    expect(forced.tools).toMatchObject([{ name: 'o', input_schema: { required: ['minimum'] } }])
    expect(forced.tool_choice).toEqual({ type: 'tool', name: 'o' })
    // The provider takes no forced call from a model that thinks.
    expect(forced.thinking).toBeUndefined()
  })

  it('merge fields of the operator, but never over the conversation', async () => {
    const body = { service_tier: 'auto', messages: [], stream: false, tools: [], max_tokens: 7 }
    expect(await set({ body })).toEqual({ max_tokens: 7, service_tier: 'auto' })
  })
})

describe('what a server refuses by name', () => {
  const change = (message: string, changes: Changes = new Map()) =>
    changeOf({ status: 400, text: JSON.stringify({ error: { message } }) }, changes)

  it.each([
    ['max_tokens: 32000 > 8192, which is the maximum allowed number', ['max_tokens', 8192]],
    ['adaptive thinking is not supported on this model', ['thinking', 'enabled']],
    [
      "thinking: Input tag 'adaptive' found using 'type' does not match any of the expected tags: 'disabled', 'enabled'",
      ['thinking', 'enabled'],
    ],
    ['thinking: Extra inputs are not permitted', ['thinking', 'off']],
    ['"thinking.type.disabled" is not supported for this model.', ['disabled', false]],
    ['This model does not support the effort parameter.', ['effort', false]],
    [
      "output_config.effort: Input should be 'low', 'medium' or 'high', not 'max'",
      ['effort', 'high'],
    ],
    ['output_config.format: Extra inputs are not permitted', ['format', false]],
    ['`temperature` is deprecated for this model.', ['temperature', false]],
    ['`temperature` and `top_p` cannot both be specified for this model.', ['top_p', false]],
    ['system.0.cache_control: Extra inputs are not permitted', ['cache_control', false]],
  ])('is changed: %s', (message, wanted) => {
    expect(change(message)).toEqual(wanted)
  })

  it('is not changed where no setting mends it', () => {
    expect(change('messages.1.content.0: Invalid `signature` in `thinking` block')).toBeUndefined()
    expect(change('prompt is too long: 9000 tokens > 8000 maximum')).toBeUndefined()
  })

  it('ends without thinking where the model takes neither way', () => {
    const enabled = new Map([['thinking', 'enabled']])
    const text =
      '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive".'
    expect(change(text, enabled)).toEqual(['thinking', 'off'])
  })
})
