import type { OracleError } from './error.ts'
import type { MemoryMode } from './memories.ts'

export type { MemoryMode } from './memories.ts'

/** What a page sees of whether an oracle remembers its user. */
export interface EngineSnapshot {
  /** How the oracle may remember; undefined before it is known, and where the oracle has no memory. */
  readonly mode?: MemoryMode
  readonly isLoadingMemoryEngine: boolean
  readonly isInvitingUser: boolean
  /** The room of the user and the oracle; null where there is none. */
  readonly oracleRoomId?: string | null
  readonly isLoadingOracleRoomId: boolean
  /** The accounts in that room. */
  readonly members?: readonly string[]
  readonly isLoadingMembers: boolean
  readonly error: OracleError | null
}
