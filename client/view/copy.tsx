import { useEffect, useState } from 'react'

/** A button that copies a text, and then says whether the copy worked. */
export function Copy({ text, children = 'Copy' }: { text: () => string; children?: string }) {
  const [state, setState] = useState('')
  useEffect(() => {
    if (!state) return
    const timer = setTimeout(() => setState(''), 2_000)
    return () => clearTimeout(timer)
  }, [state])
  const copy = () =>
    navigator.clipboard.writeText(text()).then(
      () => setState('Copied'),
      () => setState('Not allowed'),
    )
  return (
    <button type="button" className="quiet" onClick={copy}>
      <span aria-live="polite">{state || children}</span>
    </button>
  )
}
