import { describe, expect, it } from 'vitest'
import { assemble } from '../../core/runtime/model/assemble.ts'
import {
  addedUsage,
  billionths,
  checkedUsage,
  costOf,
} from '../../core/runtime/model/usage/counts.ts'
import { MessageSum } from '../../core/runtime/model/usage/message-sum.ts'
import { forModel } from '../../core/runtime/model/for-model.ts'
import type { Delta, Message, Model, ModelRequest, ModelUsage } from '#core/models'

const price = { input: 3, output: 15, cachedInput: 0.3, cacheWrite: 3.75 }
const whole: ModelUsage = {
  inputTokens: 1_000,
  outputTokens: 200,
  cachedTokens: 600,
  cacheWriteTokens: 300,
  reasoningTokens: 50,
}

describe('the cost of a usage', () => {
  it('prices each token once: cached, written, other, and answered with thoughts', () => {
    const expected = 100 * 3_000 + 600 * 300 + 300 * 3_750 + 200 * 15_000
    expect(costOf(whole, price)).toBe(String(expected))
  })

  it('takes the price of the input for an unset price of the cache', () => {
    expect(costOf(whole, { input: 3, output: 15 })).toBe(String(1_000 * 3_000 + 200 * 15_000))
  })

  it('is what the provider says where no price is set, and the price where one is', () => {
    expect(costOf({ ...whole, cost: '77' }, undefined)).toBe('77')
    expect(costOf({ ...whole, cost: '77' }, { input: 0, output: 0 })).toBe('0')
  })

  it('is null and never 0 where nobody knows', () => {
    expect(costOf(whole, undefined)).toBeNull()
    expect(costOf(whole, { input: -1, output: 1 })).toBeNull()
    expect(costOf({ ...whole, cost: '1.5' }, undefined)).toBeNull()
  })

  it('is exact for prices of fractions of a cent and for numbers beyond those of a float', () => {
    expect(costOf({ inputTokens: 7, outputTokens: 0 }, { input: 0.0375, output: 0 })).toBe('263')
    const most = { inputTokens: Number.MAX_SAFE_INTEGER, outputTokens: 0 }
    expect(costOf(most, { input: 3, output: 0 })).toBe('27021597764222973000')
  })

  it('has no amount for what is none', () => {
    expect(billionths(0.001234567)).toBe('1234567')
    for (const wrong of [-1, NaN, Infinity, 1e300, '1', null, undefined])
      expect(billionths(wrong)).toBeUndefined()
  })
})

describe('the sum of usages', () => {
  it('adds every part, says that it is estimated, and does not know the cost when one is unknown', () => {
    const known = { ...whole, cost: '10' }
    expect(addedUsage(addedUsage(undefined, known), known)).toEqual({
      inputTokens: 2_000,
      outputTokens: 400,
      cachedTokens: 1_200,
      cacheWriteTokens: 600,
      reasoningTokens: 100,
      cost: '20',
    })
    const unknown = { inputTokens: 1, outputTokens: 1, estimated: true } as const
    expect(addedUsage(known, unknown)).toMatchObject({ estimated: true, cost: null })
    expect(addedUsage(addedUsage(undefined, unknown), known).cost).toBeNull()
  })

  it('never goes past the numbers that are exact', () => {
    const most = { inputTokens: Number.MAX_SAFE_INTEGER, outputTokens: 1 }
    expect(addedUsage(most, most).inputTokens).toBe(Number.MAX_SAFE_INTEGER)
  })
})

describe('a usage that a provider tells', () => {
  it('counts nothing below zero, and only grows', () => {
    expect(checkedUsage({ inputTokens: -5, outputTokens: -1 })).toBeUndefined()
    const before = checkedUsage({ inputTokens: 10, outputTokens: 4, cost: '9' })
    expect(checkedUsage({ inputTokens: 3, outputTokens: 6 }, before)).toEqual({
      inputTokens: 10,
      outputTokens: 6,
      cost: '9',
    })
  })

  it('has no part that is larger than its whole', () => {
    const told = { inputTokens: 10, outputTokens: 2, cachedTokens: 8, cacheWriteTokens: 8 }
    expect(checkedUsage({ ...told, reasoningTokens: 5 })).toEqual({
      inputTokens: 10,
      outputTokens: 2,
      cachedTokens: 8,
      cacheWriteTokens: 2,
      reasoningTokens: 2,
    })
  })

  it('is the newest and largest of an answer', async () => {
    const deltas = async function* (): AsyncGenerator<Delta> {
      yield { type: 'usage', inputTokens: 10, outputTokens: 1 }
      yield { type: 'text', text: 'Hi.' }
      yield { type: 'usage', inputTokens: 10, outputTokens: 5 }
      yield { type: 'usage', inputTokens: 2, outputTokens: -3 }
    }
    const { usage } = await assemble(deltas())
    expect(usage).toEqual({ inputTokens: 10, outputTokens: 5 })
  })
})

describe('a sum over the messages of a conversation', () => {
  const said = (content: string): Message => ({ role: 'user', id: content, content })
  const system: Message = { role: 'system', content: 'sys' }
  const lengths = () => {
    const looked: string[] = []
    const sum = new MessageSum(({ content }) => {
      looked.push(content)
      return content.length
    })
    return { sum, looked }
  }

  it('looks at what is new alone, and at each conversation apart', () => {
    const { sum, looked } = lengths()
    const [a, bb, ccc] = [said('a'), said('bb'), said('ccc')]
    expect(sum.of([])).toBe(0)
    expect(sum.of([a, bb])).toBe(3)
    expect(sum.of([system, a, bb, ccc])).toBe(9)
    expect(looked).toEqual(['a', 'bb', 'sys', 'ccc'])
    expect(sum.of([said('other')])).toBe(5)
    expect(sum.of([a, bb, ccc])).toBe(6)
    expect(looked.slice(4)).toEqual(['other'])
  })

  it('counts anew where a message is another one, is missing or stands before the others', () => {
    const { sum } = lengths()
    const [a, bb, ccc] = [said('a'), said('bb'), said('ccc')]
    expect(sum.of([a, bb, ccc])).toBe(6)
    expect(sum.of([a, said('bbbb'), ccc])).toBe(8)
    expect(sum.of([a])).toBe(1)
    expect(sum.of([ccc, a])).toBe(4)
    expect(sum.of([a, bb, ccc])).toBe(6)
  })

  it('leaves no data of a provider to another, whenever the data came', () => {
    const model = { id: 'two', origin: 'other' } as Model
    const messages: Message[] = [said('a')]
    const request = { messages, tools: [], signal: AbortSignal.timeout(1_000) } as ModelRequest
    expect(forModel(request, model)).toBe(request)
    const provider = { by: 'one', data: { signed: 'secret' } }
    const answer: Message = { role: 'assistant', id: 'b', content: 'b', provider }
    for (const all of [
      [said('a'), answer],
      [...messages, answer],
      [...messages, answer, said('c')],
      [system, ...messages, answer],
    ])
      expect(JSON.stringify(forModel({ ...request, messages: all }, model))).not.toContain('secret')
  })
})
