'use client'
export { OracleError, type OracleErrorCode } from './core/error.ts'
export { useLiveAgent } from './react/use-live-agent.ts'
export type { CallAgentOptions, LiveAgent } from './react/use-live-agent.ts'
