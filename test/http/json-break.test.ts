import { expect, test } from 'vitest'
import { breakIn } from '../../core/runtime/base/json-break.ts'

const sample = JSON.stringify({
  text: 'a "quoted" \\ line\n\u0001',
  list: [1, -0.5e-7, true, false, null, [], {}, [[{ a: [] }]]],
  '': { nested: { deeper: ['x', 'y'] } },
})

const isJson = (text: string) => {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

test('JSON that is cut off breaks at its end or at the token that was cut', () => {
  for (let length = 0; length < sample.length; length++) {
    const position = breakIn(sample.slice(0, length))
    expect(position).toBeLessThanOrEqual(length)
    // What stands before the break was fine: it breaks nowhere earlier when it stands alone.
    expect(breakIn(sample.slice(0, position))).toBe(position)
  }
})

test('wherever one character is twisted, the text before the break could still have become JSON', () => {
  const twists = ['"', '\\', '{', '}', '[', ']', ',', ':', '0', 'x', ' ', '\n', '\u0000', '-', 'é']
  let broken = 0
  for (let at = 0; at < sample.length; at++)
    for (const twist of twists) {
      const text = sample.slice(0, at) + twist + sample.slice(at + 1)
      if (isJson(text)) continue
      broken++
      const position = breakIn(text)
      expect(breakIn(text.slice(0, position))).toBe(position)
      expect(position).toBeLessThanOrEqual(text.length)
    }
  expect(broken).toBeGreaterThan(1000)
})
