import { expect, it } from 'vitest'
import { rounded, ticksOf } from './figures.ts'

it.each([
  ['z = 1.9599639845400543', 'z = 1.96'],
  ['n = 61.46341463414634, so 62', 'n = 61.46, so 62'],
  ['0.000123456789', '0.0001235'],
  ['112', '112'],
  ['0.05 and 12.5', '0.05 and 12.5'],
  ['drand 1.2.3 of 2026-11-27', 'drand 1.2.3 of 2026-11-27'],
])('"%s" is read as "%s"', (whole, short) => expect(rounded(whole)).toBe(short))

it.each([
  [0.01, 0.2, [0.05, 0.1, 0.15, 0.2]],
  [0, 1912, [0, 500, 1000, 1500]],
  [0, 0.5, [0, 0.1, 0.2, 0.3, 0.4, 0.5]],
  [3, 3, [3]],
])('an axis from %d to %d has round ticks', (from, to, ticks) =>
  expect(ticksOf(from, to)).toEqual(ticks),
)
