import { lazy, type RefObject, Suspense, useEffect, useState } from 'react'
import { useLatest } from '../react/use-latest.ts'

/** The list of the keys is fetched when somebody asks for it. */
const Keys = lazy(async () => ({ default: (await import('./keys.tsx')).Keys }))

/** The props of `Shortcuts`. */
export interface ShortcutsProps {
  readonly onNew?: () => void
  readonly onSearch?: () => void
  /** What is of this chat: keys that are pressed in another chat of the page are that one's. */
  readonly frame?: RefObject<HTMLElement | null>
}

const fields = 'input, textarea, select, [contenteditable]'

/** The keys of a chat: Ctrl or ⌘ with K and Shift+O anywhere, and `?` outside of fields, which lists them. */
export function Shortcuts(props: ShortcutsProps) {
  const [isOpen, setOpen] = useState(false)
  const latest = useLatest(props)
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const { onNew, onSearch, frame } = latest.current
      const { key, shiftKey, ctrlKey, metaKey, target, isComposing } = event
      if (isComposing) return
      if (key === 'Escape') setOpen(false)
      // What is pressed outside of all chats is for the first of them, unless the page has taken it.
      const at = (selector: string) => (target as Partial<Element>).closest?.(selector)
      const chat = at('.oc-chat')
      if (event.defaultPrevented || (chat && frame && chat !== frame.current)) return
      const wanted = ctrlKey || metaKey ? key.toLowerCase() : ''
      const list = () => setOpen((was) => !was)
      const act =
        wanted === 'k' && !shiftKey
          ? onSearch
          : wanted === 'o' && shiftKey
            ? onNew
            : !wanted && key === '?' && !at(fields) && list
      if (!act) return
      event.preventDefault()
      act()
    }
    window.addEventListener('keydown', pressed)
    return () => window.removeEventListener('keydown', pressed)
  }, [])
  if (!isOpen) return null
  return (
    <Suspense>
      <Keys onClose={() => setOpen(false)} />
    </Suspense>
  )
}
