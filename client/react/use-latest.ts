import { type RefObject, useInsertionEffect, useMemo } from 'react'

/**
 * The value of the last render, for code that runs later: an inline function is a new one at every render. What was begun for
 * one `of` keeps the last value of that one.
 */
export function useLatest<Value>(value: Value, of?: unknown): RefObject<Value> {
  const latest = useMemo(() => ({ current: value }), [of])
  useInsertionEffect(() => void (latest.current = value))
  return latest
}
