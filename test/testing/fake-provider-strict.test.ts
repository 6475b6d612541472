import { expect, it } from 'vitest'
import { fakeProvider, type FakeProvider, type ProviderRules } from '#core/testing'

// What each wire refuses, in the words of its real server: from a request that it takes, one thing is changed.

type Body = Record<string, unknown>

const png =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

/** An address, and a request of two steps that its server takes. */
interface Right {
  readonly path: string
  readonly body: Body
  /** Two lines that make a call without its result. */
  readonly lines: string
}

const right = {
  messages: {
    path: '/v1/messages',
    lines: 'messages',
    body: {
      model: 'm',
      max_tokens: 2000,
      stream: true,
      tools: [{ name: 'note', input_schema: { type: 'object' } }],
      messages: [
        { role: 'user', content: 'Hello.' },
        { role: 'assistant', content: [{ type: 'tool_use', id: 't1', name: 'note', input: {} }] },
        {
          role: 'user',
          content: [{ type: 'tool_result', tool_use_id: 't1', content: 'Noted.' }],
        },
      ],
    },
  },
  responses: {
    path: '/v1/responses',
    lines: 'input',
    body: {
      model: 'm',
      stream: true,
      store: false,
      tools: [{ type: 'function', name: 'note', parameters: { type: 'object' } }],
      input: [
        { role: 'user', content: 'Hello.' },
        { type: 'function_call', call_id: 'c1', name: 'note', arguments: '{}' },
        { type: 'function_call_output', call_id: 'c1', output: 'Noted.' },
      ],
    },
  },
  generateContent: {
    path: '/v1beta/models/m:streamGenerateContent?alt=sse',
    lines: 'contents',
    body: {
      tools: [{ functionDeclarations: [{ name: 'note', parameters: { type: 'object' } }] }],
      contents: [
        { role: 'user', parts: [{ text: 'Hello.' }] },
        {
          role: 'model',
          parts: [
            {
              functionCall: { name: 'note', args: {} },
              thoughtSignature: 'skip_thought_signature_validator',
            },
          ],
        },
        {
          role: 'user',
          parts: [{ functionResponse: { name: 'note', response: { noted: true } } }],
        },
      ],
    },
  },
  chat: {
    path: '/v1/chat/completions',
    lines: 'messages',
    body: {
      model: 'm',
      stream: true,
      tools: [{ type: 'function', function: { name: 'note', parameters: {} } }],
      messages: [
        { role: 'user', content: 'Hello.' },
        {
          role: 'assistant',
          content: null,
          tool_calls: [{ id: 'c1', type: 'function', function: { name: 'note', arguments: '{}' } }],
        },
        { role: 'tool', tool_call_id: 'c1', content: 'Noted.' },
      ],
    },
  },
  ollama: {
    path: '/api/chat',
    lines: 'messages',
    body: {
      model: 'm',
      tools: [],
      messages: [
        { role: 'user', content: 'Hello.' },
        {
          role: 'assistant',
          content: '',
          tool_calls: [{ function: { name: 'note', arguments: {} } }],
        },
        { role: 'tool', tool_name: 'note', content: 'Noted.' },
      ],
    },
  },
} satisfies Record<string, Right>

type Wire = keyof typeof right
const wires = Object.keys(right) as Wire[]

