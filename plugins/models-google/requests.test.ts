import { describe, expect, it } from 'vitest'
import type { Changes, Message, ModelSettings, ToolSpec } from '#core/models'
import { changeOf } from './changes.ts'
import { GenerateRequests } from './requests.ts'

const origin = 'google/x at generativelanguage.googleapis.com'
const skip = 'skip_thought_signature_validator'
const roll: ToolSpec = {
  name: 'roll',
  description: 'Rolls.',
  parameters: { $schema: 'x', type: 'object', additionalProperties: false },
}
const user = (content: string): Message => ({ role: 'user', id: 'u', content })
const result = (toolCallId: string, content: string, failed?: true): Message => {
  return { role: 'tool', id: `r${toolCallId}`, toolCallId, name: 'roll', content, failed }
}
const parts = [
  { text: 'I roll twice.' },
  { functionCall: { id: 'f1', name: 'roll', args: { sides: 6 } }, thoughtSignature: 'c2ln' },
  { functionCall: { name: 'roll', args: {} } },
]
const own: Message = {
  role: 'assistant',
  id: 'a',
  content: 'I roll twice.',
  toolCalls: [
    { id: 'Ab3dEf7hJ', name: 'roll', args: { sides: 6 } },
    { id: 'Kb3dEf7hJ', name: 'roll', args: 'no object' },
  ],
  provider: { by: origin, data: { parts } },
}

/** The body of a request as the server parses it. */
async function bodyOf(
  messages: readonly Message[],
  rest: { settings?: ModelSettings; tools?: readonly ToolSpec[]; changes?: Changes } = {},
  model = 'gemini-3-pro',
): Promise<any> {
  const { settings, tools = [], changes = new Map() } = rest
  const file = async () => new Uint8Array([1, 2, 3])
  const request = { messages, tools, settings, signal: new AbortController().signal, file }
  return JSON.parse(await new GenerateRequests(model, origin).body(request, changes))
}

describe('a request to generateContent', () => {
  it('gives every part back to the model that made it, and answers by its ids', async () => {
    const results = [result('Ab3dEf7hJ', '4'), result('Kb3dEf7hJ', 'No dice.', true)]
    const { contents } = await bodyOf([user('Roll'), own, ...results])
    expect(contents).toEqual([
      { role: 'user', parts: [{ text: 'Roll' }] },
      { role: 'model', parts },
      {
        role: 'user',
        parts: [
          { functionResponse: { id: 'f1', name: 'roll', response: { output: '4' } } },
          { functionResponse: { name: 'roll', response: { error: 'No dice.' } } },
        ],
      },
    ])
  })

  it('says of the first call of another model that it has no signature, and gives none of its data', async () => {
    const foreign: Message = {
      ...own,
      provider: { by: 'other/model', data: { parts: [{ text: 'zzz' }] } },
    }
    const body = await bodyOf([user('Roll'), foreign, result('Ab3dEf7hJ', '4')])
    expect(JSON.stringify(body)).not.toContain('zzz')
    expect(body.contents[1].parts).toEqual([
      { text: 'I roll twice.' },
      { functionCall: { name: 'roll', args: { sides: 6 } }, thoughtSignature: skip },
      { functionCall: { name: 'roll', args: {} } },
    ])
  })

  it('joins what stands in a row where the server wants turns', async () => {
    const said = [user('Roll'), own, result('Ab3dEf7hJ', '4'), user('So?'), user('Well?')]
    const roles = ({ contents }: any) => contents.map(({ role }: any) => role)
    expect(roles(await bodyOf(said))).toEqual(['user', 'model', 'user', 'user', 'user'])
    const changes: Changes = new Map([['alternate', true]])
    expect(roles(await bodyOf(said, { changes }))).toEqual(['user', 'model', 'user'])
  })

  it('writes a message anew when a layer has changed it, and one without words as such', async () => {
    const requests = new GenerateRequests('x', origin)
    const { signal } = new AbortController()
    const changing = { role: 'user' as const, id: 'u', content: 'one' }
    const body = () => requests.body({ messages: [changing], tools: [], signal }, new Map())
    expect(await body()).toContain('one')
    changing.content = ''
    expect(await body()).toContain('(no words)')
  })

  it('reads pictures, sounds and files, and those of tools after all results', async () => {
    const sound = { type: 'audio', mediaType: 'audio/wav', bytes: 3, file: 'f1' } as const
    const page = { type: 'file', mediaType: 'application/pdf', bytes: 3, file: 'f2' } as const
    const asked: Message = { role: 'user', id: 'u', content: 'What?', parts: [sound] }
    const first = { ...result('Ab3dEf7hJ', 'Here.'), parts: [page] } as Message
    const { contents } = await bodyOf([asked, own, first, result('Kb3dEf7hJ', '4')])
    const inline = (mimeType: string) => ({ inlineData: { mimeType, data: 'AQID' } })
    expect(contents[0].parts).toEqual([{ text: 'What?' }, inline('audio/wav')])
    expect(contents[2].parts).toEqual([
      { functionResponse: { id: 'f1', name: 'roll', response: { output: 'Here.' } } },
      { functionResponse: { name: 'roll', response: { output: '4' } } },
      { text: 'What the call of "roll" returned beside its text:' },
      inline('application/pdf'),
    ])
  })

  it('declares tools by their JSON Schema', async () => {
    const { tools, systemInstruction } = await bodyOf(
      [{ role: 'system', content: 'Be brief.' }, user('Hi')],
      { tools: [roll] },
    )
    const parametersJsonSchema = { type: 'object', additionalProperties: false }
    expect(tools).toEqual([
      { functionDeclarations: [{ name: 'roll', description: 'Rolls.', parametersJsonSchema }] },
    ])
    expect(systemInstruction).toEqual({ parts: [{ text: 'Be brief.' }] })
  })
})

