import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { SweptMap } from '../../core/runtime/http/limits/rate-limit.ts'

describe('the memory of addresses', () => {
  test('forgets those whose time is over', async () => {
    const map = new SweptMap(100, 5)
    onTestFinished(() => map.close())
    const now = Date.now() / 1000
    map.set('old', { reset: now - 60, remaining: 1 }).set('new', { reset: now + 60, remaining: 1 })
    while (map.has('old')) await sleep(1)
    expect([...map.keys()]).toEqual(['new'])
  })

  test('makes room for the newest when it is full', () => {
    const map = new SweptMap(2)
    onTestFinished(() => map.close())
    const counted = { reset: Date.now(), remaining: 1 }
    for (const address of ['a', 'b', 'c', 'b']) map.set(address, counted)
    expect([...map.keys()]).toEqual(['b', 'c'])
  })
})
