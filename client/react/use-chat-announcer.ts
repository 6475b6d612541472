import { useEffect, useState } from 'react'
import type { ChatAddress } from '../core/client.ts'
import type { sayingOf } from '../later/saying.ts'
import { useChatSnapshot } from './use-chat.ts'

/** The words of the announcements, for another language than English. */
export interface AnnouncerWords {
  readonly answering: string
  readonly using: (tool: string) => string
  readonly asking: (tool: string) => string
  readonly stopped: string
  readonly failed: string
}

/** The props of an element whose text screen readers speak when the user pauses. */
export interface Announcer {
  readonly role: 'status'
  readonly 'aria-live': 'polite'
  readonly 'aria-atomic': true
  readonly children: string
}

/**
 * What a screen reader says about a chat: that the oracle answers, which tool the oracle uses, and then the answer as a
 * whole. A live region that changed with every token would be read from its beginning each time.
 */
export function useChatAnnouncer(address: ChatAddress, words?: AnnouncerWords): Announcer {
  const snapshot = useChatSnapshot(address)
  // The announcer says nothing when the page opens: the last answer in the history is not a new one.
  const [say, setSay] = useState<typeof sayingOf>()
  const isBusy = snapshot.status === 'submitted' || snapshot.status === 'streaming'
  useEffect(() => {
    if (isBusy) void import('../later/reading.ts').then(({ sayingOf: say }) => setSay(() => say))
  }, [isBusy])
  const children = say?.(snapshot, isBusy, words) ?? ''
  return { role: 'status', 'aria-live': 'polite', 'aria-atomic': true, children }
}
