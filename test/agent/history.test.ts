import { describe, expect, it } from 'vitest'
import type { Message } from '../../core/plugin.ts'
import { fitted as fittedOf, mended, type Window } from '../../core/runtime/agent/ask/history.ts'
import { testEngine } from '../support/engine.ts'
import { modelScript } from '../support/model-script.ts'

const user = (content: string): Message => ({ role: 'user', id: content, content })
const said = (content: string, ...calls: string[]): Message => ({
  role: 'assistant',
  id: content,
  content,
  ...(calls.length > 0 && { toolCalls: calls.map((id) => ({ id, name: 'look', args: {} })) }),
})
const result = (toolCallId: string, content = 'x'): Message => ({
  role: 'tool',
  id: `${toolCallId}-result`,
  toolCallId,
  name: 'look',
  content,
})
const fitted = (messages: readonly Message[], to: Window) => fittedOf(messages, [], to)
const window = (bytes: number) => ({ contextWindow: bytes / 4 / 0.8, system: '', tools: [] })

describe('a conversation that is too long for its model', () => {
  const long = 'x'.repeat(1000)
  const conversation = [
    user('first'),
    said(long, 'a', 'b'),
    result('a', long),
    result('b', long),
    said('done'),
    user('second'),
    said(long, 'c'),
    result('c', long),
    said('well'),
    user('third'),
    said('hm', 'd'),
    result('d', 'short'),
  ]

  it('goes whole while it fits', () => {
    expect(fitted(conversation, window(100_000))).toEqual(conversation)
  })

  it('loses its oldest part, and a call is never without its results nor a result without its call', () => {
    for (let bytes = 100; bytes < 7000; bytes += 37) {
      const kept = fitted(conversation, window(bytes))
      expect(kept[0]!.role).toBe('user')
      const called = kept.flatMap((message) =>
        message.role === 'assistant' ? (message.toolCalls ?? []).map(({ id }) => id) : [],
      )
      const answered = kept.flatMap((message) =>
        message.role === 'tool' ? [message.toolCallId] : [],
      )
      expect(answered).toEqual(called)
      expect(kept).toContainEqual(user('third'))
      expect(kept.at(-1)).toEqual(result('d', 'short'))
      expect(conversation.filter((message) => kept.includes(message))).toEqual(kept)
    }
  })

  it('keeps the words that began the turn, however much the turn has grown', () => {
    const grown = [
      user('the question'),
      ...Array.from({ length: 50 }, (_, i) => [said('hm', `${i}`), result(`${i}`, long)]).flat(),
    ]
    const kept = fitted(grown, window(5000))
    expect(kept[0]).toEqual(user('the question'))
    expect(kept.length).toBeLessThan(12)
    expect(kept.at(-1)).toEqual(result('49', long))
  })

  it('leaves room for the prompt and the tools that stand beside it', () => {
    const tools = [{ name: 'look', description: long, parameters: {} }]
    const with_ = fitted(conversation, { ...window(6000), system: long, tools })
    expect(with_.length).toBeLessThan(fitted(conversation, window(6000)).length)
  })

  it('counts letters by what they cost a model: twice for Cyrillic', () => {
    const turns = (text: string) => [user(text.repeat(500)), said('a'), user(text.repeat(500))]
    expect(fitted(turns('x'), window(1500))).toHaveLength(3)
    expect(fitted(turns('ж'), window(1500))).toHaveLength(1)
  })

  it('is trimmed to the window of the model of the turn', async () => {
    const model = modelScript(() => 'y'.repeat(2000), { contextWindow: 3000 })
    await using engine = await testEngine({ model })
    for (let i = 0; i < 12; i++) await engine.turn(`question ${i}`)
    const { messages } = model.requests.at(-1)!
    expect(messages.at(-1)!.content).toBe('question 11')
    expect(messages.map(({ content }) => content)).not.toContain('question 0')
    expect(Buffer.byteLength(JSON.stringify(messages))).toBeLessThan(3000 * 4)
  })
})

describe('a conversation with open ends', () => {
  it('gets a result for every call, in the order of the calls, right behind them', () => {
    const mess = [user('a'), said('', '1', '2', '3'), result('3'), result('1'), user('b')]
    expect(
      mended(mess).map((message) => (message.role === 'tool' ? message.toolCallId : message.role)),
    ).toEqual(['user', 'assistant', '1', '2', '3', 'user'])
    expect(mended(mess)[3]!.content).toContain('outcome is unknown')
  })

  it('loses results that belong to no call', () => {
    expect(mended([result('1'), user('a'), said('b')])).toEqual([user('a'), said('b')])
  })
})
