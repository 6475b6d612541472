import { describe, expect, it } from 'vitest'
import { partialObject } from '../../core/runtime/agent/tools/partial-json.ts'

describe('arguments that are still arriving', () => {
  it('are read as far as they go', () => {
    for (const [text, value] of [
      ['', undefined],
      ['{', {}],
      ['{"ti', {}],
      ['{"title"', {}],
      ['{"title":', {}],
      ['{"title": "Lus', { title: 'Lus' }],
      ['{"title":"a\\', { title: 'a' }],
      ['{"title":"a\\u00', { title: 'a' }],
      ['{"title":"a\\\\', { title: 'a\\' }],
      ['{"title":"a\\ud83d', { title: 'a' }],
      ['{"title":"\u{1f600}'.slice(0, -1), { title: '' }],
      ['{"n":12', {}],
      ['{"n":12,', { n: 12 }],
      ['{"n":tru', {}],
      ['{"n":true,"m', { n: true }],
      ['{"points":[1,2', { points: [1] }],
      ['{"points":[1,2],"more":{"a":[{"b":"c', { points: [1, 2], more: { a: [{ b: 'c' }] } }],
      ['{"a":"}"', { a: '}' }],
      ['[1,2', undefined],
      ['no json', undefined],
      ['{"a":1}}', undefined],
      ['['.repeat(1000), undefined],
    ] as const)
      expect([text, partialObject(text)]).toEqual([text, value])
  })

  it('never hold what the whole does not begin with, wherever they are cut', () => {
    const whole = {
      'ke"y\\': 'va\n"lue \u{1f600} é',
      list: [1, -2.5e3, null, true, { deep: [[], {}, ''] }],
      '': { n: 0, text: '{[,:"' },
    }
    const text = JSON.stringify(whole, null, 1)
    for (let end = 1; end <= text.length; end++) {
      const part = partialObject(text.slice(0, end))
      expect(part).toBeDefined()
      expect(isBeginning(part, whole)).toBe(true)
    }
    expect(partialObject(text)).toEqual(whole)
  })
})

function isBeginning(part: unknown, whole: unknown): boolean {
  if (typeof part === 'string') return typeof whole === 'string' && whole.startsWith(part)
  if (typeof part !== 'object' || part === null) return Object.is(part, whole)
  return Object.entries(part).every(([key, value]) =>
    isBeginning(value, (whole as Record<string, unknown>)[key]),
  )
}
