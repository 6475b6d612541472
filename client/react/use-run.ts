import { useEffect, useInsertionEffect } from 'react'
import type { ChatAddress } from '../core/client.ts'
import type { AnyEvent } from '../core/events.ts'
import type { ChatRunState, PendingApproval } from '../core/records.ts'
import { useChatSnapshot, useChatStore } from './use-chat.ts'
import { useLatest } from './use-latest.ts'

/** The run behind a chat's turn under way, or behind its last one: whether the chat reconnects, and how the run ended. */
export const useRun = (address: ChatAddress): ChatRunState => useChatSnapshot(address).run

/** What `useApproval` returns. */
export interface Approval {
  /** The call that waits for a person; null when none waits. */
  readonly pending: PendingApproval | null
  readonly approve: () => Promise<void>
  readonly reject: () => Promise<void>
  /** Approves the call with other arguments. */
  readonly edit: (args: Readonly<Record<string, unknown>>) => Promise<void>
}

/** The tool call that waits for a person to agree, and the ways to answer. */
export function useApproval(address: ChatAddress): Approval {
  const chat = useChatStore(address)
  const { approval } = useChatSnapshot(address)
  useInsertionEffect(() => void (chat.approvals = true))
  return {
    pending: approval,
    approve: () => chat.answer('approve'),
    reject: () => chat.answer('reject'),
    edit: (args) => chat.answer('edit', args),
  }
}

/** Hears every event of a chat as it streams; the handler may be inline. */
export function useChatEvents(address: ChatAddress, handler: (event: AnyEvent) => void): void {
  const chat = useChatStore(address)
  const latest = useLatest(handler)
  useEffect(() => chat.on((event) => latest.current(event)), [chat])
}
