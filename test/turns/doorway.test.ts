import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { Doorway } from '../../core/runtime/turns/gates/doorway.ts'

it('who comes alone does not wait, and of many few pass in each turn of the event loop, in their order', async () => {
  const doorway = new Doorway(3)
  const passed: number[] = []
  const all = Array.from({ length: 8 }, (_, nth) =>
    doorway.pass().then(() => {
      passed.push(nth)
    }),
  )
  const after: number[] = []
  await Promise.resolve()
  after.push(passed.length)
  while (passed.length < 8) {
    await nextTurn()
    after.push(passed.length)
  }
  await Promise.all(all)
  expect(passed).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
  const steps = after.map((count, nth) => count - (after[nth - 1] ?? 0))
  expect(Math.max(...steps)).toBe(3)

  // Once nobody waits, the next one passes at once again.
  await nextTurn()
  await nextTurn()
  let isThrough = false
  void doorway.pass().then(() => (isThrough = true))
  await Promise.resolve()
  await Promise.resolve()
  expect(isThrough).toBe(true)
})

it('who comes while others wait stands behind them', async () => {
  const doorway = new Doorway(1)
  const passed: string[] = []
  const come = (name: string) => doorway.pass().then(() => passed.push(name))
  const first = [come('a'), come('b'), come('c')]
  await nextTurn()
  await Promise.all([...first, come('d')])
  expect(passed).toEqual(['a', 'b', 'c', 'd'])
})
