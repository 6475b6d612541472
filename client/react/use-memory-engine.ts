import type { EngineSnapshot, MemoryMode } from '../core/memory-engine.ts'
import type { Overrides } from '../core/records.ts'
import { useLate } from './use-late.ts'

/** What `useMemoryEngine` returns. */
export interface MemoryEngine extends EngineSnapshot {
  /** Lets the oracle remember; with the account of another engine, invites that account into the room. */
  readonly enableMemoryEngine: (memoryEngineUserId?: string) => Promise<void>
  readonly inviteUser: (userId: string) => Promise<void>
  readonly setMode: (mode: MemoryMode) => Promise<void>
}

const unknown: EngineSnapshot = {
  isLoadingMemoryEngine: false,
  isInvitingUser: false,
  isLoadingOracleRoomId: true,
  isLoadingMembers: true,
  error: null,
}

/** Whether an oracle remembers its user from session to session, and the switch for it. */
export const useMemoryEngine = (oracleDid: string, overrides?: Overrides): MemoryEngine =>
  useLate(
    [oracleDid, overrides] as const,
    unknown,
    ['read', 'enableMemoryEngine', 'inviteUser', 'setMode'],
    () => import('../later/memory-engine.ts'),
  )
