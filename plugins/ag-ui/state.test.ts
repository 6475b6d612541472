import patch from 'fast-json-patch'
import { expect, test } from 'vitest'
import { patchOf } from './state.ts'

test('what makes one state the other applies with a library of JSON Patch', () => {
  const before = {
    notes: { list: [1, 2], count: 2, 'a/b': 1, 'c~d': { deep: true } },
    gone: { was: 1 },
    same: { a: { b: 1 } },
  }
  const after = {
    notes: { list: [2], count: 1, 'a/b': 2, 'c~d': { deep: false, more: null } },
    same: { a: { b: 1 } },
    fresh: { is: [] },
  }
  const operations = patchOf(before, after)
  expect(operations.some(({ path }) => path.startsWith('/same'))).toBe(false)
  const { newDocument } = patch.applyPatch(
    structuredClone(before),
    structuredClone(operations) as Parameters<typeof patch.applyPatch>[1],
    true,
  )
  expect(newDocument).toEqual(after)
  expect(patchOf(after, after)).toEqual([])
})
