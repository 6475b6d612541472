import { type FocusEvent, type RefObject, useEffect, useRef } from 'react'

/** What keys can reach, but for what stands in a page's own shadow. */
const reachable = ':is(button, input, textarea, select):enabled:not([hidden]), a[href], summary'

/** Gives the focus to what need not keep it: until somebody writes there, a call that waits for a person may take it, as from nothing. */
export function lendFocus(place: HTMLElement, options?: FocusOptions): void {
  const end = () => delete place.dataset.kept
  place.dataset.kept = ''
  for (const event of ['blur', 'input']) place.addEventListener(event, end, { once: true })
  place.focus(options)
}

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
        return list ? lendFocus(next, { preventScroll: true }) : next.focus()
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