describe('the settings of a request to generateContent', () => {
  const set = async (settings: ModelSettings, changes: Changes = new Map(), model?: string) => {
    const { contents, tools, ...fields } = await bodyOf(
      [user('Hi')],
      { settings, changes, tools: [roll] },
      model,
    )
    return fields
  }
  const thinking = async (...args: Parameters<typeof set>) =>
    (await set(...args)).generationConfig?.thinkingConfig

  it('are not there where nothing is set', async () => {
    expect(await set({})).toEqual({})
    expect(await set({ maxOutputTokens: 500, temperature: 0.2, topP: 0.9 })).toEqual({
      generationConfig: { maxOutputTokens: 500, temperature: 0.2, topP: 0.9 },
    })
    const less: Changes = new Map<string, unknown>([
      ['maxOutputTokens', 100],
      ['temperature', false],
    ])
    expect(await set({ maxOutputTokens: 500, temperature: 0.2 }, less)).toEqual({
      generationConfig: { maxOutputTokens: 100 },
    })
  })

  it('think by level, and older models by budget', async () => {
    const includeThoughts = true
    expect(await thinking({ reasoning: 'max' })).toEqual({ thinkingLevel: 'high', includeThoughts })
    expect(await thinking({ reasoning: 'none' })).toEqual({ thinkingLevel: 'minimal' })
    const older = 'gemini-2.5-flash'
    const budget = (reasoning: 'none' | 'medium') => thinking({ reasoning }, new Map(), older)
    expect(await budget('medium')).toEqual({ thinkingBudget: 8192, includeThoughts })
    expect(await budget('none')).toEqual({ thinkingBudget: 0 })
    const lacks: Changes = new Map([['medium', false]])
    expect(await thinking({ reasoning: 'medium' }, lacks)).toMatchObject({ thinkingLevel: 'high' })
    expect(await thinking({ reasoning: 'low' }, new Map([['thinking', 'off']]))).toBeUndefined()
  })

  it('force a tool, or forbid all', async () => {
    expect(await set({ toolChoice: { tool: 'roll' } })).toEqual({
      toolConfig: { functionCallingConfig: { mode: 'ANY', allowedFunctionNames: ['roll'] } },
    })
    expect(await set({ toolChoice: 'none' })).toEqual({
      toolConfig: { functionCallingConfig: { mode: 'NONE' } },
    })
  })

  it('ask for an object by its schema, or by a call where the server takes none', async () => {
    const settings = { object: { name: 'o', schema: { $schema: 'x', type: 'object' } } }
    expect((await set(settings)).generationConfig).toEqual({
      responseMimeType: 'application/json',
      responseJsonSchema: { type: 'object' },
    })
    const called = await set(settings, new Map([['responseJsonSchema', false]]))
    expect(called.generationConfig).toBeUndefined()
    expect(called.toolConfig.functionCallingConfig.allowedFunctionNames).toEqual(['o'])
  })

  it('merge fields of the operator, but never over the conversation', async () => {
    const body = { contents: [], tools: [], safetySettings: [], generationConfig: { seed: 1 } }
    expect(await set({ body, topP: 0.5 })).toEqual({
      safetySettings: [],
      generationConfig: { topP: 0.5, seed: 1 },
    })
  })
})

describe('what a server refuses by name', () => {
  const change = (message: string, changes: Changes = new Map()) =>
    changeOf({ status: 400, text: JSON.stringify({ error: { code: 400, message } }) }, changes)
  const unknown = (name: string) =>
    `Invalid JSON payload received. Unknown name "${name}" at 'generation_config': Cannot find field.`

  it.each([
    [
      'Unable to submit request because it has a maxOutputTokens value of 9000 ' +
        'but the supported range is from 1 (inclusive) to 8193 (exclusive).',
      ['maxOutputTokens', 8192],
    ],
    [unknown('temperature'), ['temperature', false]],
    [unknown('top_p'), ['topP', false]],
    [unknown('responseJsonSchema'), ['responseJsonSchema', false]],
    ['Thinking level is not supported for this model.', ['thinking', 'budget']],
    ['Thinking level MEDIUM is not supported for this model.', ['medium', false]],
    ['Budget 0 is invalid. This model only works in thinking mode.', ['thinking', 'level']],
    ['Thinking is not enabled for this model', ['thinking', 'off']],
    [
      'Please ensure that multiturn requests alternate between user and model.',
      ['alternate', true],
    ],
  ])('is changed: %s', (message, wanted) => {
    expect(change(message)).toEqual(wanted)
  })

  it('is not changed where no setting mends it', () => {
    expect(
      change('Function call is missing a thought_signature in functionCall parts.'),
    ).toBeUndefined()
    expect(change('Corrupted thought signature.')).toBeUndefined()
    expect(change('API key not valid.')).toBeUndefined()
  })

  it('ends without a setting of thoughts where the model takes neither way', () => {
    const budget: Changes = new Map([['thinking', 'budget']])
    expect(change('The thinking budget 0 is invalid.', budget)).toEqual(['thinking', 'off'])
  })
})
