import { expect, it } from 'vitest'
import { summaryOf } from './demo/summary.ts'

it('has the first sentence of each turn, with those of an earlier summary', () => {
  const text = summaryOf({
    words: 100,
    lines: [
      { by: 'earlier', text: 'The user said:\n- Roll a dice.' },
      { by: 'user', text: 'What is the weather in Paris? I go there tomorrow.' },
      { by: 'assistant', text: 'Sunny.' },
      { by: 'tool', text: 'weather answered: sunny' },
      { by: 'user', text: 'thanks' },
    ],
  })
  expect(text).toBe('The user said:\n- Roll a dice.\n- What is the weather in Paris?\n- thanks')
})

it('leaves out the oldest turns where it may have no more words', () => {
  const lines = Array.from({ length: 90 }, (_, nth) => ({
    by: 'user' as const,
    text: `Turn number ${nth} is here. It goes on.`,
  }))
  const text = summaryOf({ lines, words: 50 })
  expect(text.split(/\s+/).length).toBeLessThan(65)
  expect(text).toContain('Turn number 89 is here.')
  expect(text).not.toContain('Turn number 1 is here.')
})
