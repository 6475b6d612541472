import { OracleError } from '../core/error.ts'
import { useClient } from './provider.ts'

/** The error of everything that needs a plugin which oracles do not have yet. */
export function pluginNotAvailable(plugin: string, purpose: string): OracleError {
  return new OracleError(
    'plugin_not_available',
    `${purpose} needs the "${plugin}" plugin, which is not available.`,
  )
}

/** What `useContractOracle` returns. */
export interface ContractOracle {
  readonly contractOracle: (options?: { useAuthz?: boolean }) => Promise<void>
  readonly payClaim: () => Promise<void>
  readonly isContractingOracle: boolean
  readonly isPayingClaim: boolean
  readonly error: OracleError
}

/** Contracts an oracle and pays for that. The plugin `payments` is not there yet: every call rejects with `plugin_not_available`. */
export function useContractOracle(_options?: unknown): ContractOracle {
  const { error, refuse } = useAwaited('payments', 'Contracting an oracle')
  return {
    contractOracle: refuse,
    payClaim: refuse,
    isContractingOracle: false,
    isPayingClaim: false,
    error,
  }
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
  const { error, refuse } = useAwaited('memory', 'The memory engine')
  return {
    enableMemoryEngine: refuse,
    inviteUser: refuse,
    isLoadingMemoryEngine: false,
    isInvitingUser: false,
    error,
  }
}

function useAwaited(plugin: string, purpose: string) {
  useClient()
  const error = pluginNotAvailable(plugin, purpose)
  return { error, refuse: () => Promise.reject(error) }
}
