import { useSyncExternalStore } from 'react'

const subscribe = (listener: () => void) => {
  addEventListener('hashchange', listener)
  return () => removeEventListener('hashchange', listener)
}

/** The parts of the page's address: the view, and the thing that the view shows, as in `#/chat/<session>`. */
export function useRoute(): readonly string[] {
  const hash = useSyncExternalStore(subscribe, () => location.hash)
  return hash.replace(/^#\/?/, '').split('/').map(decodeURIComponent)
}

/** The address of a view. */
export const to = (...parts: readonly string[]) => `#/${parts.map(encodeURIComponent).join('/')}`

/** Navigates to the address of a view. */
export function go(...parts: readonly string[]) {
  location.hash = to(...parts)
}

/** Stands in the address of a chat in which nothing was said: its session is made by the first words. */
export const newChat = 'new'
