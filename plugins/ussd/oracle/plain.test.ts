import { describe, expect, it } from 'vitest'
import { plain } from './plain.ts'

describe('an answer of the agent', () => {
  it('comes without markup', () => {
    expect(
      plain(
        '# Water\n\n * **two** wells: [map](https://x.example/m) ![pump](p.png)\n\t+ `one` tap',
      ),
    ).toBe('Water - two wells: map https://x.example/m pump p.png - one tap')
  })

  // Without bounds in the pattern each of these texts took minutes, because every bracket searched to the end of the text.
  it.each(['[', '[a](', '![x](aaaa', '\n', '\r', '\u2028', '_', 'a_', '*', '- ', '\t '])(
    'of nothing but %j is done at once, however long it is',
    (unit) => {
      expect(plain(unit.repeat(1_000_000)).length).toBeLessThanOrEqual(10_000)
    },
  )
})
