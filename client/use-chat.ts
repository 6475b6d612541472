import { useCallback, useEffect, useInsertionEffect, useMemo, useRef } from 'react'
import type { ChatUse, Chat, ChatSnapshot } from './chat.ts'
import type { ChatAddress } from './client.ts'
import { contentOf, type UIComponents } from './content.ts'
import type { OracleError } from './error.ts'
import type { IBrowserTools } from './page-tools.ts'
import { useClient } from './provider.ts'
import type { AnyTools, ChatStatus, IMessage, Overrides, StreamingMode } from './records.ts'
import { useStore } from './use-store.ts'

export interface IChatOptions {
  readonly oracleDid: string
  readonly sessionId: string
  readonly onPaymentRequiredError: (claimIds: string[]) => void
  /** Tools that run in this page, read when they are called. */
  readonly browserTools?: IBrowserTools
  /** Components by name; `ToolCall` is for tools without one of their own. */
  readonly uiComponents?: UIComponents
  readonly overrides?: Overrides
  /** `batched` (usual): one render in 50 ms while a reply streams; `immediate`: one for each event. */
  readonly streamingMode?: StreamingMode
}

export interface ChatResult<Tools = AnyTools> {
  readonly messages: IMessage<Tools>[]
  /** Resolves when the turn is over, and never rejects: see `sendMessageError`. */
  readonly sendMessage: (message: string) => Promise<void>
  readonly abortStream: () => Promise<void>
  readonly status: ChatStatus
  readonly isSending: boolean
  readonly isLoading: boolean
  readonly error: OracleError | null
  readonly sendMessageError: OracleError | null
  readonly refetchMessages: () => Promise<void>
  readonly isRealTimeConnected: boolean
  readonly isConfigReady: boolean
}

/** A chat with an oracle. `useChat<ToolsOf<typeof plugin>>()` types what its tools take and give. */
export function useChat<Tools = AnyTools>(options: IChatOptions): ChatResult<Tools> {
  const client = useClient()
  const chat = useChatStore(options)
  const snapshot = useStore(chat)
  const latest = useRef<IChatOptions>(options)
  useInsertionEffect(() => void (latest.current = options))
  const use = useCallback((): ChatUse => latest.current, [])
  useEffect(() => chat.use(use), [chat, use])
  const sendMessage = useCallback((text: string) => chat.sendMessage(text, latest.current), [chat])
  const abortStream = useCallback(() => chat.abortStream(), [chat])

  const showsComponents = options.uiComponents !== undefined || client.actions.size > 0
  const { messages } = snapshot
  const shown = useMemo(
    () =>
      (showsComponents
        ? messages.map((message) => contentOf(message, options.sessionId, client.actions))
        : messages) as unknown as IMessage<Tools>[],
    [messages, showsComponents, options.sessionId, client],
  )
  const { status, isLoading, error, sendMessageError, isRealTimeConnected, isConfigReady } =
    snapshot
  return {
    messages: shown,
    sendMessage,
    abortStream,
    status,
    isSending: status === 'submitted' || status === 'streaming',
    isLoading,
    error,
    sendMessageError,
    refetchMessages: chat.refetchMessages,
    isRealTimeConnected,
    isConfigReady,
  }
}

/** The store behind a chat: the same for every component that names the same session. */
export function useChatStore({ oracleDid, sessionId, overrides }: ChatAddress): Chat {
  return useClient().chat({ oracleDid, sessionId, overrides })
}

export const useChatSnapshot = (address: ChatAddress): ChatSnapshot =>
  useStore(useChatStore(address))
