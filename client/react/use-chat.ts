import { useCallback, useEffect, useMemo } from 'react'
import type { Chat } from '../core/chat/chat.ts'
import type { ChatSnapshot } from '../core/chat/view.ts'
import type { ChatAddress } from '../core/client.ts'
import { contentOf } from './content.ts'
import type { OracleError } from '../core/error.ts'
import type { IBrowserTools, UIComponents } from '../core/page.ts'
import { useClient } from './provider.ts'
import type {
  AnyTools,
  Attachment,
  ChatStatus,
  IMessage,
  Overrides,
  StreamingMode,
} from '../core/records.ts'
import { useLatest } from './use-latest.ts'
import { useStore } from './use-store.ts'

/** The options of `useChat`. */
export interface IChatOptions {
  readonly oracleDid: string
  readonly sessionId: string
  readonly onPaymentRequiredError: (claimIds: string[]) => void
  /** Tools that run in this page; the chat reads them when the agent calls one. */
  readonly browserTools?: IBrowserTools
  /** Components by name; `ToolCall` is for tools without one of their own. */
  readonly uiComponents?: UIComponents
  readonly overrides?: Overrides
  /** `batched`, the default: one render in 50 ms while a reply streams; `immediate`: one for each event. */
  readonly streamingMode?: StreamingMode
}

/** What goes along with a message. */
export interface SendOptions {
  /** Files of `POST /files`, or data and addresses. */
  readonly attachments?: readonly Attachment[]
}

/** What `useChat` returns. */
export interface ChatResult<Tools = AnyTools> {
  readonly messages: IMessage<Tools>[]
  /** Resolves when the turn is over, and never rejects: `sendMessageError` says what went wrong. */
  readonly sendMessage: (message: string, more?: SendOptions) => Promise<void>
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

/** A chat with an oracle. `useChat<ToolsOf<typeof plugin>>()` types the arguments and results of its tool calls. */
export function useChat<Tools = AnyTools>(options: IChatOptions): ChatResult<Tools> {
  const client = useClient()
  const chat = useChatStore(options)
  const snapshot = useStore(chat)
  const latest = useLatest(options)
  useEffect(() => chat.use(() => latest.current), [chat])
  const sendMessage = useCallback(
    (text: string, more?: SendOptions) => chat.sendMessage(text, latest.current, more),
    [chat],
  )
  const abortStream = useCallback(() => chat.abortStream(), [chat])

  const showsComponents = options.uiComponents !== undefined || client.actions.size > 0
  const { messages, run: _run, approval: _approval, hasOlder: _hasOlder, ...rest } = snapshot
  const shown = useMemo(
    () =>
      (showsComponents
        ? messages.map((message) => contentOf(message, options.sessionId, client.actions))
        : messages) as unknown as IMessage<Tools>[],
    [messages, showsComponents, options.sessionId, client],
  )
  return {
    ...rest,
    messages: shown,
    sendMessage,
    abortStream,
    isSending: rest.status === 'submitted' || rest.status === 'streaming',
    refetchMessages: chat.refetchMessages,
  }
}

/** The store of a chat: the same for every component that names the same session. */
export function useChatStore({ oracleDid, sessionId, overrides }: ChatAddress): Chat {
  return useClient().chat({ oracleDid, sessionId, overrides })
}

/** What a page sees of a chat. */
export const useChatSnapshot = (address: ChatAddress): ChatSnapshot =>
  useStore(useChatStore(address))
