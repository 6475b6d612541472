import { useCallback, useInsertionEffect, useState } from 'react'
import type { ChatAddress } from '../core/client.ts'
import { useChatSnapshot, useChatStore } from '../react/use-chat.ts'

/** How many messages a conversation shows at first, and how many more each time its reader comes to the first of them. */
export const pageOf = 50

/** What `useHistory` returns. */
export interface HistoryResult {
  /** There are older messages than those of the chat. */
  readonly hasOlder: boolean
  readonly isFetching: boolean
  /** Reads the page before; what goes wrong is tried again at the next call. */
  readonly fetchOlder: () => void
}

/** Reads a conversation by pages, the newest first, unless the client was told to read all of it. */
export function useHistory(address: ChatAddress): HistoryResult {
  const chat = useChatStore(address)
  const { hasOlder } = useChatSnapshot(address)
  const [isFetching, setFetching] = useState(false)
  useInsertionEffect(() => void (chat.pages ??= pageOf))
  const fetchOlder = useCallback(() => {
    setFetching(true)
    const over = () => setFetching(false)
    chat.fetchOlder().then(over, over)
  }, [chat])
  return { hasOlder, isFetching, fetchOlder }
}
