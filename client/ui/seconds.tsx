import { type ReactNode, useEffect, useState } from 'react'
import { useWords } from './words.ts'

/** From when on somebody who waits is told how long. */
const fromSecond = 3

/** How many seconds something lasts already, as eyes see it: a screen reader is not told each. Nothing for the first ones. */
export function useSeconds(isOn: boolean): ReactNode {
  const { locale } = useWords()
  const [seconds, setSeconds] = useState(0)
  useEffect(() => {
    if (!isOn) return
    const begun = Date.now()
    const timer = setInterval(() => setSeconds(Math.round((Date.now() - begun) / 1_000)), 1_000)
    return () => {
      clearInterval(timer)
      setSeconds(0)
    }
  }, [isOn])
  if (!isOn || seconds < fromSecond) return null
  const text = seconds.toLocaleString(locale, {
    style: 'unit',
    unit: 'second',
    unitDisplay: 'short',
  })
  return <span aria-hidden="true"> {text}</span>
}
