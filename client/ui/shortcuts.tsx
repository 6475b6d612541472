import { lazy, Suspense, useEffect, useRef, useState } from 'react'

/** The list of the keys is fetched when somebody asks for it. */
const Keys = lazy(async () => ({ default: (await import('./keys.tsx')).Keys }))

/** The props of `Shortcuts`. */
export interface ShortcutsProps {
  readonly onNew?: () => void
  readonly onSearch?: () => void
}

function isField(target: EventTarget | null): boolean {
  const { tagName, isContentEditable }: { tagName?: unknown; isContentEditable?: unknown } =
    Object(target)
  return isContentEditable === true || /^(input|textarea|select)$/i.test(String(tagName))
}

/** The keys of a chat: Ctrl or ⌘ with K and Shift+O anywhere, and `?` outside of fields, which lists them. */
export function Shortcuts({ onNew, onSearch }: ShortcutsProps) {
  const [isOpen, setOpen] = useState(false)
  const latest = useRef({ onNew, onSearch })
  latest.current = { onNew, onSearch }
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const { key, shiftKey, ctrlKey, metaKey, target, isComposing } = event
      if (isComposing) return
      const act = ctrlKey || metaKey ? withCommand(key, shiftKey, latest.current) : undefined
      if (act) {
        event.preventDefault()
        act()
      } else if (key === '?' && !isField(target)) setOpen((was) => !was)
      else if (key === 'Escape') setOpen(false)
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

function withCommand(
  key: string,
  shiftKey: boolean,
  { onNew, onSearch }: ShortcutsProps,
): (() => void) | undefined {
  if (key.toLowerCase() === 'k' && !shiftKey) return onSearch
  if (key.toLowerCase() === 'o' && shiftKey) return onNew
  return undefined
}
