import { describe, expect, test } from 'vitest'
import { Lane } from '../../core/runtime/base/lane.ts'

describe('the lane of signatures', () => {
  test('gives the process a turn before it goes on', async () => {
    const lane = new Lane(1)
    const busy = () => {
      const until = performance.now() + 2
      while (performance.now() < until);
    }
    let turns = 0
    let running = true
    const count = () => {
      turns++
      if (running) setImmediate(count)
    }
    setImmediate(count)
    await Promise.all(Array.from({ length: 10 }, () => lane.run(busy)))
    running = false
    expect(turns).toBeGreaterThanOrEqual(5)
  })

  test('keeps the order and hands on what a job throws', async () => {
    const lane = new Lane(0.0001)
    const done: number[] = []
    const jobs = [1, 2, 3].map((n) => lane.run(() => done.push(n)))
    await expect(
      lane.run(() => {
        throw new RangeError('no')
      }),
    ).rejects.toThrow(RangeError)
    await Promise.all(jobs)
    expect(done).toEqual([1, 2, 3])
  })
})
