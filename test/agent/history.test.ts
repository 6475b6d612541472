import { describe, expect, it } from 'vitest'
import type { Message } from '../../core/plugin.ts'
import { mended } from '../../core/runtime/agent/ask/history.ts'
import { trimmed } from '../../core/runtime/agent/window/trim.ts'
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
const size = (message: Message) => 16 + Buffer.byteLength(JSON.stringify(message))
const fitted = (messages: readonly Message[], bytes: number) => trimmed(messages, bytes, size)

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
    expect(fitted(conversation, 100_000)).toEqual(conversation)
  })

  it('loses its oldest part, and a call is never without its results nor a result without its call', () => {
    for (let bytes = 100; bytes < 7000; bytes += 37) {
      const kept = fitted(conversation, bytes)
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
    const kept = fitted(grown, 5000)
    expect(kept[0]).toEqual(user('the question'))
    expect(kept.length).toBeLessThan(12)
    expect(kept.at(-1)).toEqual(result('49', long))
  })

  it('keeps a summary while there is room for it', () => {
    const summary: Message = { role: 'user', id: 'summary-x', content: 'Summary of it' }
    const kept = fitted([summary, ...conversation], 1500)
    expect(kept[0]).toEqual(summary)
    expect(kept.length).toBeLessThan(conversation.length)
    expect(fitted([summary, ...conversation], 300)).not.toContainEqual(summary)
  })

  it('cuts the results of the newest calls where they alone are too long', () => {
    const huge = [
      user('go'),
      said('', 'e', 'f'),
      result('e', long.repeat(20)),
      result('f', 'small'),
    ]
    const kept = fitted(huge, 3000)
    expect(kept.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'tool'])
    expect(kept.reduce((sum, message) => sum + size(message), 0)).toBeLessThan(3200)
    expect(kept[2]?.content).toContain('[cut here: 20 kB in all]')
    expect(kept[3]).toEqual(result('f', 'small'))
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
