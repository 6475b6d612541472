import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { Counts } from '../../core/runtime/http/limits/rate-limit.ts'

const counts = (cap?: number, everyMs?: number) => {
  const made = new Counts(cap, everyMs)
  onTestFinished(() => made.close())
  return made
}

describe('the memory of addresses', () => {
  test('lets as many in as the limit says, and again when the time is over', async () => {
    const memory = counts()
    expect([1, 2, 3].map(() => memory.count('a', 2, 90_000))).toEqual([
      undefined,
      undefined,
      expect.toSatisfy((after: number) => after >= 80 && after <= 90),
    ])
    expect(memory.count('b', 0, 5_000)).toBe(5)
    memory.count('c', 1, 10)
    while (memory.count('c', 1, 10) !== undefined) await sleep(1)
  })

  test('forgets those whose time is over', async () => {
    const memory = counts(100, 5)
    memory.count('old', 1, 1)
    memory.count('new', 1, 60_000)
    while (memory.size > 1) await sleep(1)
    expect(memory.count('new', 1, 60_000)).toBeTypeOf('number')
  })

  test('makes room for the newest when it is full', () => {
    const memory = counts(2)
    for (const address of ['a', 'b', 'c']) memory.count(address, 1, 60_000)
    expect(memory.size).toBe(2)
    expect(memory.count('b', 1, 60_000)).toBeTypeOf('number')
    expect(memory.count('a', 1, 60_000)).toBeUndefined()
  })
})
