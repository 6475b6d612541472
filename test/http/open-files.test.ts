import { expect, test } from 'vitest'
import { connectionsAllowed, openFileLimit } from '../../core/runtime/http/limits/connections.ts'

test('connections are at most four fifths of the files that the process may open', () => {
  expect(connectionsAllowed(10_000, 1024)).toBe(819)
  expect(connectionsAllowed(10_000, 1_000_000)).toBe(10_000)
  expect(connectionsAllowed(10_000, Infinity)).toBe(10_000)
  expect(openFileLimit()).toBeGreaterThan(100)
})
