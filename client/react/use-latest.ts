import { type RefObject, useInsertionEffect, useRef } from 'react'

/** The value of the last render, for what runs later: inline functions are new at every render and mean the same. */
export function useLatest<Value>(value: Value): RefObject<Value> {
  const latest = useRef(value)
  useInsertionEffect(() => void (latest.current = value))
  return latest
}