async function post(provider: FakeProvider, path: string, body: unknown, headers: Body = {}) {
  const response = await fetch(`${provider.url}${path}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'x-api-key': provider.key,
      'x-goog-api-key': provider.key,
      authorization: `Bearer ${provider.key}`,
      'anthropic-version': '2023-06-01',
      ...Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)])),
    },
    body: JSON.stringify(body),
  })
  return { status: response.status, text: await response.text() }
}

/** The right request of a wire with one place of its body changed; `undefined` takes the place out. */
function changed(wire: Wire, place: string, value: unknown): Body {
  const body: Body = structuredClone(right[wire].body)
  const names = place.split('.')
  const last = names.pop() ?? ''
  let at: any = body
  for (const name of names) at = at[name] ??= {}
  if (value === undefined && Array.isArray(at)) at.splice(Number(last), 1)
  else at[last] = value
  return body
}

it.each(wires)('%s takes a request that is right', async (wire) => {
  await using provider = await fakeProvider()
  const { status, text } = await post(provider, right[wire].path, right[wire].body)
  expect(text).toContain('Hello.')
  expect(status).toBe(200)
})

const picture = (mediaType: string, data: string) => [
  { type: 'image', source: { type: 'base64', media_type: mediaType, data } },
]

const refused: readonly (readonly [
  wire: Wire,
  place: string,
  value: unknown,
  message: string | RegExp,
  rules?: ProviderRules,
])[] = [
  ['messages', 'max_tokens', undefined, 'max_tokens: Field required'],
  [
    'messages',
    'max_tokens',
    9000,
    'max_tokens: 9000 > 8192, which is the maximum allowed number of output tokens for m',
    { maxOutputTokens: 8192 },
  ],
  ['messages', 'messages.2', undefined, /^messages\.1: `tool_use` ids were found without/],
  ['messages', 'messages.1', undefined, /unexpected `tool_use_id` found.*: t1\. Each/],
  ['messages', 'messages.0', undefined, 'messages: first message must use the "user" role'],
  [
    'messages',
    'messages.0.role',
    'system',
    "messages.0.role: Input should be 'user' or 'assistant'",
  ],
  ['messages', 'messages.0.content', '', 'messages: text content blocks must be non-empty'],
  ['messages', 'messages.1.content.0.name', 'a b', /tool_use\.name: String should match pattern/],
  ['messages', 'messages.1.content.0.id', 'a:b', /tool_use\.id: String should match pattern/],
  ['messages', 'messages.1.content.0.input', '{}', /input: Input should be a valid dictionary/],
  [
    'messages',
    'messages.2.content.0.tool_use_id',
    't2',
    /without `tool_result` blocks immediately after: t1\. Each/,
  ],
  [
    'messages',
    'messages.3',
    { role: 'assistant', content: 'Well' },
    /does not support assistant message prefill/,
  ],
  [
    'messages',
    'messages.3',
    { role: 'user', content: 'Well?' },
    /roles must alternate.*multiple "user" roles in a row/,
    { alternates: true },
  ],
  [
    'messages',
    'messages.2.content',
    [
      { type: 'text', text: 'Here it is:' },
      { type: 'tool_result', tool_use_id: 't1', content: 'Noted.' },
    ],
    /^messages\.1: `tool_use` ids were found without `tool_result` blocks immediately after: t1\./,
  ],
  [
    'messages',
    'messages.0.content',
    picture('image/jpeg', png),
    /image\/jpeg media type, but the image appears to be a image\/png/,
  ],
  ['messages', 'messages.0.content', picture('image/png', '%%'), 'Could not process image'],
  [
    'messages',
    'thinking',
    { type: 'adaptive' },
    'adaptive thinking is not supported on this model',
    { refuses: ['adaptive'] },
  ],
  [
    'messages',
    'thinking',
    { type: 'enabled', budget_tokens: 1500 },
    /^"thinking.type.enabled" is not supported/,
    { refuses: ['enabled'] },
  ],
  [
    'messages',
    'thinking',
    { type: 'enabled', budget_tokens: 3000 },
    /must be greater than `thinking.budget_tokens`/,
  ],
  ['messages', 'thinking', { type: 'enabled', budget_tokens: 20 }, /greater than or equal to 1024/],
  [
    'messages',
    'thinking',
    { type: 'enabled', budget_tokens: 1500 },
    /^messages\.1\.content\.0\.type: Expected `thinking`/,
  ],
  ['messages', 'temperature', 0.2, /`temperature` is deprecated/, { refuses: ['temperature'] }],
  ['messages', 'tool_choice', { type: 'tool', name: 'other' }, /Tool 'other' not found/],

  ['responses', 'input.2', undefined, 'No tool output found for function call c1.'],
  [
    'responses',
    'input.1',
    undefined,
    'No tool call found for function call output with call_id c1.',
  ],
  [
    'responses',
    'input.1.name',
    'a b',
    /^Invalid 'input\[1\]\.name': string does not match pattern/,
  ],
  ['responses', 'input.1.arguments', {}, /expected a string, but got an object instead/],
  [
    'responses',
    'max_output_tokens',
    9000,
    /Expected a value <= 8192, but got 9000/,
    { maxOutputTokens: 8192 },
  ],
  ['responses', 'max_output_tokens', 5, /Expected a value >= 16, but got 5/],
  [
    'responses',
    'temperature',
    0.2,
    /^Unsupported parameter: 'temperature'/,
    { refuses: ['temperature'] },
  ],
  [
    'responses',
    'input.3',
    { type: 'reasoning', id: 'rs_1' },
    "Missing required parameter: 'input[3].summary'.",
  ],
  [
    'responses',
    'input.3',
    { type: 'reasoning', id: 'rs_1', summary: [] },
    /^Item with id 'rs_1' not found\. Items are not persisted/,
  ],
  [
    'responses',
    'input.3',
    { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'gAAA' },
    /^The encrypted content for item rs_1 could not be verified/,
  ],

  ['generateContent', 'contents.2', undefined, /number of function response parts is equal to/],
  [
    'generateContent',
    'contents.1',
    undefined,
    /function response turn comes immediately after a function call turn/,
  ],
  [
    'generateContent',
    'contents.0',
    undefined,
    /function call turn comes immediately after a user turn/,
  ],
  ['generateContent', 'contents.0.role', 'assistant', 'Please use a valid role: user, model.'],
  [
    'generateContent',
    'contents.0.parts',
    [],
    /contents\[0\]\.parts: contents\.parts must not be empty/,
  ],
  ['generateContent', 'contents.2.parts.0.functionResponse.name', 'other', /"other" answers none/],
  [
    'generateContent',
    'contents.2.parts.0.functionResponse.response',
    'Noted.',
    /^Invalid value at 'contents\[2\]/,
  ],
  [
    'generateContent',
    'contents.1.parts.0.thoughtSignature',
    'Zm9v',
    'Corrupted thought signature.',
  ],
  [
    'generateContent',
    'contents.1.parts.0.thoughtSignature',
    undefined,
    /^Function call is missing a thought_signature.*`default_api:note` , position 2\./,
  ],
  [
    'generateContent',
    'tools.0.functionDeclarations.0.parameters.$schema',
    'x',
    /^Invalid JSON payload received\. Unknown name "\$schema"/,
  ],
  [
    'generateContent',
    'generationConfig.maxOutputTokens',
    9000,
    /value of 9000 but the supported range/,
    { maxOutputTokens: 8192 },
  ],

  ['chat', 'messages.2', undefined, /did not have response messages: c1$/],
  [
    'chat',
    'messages.1',
    undefined,
    /messages with role 'tool' must be a response to a preceeding message/,
  ],
  ['chat', 'messages.2.tool_call_id', 'c2', /'tool_call_id' of 'c2' not found/],
  ['chat', 'messages.1.tool_calls.0.function.name', 'a b', /does not match pattern/],
  [
    'chat',
    'messages.1.tool_calls.0.function.arguments',
    {},
    /expected a string, but got an object/,
  ],
  ['chat', 'messages.0.content', null, /expected a string, got null/],
  ['chat', 'tools', [], /^Invalid 'tools': empty array/],
  [
    'chat',
    'max_tokens',
    9000,
    /^max_tokens is too large: 9000\. This model supports at most 8192/,
    { maxOutputTokens: 8192 },
  ],
  [
    'chat',
    'stream_options',
    { include_usage: true },
    "Unknown parameter: 'stream_options'.",
    { refuses: ['stream_options'] },
  ],
  ['chat', 'temperature', 0.2, /'temperature' does not support 0\.2/, { refuses: ['temperature'] }],
  [
    'chat',
    'messages.1.reasoning_content',
    'Hm',
    /^The reasoning_content is an intermediate result/,
    { refuses: ['reasoning_content'] },
  ],
  [
    'chat',
    'response_format',
    { type: 'json_schema' },
    /'json_schema' is not supported/,
    { refuses: ['object'] },
  ],
  [
    'chat',
    'messages.3',
    { role: 'tool', tool_call_id: 'c1', content: 'x' },
    /./,
    { alternates: true, refuses: ['tools'] },
  ],
  [
    'chat',
    'messages.0.role',
    'assistant',
    /^Conversation roles must alternate/,
    { alternates: true },
  ],
  ['chat', 'stream', false, /send "stream": true/],

  ['ollama', 'messages.2', undefined, 'The call of "note" has no result.'],
  ['ollama', 'messages.1', undefined, 'A result of "note" follows no call of it.'],
  ['ollama', 'messages.2.tool_name', 'other', 'A result of "other" follows no call of it.'],
  ['ollama', 'messages.0.content', [{ type: 'text' }], /cannot unmarshal array/],
  ['ollama', 'messages.1.tool_calls.0.function.arguments', '{}', /cannot unmarshal string/],
  ['ollama', 'tools', [{}], /does not support tools$/, { refuses: ['tools'] }],
]

const rows = refused.map(([wire, place, value, message, rules]) => {
  return { wire, place, value, message, rules, shown: JSON.stringify(value) }
})

it.each(rows)('$wire refuses $place as $shown', async ({ wire, place, value, message, rules }) => {
  await using provider = await fakeProvider(rules)
  const { status, text } = await post(provider, right[wire].path, changed(wire, place, value))
  expect(status).toBe(400)
  expect(provider.refusals).toEqual([
    typeof message === 'string' ? message : expect.stringMatching(message),
  ])
  expect(text).toContain(JSON.stringify(provider.refusals[0]).slice(1, 30))
  expect(provider.requests).toHaveLength(1)
})

it.each(rows)('$wire that is not strict takes $place as $shown', async (row) => {
  const { wire, place, value, rules } = row
  await using provider = await fakeProvider({ ...rules, strict: false })
  const { status } = await post(provider, right[wire].path, changed(wire, place, value))
  expect(status).toBe(200)
})

it('refuses a forced tool beside thinking that was switched on by hand', async () => {
  await using provider = await fakeProvider()
  const body = {
    ...changed('messages', 'tool_choice', { type: 'any' }),
    thinking: { type: 'enabled', budget_tokens: 1500 },
  }
  await post(provider, '/v1/messages', body)
  expect(provider.refusals).toEqual([
    'Thinking may not be enabled when tool_choice forces tool use.',
  ])
})

it.each([
  ['messages', /^prompt is too long: \d+ tokens > 50 maximum$/],
  ['responses', /^Your input exceeds the context window of this model/],
  [
    'generateContent',
    /^The input token count \(\d+\) exceeds the maximum number of tokens allowed \(50\)/,
  ],
  ['chat', /maximum context length is 50 tokens\. However, your messages resulted in \d+ tokens/],
] as const)(
  '%s refuses what is longer than its window, with the number where the real one says it',
  async (wire, words) => {
    await using provider = await fakeProvider({ window: 50 })
    expect((await post(provider, right[wire].path, right[wire].body)).status).toBe(400)
    expect(provider.refusals).toEqual([expect.stringMatching(words)])
  },
)

it('cuts silently what is longer than the window that Ollama was told, as the real one does', async () => {
  await using provider = await fakeProvider()
  const words = { role: 'user', content: 'again '.repeat(20_000) }
  const { text } = await post(provider, '/api/chat', { model: 'm', messages: [words] })
  expect(text).toContain('"prompt_eval_count":4096,')
  const wide = { model: 'm', messages: [words], options: { num_ctx: 20_000 } }
  expect((await post(provider, '/api/chat', wide)).text).toContain('"prompt_eval_count":20000,')
})

it.each(wires)('%s: no key, a wrong key and an unknown model are refused', async (wire) => {
  await using provider = await fakeProvider({ models: ['m'] })
  const { path, body } = right[wire]
  const wrong = { 'x-api-key': 'k', 'x-goog-api-key': 'k', authorization: 'Bearer k' }
  const { status, text } = await post(provider, path, body, wrong)
  // A server in one's own house asks for none; one of the others answers 400.
  expect(status).toBe({ ollama: 200, generateContent: 400 }[wire as string] ?? 401)
  if (status !== 200) expect(text).toContain('k')
  const other = { ...body, model: 'x' }
  const unknown = await post(provider, path.replace('models/m:', 'models/x:'), other)
  expect(unknown.status).toBe(404)
})
