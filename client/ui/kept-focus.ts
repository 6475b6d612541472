import { type FocusEvent, type RefObject, useEffect, useRef } from 'react'

/** What keys can reach, but for what stands in a page's own shadow. */
const reachable = ':is(button, input, textarea, select):enabled:not([hidden]), a[href], summary'

/**
 * Who has the focus keeps a place when what had it goes: a suggestion that was chosen, a title that was written, a chat that was
 * deleted. The next thing around it gets the focus, and in a conversation the list of messages.
 */
export function useKeptFocus(frame: RefObject<HTMLElement | null>) {
  /** What has the focus, and what it stands in, from the inside out. */
  const places = useRef<Element[]>([])
  useEffect(() => {
    const box = frame.current
    if (!box || typeof MutationObserver === 'undefined') return
    const watch = new MutationObserver(() => {
      const [had, ...around] = places.current
      if (!had || had.isConnected || document.activeElement !== document.body) return
      places.current = []
      for (const place of around.filter((one) => one.isConnected)) {
        const list = place.matches('.oc-messages') ? place : place.querySelector('.oc-messages')
        const next = list ?? place.querySelector(reachable)
        if (!(next instanceof HTMLElement)) continue
        // A call that waits may take the focus from here, as it does where nothing has it.
        if (list) next.dataset.kept = ''
        next.addEventListener('blur', () => delete next.dataset.kept, { once: true })
        return next.focus({ preventScroll: next === list })
      }
    })
    watch.observe(box, { childList: true, subtree: true })
    return () => watch.disconnect()
  }, [frame])
  return {
    onFocus({ target, currentTarget }: FocusEvent) {
      places.current = []
      for (let at: Element | null = target; at; at = at === currentTarget ? null : at.parentElement)
        places.current.push(at)
    },
    // Nobody is told of the blur of what goes, and one of the whole window takes nothing away.
    onBlur() {
      if (document.hasFocus()) places.current = []
    },
  }
}
