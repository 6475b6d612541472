import { pluginNotAvailable } from './awaited-plugins.ts'
import type { OracleError } from '../core/error.ts'

/** The call to make. */
export interface CallAgentOptions {
  readonly callType: 'audio' | 'video'
  readonly sessionId: string
  readonly userDid: string
  readonly agentVoice?: string
  readonly language?: string
}

/** What `useLiveAgent` returns. */
export interface LiveAgent {
  readonly callAgent: (
    options: CallAgentOptions,
  ) => Promise<{ callId: string; encryptionKey: string }>
  readonly endCall: () => Promise<void>
  readonly isCalling: boolean
  readonly isConnecting: boolean
  readonly isReady: boolean
  readonly isConfigReady: boolean
  readonly sessionStarted: boolean
  readonly sessionViewVisible: boolean
  readonly error: OracleError
}

/** Encrypted voice and video calls. The plugin `calls` is not there yet: a call rejects with `plugin_not_available`. */
export function useLiveAgent(_oracleDid?: string, ..._options: unknown[]): LiveAgent {
  const error = pluginNotAvailable('calls', 'A voice or video call')
  return {
    callAgent: () => Promise.reject(error),
    endCall: async () => {},
    isCalling: false,
    isConnecting: false,
    isReady: false,
    isConfigReady: false,
    sessionStarted: false,
    sessionViewVisible: false,
    error,
  }
}
