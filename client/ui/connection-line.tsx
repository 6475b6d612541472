import { useEffect, useState } from 'react'
import { useLate } from './follow.ts'
import { useWords } from './words.ts'

/** The props of `ConnectionLine`. */
export interface ConnectionLineProps {
  readonly isLost: boolean
  /** When the next try begins, in milliseconds since 1970; undefined while a try is under way. */
  readonly retryAt?: number
}

/** From when on a screen reader is told at once, whatever it reads. */
const loudMs = 8_000

/** Says that the connection is lost, loudly after eight seconds, when it is tried again, and that it is back. */
export function ConnectionLine({ isLost, retryAt }: ConnectionLineProps) {
  const words = useWords()
  const [wasLost, setWasLost] = useState(false)
  const isLong = useLate(isLost, loudMs)
  const seconds = useSecondsTo(isLost ? retryAt : undefined)
  useEffect(() => {
    if (isLost) setWasLost(true)
  }, [isLost])
  const again =
    seconds > 0
      ? words.tryingAgainIn(
          seconds.toLocaleString(words.locale, {
            style: 'unit',
            unit: 'second',
            unitDisplay: 'short',
          }),
        )
      : words.tryingAgain
  return (
    <div className="oc-connection" data-state={isLost ? 'lost' : 'there'}>
      <span role={isLong ? 'alert' : 'status'}>
        {isLost ? words.connectionLost : wasLost ? words.connected : ''}
      </span>
      {isLost && (
        <>
          {/* Eyes see the seconds; a screen reader that was told each would say nothing else. */}
          <span aria-hidden="true">{again}</span>
          <button type="button" className="oc-quiet" onClick={tryNow}>
            {words.tryNow}
          </button>
        </>
      )}
    </div>
  )
}

/** How many whole seconds are left until a time, counted down; 0 without one. */
function useSecondsTo(at: number | undefined): number {
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    if (at === undefined) return
    setNow(Date.now())
    const timer = setInterval(() => setNow(Date.now()), 250)
    return () => clearInterval(timer)
  }, [at])
  return at === undefined ? 0 : Math.max(0, Math.ceil((at - now) / 1_000))
}

/** What waits for the network tries again: a person says that it is there, as the browser does otherwise. */
const tryNow = () => void window.dispatchEvent(new window.Event('online'))
