import { OracleError } from '../core/error.ts'
import { useClient } from './provider.ts'

/** The error of everything that needs a plugin which oracles do not have yet. */
export function pluginNotAvailable(plugin: string, purpose: string): OracleError {
  return new OracleError(
    'plugin_not_available',
    `${purpose} needs the "${plugin}" plugin, which is not available.`,
  )
}

/** What `useMemoryEngine` returns. */
export interface MemoryEngine {
  readonly enableMemoryEngine: (memoryEngineUserId: string) => Promise<void>
  readonly inviteUser: (userId: string) => Promise<void>
  readonly isLoadingMemoryEngine: boolean
  readonly isInvitingUser: boolean
  readonly error: OracleError
}

/** Memory beyond one session. The plugin `memory` is not there yet: every call rejects with `plugin_not_available`. */
export function useMemoryEngine(_oracleDid?: string): MemoryEngine {
  useClient()
  const error = pluginNotAvailable('memory', 'Memory')
  const refuse = () => Promise.reject(error)
  return {
    enableMemoryEngine: refuse,
    inviteUser: refuse,
    isLoadingMemoryEngine: false,
    isInvitingUser: false,
    error,
  }
}
