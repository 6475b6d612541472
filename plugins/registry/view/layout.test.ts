import { expect, it } from 'vitest'
import { layOut } from './layout.ts'

const nodes = Array.from({ length: 30 }, (_, nth) => ({ did: `did:x:${nth}`, depth: nth % 3 }))

it.each([280, 640, 1200])('names have room beside and below each other in %d pixels', (width) => {
  const { places, height } = layOut(nodes, width)
  const all = [...places.values()]
  expect(all).toHaveLength(30)
  for (const [nth, a] of all.entries()) {
    expect(a.x).toBeGreaterThan(0)
    expect(a.x).toBeLessThan(width)
    expect(a.y + 50).toBeLessThanOrEqual(height)
    for (const b of all.slice(nth + 1))
      expect(Math.abs(a.x - b.x) >= 115 || Math.abs(a.y - b.y) >= 120).toBe(true)
  }
})
