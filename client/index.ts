'use client'
export type { AgAction, AgActionRender, AgActionRenderProps } from './actions.ts'
export { useContractOracle, useMemoryEngine } from './awaited-plugins.ts'
export type { ContractOracle, MemoryEngine } from './awaited-plugins.ts'
export type { Chat, ChatSnapshot } from './chat.ts'
export { createOracleClient } from './client.ts'
export type { ChatAddress, Models, OracleClient, OracleClientOptions } from './client.ts'
export { renderMessageContent } from './content.ts'
export type { UIComponentProps, UIComponents } from './content.ts'
export { OracleError } from './error.ts'
export type { ErrorBody, OracleErrorCode } from './error.ts'
export type {
  ActionCallEvent,
  AnyEvent,
  BrowserToolCallEvent,
  EventName,
  EventPayloads,
  OracleEvent,
  RenderComponentEvent,
  RunEnding,
  ToolCallEvent,
} from './events.ts'
export { getOpenIdToken, useGetOpenIdToken } from './openid-token.ts'
export type { GetOpenIdTokenParams, IOpenIDToken, OpenIdTokenResult } from './openid-token.ts'
export type { IBrowserToolParams, IBrowserTools } from './page-tools.ts'
export { OracleClientProvider, OraclesProvider, useOraclesContext } from './provider.ts'
export type { IOraclesContextProps, IOraclesProviderProps } from './provider.ts'
export type {
  AnyTools,
  Attachment,
  Capability,
  ChatRunState,
  ChatStatus,
  ForeignSource,
  IChatSession,
  IComponentMetadata,
  IMessage,
  IWalletProps,
  MessageContent,
  MintFn,
  ModelInfo,
  OracleConfig,
  Overrides,
  PendingApproval,
  Serialized,
  StreamingMode,
  ToolCall,
  ToolCallOf,
  TransactionFn,
} from './records.ts'
export type { JsonSchema, StandardSchema, ToolSchema } from './schema.ts'
export type { Timing } from './timing.ts'
export { useAgAction } from './use-ag-action.ts'
export type { AgActionConfig } from './use-ag-action.ts'
export { useChat } from './use-chat.ts'
export type { ChatResult, IChatOptions } from './use-chat.ts'
export { useChatAnnouncer } from './use-chat-announcer.ts'
export type { Announcer, AnnouncerWords } from './use-chat-announcer.ts'
export { useCapabilities, useModels, useOraclesConfig } from './use-oracle.ts'
export type { CapabilitiesResult, OraclesConfigResult, UseModelsResult } from './use-oracle.ts'
export { useOracleSessions } from './use-oracle-sessions.ts'
export type { OracleSessions, UseOracleSessionsOptions } from './use-oracle-sessions.ts'
export { useApproval, useChatEvents, useRun } from './use-run.ts'
export type { Approval } from './use-run.ts'
