import { useEffect, useState } from 'react'
import type { ChatSnapshot } from '../core/chat/view.ts'
import type { ChatAddress } from '../core/client.ts'
import { useChatSnapshot } from './use-chat.ts'

/** The words of the announcements, for another language than English. */
export interface AnnouncerWords {
  readonly answering: string
  readonly using: (tool: string) => string
  readonly asking: (tool: string) => string
  readonly stopped: string
  readonly failed: string
}

const english: AnnouncerWords = {
  answering: 'Answering.',
  using: (tool) => `Using ${tool}.`,
  asking: (tool) => `${tool} needs your approval.`,
  stopped: 'Stopped.',
  failed: 'The answer failed.',
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
export function useChatAnnouncer(address: ChatAddress, words: AnnouncerWords = english): Announcer {
  const snapshot = useChatSnapshot(address)
  const [hasSpoken, setHasSpoken] = useState(false)
  const isBusy = snapshot.status === 'submitted' || snapshot.status === 'streaming'
  // The announcer says nothing when the page opens: the last answer in the history is not a new one.
  useEffect(() => {
    if (isBusy) setHasSpoken(true)
  }, [isBusy])
  const children = hasSpoken || isBusy ? sayingOf(snapshot, isBusy, words) : ''
  return { role: 'status', 'aria-live': 'polite', 'aria-atomic': true, children }
}

function sayingOf(
  { messages, status, approval, run }: ChatSnapshot,
  isBusy: boolean,
  words: AnnouncerWords,
): string {
  const { toolCalls, content, type } = messages.at(-1) ?? {}
  const call = toolCalls?.findLast((one) => one.status === 'isRunning')
  if (isBusy) return call ? words.using(call.name) : words.answering
  if (approval) return words.asking(approval.toolName)
  if (run.ended === 'aborted') return words.stopped
  if (status === 'error') return words.failed
  return type === 'ai' ? String(content) : ''
}
