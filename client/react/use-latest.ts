import { type RefObject, useInsertionEffect, useRef } from 'react'

/** The value of the last render, for code that runs later: an inline function is a new one at every render. */
export function useLatest<Value>(value: Value): RefObject<Value> {
  const latest = useRef(value)
  useInsertionEffect(() => void (latest.current = value))
  return latest
}
