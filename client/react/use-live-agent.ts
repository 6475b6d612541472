import { useInsertionEffect } from 'react'
import type { CallAgentOptions, CallLevels, CallRoom, LiveAgentSnapshot } from '../core/calls.ts'
import { LiveAgentStore, type ToastAlert } from '../core/live-agent.ts'
import type { Overrides } from '../core/records.ts'
import { useLatest } from './use-latest.ts'
import { useClient } from './provider.ts'
import { useStore } from './use-store.ts'

/** What `useLiveAgent` returns. */
export interface LiveAgent extends LiveAgentSnapshot {
  /** Calls the oracle. Rejects with what keeps the call from being made. */
  readonly callAgent: (
    options: CallAgentOptions,
  ) => Promise<{ callId: string; encryptionKey: string }>
  readonly endCall: () => Promise<void>
  /** What pages use of LiveKit's room. */
  readonly room: CallRoom
  readonly setMuted: (isMuted: boolean) => Promise<void>
  readonly setCamera: (on: boolean) => Promise<void>
  /** Says something by typing it. */
  readonly say: (text: string) => void
  /** The agent falls silent. */
  readonly interrupt: () => void
  /** How loud the two ends are just now. Asking renders nothing. */
  readonly levels: () => CallLevels
  /** Answers `approval`. A spoken "yes" does not: anybody in the room can say it. */
  readonly decide: (
    decision: 'approve' | 'reject' | 'edit',
    args?: Readonly<Record<string, unknown>>,
  ) => Promise<void>
}

/** Encrypted voice and video calls with an oracle. A component that goes ends the call; the two in the middle are not needed. */
export function useLiveAgent(
  oracleDid: string,
  _mxClient?: unknown,
  _openIdToken?: unknown,
  toastAlert?: ToastAlert,
  overrides?: Overrides,
): LiveAgent {
  const client = useClient()
  const store = client.once(
    JSON.stringify(['live agent', oracleDid, overrides]),
    () => new LiveAgentStore(client, oracleDid, overrides),
  )
  const toast = useLatest(toastAlert)
  useInsertionEffect(() => {
    store.toast = (words) => toast.current?.(words)
  }, [store, toast])
  const { callAgent, endCall, room, setMuted, setCamera, say, interrupt, levels, decide } = store
  return {
    ...useStore(store),
    ...{ callAgent, endCall, room, setMuted, setCamera, say, interrupt, levels, decide },
  }
}
