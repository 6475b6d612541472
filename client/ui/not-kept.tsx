import { useEffect, useState, useSyncExternalStore } from 'react'
import { refused, within } from '../core/kept.ts'
import { useWords } from './words.ts'

let isRefused = false
const listeners = new Set<() => void>()

/** The browser has refused to keep something, because its storage is full or the page may not use it. */
export function tellRefused(): void {
  isRefused = true
  for (const listener of listeners) listener()
}

function listen(listener: () => void): () => void {
  listeners.add(listener)
  return () => void listeners.delete(listener)
}

/** Says what a reload will forget, once the browser has refused to keep it. */
export function NotKept() {
  const words = useWords()
  const isForgetful = useSyncExternalStore(
    listen,
    () => isRefused,
    () => false,
  )
  const [asksAgain, setAsksAgain] = useState(false)
  useEffect(() => {
    let isHere = true
    // Without https no page keeps who is signed in, and none is told so.
    if (window.isSecureContext)
      void within('oracle-tokens', 'readonly', (rows) => rows.count()).then(
        (found) => isHere && setAsksAgain(found === refused),
      )
    return () => void (isHere = false)
  }, [])
  return (
    <div className="oc-not-kept" role="status">
      {isForgetful && <p>{words.notKept}</p>}
      {asksAgain && <p>{words.signInNotKept}</p>}
    </div>
  )
}
