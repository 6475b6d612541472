import { useSyncExternalStore } from 'react'

const subscribe = (listener: () => void) => {
  addEventListener('hashchange', listener)
  return () => removeEventListener('hashchange', listener)
}

/** The parts of the page's address: the view, and the thing that the view shows, as in `#/chat/<session>`. */
export function useRoute(): readonly string[] {
  return partsOf(useSyncExternalStore(subscribe, () => location.hash))
}

/** The parts of the address at this moment: what is drawn may still be that of the address before. */
export const routeNow = () => partsOf(location.hash)

const partsOf = (hash: string): readonly string[] =>
  hash.replace(/^#\/?/, '').split('/').map(decoded)

/** An address that was cut or written by hand may have what is no encoded text: that stands as it is. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

/** The address of a view. */
export const to = (...parts: readonly string[]) => `#/${parts.map(encodeURIComponent).join('/')}`

/** Navigates to the address of a view. */
export function go(...parts: readonly string[]) {
  location.hash = to(...parts)
}

/** Stands in the address of a chat in which nothing was said: its session is made by the first words. */
export const newChat = 'new'

/** Stands in the address of the runs where a chat is to be chosen. */
export const allChats = 'chats'
