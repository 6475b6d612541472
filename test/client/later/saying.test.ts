import { expect, it } from 'vitest'
import type { ChatSnapshot } from '../../../client/core/chat/view.ts'
import { sayingOf } from '../../../client/later/saying.ts'

const snapshot: ChatSnapshot = {
  messages: [],
  isLoading: false,
  status: 'ready',
  approval: null,
  run: { runId: null, model: null, usage: null, ended: null },
} as unknown as ChatSnapshot

/** What is said of an answer, line by line. */
const said = (content: string) =>
  sayingOf({ ...snapshot, messages: [{ id: 'm', type: 'ai', content }] }, false)
    .split(/\s*\n\s*/)
    .filter((line) => line !== '')

it.each([
  ['# Rain on Monday\n\nTake a coat.', ['Rain on Monday', 'Take a coat.']],
  ['Rain\n====\nSun\n---\n***', ['Rain', 'Sun']],
  ['**Rain *and* wind** and __more__, ~~sun~~', ['Rain and wind and more, sun']],
  ['a snake_case_name, 5 * 3, \\*as it is\\*', ['a snake_case_name, 5 * 3, *as it is*']],
  ['[the *report*](https://x.example/a_(b) "Title") and [more][1]', ['the report and more']],
  ['![a wet roof](https://x.example/roof.png)', ['a wet roof']],
  ['[![a map](m.png)](https://x.example)', ['a map']],
  ['Call `a*b*c` and **`x | y`**', ['Call a*b*c and x | y']],
  ['```js\nconst a = "**b**" // [c](d)\n```\nDone.', ['const a = "**b**" // [c](d)', 'Done.']],
  ['~~~\nstill *open*', ['still *open*']],
  ['> - one\n> - **two**\n\n1. three', ['one', 'two', '1. three']],
  [
    '| Day | Rain |\n|:---|---:|\n| Monday | **5 mm** |\n| Tuesday | 0 |',
    ['Day, Rain', 'Monday, 5 mm', 'Tuesday, 0'],
  ],
  ['Day | Rain\n--- | ---\nMonday | 5', ['Day, Rain', 'Monday, 5']],
])('an announcement of %j is its words', (markdown, words) => {
  expect(said(markdown)).toEqual(words)
})

it('an announcement is never longer than somebody can listen to, nor slow, whatever was written', () => {
  expect(said('word '.repeat(60_000))[0]!.length).toBeLessThanOrEqual(4_000)
  const marks = ['*', '_', '`', '~', '[', '![', '[a](', '(', '*a ', '**a', '_a ', '| ', '> ', '- ']
  for (const mark of [...marks, '~~~\n', '```\n', '\\', '# ', '\n ', '<a:', '\0']) {
    const began = performance.now()
    said(mark.repeat(64_000))
    // Each takes at most 60 ms; an expression that looks for its end from everywhere takes most of a minute.
    expect(performance.now() - began, mark).toBeLessThan(5_000)
  }
})
