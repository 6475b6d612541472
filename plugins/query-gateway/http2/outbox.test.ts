import { setImmediate as turn } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { Outbox } from './outbox.ts'

function anOutbox() {
  const sent: string[] = []
  const box = new Outbox((out) => sent.push(out.toString()))
  return { sent, put: (text: string) => box.put(Buffer.from(text)), box }
}

it('sends what comes first at once, and what comes after it in pieces that double', async () => {
  const { sent, put } = anOutbox()
  put('a')
  expect(sent).toEqual(['a'])
  for (const text of 'bcdefghij') put(text)
  expect(sent).toEqual(['a', 'bc', 'defg'])
  await turn()
  expect(sent).toEqual(['a', 'bc', 'defg', 'hij'])
  put('k')
  expect(sent.at(-1)).toBe('k')
  await turn()
  expect(sent).toHaveLength(5)
})

it('sends what can wait together with what comes next', async () => {
  const { sent, put, box } = anOutbox()
  box.putLater(Buffer.from('1'))
  box.putLater(Buffer.from('2'))
  expect(sent).toEqual([])
  put('a')
  expect(sent).toEqual(['12a'])
  box.putLater(Buffer.from('3'))
  await turn()
  expect(sent).toEqual(['12a', '3'])
})

it('sends what can wait without anything else after a moment', async () => {
  const { sent, box } = anOutbox()
  box.putLater(Buffer.from('1'))
  await expect.poll(() => sent).toEqual(['1'])
  box.putLater(Buffer.from('2'))
  await expect.poll(() => sent).toEqual(['1', '2'])
})
