'use client'
export type {
  AgAction,
  AgActionRender,
  AgActionRenderProps,
  IBrowserToolParams,
  IBrowserTools,
  UIComponents,
} from './core/page.ts'
export { useMemoryEngine } from './react/use-memory-engine.ts'
export type { MemoryEngine } from './react/use-memory-engine.ts'
export type { EngineSnapshot, MemoryMode } from './core/memory-engine.ts'
export { useContractOracle } from './react/use-contract-oracle.ts'
export type { ContractOptions, ContractOracle } from './react/use-contract-oracle.ts'
export type {
  AgentCard,
  AgentCardService,
  ContractParams,
  ContractSnapshot,
  Pricing,
} from './core/contract.ts'
export type { Chat } from './core/chat/chat.ts'
export type { ChatSnapshot } from './core/chat/view.ts'
export { createOracleClient } from './core/client.ts'
export type { ChatAddress, Models, OracleClient, OracleClientOptions } from './core/client.ts'
export { renderMessageContent } from './react/content.ts'
export type { UIComponentProps } from './react/content.ts'
export { OracleError } from './core/error.ts'
export type { ErrorBody, OracleErrorCode } from './core/error.ts'
export type {
  ActionCallEvent,
  AnyEvent,
  BrowserToolCallEvent,
  EarlyEnd,
  EventName,
  EventPayloads,
  OracleEvent,
  RenderComponentEvent,
  RunEnding,
  ToolCallEvent,
} from './core/events.ts'
export { getOpenIdToken } from './core/openid-token.ts'
export type { GetOpenIdTokenParams, IOpenIDToken } from './core/openid-token.ts'
export { OracleClientProvider, OraclesProvider, useOraclesContext } from './react/provider.ts'
export type { IOraclesContextProps, IOraclesProviderProps } from './react/provider.ts'
export type {
  AnyTools,
  AuthzConfig,
  Attachment,
  ResultPart,
  Capability,
  ChatRunState,
  ChatStatus,
  ForeignSource,
  IChatSession,
  IComponentMetadata,
  IMessage,
  IWalletProps,
  LedgerMessage,
  MessageContent,
  MintFn,
  ModelInfo,
  ModelUsage,
  OracleConfig,
  Overrides,
  PendingApproval,
  Serialized,
  StreamingMode,
  ToolCall,
  ToolCallOf,
  TransactionFn,
  TurnUsage,
} from './core/records.ts'
export type { JsonSchema, StandardSchema, ToolSchema } from './core/tool-schema.ts'
export type { Timing } from './core/timing.ts'
export { useAgAction } from './react/use-ag-action.ts'
export type { AgActionConfig } from './react/use-ag-action.ts'
export { useChat } from './react/use-chat.ts'
export type { ChatResult, IChatOptions, SendOptions } from './react/use-chat.ts'
export { useChatAnnouncer } from './react/use-chat-announcer.ts'
export type { Announcer, AnnouncerWords } from './react/use-chat-announcer.ts'
export { useCapabilities, useModels, useOraclesConfig } from './react/use-oracle.ts'
export type {
  CapabilitiesResult,
  OraclesConfigResult,
  UseModelsResult,
} from './react/use-oracle.ts'
export { useOracleSessions } from './react/use-oracle-sessions.ts'
export type { OracleSessions, UseOracleSessionsOptions } from './react/use-oracle-sessions.ts'
export { useApproval, useChatEvents, useRun } from './react/use-run.ts'
export type { Approval } from './react/use-run.ts'
export { useGetOpenIdToken } from './react/use-openid-token.ts'
export type { OpenIdTokenResult } from './react/use-openid-token.ts'
