import { useEffect, useRef, useState } from 'react'
import type { EventPayloads } from '../core/events.ts'
import type { ChatAddress } from '../core/client.ts'
import { useChatEvents } from '../react/use-run.ts'
import { straight } from './markdown/links.ts'
import { useWords } from './words.ts'

/** How far a call is. */
export type ProgressOf = EventPayloads['progress']

/** How far the calls of a conversation are, by the id of the call, as they tell it. */
export function useProgress(address: ChatAddress): ReadonlyMap<string, ProgressOf> {
  const [known, setKnown] = useState<ReadonlyMap<string, ProgressOf>>(new Map())
  useChatEvents(address, ({ eventName, payload }) => {
    if (eventName === 'done') setKnown((map) => (map.size === 0 ? map : new Map()))
    if (eventName !== 'progress' || payload.toolCallId === undefined) return
    const { toolCallId } = payload
    setKnown((map) => new Map(map).set(toolCallId, payload))
  })
  return known
}

/** The props of `Progress`. */
export interface ProgressProps {
  readonly progress: ProgressOf
}

/** How often a screen reader is told at most. */
const tellMs = 5_000

/** How far a call is: a bar where there is a total, and words that screen readers hear at most every five seconds. */
export function Progress({ progress: { done, total, note = '' } }: ProgressProps) {
  const words = useWords()
  // A tool may count further than it said: the bar is then full, and the words keep to what it said.
  const value = total === undefined ? undefined : Math.max(0, Math.min(done, total))
  const text = `${total === undefined ? words.doneOf(done) : words.doneOf(done, total)} ${straight(note)}`
  const told = useCalm(text.trim(), tellMs)
  return (
    <div className="oc-progress">
      {total !== undefined && total > 0 && (
        <progress value={value} max={total} aria-label={words.running} />
      )}
      <span aria-hidden="true">{text}</span>
      <span className="oc-hidden" role="status">
        {told}
      </span>
    </div>
  )
}

/** A text that changes at most once in a while; the last one is always told in the end. */
function useCalm(text: string, ms: number): string {
  const [told, setTold] = useState(text)
  const at = useRef(Date.now())
  useEffect(() => {
    if (text === told) return
    const timer = setTimeout(
      () => {
        at.current = Date.now()
        setTold(text)
      },
      Math.max(0, at.current + ms - Date.now()),
    )
    return () => clearTimeout(timer)
  }, [text, told, ms])
  return told
}
