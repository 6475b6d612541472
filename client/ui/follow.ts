import {
  type RefObject,
  useCallback,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from 'react'
import type { IMessage } from '../core/records.ts'
import { type HistoryResult, pageOf } from './use-history.ts'

/** An effect before the browser paints. A server has no layout, and React 18 would warn of that there. */
export const useLayout = typeof window === 'undefined' ? useEffect : useLayoutEffect

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

/** So far from an edge of the list, in pixels, a reader is there. */
const near = { end: 60, top: 200 }

/** What `useFollow` returns. */
export interface Following {
  readonly ref: RefObject<HTMLDivElement | null>
  readonly isAtEnd: boolean
  readonly toEnd: () => void
  /** The newest messages, as far back as the reader has gone. */
  readonly shown: readonly IMessage[]
  /** Shows older ones, where there are any; what the reader looks at stays where it is. */
  readonly showOlder: (() => void) | undefined
  /** How many messages have come since the reader left the end. */
  readonly unread: number
}

/**
 * Keeps a list at its end while it grows, unless the reader has scrolled up: then nothing moves. Shows the newest messages, and
 * older ones by pages as the reader comes to the top, those that are here before those that the server has.
 */
export function useFollow(messages: readonly IMessage[], history: HistoryResult): Following {
  const ref = useRef<HTMLDivElement>(null)
  const follows = useRef(true)
  const [isAtEnd, setAtEnd] = useState(true)
  const [seen, setSeen] = useState<string>()
  const { first, back } = useFirst(messages)
  const hasOlder = first > 0 || history.hasOlder
  const hold = useStaying(ref, messages[first]?.id)

  const showOlder = () => {
    if (history.isFetching) return
    hold()
    if (first > 0) back()
    else history.fetchOlder()
  }
  const latest = useRef({ messages, history, hasOlder, showOlder })
  latest.current = { messages, history, hasOlder, showOlder }
  useEffect(() => {
    const box = ref.current
    if (!box) return
    let before = box.scrollTop
    const look = () => {
      const now = latest.current
      const isEnd = box.scrollHeight - box.scrollTop - box.clientHeight < near.end
      // Only a reader goes up; what grows below leaves the place as it is.
      const wentUp = box.scrollTop < before - 1
      before = box.scrollTop
      if (follows.current && wentUp && !isEnd) setSeen(now.messages.at(-1)?.id)
      if (isEnd || wentUp) follows.current = isEnd
      setAtEnd(follows.current)
      // A reader who goes on while older messages are on their way stays where the reader is by then.
      if (now.history.isFetching) hold()
      else if (!isEnd && wentUp && box.scrollTop < near.top && now.hasOlder) now.showOlder()
    }
    box.addEventListener('scroll', look, { passive: true })
    return () => box.removeEventListener('scroll', look)
  }, [hold])
  useEnd(ref, follows, messages)
  const toEnd = () => {
    follows.current = true
    if (ref.current) ref.current.scrollTop = ref.current.scrollHeight
  }
  const shown = useMemo(() => messages.slice(first), [messages, first])
  return {
    ...{ ref, isAtEnd, toEnd, shown },
    showOlder: hasOlder ? showOlder : undefined,
    unread: isAtEnd ? 0 : messages.length - 1 - messages.findIndex(({ id }) => id === seen),
  }
}

/** Goes to the end of a list that is followed: when anything comes, and when something turns out to be taller than it was taken for. */
function useEnd(
  ref: RefObject<HTMLDivElement | null>,
  follows: RefObject<boolean>,
  messages: readonly IMessage[],
): void {
  useEffect(() => {
    const box = ref.current
    if (!box || typeof ResizeObserver === 'undefined') return
    const sizes = new ResizeObserver(() => {
      if (follows.current) box.scrollTop = box.scrollHeight
    })
    const observe = () => [...box.children].forEach((child) => sizes.observe(child))
    // What has to be paid or answered stands below the messages, and comes and goes without them.
    const children = new MutationObserver(observe)
    children.observe(box, { childList: true })
    observe()
    return () => {
      children.disconnect()
      sizes.disconnect()
    }
  }, [])
  useLayout(() => {
    const box = ref.current
    if (box && follows.current) box.scrollTop = box.scrollHeight
  }, [messages])
}

/** Which message is the first that is shown. It stays so while the list grows: nothing that is read goes away. */
function useFirst(messages: readonly IMessage[]) {
  const count = messages.length
  const [{ first, known }, set] = useState({ first: 0, known: 0 })
  // Many at once are a history that has come, of which the newest are shown.
  const isHistory = count - known > pageOf
  const start = isHistory || first >= count ? Math.max(0, count - pageOf) : first
  useEffect(() => set({ first: start, known: count }), [start, count])
  const back = useCallback(
    () => set(({ first: at, known: of }) => ({ first: Math.max(0, at - pageOf), known: of })),
    [],
  )
  return { first: start, back }
}

/** Keeps the line that is read where it stands while something is put in above it: until another message is the `first`. */
function useStaying(ref: RefObject<HTMLDivElement | null>, first: string | undefined): () => void {
  const held = useRef<{ element: Element; top: number }>(undefined)
  useLayout(() => {
    const box = ref.current
    const { element, top } = held.current ?? {}
    held.current = undefined
    if (box && element?.isConnected && top !== undefined)
      box.scrollTop += element.getBoundingClientRect().top - top
  }, [first])
  return useCallback(() => {
    const box = ref.current
    if (!box) return
    const edge = box.getBoundingClientRect().top
    const element = [...box.querySelectorAll('.oc-message')].find(
      (one) => one.getBoundingClientRect().bottom > edge,
    )
    if (element) held.current = { element, top: element.getBoundingClientRect().top }
  }, [])
}
