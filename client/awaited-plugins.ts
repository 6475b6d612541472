import { OracleError } from './error.ts'
import { useClient } from './provider.ts'

/** What needs a plugin that oracles do not have yet says so, and nothing else. */
export function pluginNotAvailable(plugin: string, purpose: string): OracleError {
  return new OracleError(
    'plugin_not_available',
    `${purpose} needs the "${plugin}" plugin, which is not available.`,
  )
}

export interface ContractOracle {
  readonly contractOracle: (options?: { useAuthz?: boolean }) => Promise<void>
  readonly payClaim: () => Promise<void>
  readonly isContractingOracle: boolean
  readonly isPayingClaim: boolean
  readonly error: OracleError
}

/** Pays to contract an oracle. Its plugin is not there yet: every call rejects with `plugin_not_available`. */
export function useContractOracle(_options?: unknown): ContractOracle {
  useClient()
  const error = pluginNotAvailable('payments', 'Contracting an oracle')
  const refuse = () => Promise.reject(error)
  return {
    contractOracle: refuse,
    payClaim: refuse,
    isContractingOracle: false,
    isPayingClaim: false,
    error,
  }
}

export interface MemoryEngine {
  readonly enableMemoryEngine: (memoryEngineUserId: string) => Promise<void>
  readonly inviteUser: (userId: string) => Promise<void>
  readonly isLoadingMemoryEngine: boolean
  readonly isInvitingUser: boolean
  readonly error: OracleError
}

/** The optional memory beyond a session. Its plugin is not there yet: every call rejects with `plugin_not_available`. */
export function useMemoryEngine(_oracleDid?: string): MemoryEngine {
  useClient()
  const error = pluginNotAvailable('memory', 'The memory engine')
  const refuse = () => Promise.reject(error)
  return {
    enableMemoryEngine: refuse,
    inviteUser: refuse,
    isLoadingMemoryEngine: false,
    isInvitingUser: false,
    error,
  }
}
