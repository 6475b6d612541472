import { expect, it } from 'vitest'
import { coreBudget, sizeOf } from '../../bench/client/size.ts'

it('the core stays within its budget, and brings no peer along', async () => {
  const { gzip, later } = await sizeOf('index')
  expect(gzip).toBeGreaterThan(4096)
  expect(gzip).toBeLessThanOrEqual(coreBudget)
  expect(later).toBeLessThan(8 * 1024)
}, 60_000)
