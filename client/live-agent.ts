'use client'
export { OracleError, type OracleErrorCode } from './core/error.ts'
export { useLiveAgent } from './react/use-live-agent.ts'
export type { LiveAgent } from './react/use-live-agent.ts'
export type { ToastAlert } from './core/live-agent.ts'
export type {
  CallAgentOptions,
  CallApproval,
  CallCaption,
  CallLevels,
  CallRoom,
  CallSecurity,
  LiveAgentSnapshot,
  LiveCallState,
  SpeechBy,
  SpeechPlace,
} from './core/calls.ts'
