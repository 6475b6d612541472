import { useEffect, useLayoutEffect, useRef, useState } from 'react'
import type { IMessage } from '../core/records.ts'

/** Whether something has been so for longer than a time. */
export function useLate(is: boolean, ms: number): boolean {
  const [isLate, setLate] = useState(false)
  useEffect(() => {
    setLate(false)
    if (!is) return
    const timer = setTimeout(() => setLate(true), ms)
    return () => clearTimeout(timer)
  }, [is, ms])
  return isLate
}

/** Keeps a list at its end while it grows, unless the reader has scrolled up. */
export function useFollow(messages: readonly IMessage[]) {
  const ref = useRef<HTMLDivElement>(null)
  const follows = useRef(true)
  const [isAtEnd, setAtEnd] = useState(true)
  const look = () => {
    const box = ref.current
    if (!box) return
    follows.current = box.scrollHeight - box.scrollTop - box.clientHeight < 60
    setAtEnd(follows.current)
  }
  useEffect(() => {
    const box = ref.current
    box?.addEventListener('scroll', look, { passive: true })
    return () => box?.removeEventListener('scroll', look)
  }, [])
  useLayoutEffect(() => {
    if (follows.current && ref.current) ref.current.scrollTop = ref.current.scrollHeight
  }, [messages])
  const toEnd = () => {
    follows.current = true
    if (ref.current) ref.current.scrollTop = ref.current.scrollHeight
  }
  return { ref, isAtEnd, toEnd }
}
